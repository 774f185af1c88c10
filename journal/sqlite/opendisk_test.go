//go:build unix

package sqlite_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/journal/sqlite"
)

// full is a disk that accepts that many writes, and no more.
type full struct {
	careless
	left atomic.Int64
}

func (d *full) write(_ string, _ int64, _ []byte, do func() int32) int32 {
	if d.left.Add(-1) < 0 {
		return sqlite3.SQLITE_FULL
	}
	return do()
}

// On a full disk Open fails, and its error says what to do.
func TestFullDiskFailsAnOpen(t *testing.T) {
	t.Parallel()
	failed := 0
	for room := int64(0); ; room++ {
		if !sample.Takes(int(room), 3) {
			continue
		}
		path := filepath.Join(t.TempDir(), "journal.db")
		d := &full{careless: careless{filepath.Dir(path)}}
		d.left.Store(room)
		stop := watch(d)
		j, err := sqlite.Open(path, sqlite.Options{})
		stop()
		d.left.Store(1 << 40)
		if err == nil {
			require.NoError(t, j.Close())
			break
		}
		failed++
		require.ErrorContains(t, err, "can be opened again")
		assert.ErrorContains(t, err, path)
		goOn(t, open(t, path), "invoice-1") // this holds wherever the failed Open had stopped
	}
	assert.Positive(t, failed)
}

// A disk without room for the -shm is reported as full, though SQLite calls it an I/O error.
func TestFullDiskFailsTheSHM(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	d := &noRoomForSHM{careless{filepath.Dir(path)}}
	defer watch(d)()
	_, err := sqlite.Open(path, sqlite.Options{})
	require.ErrorContains(t, err, "the disk is full")
}

// noRoomForSHM is a disk that fails each write as SQLite does if the -shm can't grow.
type noRoomForSHM struct{ careless }

func (*noRoomForSHM) write(string, int64, []byte, func() int32) int32 {
	return sqlite3.SQLITE_IOERR_SHMSIZE
}

// unsyncable is a disk whose syncs fail.
type unsyncable struct {
	careless
	fails atomic.Bool
}

func (d *unsyncable) sync(uintptr, string) int32 {
	if d.fails.Load() {
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	return sqlite3.SQLITE_OK
}

func TestSessionsThatFailToBeginLeaveNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	d := &unsyncable{careless: careless{filepath.Dir(path)}}
	t.Cleanup(watch(d))
	j := open(t, path)
	d.fails.Store(true)
	for range 20 {
		_, err := j.Join(t.Context())
		require.Error(t, err)
	}
	assert.Empty(t, sessionFiles(t, path))
	d.fails.Store(false)
	goOn(t, j, "invoice-1")
	assert.Empty(t, sessionFiles(t, path))
}
