package journal

import (
	"context"
	"time"
)

// StatsReader is a Journal that can report its Stats, for all processes that share it. It is optional. This module's
// stores have it.
type StatsReader interface {
	// ReadStats returns the Stats. It does not read operations with an answer, and does not wait for writers.
	ReadStats(ctx context.Context) (Stats, error)
}

// Stats is the state of a journal, over all processes that share it. A time is zero if its count is zero.
type Stats struct {
	// Operations by their state. Begun counts all that were ever begun. Those in none of the states are completed or
	// reaped. To tell these apart, ReadStats would have to read everything.
	Pending, InFlight, Unknown, Cancelled int64
	Begun                                 int64

	Due           int64     // of Pending, those that Run and Resume are to send by now
	OldestPending time.Time // when the oldest pending operation was begun
	OldestUnknown time.Time // since when the operation that is unknown longest is unknown

	// Undelivered counts the operations with an outcome that is still to be delivered (Operation.Undelivered).
	// OldestUndelivered is when the first of them got its outcome.
	Undelivered       int64
	OldestUndelivered time.Time

	// NeedsAttention counts the operations and flows that need attention (Operation.NeedsAttention, Flow.NeedsAttention).
	NeedsAttention int64

	// Flows by their state. FlowsBegun counts all that were ever begun.
	FlowsRunning, FlowsWaiting, FlowsSetAside int64
	FlowsBegun                                int64
	OldestSetAside                            time.Time // since when the flow that is set aside longest is set aside

	Sessions int64     // begun and not ended; one whose process died counts until another process notices
	Last     time.Time // the latest time that the journal has seen, to within an hour

	// FileBytes is the size of the file, or of the tables. WALBytes is the size of the file with its latest commits.
	// Zero means that the store has none.
	FileBytes, WALBytes int64

	// Restored says why nothing is sent until the journal is adopted (ErrRestored). Empty means that the store has
	// detected no gap.
	Restored string
}
