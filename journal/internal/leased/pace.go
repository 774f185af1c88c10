package leased

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/journal"
)

// Pace says how leases are renewed. Each beat renews a session for TTL by the database's clock. By the process's own
// clocks a session is lost Lost after the process sent the last answered beat. Other processes end the session after
// TTL without a beat by their clocks, if the database agrees that the session has expired.
type Pace struct {
	TTL   time.Duration
	Beat  time.Duration // between two
	Again time.Duration // after one that failed
	Lost  time.Duration
}

// UsualPace is the pace outside of tests.
var UsualPace = Pace{TTL: 15 * time.Second, Beat: 3 * time.Second, Again: 300 * time.Millisecond, Lost: 12 * time.Second}

// Run calls beat until background ends. It calls warn for the first failure after a success.
func (p Pace) Run(background context.Context, beat func() error, warn func(error)) {
	failing := false
	for next := p.Beat; ; {
		select {
		case <-time.After(next):
		case <-background.Done():
			return
		}
		begun := time.Now()
		err := beat()
		if next = max(p.Beat-time.Since(begun), 0); err != nil {
			next = p.Again
		}
		if err != nil && !failing && !errors.Is(context.Cause(background), journal.ErrClosed) {
			warn(err)
		}
		failing = err != nil
	}
}

// deadline is a time by the monotonic clock and by the wall's: a machine that is suspended stops the former.
type deadline struct{ monotonic, wall time.Time }

func (p Pace) deadlineFrom(sent time.Time) *deadline {
	until := sent.Add(p.Lost)
	return &deadline{monotonic: until, wall: until.Round(0)}
}

func (d *deadline) passed(now time.Time) bool {
	return now.After(d.monotonic) || now.Round(0).After(d.wall)
}
