package onceward_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// What could not be sent in its time is cancelled for who asks for it later, and sent for who asks
// once more.
func TestWhoAsksAfterItsTimeHasPassed(t *testing.T) {
	each(t, "named", func(t *testing.T, j journal.Journal) {
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		by := time.Now().Add(time.Minute)
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), by)).Err, onceward.ErrPending)
		sent := len(l.Sent())
		pass(2 * time.Minute)
		var e *onceward.Error
		require.ErrorAs(t, p.Ask(named(t, invoice)).Err, &e)
		require.ErrorIs(t, e, onceward.ErrNotSent)
		assert.ErrorContains(t, e, "it was not to be sent after")
		assert.Equal(t, onceward.StateCancelled, e.Operation.State)
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), by)).Err, onceward.ErrNotSent)
		require.Len(t, l.Sent(), sent)
		require.NoError(t, p.Ask(named(t, invoice)).Err)
	})
}

// Whoever asked was told of it, so that OnSettled is not.
func TestWhoIsToldThatItsTimeHasPassed(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		var offered []onceward.State
		p := start(t, (&line{}).Then(refuses()), onceward.Config{
			Journal: memory.New(), Backoff: once,
			OnSettled: func(_ context.Context, op onceward.Operation) error {
				offered = append(offered, op.State)
				return nil
			},
		})
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), time.Now().Add(time.Minute))).Err, onceward.ErrPending)
		pass(2 * time.Minute)
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrNotSent)
		assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Empty(t, offered)
	})
}
