package journal

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Flows is what a Journal does besides that keeps flows: functions of several steps
// that are resumed by name. It is optional; a Journal that is no Flows keeps
// operations only. Its methods are safe for concurrent use as the Journal's are, use
// the Journal's sessions, and refuse with ErrRestored as it does.
//
// This interface does not grow.
type Flows interface {
	// ApplyFlow runs NextFlow on the flow that ev names, records ev.Steps if the event
	// took place, and returns once that is durable. FlowEventRecord is the exception: it is
	// saved with the next commit or at the session's end, not at once, and its result has
	// no Flow.
	// What is asked of the Journal after it returned is recorded after it, never
	// before: a step's record is durable before an operation that was begun later is
	// sent.
	//
	// The result of an Execute or a Replay holds the whole flow. Errors are as those
	// of Journal.Apply; FlowEventBegin needs a live session.
	ApplyFlow(ctx context.Context, ev FlowEvent) (FlowResult, error)

	// ClaimFlows applies ev, of kind FlowEventClaim and without Ref, in one commit to at
	// most limit flows that want one at ev.At and whose function is among
	// ev.Functions: those that a dead session holds and waiting ones that are due. Of
	// all that want one, it takes those that are due longest, and returns the taken
	// ones in the order of their creation.
	//
	// Where there are fewer than limit, flows that want a claim and have another
	// function may follow, untouched, with the decision Ignored.
	ClaimFlows(ctx context.Context, ev FlowEvent, limit int) ([]FlowResult, error)

	// GetFlow returns the whole flow, steps included, or ErrNotFound.
	GetFlow(ctx context.Context, ref Ref) (Flow, error)

	// ListFlows yields flows with their steps but without input and results, those
	// created first coming first. After an error it ends.
	ListFlows(ctx context.Context, filter FlowFilter) iter.Seq2[Flow, error]

	// ReapFlows applies ev, of kind FlowEventReap and without Ref, to at most limit flows
	// and says how many were shrunk.
	ReapFlows(ctx context.Context, ev FlowEvent, limit int) (int, error)
}

// LocalFlows is a Flows that lies in a database which may be the application's own: then a
// step's writes and its record can be one commit.
type LocalFlows interface {
	Flows

	// BeginTx starts a transaction of the journal's database that will write. Others may be
	// unable to record anything until it is ended, so it is kept short; it is never held while
	// anything is asked of the journal.
	BeginTx(ctx context.Context) (Tx, error)

	// ApplyFlowTx applies ev, of kind FlowEventRecord, within tx, a transaction of the
	// journal's database. It is recorded if tx commits.
	ApplyFlowTx(ctx context.Context, tx Tx, ev FlowEvent) (FlowResult, error)
}

// FlowState is where a flow stands. NextFlow is the only definition of its
// transitions.
type FlowState uint8

const (
	FlowStateAbsent   FlowState = iota // the journal has no such flow
	FlowStateRunning                   // held by a claim of a session
	FlowStateWaiting                   // held by nobody, due at a time
	FlowStateFinished                  // its function came to its end
	FlowStateGivenUp                   // given up, and every step that has an undo is undone
	FlowStateSetAside                  // it failed too often; a person decides
)

// FlowStates lists every state that a stored flow can have.
var FlowStates = []FlowState{FlowStateRunning, FlowStateWaiting, FlowStateFinished, FlowStateGivenUp, FlowStateSetAside}

var flowStateNames = [...]string{"absent", "running", "waiting", "finished", "given_up", "set_aside"}

func (s FlowState) String() string {
	if int(s) < len(flowStateNames) {
		return flowStateNames[s]
	}
	return fmt.Sprintf("FlowState(%d)", s)
}

// Ended reports whether the flow is never run again.
func (s FlowState) Ended() bool { return s == FlowStateFinished || s == FlowStateGivenUp }

// FlowFunction names a function that runs flows.
type FlowFunction struct {
	Name    string // "": a function that is not registered
	Version int
}

// Flow is the journal's record of one flow. Times are UTC with a resolution of one
// millisecond; the zero time means "not yet".
type Flow struct {
	Handle int64 // the store's own, to find the row without a look-up; 0 before the first ApplyFlow

	Ref
	Function    FlowFunction
	Key         string // parent of its operations' keys; never on the wire itself
	Input       []byte
	InputDigest string // tells asking again from a misuse of the name

	InboundEndpoint string // of the inbound request that the flow is a step of; "": none, or begun before it was recorded

	Trace string // the W3C traceparent of the call that asked for it first; "": none

	State  FlowState
	Holder string // the session that holds it; else ""
	Claim  int64  // number of the latest claim; 0 before the first

	Undoing    bool   // it is being given up: its steps are undone, and no further one is made
	GivenUpFor string // why

	DueAt    time.Time // waiting: not run before this
	Cause    string    // why it waits or is set aside
	WaitsFor Ref       // the operation without an outcome that it waits for; zero: none

	Failures int           // in a row, without somebody's retry between them
	History  []FlowFailure // the latest ones, at most 10, oldest first

	CreatedAt time.Time
	UpdatedAt time.Time // the latest change, its steps' records left out
	EndedAt   time.Time

	Tombstone bool // ended, and its input and steps were reaped

	Steps []StepRecord // by Seq
}

// maxFlowHistory is how many of a flow's failures are kept.
const maxFlowHistory = 10

// FlowFailure is one failed run of a flow.
type FlowFailure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// StepKind says what a step's record is of.
type StepKind uint8

const (
	StepDone     StepKind = iota + 1 // a step came to its end; Result is what it returned
	StepLocal                        // the same of one that committed with its own writes
	StepTime                         // the time was read
	StepUUID                         // a UUID was drawn
	StepFailed                       // a step failed, and the flow went on; Result is the error, told in its undoing, after its end, and in further runs once a later step is done or has begun an operation
	StepCall                         // an operation is about to be begun in a step; Name is its ID
	StepUndone                       // a step was undone
	StepReturned                     // no step: the function came to its end; Result is what it returned
	StepGaveUp                       // no step: the function gave the flow up; Result is the error
	StepByHand                       // what a step returned by somebody's word; Result has that as "result", and "by" and "why"
)

var stepKindNames = [...]string{"", "done", "local", "time", "uuid", "failed", "call", "undone", "returned", "gave up", "by hand"}

func (k StepKind) String() string {
	if k > 0 && int(k) < len(stepKindNames) {
		return stepKindNames[k]
	}
	return fmt.Sprintf("StepKind(%d)", k)
}

// StepRecord is one thing that a flow has behind it. Those that are no step have neither
// name nor position.
type StepRecord struct {
	Seq      int // counts from 1 within the flow, in the order of recording
	Kind     StepKind
	Name     string
	Position int    // where in the sequence of the flow's steps it stands, from 1
	Parallel bool   // others with the same position may run beside it
	Result   []byte // JSON
	At       time.Time
}

// FlowFilter selects flows for ListFlows. The zero FlowFilter selects all.
type FlowFilter struct {
	States    []FlowState
	Scope     *string
	Functions []FlowFunction // none: every function
	ByDue     bool           // waiting ones by DueAt, soonest first; implies States{FlowStateWaiting}
	ID        string         // the flows of this name, below any parent; "": every name
	Newest    bool           // those created last come first, but for ByDue
	Limit     int            // 0: no limit
}
