package machine

import (
	"context"
	"time"

	"github.com/onceward/onceward/journal"
)

// Store is a journal that a client can use. Implementations are safe for concurrent use by goroutines, and by processes
// if they say so.
//
// This interface does not grow. A store's further abilities are methods on its own type, or optional interfaces.
type Store interface {
	journal.Journal

	// Apply runs Next on the operation that ev names and commits the result. It returns once the commit is durable. The
	// exception is EventDeliver, which rides on the next commit or on the session's end.
	//
	// The store sets ev.Last. It finds the operation by ev.Handle, or by ev.Ref if the handle is zero. If ev.New is set,
	// the store may skip the look-up. After an error the caller must assume that nothing is recorded. The commit may have
	// landed all the same if ctx ended or the store failed in the middle. If ctx ended, the store may still read the maps,
	// the slices and the functions of ev. If Next refuses an event, Apply returns its *EventError and changes nothing.
	//
	// EventBegin and EventClaim need a live session of this store. Otherwise Apply returns ErrSessionLost. Apply accepts
	// the other events from a lost session too, since a late final answer must not be lost.
	//
	// A store that detects a restore or a copy returns ErrRestored until an Adopt. It refuses the events that send,
	// decide or forget by the record: Join, EventBegin, EventEnqueue, EventClaim, EventResolve, EventReap, EventLook,
	// EventHint and EventEvidence. It accepts answers and other ends of a claim, and reads.
	Apply(ctx context.Context, ev Event) (Result, error)

	// Claim applies ev, of kind EventClaim and without Ref, to at most limit operations that are claimable at ev.At. It
	// makes one commit, or several if it passes over many operations. Operations created first come first. Claimable
	// are pending operations to be woken (by ev.Due, if set), operations in flight with a dead session, undelivered
	// outcomes that no session holds, and look-ups by a dead session. Claim skips operations that ev.From and ev.Today exclude. In a store for many
	// processes, Claim also skips operations that another process has locked. The results are whole, with bodies. Fewer
	// than limit results mean that there were no more, or a later commit failed.
	Claim(ctx context.Context, ev Event, limit int) ([]Result, error)

	// Reap applies ev, of kind EventReap and without Ref, to at most limit operations. It returns the number of shrunk and
	// removed operations. It passes over damaged operations, and returns the error too if fewer than limit changed.
	Reap(ctx context.Context, ev Event, limit int) (int, error)

	// Join starts a session. The session lives until its End, or until the process dies.
	Join(ctx context.Context) (Session, error)
}

// Session is a running client in the journal. The methods are safe for concurrent use.
type Session interface {
	// ID is random and never used again.
	ID() string
	// Lost reports whether another process took the session over. A lost session never revives. Lost does no I/O.
	Lost() bool
	// End ends the session. Operations still held count as left by a dead process. A second End is harmless.
	End(ctx context.Context) error
}

// Result is an event's result.
type Result struct {
	// Operation is the operation after the event. With Execute, Replay, Offer, Stop, Look, Weighed or SecondEffect, the
	// request and answer have their bodies. Otherwise bodies may be missing. The whole request may be missing from a
	// Recorded, whose caller has the request, and from the Execute of a Begin with a request.
	Operation journal.Operation
	Decision  Decision
	Last      time.Time // the latest time that the journal has seen

	// Unconfirmed is when the caller's clock will be believed after a jump. Zero means believed.
	Unconfirmed time.Time
}

// ClockResetter is a Journal whose latest time can be set back, after the journal believed a clock that ran ahead.
type ClockResetter interface {
	// ResetClock sets the journal's latest time to now. The caller asserts that now is right. Operations whose first
	// send was dated by a clock ahead of now are no longer resent by their window. All other windows stay. ResetClock waits
	// until all operations were corrected. After ctx ends, the time may be set, and other calls correct the rest.
	ResetClock(ctx context.Context, now time.Time) error
}

// Clock is a Journal for many machines with a clock. It is optional. Clients of such a Journal stamp events (Event.At)
// by the Journal's clock and not by their machine's.
type Clock interface {
	// Now returns the time for all the journal's clients. Within a process, the time never goes back. Now does no I/O,
	// and is safe for concurrent use.
	Now() time.Time
}

// Expirer is a Journal whose sessions expire unless they are renewed. It is optional.
type Expirer interface {
	// AwaitExpired waits for other processes' sessions with operations or flows, if the sessions' leases are over.
	// Each of them then ends, or its process renews it. The wait has a limit of its own. Claim finds the operations of
	// the ended sessions.
	AwaitExpired(ctx context.Context) error
}
