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
	ID     string // the caller's name; for an unnamed operation the first key, under a parent that no caller can name
}

// State is an operation's state.
type State uint8

const (
	StateAbsent    State = iota // the journal has no such operation
	StatePending                // no session holds the operation, due at a time
	StateInFlight               // a session's claim holds the operation
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
	Generated               // unnamed; the ID is a new key
)

var namingNames = [...]string{"named", "carried", "generated"}

func (n Naming) String() string { return words.Of("Naming", namingNames[:], n) }

// Request is frozen at Begin. Every attempt sends these bytes.
type Request struct {
	Method string
	URL    string      // without the withheld query parameters
	Host   string      // the Host header if not the URL's; else ""
	Header http.Header // without the withheld headers, and a trace's headers
	Body   []byte

	WithheldHeaders []string // names of headers with credentials, canonical, sorted
	WithheldQuery   []string // names of query parameters with credentials, sorted
}

// Answer is an operation's recorded answer.
type Answer struct {
	Generation int // the answered generation
	Status     int
	Header     http.Header // decoded, as net/http gave them; never Set-Cookie
	Trailer    http.Header
	Body       []byte

	Omitted bool   // the body is not kept: too long, a secret, or never received
	Cut     bool   // the body ended early, and the status line alone was the answer
	Refused bool   // the provider processed the request and nothing took effect: a status from 400 on, or a decline by a 2xx
	Pointer string // names the resource, if the answer only says that it exists
	ByHand  bool   // a person asserted the answer (Resolve); no provider sent it
	Found   bool   // a look-up or event showed the answer; no attempt received it

	// Replaced is the network's answer before this answer, or nil. A person's answer (ByHand) replaces an answer which
	// the provider's contract does not recognise, or which is not whole. The answer to a repeat, or a Found object,
	// replaces an answer which is not whole.
	Replaced *Answer
}

// Whole reports whether the answer has everything from the provider.
func (a *Answer) Whole() bool { return !a.Omitted && !a.Cut }

// Operation is the journal's record of one logical effect. Times are UTC with
// a resolution of one millisecond; the zero time means "not yet".
type Operation struct {
	Handle int64 // the store's own, finds the row without a look-up; 0 before the operation was recorded

	Ref
	State      State
	Naming     Naming
	KeyCarried bool // the request already had the key, which the caller made
	// BodyWithheld says: the request's body is a secret and not kept. Only a caller with the body can have the operation
	// sent.
	BodyWithheld  bool
	ReferenceOurs bool // see Reference

	Provider    string // name of the contract at Begin
	Endpoint    string // the endpoint's pattern within the contract
	Key         string // as sent; "" if the endpoint takes none
	Generation  int    // counts from 0
	Fingerprint string
	Terms       Terms
	Request     Request
	Credential  string // salted digest of the sent credential, or Unsigned; "" if none was recorded
	Mode        string // mode of the first attempt's credential, such as "test" or "live"; "" if not known

	// Alias is the operation's second name, made of the caller's own key. The journal finds the operation by either
	// name. Zero means no second name.
	Alias Ref
	// Form is the key's place and form in the latest claim's requests.
	Form string

	Holder string // the session that holds the operation, its look-up, or the undelivered outcome; else ""
	Claim  int64  // the latest claim's number; 0 before the first
	Asker  int64  // number of the begin or claim that made the latest claim, or received the undelivered outcome; 0 if there is none

	// The claim writes MayHaveRun and FirstSentAt before anything is sent. Found holds the earlier values. A park or a
	// cancel restores these values if the claim's own attempts are proven harmless.
	//
	// The claim writes Failed likewise: an attempt's answer may have been a failure with an effect. Failed matters if
	// the provider forgets failures (providers.SuccessesLostAnswers).
	MayHaveRun   bool
	Failed       bool
	WindowClosed bool // a clock that ran ahead may have set FirstSentAt: never resent by window
	FirstSentAt  time.Time
	SentSince    time.Time // the earliest possible FirstSentAt, if an unconfirmed clock set FirstSentAt; else zero
	Found        Found
	LastEndedAt  time.Time // when the last attempt ended or, after a takeover, the takeover
	BusySince    time.Time // since when the provider has been answering "in flight"
	// ParkedSince is when a claim was first parked, since Begin or since a person had the operation sent. ParkedSince is
	// zero if no claim was parked, or if the operation has an outcome.
	ParkedSince time.Time

	Attempts  int // on the wire, of ended claims
	CreatedAt time.Time
	UpdatedAt time.Time
	SettledAt time.Time // when the operation got the present outcome
	DueAt     time.Time // pending: not sent before this; unknown: not repeated before this, or sent once it is released
	WakeAt    time.Time // pending: the next time for Resume and Run
	DueOwn    bool      // Onceward chose DueAt, not the provider or the caller
	Enqueued  bool      // recorded by EventEnqueue; Claim is 0 until the first claim
	// InboundEndpoint names the endpoint of the inbound request above the operation. InboundEndpoint is "" without such
	// a request.
	InboundEndpoint string

	// Flow is the operation's flow. The zero FlowRef means no flow.
	Flow FlowRef

	// Trace is the W3C traceparent of the call that first asked for the operation, or whose request was sent first.
	// Empty means no traceparent. Trace leads to the cause, and names no one.
	Trace string

	NotAfter time.Time // if nothing may have run, the operation is cancelled and not sent after this; zero means no limit

	Cause  string // why the operation is pending, unknown or cancelled; never a secret
	Answer *Answer

	// LastAnswer is the provider's last answer, if the operation stayed pending or unknown. Nil means no such answer. A
	// secret body, or a body longer than MaxLastAnswer, is omitted.
	LastAnswer *Answer

	Told          bool // the caller received an error: an unnamed operation is not sent in the background
	ByHand        bool // a person cancelled the operation: the next Begin starts a generation
	Delivered     bool // a caller or hook has the outcome
	Tombstone     bool // completed, and the answer was reaped
	Adopted       bool // this generation was in a journal that was restored, and adopted
	SecondEffects int  // earlier generations' answers that prove a second effect

	Resolved *Resolved // the last recorded decision; nil if there is none

	// The following fields are for finding out what became of the operation.

	// Account is the identity behind the sent credential, or the first proven look-up's. Empty: not proven yet.
	Account string
	// Reference identifies the object created by this generation, "" if there is none. ReferenceName is the field's
	// place and name. ReferenceOurs says that the client made the reference for the generation. Otherwise the caller
	// made the reference, which may repeat.
	Reference, ReferenceName string
	Compare                  []Field // parts of the request; such an object must agree with each
	Row                      string  // digest of the table's row at Begin, if the row describes a look-up
	Rounds                   []Round // the latest earlier generations, oldest first

	// Object is kind and id of the object that proves the completion, "" if none was named. No other operation of the
	// provider and account has the same object.
	Object string

	Looks    int       // look-ups since the operation became unknown, or was completed without a whole answer
	LookedAt time.Time // when the latest look-up began
	LookAt   time.Time // unknown: no look-up before this; zero if the operation needs attention
	// LeftFor is how long processes without a look-up have left an unknown operation to others, since another process
	// looked. LeftFor adds up the processes' leases, goes on in the next process, and stands still while no process runs.
	LeftFor time.Duration
	// Attention says why a person has to look. For an unknown operation, Attention says why no look-up is due. For a
	// pending one, Attention says why there is no outcome. For another, Attention says what contradicts the outcome. If
	// Attention is empty, see NeedsAttention.
	Attention string
	// Disputed means that evidence set an unknown operation's Attention, for example a second object. Only a decision
	// clears Disputed: a look-up without a decision does not.
	Disputed bool
	Evidence []Evidence // the first and the latest, nine at most, oldest first; kept with a tombstone

	Withdrawn *Resolved // who withdrew the operation; nil if no one did

	// Newer holds a newer release's fields, in the store's encoding, or nil. A later write keeps these fields.
	Newer []byte

	// SealedBy names the key that the process lacks. The fields sealed with the key are then zero: Request's fields,
	// the answers' headers and bodies, Fingerprint, Compare, LastAnswer and digests. Empty means that no key is
	// missing.
	SealedBy string
}

// NeverLeft reports whether no attempt of the present generation may have left. NeverLeft is not the opposite of
// MayHaveRun, since NotExecuted clears MayHaveRun. If an operation never left, no client looks for the operation and no
// evidence completes it.
func (op *Operation) NeverLeft() bool { return op.FirstSentAt.IsZero() }

// AnswerMissing reports whether the operation is completed and the journal lacks the whole answer or a part. A repeat of
// the request or a look-up may bring the answer. If a person asserted the answer without an object, no client looks.
func (op *Operation) AnswerMissing() bool {
	a := op.Answer
	return op.State == StateCompleted && a != nil && !a.Whole() && (!a.ByHand || op.Object != "")
}

// FlowRef names an operation's flow. The flow's scope is the operation's.
type FlowRef struct {
	ID     string
	Parent string // the flow's parent, such as an inbound key's; else ""
	Handle int64  // the store's own number for the flow; 0 if there is none
}

// Found is the state before the latest claim.
type Found struct {
	State       State // StateAbsent, StateCancelled, StateUnknown, or StatePending, also for an operation of a dead session
	MayHaveRun  bool
	Failed      bool
	FirstSentAt time.Time
}

// NeverSigned reports whether no attempt has been sent, since none had a credential. A restored journal may lack an
// attempt's record.
func (op *Operation) NeverSigned() bool { return op.Credential == Unsigned && !op.Adopted }

// OnHold reports whether the operation is unknown because of a person's Hold.
func (op *Operation) OnHold() bool {
	return op.State == StateUnknown && op.Resolved != nil && op.Resolved.Resolution == Hold
}

// TookEffectOtherThan reports whether kept evidence shows another object of the present generation. Every object differs
// from "".
func (op *Operation) TookEffectOtherThan(object string) bool {
	return slices.ContainsFunc(op.Evidence, func(e Evidence) bool {
		return e.Generation == op.Generation && e.Finding.TookEffect() && !SameObject(e.Object, object)
	})
}

// MaxLastAnswer is the largest body in Operation.LastAnswer, in bytes.
const MaxLastAnswer = 16 << 10
