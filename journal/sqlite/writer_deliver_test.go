//go:build unix

package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// Of very many deliveries that can't be recorded, one returns an error.
func TestDeliveriesThatCantBeRecorded(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Delivered = false
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	deliver := func() (failed int) {
		for range 1024 {
			result, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventDeliver, Ref: done.Ref, At: time.Now(), Outcome: journal.StateCompleted})
			if err != nil {
				require.ErrorContains(t, err, "refused by the test")
				failed++
				continue
			}
			require.Equal(t, journal.Recorded, result.Decision)
		}
		return failed
	}
	stop := refuse(t, path, "INSERT ON onceward_log")
	assert.Equal(t, 1, deliver())
	stop()
	assert.Zero(t, deliver())
	require.NoError(t, sqlite.Flush(j))
	op, err := j.Get(t.Context(), done.Ref)
	require.NoError(t, err)
	assert.True(t, op.Delivered)
}
