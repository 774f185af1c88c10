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

// A block that can't be wiped is not removed.
func TestReapOfABlockThatCantBeWiped(t *testing.T) {
	path, j, s := joined(t)
	old := time.Now().Add(-1000 * time.Hour)
	ev := generate("invoice-1", s)
	ev.At = old
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.At = old
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	stop := refuse(t, path, "UPDATE ON onceward_blocks")
	_, err = reap(t, j, 100)
	require.ErrorContains(t, err, "refused by the test")
	assert.Len(t, handlesOf(t, j, journal.Filter{}), 1)
	stop()
	n, err := reap(t, j, 100)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.Empty(t, verify(t, j))
}
