package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// If one process begins a segment and another seals it, all of its operations are found.
func TestSealedByAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	const half = sqlite.SegmentSize / 2
	for process, kind := range []func(string, journal.Session) journal.Event{begin, generate} {
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		sideBySide(half, func(i int) {
			begun, err := j.Apply(t.Context(), kind(fmt.Sprint(process, "-", i), s))
			if assert.NoError(t, err) {
				_, err = j.Apply(t.Context(), complete(begun.Operation, s))
				assert.NoError(t, err)
			}
		})
		require.NoError(t, s.End(t.Context()))
		require.NoError(t, j.Close()) // so that they are in blocks
	}
	j := open(t, path)
	require.NoError(t, sound(t.Context(), j))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for i := 0; i < half; i += 50 {
		result, err := j.Apply(t.Context(), begin(fmt.Sprint(0, "-", i), s))
		require.NoError(t, err)
		require.Equal(t, journal.Replay, result.Decision, "it took effect")
	}
}
