package conn

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A turn is waited for in steps of 100 to 300 µs.
const (
	busyStep   = 200 * time.Microsecond
	busyJitter = 0.5
)

// Patience is the busy timeout before the writer begins: other processes may be opening or recovering the
// file.
var Patience = Pragma{"busy_timeout", "5000", "5000"}

// InTurn runs f until the file is not busy, for at most timeout. All processes wait alike, so that none waits
// longer and longer. SQLite's own waiting does not cover everything: a change of the journal mode fails at
// once.
func InTurn(timeout time.Duration, f func() error) error {
	return backoff.Retry(func() error {
		err := f()
		if IsBusy(err) {
			return err
		}
		return backoff.Permanent(err)
	}, backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(busyStep),
		backoff.WithMaxInterval(busyStep),
		backoff.WithMultiplier(1),
		backoff.WithRandomizationFactor(busyJitter),
		backoff.WithMaxElapsedTime(timeout),
	))
}
