package journal

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Ref names an operation. The three parts together are its identity and are
// never concatenated. Ref is comparable.
type Ref struct {
	Scope  string // the caller's namespace for names; "" by default
	Parent string // the parent's key or name, for an operation that has one
	ID     string // the caller's name for it; unnamed, its first key, under a parent that no caller can name
}

// State is where an operation stands. The package documentation draws the
// transitions; Next is their only definition.
type State uint8

const (
	StateAbsent    State = iota // the journal has no such operation
	StatePending                // held by nobody, due at a time
	StateInFlight               // held by a claim of a session
	StateCompleted              // the answer is recorded, or was until it was reaped
	StateUnknown                // may have taken effect, and resending can't tell
	StateCancelled              // provably without effect, given up
)

// States lists every state that a stored operation can have.
var States = []State{StatePending, StateInFlight, StateCompleted, StateUnknown, StateCancelled}

var stateNames = [...]string{"absent", "pending", "in_flight", "completed", "unknown", "cancelled"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", s)
}

// Settled reports whether nothing more will be sent: completed or cancelled.
func (s State) Settled() bool { return s == StateCompleted || s == StateCancelled }

// Naming is how an operation got its ID.
type Naming uint8

const (
	Named     Naming = iota // by the caller, or by a parent
	Carried                 // unnamed; the ID is a key that the request already had
	Generated               // unnamed; the ID is a key made for it
)

var namingNames = [...]string{"named", "carried", "generated"}

func (n Naming) String() string {
	if int(n) < len(namingNames) {
		return namingNames[n]
	}
	return fmt.Sprintf("Naming(%d)", n)
}

// Request is what was frozen at Begin: every attempt sends these bytes.
type Request struct {
	Method string
	URL    string      // without the withheld query parameters
	Host   string      // the Host header where it differs from the URL's; else ""
	Header http.Header // without the withheld headers, and those of a trace
	Body   []byte

	WithheldHeaders []string // names of headers that carry credentials, canonical, sorted
	WithheldQuery   []string // names of query parameters that do, sorted
}

// Answer is the recorded answer of an operation.
type Answer struct {
	Generation int // the life of the operation that it answers
	Status     int
	Header     http.Header // decoded, as net/http gave them; never Set-Cookie
	Trailer    http.Header
	Body       []byte

	Omitted bool   // the body was over the limit, or is a secret, and was not kept
	Cut     bool   // the body ended early, and the status line alone was the answer
	Refused bool   // an executed refusal: the provider did its work and nothing took effect
	Pointer string // names the resource, where the answer only says that it exists
	ByHand  bool   // somebody asserted it (Resolve); no provider sent it
	Found   bool   // a look or an event showed it; it is not what an attempt was answered by

	// Replaced is what came from the network, if this answer took its place; else nil. A person's word (ByHand) takes the
	// place of an answer that the provider's contract does not recognise, and of one that was cut off. An object that was
	// Found takes the place of one that was cut off.
	Replaced *Answer
}

// Operation is the journal's record of one logical effect. Times are UTC with
// a resolution of one millisecond; the zero time means "not yet".
type Operation struct {
	Handle int64 // the store's own, to find the row without a look-up; 0 before the first Apply

	Ref
	Naming      Naming
	Provider    string // name of the contract it was begun under
	Endpoint    string // pattern of the endpoint within it
	Key         string // on the wire; "" where the endpoint takes none
	KeyCarried  bool   // the request already had the key: somebody else made it
	Generation  int    // counts from 0
	Fingerprint string
	Terms       Terms
	Request     Request
	Credential  string // salted digest of what it was begun with, where keys are scoped to it; else ""
	Mode        string // of the credential it was first sent with, such as "test" or "live"; "" where that can't be told

	// Alias is a second name, under which the operation is found as by Ref: that of
	// the key which its caller brought along. Zero: there is none.
	Alias Ref
	// Form is the place and form that the key has on the wire, as the latest claim
	// put it there; "" in a record from before forms were kept.
	Form string
	// BodyWithheld says that the request's body is a secret that was not kept: only a
	// caller who brings it along can have the operation sent.
	BodyWithheld bool

	State  State
	Holder string // the session that holds it, or that has its undelivered outcome; else ""
	Claim  int64  // number of the latest claim; 0 before the first
	Asker  int64  // Event.Asker of the Begin or Claim that made the latest claim, or that the undelivered outcome was given to; 0: of none

	// MayHaveRun and FirstSentAt are written by the claim, before anything is
	// sent. Found holds what that claim found: a park or a cancel goes back to it
	// where the claim's own attempts are proven harmless.
	//
	// Failed is written likewise: an attempt may have been answered by a failure that
	// had an effect, which matters where the provider forgets failures
	// (providers.SuccessesLostAnswers).
	MayHaveRun   bool
	Failed       bool
	FirstSentAt  time.Time
	SentSince    time.Time // the earliest that FirstSentAt may have been, where it is by a clock that was never confirmed; else zero
	Found        Found
	LastEndedAt  time.Time // when the last attempt ended or, after a takeover, the takeover
	WindowClosed bool      // FirstSentAt was stamped by a clock that ran ahead: never resent by window
	BusySince    time.Time // since when the provider has been answering "in flight"

	Attempts  int // on the wire, those of ended claims
	CreatedAt time.Time
	UpdatedAt time.Time
	SettledAt time.Time // when it got its present outcome
	DueAt     time.Time // pending: not sent before this; unknown: not repeated before this, or sent once it is released
	DueOwn    bool      // DueAt is a pause of our own making: nobody else asked for it
	WakeAt    time.Time // pending: when Resume and Run look at it next
	Enqueued  bool      // it was recorded by EventEnqueue; Claim is 0 until it is first claimed
	// InboundEndpoint names the endpoint of the inbound request that the operation is a step of. Empty if it has none, or
	// if it was begun before endpoints were recorded.
	InboundEndpoint string

	// Flow is the flow that the operation is a step of. The zero FlowRef means that it is of none, or was begun before
	// flows were recorded with it.
	Flow FlowRef

	// Trace is the W3C traceparent of the call that asked for it first, or made what was sent first;
	// "" where there was none. It leads to the cause, and names no one.
	Trace string

	NotAfter time.Time // where nothing may have run, it is cancelled and not sent once this has passed; zero: it never is

	Cause  string // why it is pending, unknown or cancelled; never a secret
	Answer *Answer

	Told          bool // its caller was told that it failed: unnamed, it is not sent in the background
	ByHand        bool // cancelled by somebody's word: the next Begin starts a generation
	Delivered     bool // its outcome reached somebody
	Tombstone     bool // completed, and its answer was reaped
	SecondEffects int  // answers of earlier generations that prove a second effect

	Resolved *Resolved // who said last what became of it; nil: nobody did

	// What follows is for finding out what became of it (Reconciler).

	// Account is the identity behind the credential that it was first seen to be sent, or
	// looked for, with; "" while that is not proven.
	Account string
	// Reference is what the object that this generation creates can be recognised by, ""
	// for nothing; ReferenceName is the place and name of its field. ReferenceOurs: the
	// client made it for this generation; else it is the caller's, and may repeat.
	Reference, ReferenceName string
	ReferenceOurs            bool
	Compare                  []Field // of the request: what such an object has to agree with
	Rounds                   []Round // earlier generations, the latest of them, oldest first

	// Object is kind and id of what proves that it is completed; "" where nothing was
	// named. No other operation of the provider and account has it.
	Object string

	Looks    int       // that were begun since it became unknown, or was completed with its answer cut off
	LookedAt time.Time // when the latest of them began
	LookAt   time.Time // unknown: not looked for before this; zero if it needs attention
	// Attention says why a person has to look at it: of an unknown operation, why no look is due; of
	// another, what contradicts its outcome. "": see NeedsAttention.
	Attention string
	Evidence  []Evidence // the first and the latest, oldest first; kept with a tombstone

	Unwanted *Resolved // who said that it is not wanted any more; nil: it is
	Adopted  bool      // this generation was in a journal that was restored, and adopted

	// Newer is what a newer release recorded of it, as the store encodes that: whoever writes
	// the operation again keeps it. nil: nothing.
	Newer []byte
}

// NeverLeft reports whether no attempt of the present generation may have left. It is not the opposite
// of MayHaveRun, which a decision that it was not executed clears: what never left is neither looked
// for nor completed by evidence.
func (op *Operation) NeverLeft() bool { return op.FirstSentAt.IsZero() }

// AnswerCut reports whether the operation is completed and the provider's answer was cut off. A look may find its object.
func (op *Operation) AnswerCut() bool {
	return op.State == StateCompleted && op.Answer != nil && op.Answer.Cut && !op.Answer.ByHand
}

// left reports whether an attempt of that generation, an earlier one, may have left. Only those have a
// round; of the oldest, nothing is kept.
func (op *Operation) left(generation int) bool {
	return len(op.Rounds) == maxRounds && generation < op.Rounds[0].Generation || slices.ContainsFunc(op.Rounds, func(r Round) bool { return r.Generation == generation })
}

// doubted: an earlier release sent it once more after its caller was told that its outcome is unknown.
func (op *Operation) doubted() bool { return op.Found.State == StateUnknown }

// referenceOf is the reference that a generation of it had; "" where that is not kept.
func (op *Operation) referenceOf(generation int) string {
	for _, r := range op.Rounds {
		if r.Generation == generation {
			return r.Reference
		}
	}
	if generation == op.Generation {
		return op.Reference
	}
	return ""
}

// sentFrom has the operation count as sent first then, or earlier, where it may have been.
func (op *Operation) sentFrom(t time.Time) {
	op.FirstSentAt = t
	if !op.SentSince.Before(t) {
		op.SentSince = time.Time{}
	}
}

// FlowRef names the flow of an operation. Its scope is the operation's.
type FlowRef struct {
	ID     string
	Parent string // of the flow, such as that of an inbound key; else ""
	Handle int64  // the store's own number of the flow; 0 if it has none
}

// Found is what a claim found before it wrote its own.
type Found struct {
	State       State // StateAbsent, StateCancelled, StateUnknown, or StatePending, as which counts what a dead session held
	MayHaveRun  bool
	Failed      bool
	FirstSentAt time.Time
}

// Resolved is somebody's word on an operation.
type Resolved struct {
	Resolution Resolution
	By, Why    string // never a secret
	At         time.Time
	Generation int   // that was looked at
	Claim      int64 // likewise
}
