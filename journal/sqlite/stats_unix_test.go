//go:build unix

package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// Stats and lists see what another process has in the log.
func TestStatsAndListsSeeAnothersLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	child, lines := start(t, "hold", path)
	require.True(t, lines.Scan(), "it has begun something")
	listed := 0
	for _, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		listed++
	}
	st, err := j.Stats(t.Context())
	require.NoError(t, err)
	assert.Positive(t, listed)
	assert.Equal(t, int64(listed), st.Begun)
	require.Empty(t, verify(t, j))
	require.NoError(t, child.Process.Kill())
}
