package journal

import (
	"fmt"
	"time"
)

// FlowEventKind says what happened to a flow, or what is asked of it.
type FlowEventKind uint8

const (
	// FlowEventBegin: a caller asks for the flow. Needs Session and InputDigest.
	FlowEventBegin FlowEventKind = iota + 1
	// FlowEventClaim: Resume or Run asks for it. Needs Session.
	FlowEventClaim
	// FlowEventRecord: steps are behind it. Needs Claim and Steps.
	FlowEventRecord
	// FlowEventPark: the claim is given up, and the flow goes on at Due. Needs Claim.
	FlowEventPark
	// FlowEventFail: likewise, because it failed; or it is set aside. Needs Claim and Limit.
	FlowEventFail
	// FlowEventFinish: its function came to its end. Needs Claim.
	FlowEventFinish
	// FlowEventGiveUp: it is to be undone. With Claim, by the function itself, which goes
	// on to undo it; without, by somebody's word.
	FlowEventGiveUp
	// FlowEventUndo: everything is undone. Needs Claim.
	FlowEventUndo
	// FlowEventRetry: somebody's word that it may be run again, now, its failures
	// forgiven. With Found, one that was given up is undone once more.
	FlowEventRetry
	// FlowEventReap: shrink it, if its keep has passed. Needs Keep.
	FlowEventReap
	// FlowEventClock: as EventClock is for operations. Needs Last.
	FlowEventClock
)

var flowEventNames = [...]string{"", "begin", "claim", "record", "park", "fail", "finish", "give_up", "undo", "retry", "reap", "clock"}

func (k FlowEventKind) String() string {
	if k > 0 && int(k) < len(flowEventNames) {
		return flowEventNames[k]
	}
	return fmt.Sprintf("FlowEventKind(%d)", k)
}

// FlowEvent is one input of the flows' state machine.
type FlowEvent struct {
	Kind   FlowEventKind
	Ref    Ref
	Handle int64 // Flow.Handle where it is known: spares the look-up by Ref

	At      time.Time // the asker's clock
	Last    time.Time // Clock: the latest time the journal has seen
	Session string    // who asks
	Claim   int64     // the claim that the event is made under

	// Of a Begin. Key and Input are those of a new flow.
	Function    FlowFunction
	Key         string
	Input       []byte
	InputDigest string

	// InboundEndpoint names the endpoint of the inbound request that the flow is a step of. A FlowEventBegin from another
	// endpoint is Misuse. Empty means that no endpoint is compared.
	InboundEndpoint string
	Trace           string // Intent.Trace's like, of a new flow
	Sooner          bool   // it may go on before it is due: what it waits for has its outcome

	// Steps are recorded with an event that is made under a claim and takes place.
	// One whose Seq is recorded already is left as it is.
	Steps []StepRecord

	Due      time.Time // Park, Fail: not run before this; zero: at once
	Cause    string    // Park, Fail, GiveUp: why
	WaitsFor Ref       // Park: the operation that it waits for
	Limit    int       // Fail: how many failures are one too many

	Functions []FlowFunction // Claim, Begin: those that the asker can run; a Begin of a flow that has another is Ignored. nil, Begin: all
	Found     bool           // Retry: an operation of it took effect after all, and may have to be undone
	Keep      time.Duration  // Reap
}

// FlowResult is what became of a FlowEvent.
type FlowResult struct {
	Flow Flow
	// Decision is Execute, Replay (finished), Wait, Later, Misuse, Stop (given up or
	// set aside), Gone, Recorded, Stale or Ignored.
	Decision Decision
}

// FlowEventError says why a FlowEvent was refused. Nothing was changed.
// ErrInvalidEvent is found in it.
type FlowEventError struct {
	Kind   FlowEventKind
	State  FlowState
	Reason string
}

func (e *FlowEventError) Error() string {
	return fmt.Sprintf("journal: %s of a flow that is %s: %s", e.Kind, e.State, e.Reason)
}

func (e *FlowEventError) Unwrap() error { return ErrInvalidEvent }
