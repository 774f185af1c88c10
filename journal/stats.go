package journal

import (
	"context"
	"time"
)

// StatsReader is a Journal with Stats, over all processes with this journal. This module's stores implement this
// optional interface.
type StatsReader interface {
	// ReadStats returns the Stats. ReadStats does not read operations with an answer, and does not wait for writers.
	ReadStats(ctx context.Context) (Stats, error)
}

// Stats is a journal's state, over all processes with this journal. A time is zero if the time's count is zero.
type Stats struct {
	// Operations by state. Begun counts all operations ever begun. Operations in no listed state are completed or
	// reaped. To tell these apart, ReadStats would have to read everything.
	Pending, InFlight, Unknown, Cancelled int64
	Begun                                 int64

	Due           int64     // the Pending operations which Run and Resume are to send by now
	OldestPending time.Time // when the oldest pending operation was begun
	OldestUnknown time.Time // since when the longest unknown operation is unknown

	// Undelivered counts the operations with an undelivered outcome (Operation.Undelivered). OldestUndelivered is when
	// the first such operation got an outcome.
	Undelivered       int64
	OldestUndelivered time.Time

	// NeedsAttention counts operations and flows by Operation.NeedsAttention and Flow.NeedsAttention.
	NeedsAttention int64

	// Flows by state. FlowsBegun counts all flows ever begun.
	FlowsRunning, FlowsWaiting, FlowsSetAside int64
	FlowsBegun                                int64
	OldestSetAside                            time.Time // since when the first flow is set aside

	Sessions int64     // begun and not ended; a dead process's session counts until another process notices
	Last     time.Time // the journal's latest time, to within an hour

	// FileBytes is the file's size, or the tables'. WALBytes is the size of the file with the latest commits. Zero
	// means that the store has no such file.
	FileBytes, WALBytes int64

	// Restored says why nothing is sent until the journal is adopted (ErrRestored). Empty: the store has detected no gap.
	Restored string
}
