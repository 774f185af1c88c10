package machine

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/words"
	"github.com/onceward/onceward/journal"
)

// FlowEventKind is the kind of a FlowEvent.
type FlowEventKind uint8

const (
	// FlowEventBegin asks for the flow on behalf of a caller. Needs Session and InputDigest.
	FlowEventBegin FlowEventKind = iota + 1
	// FlowEventClaim asks for it on behalf of Resume or Run. Needs Session.
	FlowEventClaim
	// FlowEventRecord records finished steps. Needs Claim and Steps.
	FlowEventRecord
	// FlowEventPark gives the claim up; the flow goes on at Due. Needs Claim.
	FlowEventPark
	// FlowEventFail does the same after a failure, or sets the flow aside. Needs Claim and Limit.
	FlowEventFail
	// FlowEventFinish says that the flow's function returned. Needs Claim.
	FlowEventFinish
	// FlowEventGiveUp begins to undo the flow. With Claim, the function itself decided so, and goes on with the undo.
	// Without Claim, a person decided.
	FlowEventGiveUp
	// FlowEventUndo says that everything is undone. Needs Claim.
	FlowEventUndo
	// FlowEventRetry lets the flow run again now, by a person's decision, with no failure counted. With Found, a flow that
	// was given up is undone once more.
	FlowEventRetry
	// FlowEventReap shrinks a flow after its keep. Needs Keep.
	FlowEventReap
	// FlowEventClock is EventClock for flows. Needs Last.
	FlowEventClock
	// FlowEventEnqueue records the flow for Run to begin at Due. An existing flow does not change. Needs InputDigest and a
	// function with a name.
	FlowEventEnqueue
)

var flowEventNames = [...]string{"", "begin", "claim", "record", "park", "fail", "finish", "give_up", "undo", "retry", "reap", "clock", "enqueue"}

func (k FlowEventKind) String() string { return words.Of("FlowEventKind", flowEventNames[:], k) }

// FlowEvent is one input to the flows' state machine.
type FlowEvent struct {
	Kind   FlowEventKind
	Ref    journal.Ref
	Handle int64 // Flow.Handle if known: spares the look-up by Ref

	At      time.Time // the caller's clock
	Last    time.Time // Clock: the latest time the journal has seen
	Session string    // the asking session
	Claim   int64     // the claim that the event is made under

	// Of a Begin or an Enqueue. Key and Input are those of a new flow.
	Function    journal.FlowFunction
	Key         string
	Input       []byte
	InputDigest string

	// InboundEndpoint names the endpoint of the inbound request around the flow. A FlowEventBegin or FlowEventEnqueue from
	// another endpoint is Misuse. Empty means no comparison.
	InboundEndpoint string
	Trace           string // like Intent.Trace, for a new flow
	Sooner          bool   // it may go on before it is due, since its operation has its outcome

	// Steps are recorded with an event that is made under a claim and takes place. A Seq that is recorded already
	// stays.
	Steps []journal.StepRecord

	Due      time.Time   // Park, Fail, Enqueue: not run before this; zero means at once
	Cause    string      // Park, Fail, GiveUp: why; Enqueue: why it waits
	WaitsFor journal.Ref // Park: the operation that it waits for
	Limit    int         // Fail: the number of failures that sets it aside

	Functions []journal.FlowFunction // Claim, Begin: those that the caller can run; a Begin of another one's flow is Ignored. Begin: nil means all
	Found     bool                   // Retry: an operation of it took effect after all, and may have to be undone
	Keep      time.Duration          // Reap
}

// FlowResult is a FlowEvent's result.
type FlowResult struct {
	Flow journal.Flow
	// Decision is Execute, Replay (finished), Wait, Later, Misuse, Stop (given up or
	// set aside), Gone, Recorded, Stale or Ignored.
	Decision Decision
}

// FlowEventError says why a FlowEvent was refused. Nothing was changed. errors.Is finds ErrInvalidEvent in it.
type FlowEventError struct {
	Kind   FlowEventKind
	State  journal.FlowState
	Reason string
}

func (e *FlowEventError) Error() string {
	return fmt.Sprintf("journal: %s of a flow that is %s: %s", e.Kind, e.State, e.Reason)
}

func (e *FlowEventError) Unwrap() error { return journal.ErrInvalidEvent }
