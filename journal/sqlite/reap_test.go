package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
)

// An operation whose row is damaged keeps no other from being reaped. It stays, and each reap that is not full says so.
func TestReapBesideADamagedOperation(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	then := time.Now().Add(-1000 * time.Hour)
	for n := range 250 {
		ev := begin(fmt.Sprint("op-", n, "."), s)
		ev.At = then
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		done := complete(begun.Operation, s)
		done.At = then
		_, err = j.Apply(t.Context(), done)
		require.NoError(t, err)
	}
	seenAt(t, j, time.Now().Add(-machine.Confirmation))
	alter(t, path, "UPDATE onceward_rows SET record = zeroblob(length(record)) WHERE instr(record, CAST('key-of-op-120.' AS BLOB)) > 0")
	n, err := reap(t, j, 200)
	require.NoError(t, err)
	assert.Equal(t, 200, n)
	for _, want := range []int{49, 0} {
		n, err := reap(t, j, 200)
		require.ErrorContains(t, err, "damaged")
		assert.Equal(t, want, n)
	}
}

func reap(t *testing.T, j *sqlite.Journal, limit int) (int, error) {
	return j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: 100 * time.Hour}, limit)
}

// Reap reads rows alone. If an operation's answer is damaged, it is reaped like any other.
func TestReapTakesAnOperationWithADamagedAnswer(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("a", s))
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_answers SET body = x'00'")
	j = open(t, path)
	_, err = j.Get(t.Context(), begun.Operation.Ref)
	require.Error(t, err)
	at := time.Now().Add(1000 * time.Hour)
	seenAt(t, j, at.Add(-machine.Confirmation))
	n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: at, Keep: time.Hour}, 10)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	op, err := j.Get(t.Context(), begun.Operation.Ref)
	require.NoError(t, err)
	assert.True(t, op.Tombstone)
}
