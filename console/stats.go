package console

import (
	"time"

	"github.com/onceward/onceward/journal"
)

// completed are those that are in no other state, reaped ones included.
func completed(s *journal.Stats) int64 {
	return s.Begun - s.Pending - s.InFlight - s.Unknown - s.Cancelled
}

// unconfirmed is when a clock will be believed that says now, in a journal whose latest time is last:
// one that nobody has looked at for so long takes it for a jump. The zero time: it is believed.
func unconfirmed(last, now time.Time) time.Time {
	if !last.IsZero() && now.Sub(last) > journal.Leap {
		return now.Add(journal.Confirmation)
	}
	return time.Time{}
}
