package journal

import (
	"fmt"
	"time"
)

// EventKind says what happened to an operation, or what is asked of it.
type EventKind uint8

const (
	// EventBegin: a caller asks for the operation. Needs Intent and Session.
	EventBegin EventKind = iota + 1
	// EventClaim: Resume or Run asks for it. Needs Session.
	EventClaim
	// EventComplete: a final answer came. Needs Claim, Generation and Answer.
	EventComplete
	// EventPark: the claim is given up, to be sent again at Due. Needs Claim.
	EventPark
	// EventDoubt: the claim is given up; it may have run and resending can't tell.
	// Needs Claim.
	EventDoubt
	// EventCancel: the claim is given up and the operation with it; parked or in
	// doubt instead, if something may have run. Claim 0 stands for the claim that the
	// session's Begin or Claim with this Asker may have got: one whose commit failed never
	// learned its number. What that found pending, or in flight, is left pending.
	EventCancel
	// EventResolve: somebody says what became of an operation. Needs Resolution, and
	// the Generation that was looked at; but for Executed, the Claim too. One that has
	// moved since is left alone (Stale).
	EventResolve
	// EventDeliver: its outcome reached somebody.
	EventDeliver
	// EventReap: shrink or remove it, if its keep has passed. Needs Keep.
	EventReap
	// EventClock: the clock was seen to stand behind the journal's last time; or it came
	// back from a jump ahead, or is not as far ahead as it was; or such a jump is confirmed
	// (Since).
	EventClock
	// EventAdopt: the journal was restored or copied, and is to go on from here. What
	// became of the operation after the copy was made is not in it, so that without
	// an answer it counts as sent, from its creation until now.
	EventAdopt
	// EventLook: somebody wants to find out what became of an unknown operation, and is
	// the only one until Due. It needs Due. One that is not due is left alone, unless Asked. Asked, it takes one whose
	// answer was cut off too.
	EventLook
	// EventHint: something that proves nothing, an unsigned event for instance, says that
	// a look may be worth while now: an unknown operation is due for one, dead or not.
	EventHint
	// EventEvidence: a look or an event told what became of a generation. Needs Evidence,
	// Generation, the Claim that the operation had when the look began and, for what took
	// effect, Object.
	EventEvidence
	// EventEnqueue: a caller records the operation to be sent later, at Due or now, by whoever
	// claims it then. Needs Intent, and no session. What stands already is left as it is
	// (Ignored), but what was cancelled is pending again.
	EventEnqueue
)

var eventNames = [...]string{"", "begin", "claim", "complete", "park", "doubt", "cancel", "resolve", "deliver", "reap", "clock", "adopt",
	"look", "hint", "evidence", "enqueue"}

func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", k)
}

// Resolution is what somebody asserts of an operation without an answer.
type Resolution uint8

const (
	// Executed: it took effect, though it be cancelled; Event.Answer, if any, is recorded as its answer. Of one
	// that is completed, it supplies an answer that was not kept or was cut off; with
	// Event.Unrecognised it replaces one that is not the provider's.
	Executed Resolution = iota + 1
	// NotExecuted: it had no effect. It is cancelled; its name may be asked again.
	NotExecuted
	// SendAgain: it had no effect, and its next generation is due at once, whatever NotAfter it had.
	SendAgain
	// Hold: it is not to be sent for the time being, so that somebody can find out what
	// became of it. It is unknown until it is resolved or released. An operation that is
	// unknown already is not held, as nothing sends it.
	Hold
	// Release: it was held, and is as it would be without that: pending, as far as the
	// resend rule allows.
	Release
	// Unwanted: it is not to be sent any more, by anybody, until Wanted lifts that. Where
	// nothing may have run it is cancelled, else unknown, and goes on being looked for.
	Unwanted
	// Wanted lifts Unwanted.
	Wanted
)

var resolutionNames = [...]string{"", "executed", "not_executed", "send_again", "hold", "release", "unwanted", "wanted"}

func (r Resolution) String() string {
	if r > 0 && int(r) < len(resolutionNames) {
		return resolutionNames[r]
	}
	return fmt.Sprintf("Resolution(%d)", r)
}

// Intent is what a Begin wants to have recorded.
type Intent struct {
	Naming      Naming
	Provider    string
	Endpoint    string
	Fingerprint string
	Terms       Terms
	Request     Request
	Credential  string
	Mode        string // of the credential; "" where it can't be told
	Form        string // of the key on the wire

	// BodyWithheld says that Request lacks its body, a secret.
	BodyWithheld bool

	// Alias is the second name of an operation whose caller brings a key along.
	// Where another operation has it, as its Ref or its Alias, the Begin is Misuse.
	Alias Ref

	// FormerAliases are where the journal has an operation with that key which was begun
	// while something else was known of its provider: where one has any of them, as its
	// Ref or its Alias, the Begin is Misuse likewise. They are not recorded.
	FormerAliases []Ref

	// Trace is the traceparent (https://www.w3.org/TR/trace-context/) of whoever asks, at most
	// MaxTrace bytes, of which more are left out; "": none.
	Trace string

	// InboundEndpoint names the endpoint of the inbound request that this operation is a step of. A Begin from another
	// endpoint is Misuse. Empty means that no endpoint is compared.
	InboundEndpoint string

	// Flow is the flow that this operation is a step of; zero: it is of none.
	Flow FlowRef

	// NotAfter is until when it may be sent, where nothing of it may have run; zero: at any
	// time. It counts where the operation is made, or taken up after it was cancelled. A
	// Begin that comes later than that is invalid.
	NotAfter time.Time

	// Account is the identity behind the credential that the request will be sent with; "" while that
	// is not proven.
	Account string

	// Reference is what the object can be recognised by that this request creates, "" for
	// nothing. ReferenceName is the place and name of its field. If ReferenceOurs is set,
	// the client makes it and puts it into the request at the attempt. Otherwise the
	// caller's request has it.
	Reference, ReferenceName string
	ReferenceOurs            bool
	// NextReference makes the reference of an operation with that key in the given generation, if ReferenceOurs is set.
	// nil keeps Reference.
	NextReference func(key string, generation int) string
	// Compare are the parts of the request that such an object has to agree with, kept
	// where the body is not.
	Compare []Field

	// Patience is how long after the last attempt a caller who asks may go ahead of a
	// pause of our own making, where nothing may have run; 0: never.
	Patience time.Duration

	// Same reports whether a recorded fingerprint is of this request, where that is
	// more than having the same text. It is called inside a commit: it looks at
	// nothing else and returns at once. nil: it has the same text.
	Same func(fingerprint string) bool

	// Key is the key of a first generation, "" where the endpoint takes none.
	// NextKey makes the key of the given later generation; nil keeps Key. It makes that
	// of generation 0 too where Key was carried and the operation does not have Alias,
	// since it was begun when its endpoint took no key.
	Key        string
	KeyCarried bool
	NextKey    func(generation int) string
}

// Aliases are where another operation makes Misuse of a Begin: Alias and FormerAliases;
// none where there is no Alias. A store looks there if it does not have the operation
// itself, and returns the first that it finds.
func (in *Intent) Aliases() []Ref {
	if in.Alias == (Ref{}) {
		return nil
	}
	return append([]Ref{in.Alias}, in.FormerAliases...)
}

// Rivals are the names under which another operation may have the key that op is begun with, as the journal has
// op: where it does not have it, or where its last life was cancelled and it is begun again with the key that it
// came with. Its own second name may be one of them, and whoever did not know its provider has another one.
func (in *Intent) Rivals(op *Operation) []Ref {
	again := op.State == StateCancelled && op.KeyCarried && in.KeyCarried && op.Key == in.Key && in.same(op.Fingerprint) && !op.ByHand
	if op.State == StateAbsent || again {
		return in.Aliases()
	}
	return nil
}

// YieldsTo tells whether op is not begun since holder has one of those names: where that one is cancelled itself, whichever
// begins again first has the key.
func (op *Operation) YieldsTo(holder *Operation) bool {
	return holder.Handle != op.Handle && (op.State == StateAbsent || holder.State != StateCancelled)
}

// Event is one input of the state machine.
type Event struct {
	Kind   EventKind
	Ref    Ref
	Handle int64 // Operation.Handle where it is known: spares the look-up by Ref

	At      time.Time // the asker's clock
	Last    time.Time // the latest time the journal has seen: set by the store
	Session string    // who asks

	// Unconfirmed is when the clock, which has jumped, will be believed, by itself; the
	// zero time where it is. Set by the store. Until then nothing is resent by window, and
	// only what is over by Last as well is taken to be over.
	Unconfirmed time.Time
	// Since is when the clock jumped ahead, by itself, where that is confirmed now. Clock;
	// Last is the latest time that was seen before. Set by the store.
	Since time.Time

	// Asker is a number that no other Begin or Claim of the session has. Begin, Claim; and
	// Cancel, with Claim 0.
	Asker int64

	// New says that Ref was generated just now, so that no look-up is needed to
	// know that the journal has no such operation. Begin.
	New    bool
	Intent *Intent // Begin

	Claim      int64 // the claim that the event is made under
	Generation int   // Complete: the generation that was sent; Deliver: the one delivered
	Outcome    State // Deliver: the outcome that was delivered; StateAbsent: whichever it is
	Answer     *Answer

	// Due of a Park or Cancel: not to be sent before this; zero: at once. Of a Doubt, or of a
	// Complete by a refusal that does not stand: not to be repeated before this. Of a
	// Claim: pending operations that are woken later than this are left alone; zero:
	// At.
	//
	// Of an Enqueue: not to be sent before this; zero: at once.
	//
	// Of a Look: until when nobody else looks. Of a Hint: not to be looked for before this;
	// zero: at once. Of Evidence: when the next look is due, if
	// the operation stays unknown; zero: as it was.
	Due      time.Time
	DueOwn   bool      // Park, Cancel: Due is a pause of our own making
	Wake     time.Time // Park: Resume and Run leave it alone until then; zero: until Due
	Cause    string    // Park, Doubt, Cancel: why, without secrets
	Attempts int       // on the wire, made under this claim

	// Open says that an attempt of this claim may have run, or that an answer
	// proved an earlier one. Unsent says that no attempt of it left this machine, or
	// that the provider registers no key for the refusals that it got: the window has
	// not begun. Failed says that an attempt of this claim was answered by a failure
	// that may have had an effect. Park, Doubt, Cancel.
	Open, Unsent, Failed bool
	Busy                 bool   // Park: the last answer was "in flight"
	Mode                 string // Complete, Park, Doubt, Cancel: of the credential that was sent; "" where it can't be told

	// Told says that a caller learns of this failure: from then on an unnamed
	// operation is not sent in the background. Park, Doubt, Cancel.
	Told bool
	// Delivered says that an outcome which the event leads to needs no delivery,
	// since nobody waits for one (there is no OnSettled).
	Delivered bool

	// NamedOnly says that a Claim sends no unnamed operations. What a dead session held
	// is unknown, then; one that is pending is left to others as long as these may send it.
	NamedOnly bool

	// From are the providers whose operations a Claim sends, "" standing for those
	// that were begun under none; nil: all. Others, pending or left by the dead, are
	// passed over. Outcomes are offered whatever their provider.
	From []string
	// Today, of a Claim, tells what the contract of an operation, which has its request
	// whole, says by now; false: it is passed over. nil: as it was begun under. It is
	// called inside the store's transaction, and must neither block nor call the store.
	Today func(*Operation) (Today, bool)

	Resolution   Resolution    // Resolve
	By           string        // Resolve: who says so. Cause is why
	Unrecognised bool          // Resolve, Executed: the recorded answer is not the provider's
	Key          string        // Resolve, SendAgain: the next generation's key; Evidence, absent: likewise, "": the same
	Reference    string        // Resolve, SendAgain: the next generation's reference, where it is ours; Evidence: the caller's, that the object shows
	Forced       bool          // Resolve: over evidence that says otherwise
	Keep         time.Duration // Reap

	// Object is kind and id of what the answer or the evidence shows, "" where it shows none; of Resolve, Executed, the
	// candidate that a person takes for the operation's. Complete, Evidence, Resolve. Account is the proven identity that was sent, or looked, as.
	Object, Account string
	// Taken says that another operation is proven by Object. Set by the store.
	Taken bool
	// Sole says that no other operation of the provider has Reference, or ever had it. Evidence. Set by
	// the store.
	Sole bool

	Evidence *Evidence // Evidence; its Answer is Event.Answer
	Absence  *Absence  // Evidence of FindingAbsent
	// Attention says, of Evidence that leaves the operation unknown, why no look is due any more;
	// "": one is. Of Deliver with an Outcome, it is what was delivered with that.
	Attention string
	// LookAfter is how long after an operation became unknown by the event a look is due.
	LookAfter time.Duration
	// Asked: a Look is asked for by somebody, and is due though its time has not come, but
	// once in AskedLook.
	Asked bool
	// GivesBack: a Look was not made after all, and Due is the end of its lease: whoever is next may look.
	GivesBack bool
	// Looking says that whoever claims looks for what is unknown: such an outcome is
	// offered once it is dead. Claim.
	Looking bool
}

// MaxTrace is the length of a traceparent of version 00.
const MaxTrace = 55

// AskedLook is how far looks on demand lie apart, at least.
const AskedLook = time.Minute

// Today is what a provider's table says now of an operation that was begun before.
type Today struct {
	Terms Terms  // claims narrow by these, as begins do
	Form  string // of the key on the wire
}

// Decision is what the asker is to do.
type Decision uint8

const (
	// Ignored: the event changed nothing and asks for nothing.
	Ignored Decision = iota
	// Execute: the claim is the asker's; send it.
	Execute
	// Replay: an answer is recorded; hand it over.
	Replay
	// Wait: another live claim holds it.
	Wait
	// Later: pending, and not due before Operation.DueAt.
	Later
	// Misuse: the ID was used for another request.
	Misuse
	// Stop: unknown; never sent again unless somebody resolves it.
	Stop
	// Gone: completed, and its answer was reaped.
	Gone
	// Recorded: the event took place.
	Recorded
	// Stale: the claim is no longer the current one; nothing was changed.
	Stale
	// SecondEffect: the answer proves an effect beside the recorded one.
	SecondEffect
	// Offer: its outcome is undelivered and now the asker's to deliver.
	Offer
	// Look: the look is the asker's, until Operation.LookAt.
	Look
	// Withdrawn: somebody said that it is not wanted any more. Wanted lifts that.
	Withdrawn
	// Contradicted: the evidence says otherwise than what is recorded, which stands. It is
	// kept, and Operation.Attention says what is to be looked at.
	Contradicted
	// Weighed: the claim of it has ended, by this event or by the death of its session, and
	// what was heard meanwhile decided: it is completed by that, or unknown.
	Weighed
)

var decisionNames = [...]string{"ignored", "execute", "replay", "wait", "later", "misuse", "stop", "gone",
	"recorded", "stale", "second_effect", "offer", "look", "withdrawn", "contradicted", "weighed"}

func (d Decision) String() string {
	if int(d) < len(decisionNames) {
		return decisionNames[d]
	}
	return fmt.Sprintf("Decision(%d)", d)
}
