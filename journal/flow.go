package journal

import (
	"time"

	"github.com/onceward/onceward/internal/words"
)

// FlowState is a flow's state.
type FlowState uint8

const (
	FlowStateAbsent   FlowState = iota // the journal has no such flow
	FlowStateRunning                   // a session's claim holds the flow
	FlowStateWaiting                   // no session holds the flow, due at a time
	FlowStateFinished                  // the function returned
	FlowStateGivenUp                   // given up, and each undoable step is undone
	FlowStateSetAside                  // the flow failed too often; a person decides
)

// FlowStates lists every state that a stored flow can have.
var FlowStates = []FlowState{FlowStateRunning, FlowStateWaiting, FlowStateFinished, FlowStateGivenUp, FlowStateSetAside}

var flowStateNames = [...]string{"absent", "running", "waiting", "finished", "given_up", "set_aside"}

func (s FlowState) String() string { return words.Of("FlowState", flowStateNames[:], s) }

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
	Handle int64 // the store's own, finds the row without a look-up; 0 before the flow was recorded

	Ref
	Function    FlowFunction
	Key         string // parent of the operations' keys; never sent itself
	Input       []byte
	InputDigest string // tells asking again from a misuse of the name; "" once Tombstone is set

	InboundEndpoint string // the endpoint of the inbound request above the flow; "" if none

	Trace string // the first call's W3C traceparent; "" if none

	State  FlowState
	Holder string // the holding session; else ""
	Claim  int64  // the latest claim's number; 0 before the first

	Undoing    bool   // the flow is being given up: recorded steps are undone, and no further step is made
	GivenUpFor string // why

	DueAt    time.Time // waiting: not run before this
	Cause    string    // why the flow waits or is set aside
	WaitsFor Ref       // the flow waits for the outcome of this operation; zero if none

	// ParkedSince is when a run without an operation to wait for was first parked, for example for want of a credential.
	// ParkedSince is zero if the flow has waited for an operation since, has ended, or a person had the flow run.
	ParkedSince time.Time

	Failures int           // in a row, since the last Retry
	History  []FlowFailure // the latest ones, at most 10, oldest first

	CreatedAt time.Time
	UpdatedAt time.Time // the latest change other than a step's record
	EndedAt   time.Time

	Tombstone bool // ended, and the input, the steps and the texts of errors were reaped

	Steps []StepRecord // by Seq

	// SealedBy names the key that the process lacks. The sealed fields are then zero: Input, InputDigest, GivenUpFor,
	// Cause, History and steps' results. Empty means that no key is missing.
	SealedBy string
}

// FlowFailure is one failed run of a flow.
type FlowFailure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// StepKind is the kind of a step's record.
type StepKind uint8

const (
	StepDone     StepKind = iota + 1 // a step ended; Result is the step's return value
	StepLocal                        // the same for a step committed with the step's own writes
	StepTime                         // the time was read
	StepUUID                         // a UUID was drawn
	StepFailed                       // a step failed, and the flow went on; Result is the error. Undoing uses it, and so do runs after the end, or once a later step is done or has begun an operation
	StepCall                         // an operation is about to be begun in a step; Name is the operation's ID
	StepUndone                       // a step was undone
	StepReturned                     // no step: the function returned; Result is the return value
	StepGaveUp                       // no step: the function gave the flow up; Result is the error
	StepByHand                       // a person stated a step's return value; Result has the value as "result", and "by" and "why"
)

var stepKindNames = [...]string{"", "done", "local", "time", "uuid", "failed", "call", "undone", "returned", "gave up", "by hand"}

func (k StepKind) String() string { return words.Of("StepKind", stepKindNames[:], k) }

// StepRecord is one recorded event in a flow. Records without a step have neither name nor position.
type StepRecord struct {
	Seq      int // counts from 1 within the flow, in recording order
	Kind     StepKind
	Name     string
	Position int    // place in the flow's sequence of steps, from 1
	Parallel bool   // others with the same position may run concurrently
	Result   []byte // JSON
	At       time.Time
}

// FlowFilter selects flows for ListFlows. The zero FlowFilter selects all.
type FlowFilter struct {
	States    []FlowState
	Scope     *string
	Functions []FlowFunction // empty means every function
	ByDue     bool           // waiting flows by DueAt, soonest first, except flows put off for long (Flow.PutOff); implies States{FlowStateWaiting}
	ID        string         // the flows of this name, below any parent; "" means every name
	Newest    bool           // the newest flows come first, except with ByDue
	Limit     int            // zero means no limit
}
