//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// If an operation of a segment is missing without a record of its removal, the segment is not sealed without it.
func TestSegmentOfWhichOneIsMissing(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	for _, id := range []string{"a", "b"} {
		_, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, "DELETE FROM onceward_operations WHERE id = 'a'")
	j = open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for n := 3; n < sqlite.SegmentSize; n++ {
		_, err = j.Apply(t.Context(), generate(fmt.Sprint("op-", n), s))
		if n < sqlite.SegmentSize-1 {
			require.NoError(t, err)
		}
	}
	require.ErrorContains(t, err, "damaged")
	_, err = j.Get(t.Context(), journal.Ref{ID: "a"})
	require.ErrorContains(t, err, "damaged")
}

// If the part that may contain a name is gone or can't be read, no enqueue, begin or look-up reports the name as
// absent.
func TestSegmentsThatAreIncomplete(t *testing.T) {
	t.Parallel()
	small, large := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "journal.db")
	for path, many := range map[string]int{small: 6, large: 2*sqlite.SegmentSize + 6} {
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		for n := range many { // alternately in a row and in a block
			begun, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", n), s))
			require.NoError(t, err)
			done := complete(begun.Operation, s)
			done.Delivered = n%2 == 0
			_, err = j.Apply(t.Context(), done)
			require.NoError(t, err)
		}
		require.NoError(t, s.End(t.Context()))
		require.NoError(t, j.Close())
	}
	for name, row := range map[string]struct{ path, statement string }{
		"the first segment":            {large, "DELETE FROM onceward_segments WHERE first = 0"},
		"the last segment":             {large, "DELETE FROM onceward_segments WHERE first = (SELECT max(first) FROM onceward_segments)"},
		"all segments":                 {large, "DELETE FROM onceward_segments"},
		"the hashes of one segment":    {large, "UPDATE onceward_segments SET hashes = x'00' WHERE first > 0"},
		"the first row":                {small, "DELETE FROM onceward_operations WHERE handle = 2"},
		"the last row":                 {small, "DELETE FROM onceward_operations WHERE handle = 6"},
		"the last row beside segments": {large, "DELETE FROM onceward_operations WHERE handle = (SELECT max(handle) FROM onceward_operations)"},
		"a row's facts":                {small, "UPDATE onceward_operations SET facts = x'00' WHERE handle = 4"},
		"the block":                    {small, "DELETE FROM onceward_blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			copyAll(t, row.path, path)
			alter(t, path, row.statement)
			j := open(t, path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			db := application(t, path)
			for range 2 {
				_, _, err = wouldEnqueue(t, j, db, enqueue("none"))
				require.ErrorContains(t, err, "damaged")
				_, err = j.Apply(t.Context(), begin("none", s))
				require.ErrorContains(t, err, "damaged")
				_, err = j.Get(t.Context(), journal.Ref{ID: "none"})
				require.ErrorContains(t, err, "damaged")
			}
		})
	}
}
