package journal

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Journal is a store of operations. Implementations are safe for concurrent use by goroutines, and by processes if
// they say so.
//
// This interface does not grow. Further abilities of a store are methods of its own type, or optional interfaces.
type Journal interface {
	// Apply runs Next on the operation that ev names and commits the result. It returns once the commit is durable.
	// The exception is EventDeliver, which rides on the next commit or on the session's end.
	//
	// The store sets ev.Last. It finds the operation by ev.Handle if that is not zero, and otherwise by ev.Ref. If
	// ev.New is set it may skip the look-up. After an error the caller must assume that nothing is recorded. The
	// commit may have landed all the same if ctx ended or the store failed in the middle. If ctx ended, the store may
	// still read the maps, the slices and the functions of ev. If Next refuses an event, Apply returns its *EventError
	// and changes nothing.
	//
	// EventBegin and EventClaim need a live session of this store, or Apply returns ErrSessionLost. Apply accepts the
	// other events from a lost session too, since a late final answer must not be lost.
	//
	// If a store detects that it was restored or copied, it returns ErrRestored until it is adopted. It refuses the
	// events that send, decide or forget by the record: Join, EventBegin, EventEnqueue, EventClaim, EventResolve,
	// EventReap, EventLook, EventHint and EventEvidence. It accepts answers and other ends of a claim, and it can be
	// read.
	Apply(ctx context.Context, ev Event) (Result, error)

	// Get returns the whole operation, with bodies, or ErrNotFound.
	Get(ctx context.Context, ref Ref) (Operation, error)

	// List yields operations without request and answer bodies. It reads in pages, so a slow reader pins nothing. It
	// yields an operation that changes meanwhile once, as before or after the change. It passes over damaged ones, and
	// yields the error of one at the end. It ends after an error.
	List(ctx context.Context, filter Filter) iter.Seq2[Operation, error]

	// Claim applies ev, of kind EventClaim and without Ref, to at most limit operations that are claimable at ev.At. It
	// makes one commit, or several if it passes over many operations. Operations created first come first. Claimable are pending operations to be woken (by ev.Due
	// if that is set), operations in flight whose session is dead, and undelivered outcomes that no session holds.
	// Claim skips operations that ev.From and ev.Today exclude, and, in a store for many processes, operations that
	// another process has locked. The results are whole, with bodies. Fewer than limit results mean that no more were
	// claimable, or that a later commit failed.
	Claim(ctx context.Context, ev Event, limit int) ([]Result, error)

	// Reap applies ev, of kind EventReap and without Ref, to at most limit operations. It returns how many were shrunk
	// or removed. It passes over damaged ones, and returns their error too if those are fewer than limit.
	Reap(ctx context.Context, ev Event, limit int) (int, error)

	// Join starts a session. It lives until it is ended or its process dies.
	Join(ctx context.Context) (Session, error)

	// Close saves what waits for a later commit, and releases the store. End the sessions first: an open one counts as
	// dead. Later calls of any method return ErrClosed.
	Close() error
}

// Filter selects operations for List. The zero Filter selects all, tombstones included, those created first coming
// first.
type Filter struct {
	States      []State
	Scope       *string
	Provider    string
	WakeBefore  time.Time // pending operations to be woken before this
	WakeAfter   time.Time // pending operations to be woken after this; ByWake begins there
	Undelivered bool      // outcomes that are not delivered, also of unknown operations that are looked for
	ByWake      bool      // pending operations without Attention by WakeAt, soonest first; implies States{StatePending}
	Limit       int       // zero means no limit

	// NeedsAttention selects the operations that need attention at this time (Operation.NeedsAttention). Zero selects
	// all.
	NeedsAttention time.Time

	// After and Before are exclusive bounds of the Handle. Zero means none. Newest puts operations created last first,
	// except with ByWake. The next page then begins Before the last handle of this one. A page costs as much as it
	// yields. To find one operation by its handle, set After to one less and Limit to 1.
	After, Before int64
	Newest        bool
}

var (
	// ErrNotFound means that the journal has no such operation.
	ErrNotFound = errors.New("journal: no such operation")
	// ErrClosed means that the journal was closed.
	ErrClosed = errors.New("journal: closed")
	// ErrSessionLost means that the session was ended or taken over. Start another.
	ErrSessionLost = errors.New("journal: the session is no longer alive")
	// ErrVersion means that a newer release wrote this journal, so upgrade, or that an older one did and migration is
	// off.
	ErrVersion = errors.New("journal: written by a newer version")
	// ErrRestored means that the journal was copied, or restored from a backup, and may have a gap. Nothing is sent
	// until it is adopted.
	ErrRestored = errors.New("journal: restored or copied")
)

// ErrInvalidEvent is in the chain of the error of an event that is incomplete, or that can't happen to an operation in
// its state.
var ErrInvalidEvent = errors.New("journal: invalid event")
