package journal

import (
	"context"
	"time"
)

// StatsReader is what a Journal does besides that can tell how it does, for all processes that
// share it. It is optional; the stores of this module do.
type StatsReader interface {
	// ReadStats tells how the journal does. It reads what has no answer, and not what has one,
	// nor waits for those who write.
	ReadStats(ctx context.Context) (Stats, error)
}

// Stats is how a journal does, over all processes that share it. Zero times are of what there
// is none of.
type Stats struct {
	// Operations by their state. Begun counts all that were ever begun: what is in none of the
	// states is completed, or was reaped. To tell these apart, everything would have to be read.
	Pending, InFlight, Unknown, Cancelled int64
	Begun                                 int64

	Due           int64     // of Pending: that Run and Resume are to send by now
	OldestPending time.Time // when the pending operation that was begun first was begun
	OldestUnknown time.Time // since when the unknown operation is unknown that is so longest

	// Undelivered counts the operations with an outcome that is still to be delivered (Operation.Undelivered).
	// OldestUndelivered is when the first of them got it.
	Undelivered       int64
	OldestUndelivered time.Time

	// NeedsAttention counts the operations and flows that need attention (Operation.NeedsAttention, Flow.NeedsAttention).
	NeedsAttention int64

	// Flows by their state, FlowsBegun counting all that were ever begun.
	FlowsRunning, FlowsWaiting, FlowsSetAside int64
	FlowsBegun                                int64
	OldestSetAside                            time.Time // since when the flow is set aside that is so longest

	Sessions int64     // begun and not ended; one whose process died counts until another process notices
	Last     time.Time // the latest time that the journal has seen, to within an hour

	// FileBytes is the size of the file, or of the tables, and WALBytes that of the file that its
	// latest commits are in; 0 where the store has none.
	FileBytes, WALBytes int64

	// Restored says why nothing is sent until the journal is adopted (ErrRestored); "": it is
	// whole, as far as can be told.
	Restored string
}
