package journal

import (
	"time"

	"github.com/onceward/onceward/internal/words"
)

// FlowState is the state of a flow.
type FlowState uint8

const (
	FlowStateAbsent   FlowState = iota // the journal has no such flow
	FlowStateRunning                   // a claim of a session holds it
	FlowStateWaiting                   // no session holds it, due at a time
	FlowStateFinished                  // its function returned
	FlowStateGivenUp                   // given up, and each of its undoable steps is undone
	FlowStateSetAside                  // it failed too often; a person decides
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
	Handle int64 // the store's own, to find the row without a look-up; 0 before it was recorded

	Ref
	Function    FlowFunction
	Key         string // parent of its operations' keys; never sent itself
	Input       []byte
	InputDigest string // tells asking again from a misuse of the name

	InboundEndpoint string // of the inbound request that the flow is a step of; "" if none, or if begun before it was recorded

	Trace string // the W3C traceparent of the call that first asked for it; "" if none

	State  FlowState
	Holder string // the session that holds it; else ""
	Claim  int64  // number of the latest claim; 0 before the first

	Undoing    bool   // it is being given up: its steps are undone, and it makes no further one
	GivenUpFor string // why

	DueAt    time.Time // waiting: not run before this
	Cause    string    // why it waits or is set aside
	WaitsFor Ref       // the operation without an outcome that it waits for; zero if none

	// ParkedSince is when its first run that waited for no operation was parked, for example for want of a credential.
	// It is zero if the flow has waited for an operation since, has ended, or a person had it run.
	ParkedSince time.Time

	Failures int           // in a row, since the last Retry
	History  []FlowFailure // the latest ones, at most 10, oldest first

	CreatedAt time.Time
	UpdatedAt time.Time // the latest change other than a step's record
	EndedAt   time.Time

	Tombstone bool // ended, and its input and steps were reaped

	Steps []StepRecord // by Seq
}

// FlowFailure is one failed run of a flow.
type FlowFailure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// StepKind is the kind of a step's record.
type StepKind uint8

const (
	StepDone     StepKind = iota + 1 // a step ended; Result is its return value
	StepLocal                        // the same for a step that committed with its own writes
	StepTime                         // the time was read
	StepUUID                         // a UUID was drawn
	StepFailed                       // a step failed, and the flow went on; Result is the error. Undoing uses it, and so do runs after the end, or once a later step is done or has begun an operation
	StepCall                         // an operation is about to be begun in a step; Name is its ID
	StepUndone                       // a step was undone
	StepReturned                     // no step: the function returned; Result is its return value
	StepGaveUp                       // no step: the function gave the flow up; Result is the error
	StepByHand                       // a person stated a step's return value; Result has it as "result", and "by" and "why"
)

var stepKindNames = [...]string{"", "done", "local", "time", "uuid", "failed", "call", "undone", "returned", "gave up", "by hand"}

func (k StepKind) String() string { return words.Of("StepKind", stepKindNames[:], k) }

// StepRecord is one recorded event of a flow. Records that are no step have neither name nor position.
type StepRecord struct {
	Seq      int // counts from 1 within the flow, in the order of recording
	Kind     StepKind
	Name     string
	Position int    // position in the flow's sequence of steps, from 1
	Parallel bool   // others with the same position may run concurrently
	Result   []byte // JSON
	At       time.Time
}

// FlowFilter selects flows for ListFlows. The zero FlowFilter selects all.
type FlowFilter struct {
	States    []FlowState
	Scope     *string
	Functions []FlowFunction // empty means every function
	ByDue     bool           // waiting ones by DueAt, soonest first, without those put off for long (Flow.PutOff); implies States{FlowStateWaiting}
	ID        string         // the flows of this name, below any parent; "" means every name
	Newest    bool           // those created last come first, except with ByDue
	Limit     int            // zero means no limit
}
