//go:build unix

package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// With IntentOnly, an answer to a request that can't be read any more is recorded at once.
func TestIntentOnlyAnswerToADamagedRequest(t *testing.T) {
	path, j, s := intentOnly(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	putUnreadable(t, path, begun.Operation)
	require.NoError(t, sqlite.Flush(j))
	before := commitsOf(t, j)
	result, err := j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	assert.Equal(t, journal.Recorded, result.Decision)
	assert.Equal(t, journal.StateCompleted, result.Operation.State)
	assert.EqualValues(t, 1, commitsOf(t, j)-before)
}
