package machine

import (
	"time"

	"github.com/onceward/onceward/internal/words"
	"github.com/onceward/onceward/journal"
)

// EventKind is the kind of an Event.
type EventKind uint8

const (
	// EventBegin asks for the operation on behalf of a caller. Needs Intent and Session.
	EventBegin EventKind = iota + 1
	// EventClaim asks for it on behalf of Resume or Run. Needs Session.
	EventClaim
	// EventComplete brings a final answer. Needs Claim, Generation and Answer.
	EventComplete
	// EventPark gives the claim up; the operation is sent again at Due. Needs Claim.
	EventPark
	// EventMarkUnknown gives the claim up; the operation may have run and may not be resent. Needs Claim.
	EventMarkUnknown
	// EventCancel gives up the claim and the operation. If something may have run, the operation is parked or unknown
	// instead. Claim 0 stands for the claim of a Begin or Claim by this session and Asker whose commit failed and may have
	// landed. An operation that was pending or in flight before stays pending.
	EventCancel
	// EventResolve records a person's decision. Needs Resolution and the Generation that the person saw, and, except
	// for Executed, the Claim. If the operation has changed since, the result is Stale.
	EventResolve
	// EventDeliver says that a caller or hook has the outcome.
	EventDeliver
	// EventReap shrinks or removes an operation after its keep. Needs Keep.
	EventReap
	// EventClock says that the clock was behind the journal's last time, came back wholly or partly from a jump ahead,
	// or confirmed such a jump (Since).
	EventClock
	// EventAdopt continues a restored or copied journal. The journal does not know what happened after the copy, so an
	// operation without an answer counts as sent, from its creation until now.
	EventAdopt
	// EventLook claims the look-up of an unknown operation until Due, which is required, or until Looker ends. Without
	// Asked, the operation has to be due. With Asked, EventLook also claims a completed operation whose answer is missing.
	EventLook
	// EventHint makes a look-up of an unknown operation due, even after the look-ups were given up. A hint, such as an
	// unsigned event, proves nothing.
	EventHint
	// EventEvidence brings the finding of a look-up or an event about a generation. Needs Evidence, Generation, and the
	// operation's Claim at the begin of the look-up. A finding of an effect needs Object.
	EventEvidence
	// EventEnqueue records the operation of a caller, to be claimed and sent at Due or now. Needs Intent, and no
	// session. An existing operation stays as it is (Ignored), but a cancelled one is pending again.
	EventEnqueue
	// EventSign records the credential and the account for the claim's attempts, before the first attempt is sent.
	// Needs Claim, Session and Credential. It is refused if the operation may have run under the recorded credential.
	EventSign
)

var eventNames = [...]string{"", "begin", "claim", "complete", "park", "doubt", "cancel", "resolve", "deliver", "reap", "clock", "adopt",
	"look", "hint", "evidence", "enqueue", "sign"}

func (k EventKind) String() string { return words.Of("EventKind", eventNames[:], k) }

// Intent is a Begin's request to record an operation.
type Intent struct {
	Naming        journal.Naming
	BodyWithheld  bool // Request lacks its body, a secret
	KeyCarried    bool // the request already had Key
	ReferenceOurs bool // see Reference

	Provider    string
	Endpoint    string
	Fingerprint string
	Terms       journal.Terms
	Request     journal.Request
	Credential  string
	Mode        string // of the credential; "" if not known
	Form        string // of the key on the wire

	// Alias is the second name of an operation with a caller's key. If another operation has the Alias as Ref or Alias,
	// the Begin is Misuse.
	Alias journal.Ref

	// FormerAliases are the key's aliases under the provider's earlier tables. A Begin is Misuse too if another
	// operation has one as Ref or Alias. No store records FormerAliases.
	FormerAliases []journal.Ref

	// Trace is the caller's traceparent (https://www.w3.org/TR/trace-context/). One longer than MaxTrace bytes is left
	// out. Empty means that there is none.
	Trace string

	// InboundEndpoint names the endpoint of the inbound request around this operation. A Begin from another endpoint is
	// Misuse. Empty means no comparison.
	InboundEndpoint string

	// Flow is the flow with this operation as a step. Zero means none.
	Flow journal.FlowRef

	// NotAfter is the latest time of the first send. Zero means no limit. NotAfter counts for a new operation and for a
	// cancelled one that begins again. A later Begin is invalid.
	NotAfter time.Time

	// Account is the identity behind the credential of the coming request. Empty means not yet proven.
	Account string

	// Reference identifies the object that this request creates. Empty means none. ReferenceName is the field's place
	// and name. With ReferenceOurs, the client makes the reference and fills in the field at the attempt. Otherwise the
	// caller's request has the reference.
	Reference, ReferenceName string
	// NextReference makes the reference of an operation with that key in the given generation, if ReferenceOurs is
	// set. Nil keeps Reference.
	NextReference func(key string, generation int) string
	// Compare has the parts of the request that such an object must agree with. They are kept even if the body is not.
	Compare []journal.Field
	Row     string // digest of the table's row, if the table or its program can look for the operation

	// Patience is how long after the last attempt a caller who asks may cut a pause of Onceward's own short, if nothing
	// may have run. Zero means never.
	Patience time.Duration

	// Same reports whether a recorded fingerprint is of this request, if equal text is not the test. The store calls it
	// inside a commit, so it uses nothing else and returns at once. Nil compares the texts.
	Same func(fingerprint string) bool

	// Key is the key of a first generation, or "" if the endpoint takes none. NextKey makes the key of a later
	// generation. Nil keeps Key. It also makes the key of generation 0 if Key was carried and the operation lacks
	// Alias, since the endpoint took no key at the beginning.
	Key     string
	NextKey func(generation int) string
}

// Aliases returns Alias and FormerAliases, or none without an Alias. A Begin is Misuse if another operation has one of
// these names. A store without the operation itself searches the aliases in order, and returns the first operation
// found.
func (in *Intent) Aliases() []journal.Ref {
	if in.Alias == (journal.Ref{}) {
		return nil
	}
	return append([]journal.Ref{in.Alias}, in.FormerAliases...)
}

// Rivals returns the names under which another operation may have the same key, or nil if op does not begin with the
// key. op must be absent, or cancelled in the last life and begun again with the first key. The names may include op's
// own alias, since a client that did not know the provider derived another alias.
func (in *Intent) Rivals(op *journal.Operation) []journal.Ref {
	again := op.State == journal.StateCancelled && op.KeyCarried && in.KeyCarried && op.Key == in.Key && in.same(op.Fingerprint) && !op.ByHand
	if op.State == journal.StateAbsent || again {
		return in.Aliases()
	}
	return nil
}

// YieldsTo reports whether op is not begun because holder has one of the Rivals. If holder is cancelled too, the first
// to begin again gets the key.
func YieldsTo(op, holder *journal.Operation) bool {
	return holder.Handle != op.Handle && (op.State == journal.StateAbsent || holder.State != journal.StateCancelled)
}

// Event is one input to the state machine.
type Event struct {
	Kind   EventKind
	Ref    journal.Ref
	Handle int64 // Operation.Handle if known: spares the look-up by Ref

	At      time.Time // the caller's clock
	Last    time.Time // the latest time the journal has seen: set by the store
	Session string    // the asking session

	// Unconfirmed is when a clock that has jumped will be believed, by the clock's own time. Zero means that the clock is
	// believed. A store sets Unconfirmed. Until then no window permits a resend, and a time is over only if Last agrees.
	Unconfirmed time.Time
	// Ahead is the latest time of a clock that was set back since. Zero means none. Look. A store sets Ahead.
	Ahead time.Time
	// Since is when the clock jumped ahead, by the clock's own time, if the jump is confirmed now. Clock. Last is the
	// latest time before. A store sets Since.
	Since time.Time
	// SetBack says that a clock was set back, and is believed. Clock. Each operation sent before may be dated by the
	// clock's former time. A store sets SetBack.
	SetBack bool

	// Asker is a number that no other Begin or Claim of the session has. A Claim may have the number of earlier Claims that
	// failed, if no Cancel names it. Begin, Claim; Cancel with Claim 0.
	Asker int64

	// New says that Ref was generated just now, so the journal has no such operation and needs no look-up. Begin.
	New    bool
	Intent *Intent // Begin

	Claim      int64         // the claim that the event is made under
	Generation int           // Complete: the generation that was sent; Deliver: the one delivered
	Outcome    journal.State // Deliver: the delivered outcome; StateAbsent: any
	Answer     *journal.Answer
	LastAnswer *journal.Answer // Park, Doubt, Cancel: the provider's last answer, which decided nothing

	// Due in a Park, a Cancel or an Enqueue is the earliest time to send the operation. Zero means at once. Due in a
	// MarkUnknown, or in a Complete by a refusal that does not stand, is the earliest time for a repeat. Due in a Claim
	// limits pending operations' WakeAt, and zero means At.
	//
	// Due in a Look is the lease's end. Due in a Hint is the earliest look-up, and zero means at once. Due of Evidence
	// is the next look-up if the operation stays unknown, and zero keeps the present one.
	Due      time.Time
	DueOwn   bool      // Park, Cancel: Onceward chose Due
	Wake     time.Time // Park: earliest time for Resume and Run; zero means Due
	Cause    string    // Park, Doubt, Cancel: why, without secrets
	Attempts int       // on the wire, made under this claim

	// Open says that an attempt of the claim may have run, or an answer proved an earlier attempt. Unsent says that the
	// window has not begun: no attempt of the claim left the machine, or the provider registers no key for the
	// refusals. Failed says that a failure answered an attempt of the claim, and the attempt may have had an effect.
	// Park, MarkUnknown, Cancel.
	Open, Unsent, Failed bool
	Busy                 bool   // Park: the last answer was "in flight"
	Unanswered           bool   // Park: no attempt was answered, so what the provider said before stands
	Mode                 string // Complete, Park, Doubt, Cancel: of the credential that was sent; "" if not known

	// Retention is the retention that an answer declared, and replaces a longer retention in the operation's Terms. Zero
	// means that no answer declared a retention. A negative value means that the provider promises none. Park,
	// MarkUnknown, Cancel.
	Retention time.Duration

	// Told says that a caller receives the failure. From then on an unnamed operation is not sent in the background.
	// Park, Doubt, Cancel.
	Told bool
	// Delivered says that no hook receives the event's outcome, so a delivery is not needed.
	Delivered bool
	// HookElsewhere says that another program's hook gets the event's outcome (HookKeeper). No session holds the outcome
	// then, and a Claim passes over outcomes.
	HookElsewhere bool

	// NamedOnly says that a Claim sends no unnamed operations. Unnamed operations with a dead session become unknown.
	// Pending ones stay for other sessions as long as these may send.
	NamedOnly bool

	// From has the providers whose operations a Claim sends. "" stands for operations begun without a provider. Nil
	// means all. Others are skipped, pending or left by dead sessions. Outcomes are offered whatever their provider.
	From []string
	// Today, in a Claim, returns the present contract for an operation with a whole request. false skips the operation.
	// A nil Today keeps the contract from the Begin. Stores call Today inside a transaction, so Today must neither
	// block nor call the store.
	Today func(*journal.Operation) (Today, bool)

	Resolution   journal.Resolution // Resolve
	By           string             // Resolve: the person. Cause is the reason
	Unrecognised bool               // Resolve, Executed: the recorded answer is not the provider's
	Key          string             // Resolve, SendAgain: the next generation's key; Evidence, absent: likewise, "": the same
	Reference    string             // Resolve, SendAgain: the next generation's reference, if the client makes it; Evidence: the caller's, that the object shows
	Forced       bool               // Resolve: despite evidence to the contrary
	Keep         time.Duration      // Reap

	// Object is kind and id of the object in the answer or the evidence, or "". With Executed it is the candidate
	// chosen by the person. Complete, Evidence, Resolve. Account is the proven identity of the attempt or look-up.
	Object, Account string
	Credential      string // Sign: Operation.Credential from now on
	// Taken says that Object proves another operation. A store sets Taken.
	Taken bool
	// Sole says that no other operation of the provider has, or ever had, Reference. Evidence. A store sets Sole.
	Sole bool

	Evidence *journal.Evidence // Evidence; its Answer is Event.Answer
	Absence  *Absence          // Evidence of FindingAbsent
	// Others is for Evidence from a process that cannot look for the operation, while others may. Attention says why. Left
	// is how long this process leaves the operation to the others. After PendingAttentionAfter in all, Attention counts.
	Others bool
	Left   time.Duration
	// Attention of Evidence that leaves the operation unknown says why no look-up is due any more. Empty means that a
	// look-up is due. Of a Deliver with an Outcome, Attention is the delivered one.
	Attention string
	// LookAfter is the pause before the first look-up of an operation that the event makes unknown. A Claim also makes a
	// look-up by a dead session due so long after the look-up's begin.
	LookAfter time.Duration
	// Asked says that a person or caller asks for a Look. The Look is due early then, but at most once in AskedLook.
	Asked bool
	// Looker is the session that makes the look-up. Empty means that only Due ends the claim. Look, Evidence.
	Looker string
	// GivesBack ends the lease on a Look that no client has made. Due is the lease's end. The next client may look.
	GivesBack bool
	// Looking says that the claiming client looks for unknown operations. Their outcome is then offered only once they
	// need attention. Claim.
	Looking bool
}

// MaxTrace is the length of a version 00 traceparent.
const MaxTrace = 55

// AskedLook is the least interval between look-ups on demand.
const AskedLook = time.Minute

// Today is the present contract for an operation that was begun before.
type Today struct {
	Terms journal.Terms // claims narrow by these, as begins do
	Form  string        // of the key on the wire
}

// Decision tells the caller what to do.
type Decision uint8

const (
	// Ignored means that the event changed nothing and asks for nothing.
	Ignored Decision = iota
	// Execute means that the caller has the claim, and sends the operation.
	Execute
	// Replay means that the caller returns the recorded answer.
	Replay
	// Wait means that another live claim holds the operation.
	Wait
	// Later means that the operation is pending, and not due before Operation.DueAt.
	Later
	// Misuse means that the name or key belongs to another request.
	Misuse
	// Stop means that the operation is unknown, and never sent again unless a person or evidence settles the outcome.
	Stop
	// Gone means that the operation is completed, and the answer was reaped.
	Gone
	// Recorded means that the event took place.
	Recorded
	// Stale means that the claim is no longer the current one. Nothing was changed.
	Stale
	// SecondEffect means that the answer proves an effect beside the recorded one.
	SecondEffect
	// Offer means that the caller has an undelivered outcome to deliver.
	Offer
	// Look means that the caller has the look-up until Operation.LookAt.
	Look
	// Withdrawn means that an operator withdrew the operation. Client.Reinstate ends the withdrawal.
	Withdrawn
	// Contradicted means that the evidence contradicts the record, which stands. The evidence is kept, and
	// Operation.Attention says what a person has to look at.
	Contradicted
	// Weighed means that the event, or the death of the session, ended the claim, and earlier evidence decided. The
	// operation is completed or unknown.
	Weighed
)

var decisionNames = [...]string{"ignored", "execute", "replay", "wait", "later", "misuse", "stop", "gone",
	"recorded", "stale", "second_effect", "offer", "look", "withdrawn", "contradicted", "weighed"}

func (d Decision) String() string { return words.Of("Decision", decisionNames[:], d) }
