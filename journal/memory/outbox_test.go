package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

func enqueue(id string) machine.Event {
	return machine.Event{Kind: machine.EventEnqueue, Ref: journal.Ref{ID: id}, At: time.Now(), Intent: &machine.Intent{Fingerprint: "v1:f", Key: "k"}}
}

// An open transaction that has a name delays the callers of that name, until they leave. It delays no other caller.
func TestTransactionBlocksCallersOfItsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		assert.Nil(t, tx.Driver())
		_, err = j.EnqueueTx(t.Context(), tx, enqueue("a"))
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = j.Apply(soon, enqueue("a"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		result, err := j.Apply(t.Context(), enqueue("b"))
		require.NoError(t, err)
		assert.Equal(t, machine.Recorded, result.Decision)

		done := make(chan machine.Decision)
		go func() {
			result, err := j.Apply(t.Context(), enqueue("a"))
			assert.NoError(t, err)
			done <- result.Decision
		}()
		synctest.Wait()
		require.NoError(t, tx.Commit(t.Context()))
		assert.Equal(t, machine.Ignored, <-done)
		require.Error(t, tx.Commit(t.Context()), "it is over")
	})
}

func TestInterruptedTransactionRecordsNothing(t *testing.T) {
	j := memory.New()
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), tx, enqueue("a"))
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, tx.Commit(ended), context.Canceled)
	_, err = j.Get(t.Context(), journal.Ref{ID: "a"})
	require.ErrorIs(t, err, journal.ErrNotFound)

	other, err := memory.New().BeginTx(t.Context())
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), other, enqueue("a"))
	require.ErrorContains(t, err, "not one of this journal's")
	deliver := machine.Event{Kind: machine.EventDeliver, Ref: journal.Ref{ID: "a"}, At: time.Now()}
	result, err := j.DeliverTx(t.Context(), deliver, nil)
	require.NoError(t, err)
	assert.Equal(t, machine.Ignored, result.Decision)
}

// Close releases waiting callers and ends the transaction.
func TestCloseEndsATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		_, err = j.EnqueueTx(t.Context(), tx, enqueue("a"))
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			_, err := j.Apply(t.Context(), enqueue("a"))
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, j.Close())
		require.ErrorIs(t, <-done, journal.ErrClosed)
		require.ErrorIs(t, tx.Commit(t.Context()), journal.ErrClosed)
		require.NoError(t, tx.Rollback(t.Context()))
	})
}
