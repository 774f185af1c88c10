package sqlite

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A turn is waited for in steps of 100 to 300 µs.
const (
	busyStep   = 200 * time.Microsecond
	busyJitter = 0.5
)

// inTurn runs f until the file is not busy, for at most timeout. All processes wait
// alike, so that none grows patient and is starved. SQLite's own waiting does not
// cover everything either: a change of the journal mode fails at once.
func inTurn(timeout time.Duration, f func() error) error {
	err := f()
	if !isBusy(err) {
		return err
	}
	err = backoff.Retry(func() error {
		err := f()
		if err != nil && !isBusy(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(busyStep),
		backoff.WithMaxInterval(busyStep),
		backoff.WithMultiplier(1),
		backoff.WithRandomizationFactor(busyJitter),
		backoff.WithMaxElapsedTime(timeout),
	))
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		return permanent.Err
	}
	return err
}
