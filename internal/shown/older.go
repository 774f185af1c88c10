package shown

import (
	"context"
	"time"

	"github.com/onceward/onceward/journal"
)

// sought is the number of handles that are left to be looked through one by one.
const sought = 512

// Before returns a handle that comes after all operations created before at, and few others: about as many as sought.
// It goes by the order of creation, and bisects.
func Before(ctx context.Context, j journal.Journal, at time.Time) (handle int64, err error) {
	first, err := next(ctx, j, journal.Filter{Limit: 1})
	if err != nil || first.Handle == 0 {
		return 1, err
	}
	last, err := next(ctx, j, journal.Filter{Newest: true, Limit: 1})
	if err != nil {
		return 1, err
	}
	low, high := first.Handle, last.Handle+1
	for high-low > sought {
		middle := low + (high-low)/2
		op, err := next(ctx, j, journal.Filter{After: middle - 1, Before: high, Limit: 1})
		if err != nil {
			return 1, err
		}
		if op.Handle == 0 || !op.CreatedAt.Before(at) {
			high = middle
		} else {
			low = op.Handle
		}
	}
	return high, nil
}

// next returns the first selected operation. If there is none, its handle is 0.
func next(ctx context.Context, j journal.Journal, filter journal.Filter) (op journal.Operation, err error) {
	for op, err := range j.List(ctx, filter) {
		return op, err
	}
	return op, nil
}
