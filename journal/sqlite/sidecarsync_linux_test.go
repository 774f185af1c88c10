package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A sidecar that is needed survives a loss of power: the directory is synced once it is in place. A sidecar that only
// names a later commit need not survive, and costs no sync. A file's new name survives a loss of power once the
// directory was synced, which requires opening it. A test can observe only that.
func TestSidecarsDirectoryIsSynced(t *testing.T) {
	for name, row := range map[string]struct {
		before, place func(t *testing.T, j *sqlite.Journal, path string)
		synced        bool
	}{
		"of an adoption": {func(t *testing.T, j *sqlite.Journal, path string) {
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			_, err = j.Apply(t.Context(), begin("held", s))
			require.NoError(t, err)
			sqlite.Kill(s)
			for _, name := range sessionFiles(t, path) {
				require.NoError(t, os.Remove(name))
			}
		}, func(t *testing.T, j *sqlite.Journal, _ string) { require.NoError(t, j.Adopt(t.Context())) }, true},
		"that is made again": {func(t *testing.T, _ *sqlite.Journal, path string) { require.NoError(t, os.Remove(path+"-sidecar")) }, marks, true},
		"of a file that is not in place any more": {func(t *testing.T, _ *sqlite.Journal, path string) {
			older := filepath.Join(t.TempDir(), "older.db")
			copyFile(t, path, older)
			require.NoError(t, os.Rename(older, path))
		}, func(t *testing.T, j *sqlite.Journal, _ string) {
			_, err := j.Join(t.Context())
			require.ErrorIs(t, err, journal.ErrRestored)
		}, true},
		"of a later commit": {func(*testing.T, *sqlite.Journal, string) {}, marks, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(sqlite.MarkNever())
			path := filepath.Join(t.TempDir(), "journal.db")
			j := open(t, path)
			goOn(t, j, "before") // SQLite has synced the directory for the WAL
			require.NoError(t, sqlite.Mark(j))
			goOn(t, j, "later")
			row.before(t, j, path)
			fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
			require.NoError(t, err)
			defer unix.Close(fd)
			_, err = unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_MOVED_TO|unix.IN_OPEN|unix.IN_ONLYDIR)
			require.NoError(t, err)
			row.place(t, j, path)

			events := make([]byte, 1<<16)
			n, err := unix.Read(fd, events)
			require.NoError(t, err)
			placed, opened := 0, false
			for events = events[:n]; len(events) > 0; {
				event := (*unix.InotifyEvent)(unsafe.Pointer(&events[0]))
				end := unix.SizeofInotifyEvent + int(event.Len)
				name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00"))
				events = events[end:]
				switch {
				case event.Mask&unix.IN_MOVED_TO != 0 && name == filepath.Base(path)+"-sidecar":
					placed++
				case event.Mask&unix.IN_ISDIR != 0:
					opened = opened || placed > 0
				}
			}
			assert.Equal(t, 1, placed, "and not again")
			assert.Equal(t, row.synced, opened)
		})
	}
}

func marks(t *testing.T, j *sqlite.Journal, _ string) { require.NoError(t, sqlite.Mark(j)) }
