package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// locksOf returns this process's locks on a file, from several reads. While other processes lock and unlock, one read
// may miss a lock or show it twice.
func locksOf(t *testing.T, path string) (locks []string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	for range 10 {
		all, err := os.ReadFile("/proc/locks")
		require.NoError(t, err)
		for line := range strings.Lines(string(all)) {
			of := strings.Fields(line)
			if of[4] == fmt.Sprint(os.Getpid()) && strings.HasSuffix(of[5], fmt.Sprint(":", info.Sys().(*syscall.Stat_t).Ino)) {
				locks = append(locks, strings.Join(of[1:], " "))
			}
		}
	}
	slices.Sort(locks)
	return slices.Compact(locks)
}

// A file that this process made stays locked for as long as it is open, and no longer.
func TestPlaceOfAFileThatWasMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	locks := locksOf(t, path)
	require.NotEmpty(t, locks)
	for range 50 {
		runtime.GC() // this closes unreachable files
		runtime.Gosched()
	}
	assert.Equal(t, locks, locksOf(t, path))
	require.NoError(t, j.Close())
	assert.Empty(t, locksOf(t, path))
}
