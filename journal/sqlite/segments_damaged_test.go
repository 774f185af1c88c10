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

// A segment in which an operation is missing that nobody removed is not sealed without it.
func TestSegmentOfWhichOneIsMissing(t *testing.T) {
	path, j, s := joined(t)
	t.Cleanup(hurry(filepath.Dir(path)))
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
