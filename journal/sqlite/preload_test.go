//go:build unix

package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// If the background read after Open fails, a call that may need the missing part returns an error.
func TestPreloadOfADamagedSegment(t *testing.T) {
	path, j, s := joined(t)
	sideBySide(sqlite.SegmentSize, func(i int) {
		begun, err := j.Apply(t.Context(), generate(fmt.Sprint("op-", i), s))
		if assert.NoError(t, err) {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
	require.NoError(t, sqlite.Fold(j))
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_segments SET hashes = zeroblob(length(hashes))")
	j = open(t, path)
	sqlite.Preloaded(j)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for range 2 {
		_, err = j.Get(t.Context(), journal.Ref{ID: "op-1"})
		require.ErrorContains(t, err, "damaged")
		_, err = j.Apply(t.Context(), begin("op-1", s))
		require.ErrorContains(t, err, "damaged")
	}
}
