//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// A caller after one that has left gets its result.
func TestTurnAfterACancelledOne(t *testing.T) {
	_, j, s := joined(t)
	all, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	for n := range 20 {
		release := sqlite.Hold(j)
		ctx, cancel := context.WithCancel(t.Context())
		left := queued(t, j, 0, func() error {
			_, err := j.Apply(ctx, begin(fmt.Sprint("left-", n), s))
			return err
		})
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		next := queued(t, j, 1, func() error {
			_, err := j.Apply(all, begin(fmt.Sprint("next-", n), s))
			return err
		})
		release()
		require.NoError(t, <-next)
	}
}
