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
	// session's Begin at the very time At may have got: one whose commit failed never
	// learned its number.
	EventCancel
	// EventResolve: somebody says what became of an operation. Needs Resolution.
	EventResolve
	// EventDeliver: its outcome reached somebody.
	EventDeliver
	// EventReap: shrink or remove it, if its keep has passed. Needs Keep.
	EventReap
	// EventClock: the clock was seen to stand behind the journal's last time.
	EventClock
	// EventAdopt: the journal was restored or copied, and is to go on from here. What
	// became of the operation after the copy was made is not in it, so that without
	// an answer it counts as sent, from its creation until now.
	EventAdopt
)

var eventNames = [...]string{"", "begin", "claim", "complete", "park", "doubt", "cancel", "resolve", "deliver", "reap", "clock", "adopt"}

func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", k)
}

// Resolution is what somebody asserts of an operation without an answer.
type Resolution uint8

const (
	// Executed: it took effect; Event.Answer, if any, is recorded as its answer.
	Executed Resolution = iota + 1
	// NotExecuted: it had no effect. It is cancelled; its name may be asked again.
	NotExecuted
	// SendAgain: it had no effect, and its next generation is due at once.
	SendAgain
)

// Intent is what a Begin wants to have recorded.
type Intent struct {
	Naming      Naming
	Provider    string
	Endpoint    string
	Fingerprint string
	Terms       Terms
	Request     Request
	Credential  string

	// Key is the key of a first generation, "" where the endpoint takes none.
	// NextKey makes the key of the given later generation; nil keeps Key.
	Key        string
	KeyCarried bool
	NextKey    func(generation int) string
}

// Event is one input of the state machine.
type Event struct {
	Kind   EventKind
	Ref    Ref
	Handle int64 // Operation.Handle where it is known: spares the look-up by Ref

	At      time.Time // the asker's clock
	Last    time.Time // the latest time the journal has seen: set by the store
	Session string    // who asks

	// New says that Ref was generated just now, so that no look-up is needed to
	// know that the journal has no such operation. Begin.
	New    bool
	Intent *Intent // Begin

	Claim      int64 // the claim that the event is made under
	Generation int   // Complete: the generation that was sent; Deliver: the one delivered
	Outcome    State // Deliver: the outcome that was delivered; Absent: whichever it is
	Answer     *Answer

	// Due of a Park or Cancel: not to be sent before this; zero: at once. Of a
	// Claim: pending operations that are woken later than this are left alone; zero:
	// At.
	Due      time.Time
	Cause    string // Park, Doubt, Cancel: why, without secrets
	Attempts int    // on the wire, made under this claim

	// Open says that an attempt of this claim may have run, or that an answer
	// proved an earlier one. Unsent says that no attempt of it left this machine.
	// Park, Cancel.
	Open, Unsent bool
	Busy         bool // Park: the last answer was "in flight"

	// Told says that a caller learns of this failure: from then on an unnamed
	// operation is not sent in the background. Park, Doubt, Cancel.
	Told bool
	// Delivered says that an outcome which the event leads to needs no delivery,
	// since nobody waits for one (there is no OnSettled).
	Delivered bool

	NamedOnly  bool          // Claim: unnamed operations are not sent
	Resolution Resolution    // Resolve
	Key        string        // Resolve, SendAgain: the next generation's key
	Keep       time.Duration // Reap
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
)

var decisionNames = [...]string{"ignored", "execute", "replay", "wait", "later", "misuse", "stop", "gone",
	"recorded", "stale", "second_effect", "offer"}

func (d Decision) String() string {
	if int(d) < len(decisionNames) {
		return decisionNames[d]
	}
	return fmt.Sprintf("Decision(%d)", d)
}
