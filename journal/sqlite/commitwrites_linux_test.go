package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"
)

// walWrites counts the writes to a journal's WAL and its syncs. It does both.
type walWrites struct {
	path          string
	writes, syncs atomic.Int64
}

func (w *walWrites) watches(name string) bool { return name == w.path+"-wal" }
func (w *walWrites) opened(uintptr, string)   {}
func (w *walWrites) closed(uintptr)           {}
func (w *walWrites) write(_ string, _ int64, _ []byte, do func() int32) int32 {
	w.writes.Add(1)
	return do()
}
func (w *walWrites) truncate(_ string, _ int64, do func() int32) int32 { return do() }
func (w *walWrites) sync(uintptr, string) int32 {
	w.syncs.Add(1)
	return sqlite3.SQLITE_OK
}
func (w *walWrites) remove(_ string, do func() int32) int32 { return do() }

// All frames of a commit come to the WAL by one write, and one sync makes them durable.
func TestCommitIsOneWriteAndOneSync(t *testing.T) {
	w := &walWrites{path: filepath.Join(t.TempDir(), "journal.db")}
	t.Cleanup(watch(w))
	j := open(t, w.path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for i := range 5 {
		w.writes.Store(0)
		w.syncs.Store(0)
		ev := begin(fmt.Sprint("charge-", i), s)
		ev.Intent.Request.Body = make([]byte, 40_000) // several frames
		_, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		assert.EqualValues(t, 1, w.writes.Load())
		assert.EqualValues(t, 1, w.syncs.Load())
	}
}
