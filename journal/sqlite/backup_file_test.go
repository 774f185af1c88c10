//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// swapped is a disk that replaces an unfinished backup by a folder, once the backup was closed that many times.
type swapped struct {
	careless
	mu   sync.Mutex
	name string
	left int
}

func (d *swapped) watches(name string) bool {
	return strings.HasPrefix(name, d.dir) && !strings.HasSuffix(name, "-journal")
}

func (d *swapped) opened(_ uintptr, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.name = name
}

func (d *swapped) closed(uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left == 0 {
		_ = os.Remove(d.name)
		_ = os.Mkdir(d.name, 0o700)
	}
}

// A backup that can't be marked as one, or synced, fails and leaves no file.
func TestBackupThatIsTakenAway(t *testing.T) {
	dir := t.TempDir()
	j := open(t, filepath.Join(dir, "journal.db"))
	goOn(t, j, "invoice-1")
	to := filepath.Join(dir, "backup.db")
	failed := 0
	for ; ; failed++ {
		d := &swapped{careless: careless{to + ".part-"}, left: failed + 1}
		stop := watch(d)
		err := j.Backup(t.Context(), to)
		stop()
		parts, globbed := filepath.Glob(to + ".part*")
		require.NoError(t, globbed)
		assert.Empty(t, parts)
		if err == nil {
			break
		}
		require.ErrorContains(t, err, "back up to "+to)
		require.NoFileExists(t, to)
		require.NoDirExists(t, to)
	}
	assert.GreaterOrEqual(t, failed, 2, "it is written, and then marked")
	_, err := open(t, to).Join(t.Context())
	require.ErrorContains(t, err, "is the backup that was made at")
}

// If a relative path's working directory is gone, the error names the path.
func TestBackupFromNowhere(t *testing.T) {
	if !alone(t) {
		return
	}
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	require.NoError(t, os.Mkdir(nowhere, 0o700))
	t.Chdir(nowhere)
	require.NoError(t, os.Remove(nowhere))
	require.ErrorContains(t, j.Backup(t.Context(), "backup.db"), "back up to backup.db: getwd")
	_, err := sqlite.Open("other.db", sqlite.Options{})
	require.ErrorContains(t, err, "journal other.db: getwd")
}
