//go:build unix

package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// Nothing is removed of which that can't be noted.
func TestRemovedWhereTheNoteIsDamaged(t *testing.T) {
	path, j, s := joined(t)
	for _, id := range []string{"a", "b"} {
		ended(t, j, s, begin(id, s), journal.EventCancel)
	}
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	seenAt(t, j, time.Now())
	reap := func(id string) error {
		_, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventReap, Ref: journal.Ref{ID: id}, At: time.Now()})
		return err
	}
	require.NoError(t, reap("a"))
	require.False(t, has(t, j, "a"))
	alter(t, path, "UPDATE onceward_removed SET bits = x'00'")
	require.ErrorContains(t, reap("b"), "damaged")
	require.True(t, has(t, j, "b"))
}
