package journal

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Journal is a store for operations: journal/sqlite, journal/postgres, journal/mysql or journal/memory. A Journal is safe for
// concurrent use by goroutines, and by processes if the store's package says so.
//
// A client records operations by further methods of this module's stores. New refuses a Journal without these methods.
type Journal interface {
	// Get returns the whole operation, with bodies, or ErrNotFound. If a key is missing, Get returns the other fields with
	// ErrSealed.
	Get(ctx context.Context, ref Ref) (Operation, error)

	// List yields operations without request and answer bodies. List reads in pages, so a slow reader pins nothing. If
	// an operation changes meanwhile, List yields the operation once, as before or after the change. List passes over
	// damaged operations, and yields one such error at the end. List ends after an error.
	List(ctx context.Context, filter Filter) iter.Seq2[Operation, error]

	// Close saves writes which wait for a later commit, and releases the store. End the sessions first: an open session
	// counts as dead. Later calls of any method return ErrClosed.
	Close() error
}

// Filter selects operations for List. The zero Filter selects all, tombstones included, oldest first.
type Filter struct {
	States      []State
	Scope       *string
	Provider    string
	WakeBefore  time.Time // pending operations to be woken before this
	WakeAfter   time.Time // pending operations to be woken after this; ByWake begins there
	Undelivered bool      // undelivered outcomes, also of unknown operations while clients look
	ByWake      bool      // pending operations without Attention by WakeAt, soonest first; implies States{StatePending}
	Limit       int       // zero means no limit

	// NeedsAttention selects the operations that need attention at the given time (Operation.NeedsAttention). Zero
	// selects all.
	NeedsAttention time.Time

	// After and Before are exclusive bounds of the Handle. Zero means none. Newest puts operations created last first,
	// except with ByWake. The next page then begins Before the last handle of this one. A page costs as much as the
	// page yields. To find one operation by handle, set After to one less and Limit to 1.
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
	// ErrVersion means: a newer release wrote this journal, so upgrade. Or an older release wrote this journal, and
	// migration is off.
	ErrVersion = errors.New("journal: written by a newer version")
	// ErrRestored means that the journal was copied, or restored from a backup, and may have a gap. Nothing is sent
	// until the journal is adopted.
	ErrRestored = errors.New("journal: restored or copied")
	// ErrSealed means that the process lacks a key of the journal. The error names the key. Nothing is sent, and
	// nothing is lost: a process with the key goes on.
	ErrSealed = errors.New("journal: sealed, and this process lacks the key")
)

// ErrInvalidEvent is in the error's chain if an event is incomplete, or can't happen to an operation in this state.
var ErrInvalidEvent = errors.New("journal: invalid event")
