package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// What a row says that its sum does not fit is told to nobody.
func TestGetOfARowThatIsDamaged(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	park := complete(begun.Operation, s)
	park.Kind, park.Answer, park.Open, park.Due = journal.EventPark, nil, true, time.Now().Add(time.Hour)
	_, err = j.Apply(t.Context(), park)
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "UPDATE onceward_operations SET wake_at = wake_at + 1")
	op, err := j.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.ErrorContains(t, err, "damaged")
	assert.Zero(t, op)
}
