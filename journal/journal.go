package journal

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Journal is a store of operations. Implementations are safe for concurrent use
// by goroutines and, where they say so, by processes.
//
// This interface does not grow. Further abilities of a store are methods of its
// own type, or optional interfaces.
type Journal interface {
	// Apply runs Next on the operation that ev names and commits what comes of it.
	// It returns once the commit is durable, except for EventDeliver, which rides
	// on the next commit or on the session's end.
	//
	// The store sets ev.Last. It finds the operation by ev.Handle, if that is not
	// zero, and by ev.Ref otherwise; where ev.New is set it may skip the look-up.
	// An error means that nothing is known to be recorded: the commit may have
	// landed all the same if ctx ended or the store failed in the middle. An event
	// that Next refuses is reported by its *EventError and changes nothing.
	//
	// EventBegin and EventClaim need a live session of this store's, else
	// ErrSessionLost. The other events are accepted from a lost session too, since
	// a late final answer must not be lost.
	//
	// A store that can tell that it was restored or copied refuses, with ErrRestored
	// and until it is adopted, what sends, decides or forgets by the record: Join,
	// EventBegin, EventEnqueue, EventClaim, EventResolve, EventReap, EventLook, EventHint and EventEvidence.
	// An answer, and what else a claim led to, is accepted, and so is reading.
	Apply(ctx context.Context, ev Event) (Result, error)

	// Get returns the whole operation, bodies included, or ErrNotFound.
	Get(ctx context.Context, ref Ref) (Operation, error)

	// List yields operations without request and answer bodies. It reads in pages,
	// so that a slow reader pins nothing; an operation that changes meanwhile may
	// be seen before or after its change, once. After an error it ends.
	List(ctx context.Context, filter Filter) iter.Seq2[Operation, error]

	// Claim applies ev, of kind EventClaim and without Ref, to at most limit
	// operations that want one at ev.At, those created first coming first, in one
	// commit, passing over those that ev.From and ev.Today leave out: pending ones that are to be woken, by ev.Due if that is set, those in
	// flight whose session is dead, and outcomes that are undelivered and in nobody's hands. The results
	// are whole, bodies included. Fewer than limit results mean that there was none more
	// which wanted one, and which nobody else had locked at that moment: a store that many
	// processes share passes over those.
	Claim(ctx context.Context, ev Event, limit int) ([]Result, error)

	// Reap applies ev, of kind EventReap and without Ref, to at most limit
	// operations and says how many were shrunk or removed.
	Reap(ctx context.Context, ev Event, limit int) (int, error)

	// Join starts a session, which lives until it is ended or its process dies.
	Join(ctx context.Context) (Session, error)

	// Close saves what was to be saved with a later commit, and releases the store. End
	// the sessions first: one that is not ended counts as died. Later calls of any method
	// return ErrClosed.
	Close() error
}

// ClockResetter is a Journal whose latest time can be set back, after a clock that ran
// ahead for so long that it was believed.
type ClockResetter interface {
	// ResetClock has now be the latest time that the journal has seen. Whoever calls it
	// asserts that it is right. What was first sent later than that, by a clock that ran
	// ahead, is not resent by its window any more; the windows of everything else are
	// what they were.
	ResetClock(ctx context.Context, now time.Time) error
}

// Session is one running process, or one client of several in it, as the journal
// sees it. Its methods are safe for concurrent use.
type Session interface {
	// ID is random and never used again.
	ID() string
	// Lost reports whether the session was seen taken over by another; it never
	// revives. It does no I/O.
	Lost() bool
	// End ends the session: what it still holds counts as left by a dead one.
	// Ending it twice is harmless.
	End(ctx context.Context) error
}

// Result is what became of an event.
type Result struct {
	// Operation stands as after the event. Its request and answer bodies are there
	// where Decision is Execute, Replay, Offer, Stop, Look, Weighed or SecondEffect; else they may
	// be missing. The request may be missing whole from a Recorded, whose asker has it
	// already, and from an Execute in answer to a Begin if the asker sent it along.
	Operation Operation
	Decision  Decision
	Last      time.Time // the latest time that the journal has seen

	// Unconfirmed is when the asker's clock, which has jumped, will be believed; the
	// zero time where it is.
	Unconfirmed time.Time
}

// Filter selects operations for List. The zero Filter selects all, tombstones
// included, those created first coming first.
type Filter struct {
	States      []State
	Scope       *string
	Provider    string
	Naming      *Naming
	WakeBefore  time.Time // pending ones to be woken before this
	Undelivered bool      // outcomes that are not delivered, those of unknown operations that are looked for too
	ByWake      bool      // pending ones by WakeAt, soonest first; implies States{StatePending}
	Limit       int       // 0: no limit

	// NeedsAttention selects the operations that need attention at this time (Operation.NeedsAttention). Zero selects
	// all.
	NeedsAttention time.Time

	// After and Before are bounds of the Handle, both exclusive; 0: none. Newest has those
	// created last come first, but for ByWake. So the next page begins Before the last handle
	// of this one, and costs what it yields, however many operations there are. One operation is
	// found by its handle with After one less and Limit 1.
	After, Before int64
	Newest        bool

	// CreatedFrom and CreatedBefore are bounds of CreatedAt; zero: none. A Journal need not
	// read what was created before or after the two, so that a short span of a long history is
	// listed in the time that the span takes. It goes by the order of creation: one that a clock
	// created which stood ClockSpread apart from those of others may be left out.
	CreatedFrom, CreatedBefore time.Time
}

// ClockSpread is how far apart the clocks of those who share a journal may stand without a List
// by time of creation leaving anything out.
const ClockSpread = time.Hour

var (
	// ErrNotFound: the journal has no such operation.
	ErrNotFound = errors.New("journal: no such operation")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("journal: closed")
	// ErrSessionLost: the session was ended or taken over; start another.
	ErrSessionLost = errors.New("journal: the session is no longer alive")
	// ErrVersion: a newer release wrote this journal, upgrade to read it; or an older one
	// did, and it is not to be migrated.
	ErrVersion = errors.New("journal: written by a newer version")
	// ErrRestored: the journal was copied, or restored from a backup, and may have
	// a gap. Nothing is sent until it is adopted.
	ErrRestored = errors.New("journal: restored or copied")
)
