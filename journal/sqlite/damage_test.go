//go:build unix

package sqlite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// failing is a fault: what is chosen fails with code.
func failing(code int32, chosen func(what diskDid, file string) bool) *func(diskDid, string) int32 {
	f := func(what diskDid, file string) int32 {
		if chosen(what, file) {
			return code
		}
		return sqlite3.SQLITE_OK
	}
	return &f
}

func inWAL(_ diskDid, file string) bool { return file == "-wal" }

func TestAFaultFailsClosedWithAClearErrorAndLosesNothingOnceItIsGone(t *testing.T) {
	for name, row := range map[string]struct {
		fault *func(diskDid, string) int32
		says  string
	}{
		"the disk is full":              {failing(sqlite3.SQLITE_FULL, inWAL), "the disk is full; free some space"},
		"writes fail":                   {failing(sqlite3.SQLITE_IOERR_WRITE, inWAL), "the disk reports an error"},
		"syncs fail":                    {failing(sqlite3.SQLITE_IOERR_FSYNC, func(what diskDid, _ string) bool { return what == synced }), "the disk reports an error"},
		"it was remounted read-only":    {failing(sqlite3.SQLITE_READONLY, inWAL), "it can't be written; check the permissions"},
		"some of its writes fail":       {failing(sqlite3.SQLITE_IOERR_WRITE, func(diskDid, string) bool { return rand.IntN(3) == 0 }), "the disk reports an error"},
		"some of its writes do not fit": {failing(sqlite3.SQLITE_FULL, func(diskDid, string) bool { return rand.IntN(3) == 0 }), "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			d := record(t, filepath.Join(t.TempDir(), "journal.db"))
			j := open(t, d.path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			var mu sync.Mutex
			known := map[string]promise{}
			l := &life{journal: j, session: s, name: "op", told: func(id string, p promise) {
				mu.Lock()
				defer mu.Unlock()
				known[id] = p
			}}
			l.live(t.Context(), rand.New(rand.NewPCG(1, 1)), 8, 400)
			before := len(known)
			d.fault.Store(row.fault)
			failed := error(nil)
			for n := range 1000 {
				id := fmt.Sprint("meanwhile-", n)
				ev := begin(id, s)
				ev.Intent.Request.Body = bodyOf(id)
				_, err := j.Apply(t.Context(), ev)
				if err == nil {
					known[id] = promise{}
					continue
				}
				if failed = err; n > 20 {
					break
				}
			}
			require.Error(t, failed)
			assert.ErrorContains(t, failed, row.says)
			assert.ErrorContains(t, failed, d.path)
			if !strings.HasPrefix(name, "some ") {
				assert.Len(t, known, before, "what could not be written was not acknowledged")
			}
			for id := range known {
				_, err := j.Get(t.Context(), journal.Ref{ID: id})
				require.NoError(t, err, "it can be read meanwhile")
				break
			}
			d.fault.Store(nil)
			goOn(t, j, "after")
			// Commits fail while operations are folded and segments are sealed, too.
			l.name = "again"
			d.fault.Store(failing(sqlite3.SQLITE_IOERR_WRITE, func(_ diskDid, file string) bool { return file == "-wal" && rand.IntN(60) == 0 }))
			l.live(t.Context(), rand.New(rand.NewPCG(1, 2)), 8, 1600)
			d.fault.Store(nil)
			require.NoError(t, j.Close())
			require.NoError(t, inspect(t.Context(), d.path, known))
		})
	}
}

func TestACommitThatFailsAsItSealsASegmentLosesNoID(t *testing.T) {
	d := record(t, filepath.Join(t.TempDir(), "journal.db"))
	j := open(t, d.path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	id := func(i int) string { return fmt.Sprint("op-", i) }
	const last = sqlite.SegmentSize - 1
	for i := 1; i < last; i++ {
		_, err := j.Apply(t.Context(), generate(id(i), s))
		require.NoError(t, err)
	}
	d.fault.Store(failing(sqlite3.SQLITE_FULL, inWAL))
	_, err = j.Apply(t.Context(), generate(id(last), s))
	require.ErrorContains(t, err, "the disk is full")
	d.fault.Store(nil)
	result, err := j.Apply(t.Context(), generate(id(last), s))
	require.NoError(t, err)
	require.Equal(t, int64(last), result.Operation.Handle)
	for range 2 {
		for i := 1; i <= last; i += 100 {
			_, err := j.Get(t.Context(), journal.Ref{ID: id(i)})
			require.NoError(t, err, id(i))
		}
		require.NoError(t, j.Close())
		j = open(t, d.path)
	}
}

func TestAJournalThatMayNotBeWrittenAnyMoreSaysSo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // else user nobody does not even get there
	path := filepath.Join(dir, "journal.db")
	leave(t, path)
	modes := map[string]os.FileMode{path: 0o400, path + "-sidecar": 0o400, dir: 0o500}
	if os.Getuid() == 0 {
		modes = map[string]os.FileMode{path: 0o604, path + "-sidecar": 0o604, dir: 0o705}
	}
	for name, mode := range modes {
		require.NoError(t, os.Chmod(name, mode))
	}
	t.Run("read-only", func(t *testing.T) {
		asNobody(t)
		j, err := sqlite.Open(path, nil)
		if err == nil {
			t.Cleanup(func() { _ = j.Close() })
			_, err = j.Join(t.Context())
		}
		require.Error(t, err)
		require.ErrorIs(t, err, os.ErrPermission)
		assert.ErrorContains(t, err, path)
	})
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Chmod(path+"-sidecar", 0o600))
	goOn(t, open(t, path), "after")
}

func TestAFileThatIsRemovedOrReplacedWhileItIsOpenIsNoticed(t *testing.T) {
	remove := func(t *testing.T, name string) { require.NoError(t, os.Remove(name)) }
	replace := func(t *testing.T, name string, content []byte) {
		require.NoError(t, os.WriteFile(name+".new", content, 0o600))
		require.NoError(t, os.Rename(name+".new", name))
	}
	for name, change := range map[string]func(t *testing.T, path string, older []byte){
		"removed":                   func(t *testing.T, path string, _ []byte) { remove(t, path) },
		"replaced by an older copy": func(t *testing.T, path string, older []byte) { replace(t, path, older) },
		"replaced by nothing":       func(t *testing.T, path string, _ []byte) { replace(t, path, nil) },
		"its WAL removed":           func(t *testing.T, path string, _ []byte) { remove(t, path+"-wal") },
		"its WAL replaced":          func(t *testing.T, path string, _ []byte) { replace(t, path+"-wal", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			leave(t, path)
			older, err := os.ReadFile(path)
			require.NoError(t, err)
			j := open(t, path)
			goOn(t, j, "later")
			require.NoError(t, sqlite.Mark(j))
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			change(t, path, older)

			_, err = j.Apply(t.Context(), begin("meanwhile", s))
			require.ErrorIs(t, err, journal.ErrRestored, "nobody would find it again")
			assert.ErrorContains(t, err, "removed or replaced")
			assert.ErrorContains(t, err, path)
			_ = j.Close()

			// SQLite may have saved it: the WAL into the file, or for the file.
			j, err = sqlite.Open(path, nil)
			if err == nil {
				t.Cleanup(func() { _ = j.Close() })
				_, err = j.Join(t.Context())
			}
			if err != nil {
				require.ErrorIs(t, err, journal.ErrRestored)
				return
			}
			for _, id := range []string{"pending", "cancelled", "completed", "later"} {
				_, err := j.Get(t.Context(), journal.Ref{ID: id})
				require.NoError(t, err, "nothing is lost unseen: %s", id)
			}
		})
	}
}

func TestAFileThatIsMovedAwayAndPutBackGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Rename(path, path+".away"))
	_, err = j.Apply(t.Context(), begin("meanwhile", s))
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, os.Rename(path+".away", path))
	goOn(t, j, "after")
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	goOn(t, open(t, path), "after it was opened again")
}

// A bit that flips somewhere is noticed where it is read, or is in what is not used.
func TestABitThatFlipsIsNeverTakenForTheTruth(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	known := map[string]promise{}
	var mu sync.Mutex
	l := &life{journal: j, session: s, name: "op", told: func(id string, p promise) {
		mu.Lock()
		defer mu.Unlock()
		known[id] = p
	}}
	l.live(t.Context(), rand.New(rand.NewPCG(1, 1)), 8, 1200)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	side, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)

	random := seeded(t)
	dir := t.TempDir()
	defer hurry(dir)()
	flips := fromEnvironment(t, "ONCEWARD_BIT_FLIPS", 40)
	noticed := 0
	for n := range flips {
		damaged := append([]byte(nil), whole...)
		at := random.IntN(len(whole))
		damaged[at] ^= 1 << random.IntN(8)
		path := filepath.Join(dir, fmt.Sprint(n, ".db"))
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		require.NoError(t, os.WriteFile(path+"-sidecar", side, 0o600))
		var unlike *unlikeError
		err := inspect(t.Context(), path, known)
		if err != nil {
			noticed++
			assert.False(t, errors.As(err, &unlike), "byte %d: %v", at, err)
		}
	}
	t.Logf("%d of %d flips were noticed", noticed, flips)
	assert.Positive(t, noticed)
}
