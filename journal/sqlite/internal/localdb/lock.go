package localdb

import (
	"context"
	"time"
)

// Lock is held by the application's transaction that has the file through a handle of the process. A waiting caller
// wakes at the transaction's end. conn.InTurn would look again after some time, mostly a millisecond. Only SQLite's
// lock decides.
type Lock chan struct{}

// Take waits for the lock, and reports false if ctx or timeout ended first.
func (l Lock) Take(ctx context.Context, timeout time.Duration) bool {
	select {
	case l <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case l <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// GiveBack lets the next one take the lock.
func (l Lock) GiveBack() { <-l }
