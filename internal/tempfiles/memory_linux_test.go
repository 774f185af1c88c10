package tempfiles

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The folder of a process that was killed is removed by the next one, and that of a live one stays.
func TestFoldersOfKilledTestsAreRemoved(t *testing.T) {
	shared := t.TempDir()
	killed, lock, err := within(shared)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(killed, "journal.db"), nil, 0o600))
	alive, own, err := within(shared)
	require.NoError(t, err)
	defer own.Close()
	assert.DirExists(t, killed)
	require.NoError(t, lock.Close()) // as its end does
	_, last, err := within(shared)
	require.NoError(t, err)
	defer last.Close()
	assert.NoDirExists(t, killed)
	assert.DirExists(t, alive)
}
