//go:build unix

package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// Who has lost the -shm file to somebody who opened the journal later writes nothing any
// more, and leaves what that one wrote as it is, also when it is the last to close.
func TestShmRemovedAndOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for i := range 100 {
		_, err := j.Apply(t.Context(), begin(fmt.Sprint("before-", i), s))
		require.NoError(t, err)
	}
	require.NoError(t, os.Remove(path+"-shm"))
	t.Setenv(childCallers, "8")
	cmd, lines := start(t, "suffer", path)
	var known []string
	for len(known) < 2000 { // by then its WAL has started over
		require.True(t, lines.Scan())
		words := strings.Fields(lines.Text())
		require.Len(t, words, 3, lines.Text())
		known = append(known, words[1])
	}
	_, err = j.Apply(t.Context(), begin(known[0], s))
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.ErrorContains(t, err, path+"-shm was removed or replaced")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Error(t, j.Close())

	j = open(t, path)
	require.Empty(t, verify(t, j))
	for _, id := range known {
		_, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err, id)
	}
}
