package journal

import (
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/words"
)

// Ref identifies an operation. The three parts together are its identity and are never concatenated. Ref is
// comparable.
type Ref struct {
	Scope  string // the caller's namespace for names; "" by default
	Parent string // the parent's key or name, if it has one
	ID     string // the caller's name for it; unnamed, its first key, under a parent that no caller can name
}

// State is the state of an operation.
type State uint8

const (
	StateAbsent    State = iota // the journal has no such operation
	StatePending                // no session holds it, due at a time
	StateInFlight               // a claim of a session holds it
	StateCompleted              // the answer is recorded, or was until it was reaped
	StateUnknown                // may have taken effect, and may not be resent
	StateCancelled              // provably without effect, given up
)

// States lists every state that a stored operation can have.
var States = []State{StatePending, StateInFlight, StateCompleted, StateUnknown, StateCancelled}

var stateNames = [...]string{"absent", "pending", "in_flight", "completed", "unknown", "cancelled"}

func (s State) String() string { return words.Of("State", stateNames[:], s) }

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

func (n Naming) String() string { return words.Of("Naming", namingNames[:], n) }

// Request is frozen at Begin. Every attempt sends these bytes.
type Request struct {
	Method string
	URL    string      // without the withheld query parameters
	Host   string      // the Host header if it differs from the URL's; else ""
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

	Omitted bool   // the body is not kept: it was over the limit, is a secret, or was never received
	Cut     bool   // the body ended early, and the status line alone was the answer
	Refused bool   // the provider processed it and nothing took effect: a status from 400 on, or a decline by a 2xx
	Pointer string // names the resource, if the answer only says that it exists
	ByHand  bool   // a person asserted it (Resolve); no provider sent it
	Found   bool   // a look-up or event showed it; no attempt received it

	// Replaced is the answer from the network that this answer replaced, or nil. A person's answer (ByHand) replaces
	// one that the provider's contract does not recognise, or one that is not whole. The answer to a repeat, or a Found
	// object, replaces one that is not whole.
	Replaced *Answer
}

// Whole reports whether the answer has all that the provider sent.
func (a *Answer) Whole() bool { return !a.Omitted && !a.Cut }

// Operation is the journal's record of one logical effect. Times are UTC with
// a resolution of one millisecond; the zero time means "not yet".
type Operation struct {
	Handle int64 // the store's own, to find the row without a look-up; 0 before it was recorded

	Ref
	State      State
	Naming     Naming
	KeyCarried bool // the request already had the key, which the caller made
	// BodyWithheld says that the request's body is a secret and not kept. Only a caller who brings the body can have
	// the operation sent.
	BodyWithheld  bool
	ReferenceOurs bool // see Reference

	Provider    string // name of the contract under which it began
	Endpoint    string // pattern of the endpoint within it
	Key         string // as sent; "" if the endpoint takes none
	Generation  int    // counts from 0
	Fingerprint string
	Terms       Terms
	Request     Request
	Credential  string // salted digest of the credential that it is sent with, or Unsigned; "" if it was not recorded
	Mode        string // of the credential of its first attempt, such as "test" or "live"; "" if not known

	// Alias is a second name of the operation, made of the key that its caller brought. The journal finds the
	// operation by either name. Zero means that there is none.
	Alias Ref
	// Form is the place and form of the key in the latest claim's requests. It is "" in a record from before forms
	// were kept.
	Form string

	Holder string // the session that holds it, or its undelivered outcome; else ""
	Claim  int64  // number of the latest claim; 0 before the first
	Asker  int64  // number of the begin or claim that made the latest claim, or received the undelivered outcome; 0 if there is none

	// MayHaveRun and FirstSentAt are written by the claim, before anything is sent. Found holds the earlier values. A
	// park or a cancel restores them if the claim's own attempts are proven harmless.
	//
	// Failed is written likewise. It says that an attempt may have been answered by a failure that had an effect. That
	// matters if the provider forgets failures (providers.SuccessesLostAnswers).
	MayHaveRun   bool
	Failed       bool
	WindowClosed bool // a clock that ran ahead set FirstSentAt: never resent by window
	FirstSentAt  time.Time
	SentSince    time.Time // the earliest possible FirstSentAt, if a clock that was never confirmed set it; else zero
	Found        Found
	LastEndedAt  time.Time // when the last attempt ended or, after a takeover, the takeover
	BusySince    time.Time // since when the provider has been answering "in flight"
	// ParkedSince is when its first claim was parked since it was begun or a person had it sent. It is zero if none was
	// parked, or if it has an outcome.
	ParkedSince time.Time

	Attempts  int // on the wire, of ended claims
	CreatedAt time.Time
	UpdatedAt time.Time
	SettledAt time.Time // when it got its present outcome
	DueAt     time.Time // pending: not sent before this; unknown: not repeated before this, or sent once it is released
	WakeAt    time.Time // pending: when Resume and Run look at it next
	DueOwn    bool      // Onceward chose DueAt, not the provider or the caller
	Enqueued  bool      // it was recorded by EventEnqueue; Claim is 0 until it is first claimed
	// InboundEndpoint names the endpoint of the inbound request that the operation is a step of. Empty if it has none,
	// or if it was begun before endpoints were recorded.
	InboundEndpoint string

	// Flow is the flow that the operation is a step of. The zero FlowRef means that it is of none, or was begun before
	// flows were recorded with it.
	Flow FlowRef

	// Trace is the W3C traceparent of the call that first asked for it, or whose request was sent first. Empty means
	// that there was none. It leads to the cause, and names no one.
	Trace string

	NotAfter time.Time // if nothing may have run, it is cancelled and not sent after this; zero means no limit

	Cause  string // why it is pending, unknown or cancelled; never a secret
	Answer *Answer

	// LastAnswer is the provider's last answer to an operation that it left pending or unknown. Nil means that there was none. A
	// body that is a secret, or longer than MaxLastAnswer, is omitted.
	LastAnswer *Answer

	Told          bool // its caller received an error: unnamed, it is not sent in the background
	ByHand        bool // a person cancelled it: the next Begin starts a generation
	Delivered     bool // a caller or hook has its outcome
	Tombstone     bool // completed, and its answer was reaped
	Adopted       bool // this generation was in a journal that was restored, and adopted
	SecondEffects int  // answers of earlier generations that prove a second effect

	Resolved *Resolved // who last recorded a decision about it; nil if no one did

	// The following fields are for finding out what became of it.

	// Account is the identity behind the credential that it is sent with, or of its first proven look-up. Empty means that
	// it is not proven yet.
	Account string
	// Reference identifies the object that this generation creates. Empty means that there is none. ReferenceName is
	// the place and name of its field. ReferenceOurs says that the client made it for this generation. Otherwise the
	// caller made it, and it may repeat.
	Reference, ReferenceName string
	Compare                  []Field // parts of the request that such an object must agree with
	Row                      string  // digest of the table's row that it was begun by, if that could look for it
	Rounds                   []Round // earlier generations, the latest of them, oldest first

	// Object is kind and id of the object that proves that it is completed. Empty means that none was named. No other
	// operation of the provider and account has it.
	Object string

	Looks    int       // look-ups since it became unknown, or was completed without its whole answer
	LookedAt time.Time // when the latest of them began
	LookAt   time.Time // unknown: no look-up before this; zero if it needs attention
	// LeftFor is how long processes that cannot look for an unknown operation have left it to others, since another one has
	// looked. LeftFor adds up their leases, so it goes on in the next process, and stands still while no process runs.
	LeftFor time.Duration
	// Attention says why a person has to look at it. For an unknown operation it says why no look-up is due, for a
	// pending one why it has no outcome, for another what contradicts its outcome. If it is empty, see NeedsAttention.
	Attention string
	// Disputed means that evidence set Attention of an unknown operation, for example a second object. Only a decision
	// clears it: a look-up that decides nothing does not.
	Disputed bool
	Evidence []Evidence // the first and the latest, nine at most, oldest first; kept with a tombstone

	Withdrawn *Resolved // who withdrew it; nil if no one did

	// Newer holds fields of a newer release, in the store's encoding. A later write of the operation keeps them. Nil
	// means that there are none.
	Newer []byte
}

// NeverLeft reports whether no attempt of the present generation may have left. It differs from the opposite of
// MayHaveRun, which NotExecuted clears. An operation that never left is neither looked for nor completed by evidence.
func (op *Operation) NeverLeft() bool { return op.FirstSentAt.IsZero() }

// AnswerMissing reports whether the operation is completed and the journal lacks its answer or a part of it. A repeat of
// the request or a look-up may bring it. An answer that a person asserted without an object is not looked for.
func (op *Operation) AnswerMissing() bool {
	a := op.Answer
	return op.State == StateCompleted && a != nil && !a.Whole() && (!a.ByHand || op.Object != "")
}

// FlowRef names the flow of an operation. Its scope is the operation's.
type FlowRef struct {
	ID     string
	Parent string // of the flow, such as that of an inbound key; else ""
	Handle int64  // the store's own number of the flow; 0 if it has none
}

// Found is the state that a claim found before it wrote its own.
type Found struct {
	State       State // StateAbsent, StateCancelled, StateUnknown, or StatePending, also for an operation of a dead session
	MayHaveRun  bool
	Failed      bool
	FirstSentAt time.Time
}

// NeverSigned reports whether no attempt has been sent, since none had a credential. A journal that was restored may lack
// the record of one.
func (op *Operation) NeverSigned() bool { return op.Credential == Unsigned && !op.Adopted }

// OnHold reports whether the operation is unknown because a person holds it.
func (op *Operation) OnHold() bool {
	return op.State == StateUnknown && op.Resolved != nil && op.Resolved.Resolution == Hold
}

// TookEffectOtherThan reports whether kept evidence says that the present generation made another object. Every object is
// another one than "".
func (op *Operation) TookEffectOtherThan(object string) bool {
	return slices.ContainsFunc(op.Evidence, func(e Evidence) bool {
		return e.Generation == op.Generation && e.Finding.TookEffect() && !SameObject(e.Object, object)
	})
}

// MaxLastAnswer is the largest body of Operation.LastAnswer, in bytes.
const MaxLastAnswer = 16 << 10
