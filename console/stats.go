package console

import (
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// completed returns how many operations are in no other state, including reaped ones.
func completed(s *journal.Stats) int64 {
	return s.Begun - s.Pending - s.InFlight - s.Unknown - s.Cancelled
}

// unconfirmed returns when a clock that shows now will be believed, in a journal whose latest time is last. If no
// process has used the journal for long, it takes now for a jump. Zero means that the clock is believed.
func unconfirmed(last, now time.Time) time.Time {
	if !last.IsZero() && now.Sub(last) > machine.Leap {
		return now.Add(machine.Confirmation)
	}
	return time.Time{}
}
