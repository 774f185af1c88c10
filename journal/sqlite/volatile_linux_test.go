package sqlite_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// Open warns of a file system in memory.
func TestFileSystemInMemoryIsWarnedOf(t *testing.T) {
	if !inItsOwnMounts(t) {
		return
	}
	memory, disk := t.TempDir(), t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", memory, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { _ = syscall.Unmount(memory, syscall.MNT_DETACH) })
	var there syscall.Statfs_t
	require.NoError(t, syscall.Statfs(disk, &there))
	lasts := there.Type != 0x01021994 && there.Type != 0x794c7630
	for name, row := range map[string]struct {
		dir      string
		volatile bool
		warns    bool
	}{
		"in memory":                             {memory, false, true},
		"in memory, as it is wanted":            {memory, true, false},
		"in the folder of this machine's tests": {disk, false, !lasts},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			path := filepath.Join(row.dir, "journal.db")
			opts := sqlite.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Volatile: row.volatile}
			j, err := sqlite.Open(path, opts)
			require.NoError(t, err)
			goOn(t, j, name)
			require.NoError(t, j.Close())
			if !row.warns {
				assert.Empty(t, log.String())
				return
			}
			assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), "once: %s", log.String())
			assert.Contains(t, log.String(), "level=WARN")
			assert.Contains(t, log.String(), path)
			assert.Contains(t, log.String(), "set Options.Volatile")
		})
	}
}
