//go:build unix

package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// childLoads is childSuffers with a sidecar that is written as often as possible.
func childLoads(path string) error {
	sqlite.MarkAlways()
	return childSuffers(path)
}

// baseOf is how many commits were in the file before its WAL began.
func baseOf(t *testing.T, path string) (base int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT base FROM onceward_head").Scan(&base))
	require.NoError(t, db.Close()) // before the file is replaced
	return base
}

// An older file beside the WAL of a killed journal is refused before SQLite mixes the
// two.
func TestStaleFileBesideTheWAL(t *testing.T) {
	t.Parallel()
	backUp := func(t *testing.T, path string) string {
		backup := filepath.Join(t.TempDir(), "backup.db")
		j := open(t, path)
		require.NoError(t, j.Backup(t.Context(), backup))
		require.NoError(t, j.Close())
		return backup
	}
	copied := func(t *testing.T, path string) string {
		to := filepath.Join(t.TempDir(), "copy.db")
		copyFile(t, path, to)
		return to
	}
	for name, way := range map[string]struct {
		before, during func(t *testing.T, path string) (older string)
		later          bool // the journal was opened again after before
		empty          bool
	}{
		"a backup":                                {before: backUp},
		"a backup made meanwhile":                 {during: backUp},
		"a copy of the file":                      {before: copied, later: true},
		"a copy from before the WAL started over": {before: copied},
		"an empty file": {empty: true, before: func(t *testing.T, _ string) string {
			older := filepath.Join(t.TempDir(), "empty.db")
			require.NoError(t, os.WriteFile(older, nil, 0o600))
			return older
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			leave(t, path)
			var older string
			if way.before != nil {
				older = way.before(t, path)
			}
			side, err := sidecar.Read(path)
			require.NoError(t, err)
			if way.later {
				j := open(t, path)
				goOn(t, j, "later")
				require.NoError(t, j.Close())
			}
			cmd, lines := start(t, "load", path, childCallers+"=8")
			require.True(t, lines.Scan())
			if way.during != nil {
				older = way.during(t, path)
			}
			for baseOf(t, path) <= side.Number { // until its WAL began anew
				require.True(t, lines.Scan())
			}
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			require.FileExists(t, path+"-wal")
			copyFile(t, older, path)

			before := lasting(t, path)
			for range 2 {
				_, err := sqlite.Open(path, sqlite.Options{})
				require.ErrorIs(t, err, journal.ErrRestored)
				assert.ErrorContains(t, err, "remove "+path+"-wal and "+path+"-shm")
				assert.ErrorContains(t, err, "Adopt")
				assert.Equal(t, before, lasting(t, path), "nothing is changed")
			}
			require.NoError(t, os.Remove(path+"-wal"))
			require.NoError(t, os.RemoveAll(path+"-shm"))
			j := open(t, path)
			_, err = j.Join(t.Context())
			require.ErrorIs(t, err, journal.ErrRestored)
			require.NoError(t, j.Adopt(t.Context()))
			if !way.empty {
				for _, id := range []string{"pending", "cancelled", "completed"} {
					_, err := j.Get(t.Context(), journal.Ref{ID: id})
					require.NoError(t, err, id)
				}
			}
			goOn(t, j, "after")
			require.NoError(t, sound(t.Context(), j))
			require.NoError(t, j.Close())
			goOn(t, open(t, path), "after it was opened again")
		})
	}
}

// lasting is the contents of a journal's files but for the -shm, which SQLite makes anew.
func lasting(t *testing.T, path string) map[string]string {
	t.Helper()
	all := contents(t, path)
	delete(all, path+"-shm")
	return all
}

// killed is a journal as a kill leaves it. It has an older file, the file when the WAL began, the file after a checkpoint,
// the WAL, and the sidecar.
type killed struct{ older, before, after, wal, side []byte }

// hit returns a killed journal, with operation "later" in its WAL.
func hit(t *testing.T) (k killed) {
	t.Helper()
	read := func(name string) []byte {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		return content
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	k.older = read(path)
	leave(t, path)
	k.before = read(path)
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for n := range 20 { // few enough that the journal does not checkpoint by itself
		_, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", n), s))
		require.NoError(t, err)
	}
	require.NoError(t, s.End(t.Context()))
	goOn(t, j, "later")
	require.NoError(t, sqlite.Mark(j))
	k.wal, k.side = read(path+"-wal"), read(path+"-sidecar")
	moveWAL(t, path, "PASSIVE")
	k.after = read(path)
	require.NotEqual(t, k.before, k.after)
	require.Equal(t, k.wal, read(path+"-wal"))
	return k
}

// put writes the journal to disk, with another file.
func (k killed) put(t *testing.T, file []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	for suffix, content := range map[string][]byte{"": file, "-wal": k.wal, "-sidecar": k.side} {
		require.NoError(t, os.WriteFile(path+suffix, content, 0o600))
	}
	return path
}

// A half-checkpointed file does not count as an older one.
func TestStaleIsNotAHalfCheckpointedFile(t *testing.T) {
	t.Parallel()
	k := hit(t)
	random := seeded(t)
	for n := range soak.Times(10, 40) {
		// Sectors of either file, in complete pages or not, up to the size that the file had reached.
		size := []int{512, 4096, 4096}[random.IntN(3)]
		odds := random.Float64()
		file := bytes.Clone(k.after)
		for start := 0; start < len(k.before); start += size {
			if random.Float64() < odds {
				copy(file[start:], k.before[start:min(start+size, len(k.before))])
			}
		}
		if random.IntN(2) == 0 {
			file = file[:len(k.before)+random.IntN((len(k.after)-len(k.before))/512+1)*512]
		}
		path := k.put(t, file)
		j := open(t, path)
		_, err := j.Get(t.Context(), journal.Ref{ID: "later"})
		require.NoError(t, err, n)
		goOn(t, j, "after")
		require.NoError(t, sound(t.Context(), j), n)
		require.NoError(t, j.Close())
	}
}

// A damaged file beside its WAL is an error, or the WAL repairs it.
func TestStaleDamagedFileBesideItsWAL(t *testing.T) {
	t.Parallel()
	k := hit(t)
	random := seeded(t)
	refused := 0
	for range soak.Times(20, 60) {
		file := bytes.Clone([][]byte{k.before, k.after}[random.IntN(2)])
		for range random.IntN(4) {
			start := random.IntN(len(file))
			for i := start; i < min(len(file), start+1<<random.IntN(13)); i++ {
				file[i] = byte(random.Uint32())
			}
		}
		if random.IntN(2) == 0 {
			file = file[:random.IntN(len(file))]
		}
		_, err := tryOpen(t, k.put(t, file))
		if err == nil {
			continue
		}
		refused++
		var damage *driver.Error
		typed := errors.Is(err, journal.ErrRestored) || errors.Is(err, sqlite.ErrNotJournal) || errors.Is(err, journal.ErrVersion) ||
			errors.As(err, &damage) || strings.Contains(err.Error(), "a stored value is damaged")
		assert.True(t, typed, err)
	}
	t.Logf("%d were refused", refused)
}

// An older file that is put back with its own WAL is opened.
func TestStaleFileWithItsOwnWALIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	j := open(t, path)
	goOn(t, j, "in the WAL")
	snapshot := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		copyFile(t, path+suffix, filepath.Join(snapshot, "journal.db"+suffix))
	}
	for _, id := range []string{"later", "much later"} {
		moveWAL(t, path, "RESTART")
		goOn(t, j, id)
		require.NoError(t, sqlite.Mark(j))
	}
	require.NoError(t, j.Close())
	for _, suffix := range []string{"", "-wal"} {
		copyFile(t, filepath.Join(snapshot, "journal.db"+suffix), path+suffix)
	}
	j = open(t, path)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = j.Get(t.Context(), journal.Ref{ID: "in the WAL"})
	require.NoError(t, err)
	require.NoError(t, j.Adopt(t.Context()))
	goOn(t, j, "after")
}

// An adopted file beside its WAL and an earlier sidecar is opened. A process that was writing the sidecar during the
// adoption puts its earlier entries in place.
func TestStaleSidecarOfAnAdoptedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	j := open(t, path)
	goOn(t, j, "before")
	require.NoError(t, sqlite.Mark(j))
	overwritten := filepath.Join(t.TempDir(), "sidecar")
	copyFile(t, path+"-sidecar", overwritten)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("held", s))
	require.NoError(t, err)
	sqlite.Kill(s)
	require.NoError(t, os.Remove(path+"-session-"+s.ID()))
	require.NoError(t, j.Adopt(t.Context()))
	moveWAL(t, path, "PASSIVE")
	goOn(t, j, "after")

	killed := filepath.Join(t.TempDir(), "journal.db")
	copyFile(t, path, killed)
	copyFile(t, path+"-wal", killed+"-wal")
	copyFile(t, overwritten, killed+"-sidecar")
	j = open(t, killed)
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = j.Get(t.Context(), journal.Ref{ID: "after"})
	require.NoError(t, err)
	require.NoError(t, j.Adopt(t.Context()))
	require.NoError(t, sound(t.Context(), j))
}

// If the file was removed, Open makes no new one beside its WAL.
func TestStaleWALOfARemovedFile(t *testing.T) {
	k := hit(t)
	path := k.put(t, nil)
	require.NoError(t, os.Remove(path))
	before := lasting(t, path)
	for _, opts := range []sqlite.Options{{}, {Existing: true}, readOnly} {
		_, err := sqlite.Open(path, opts)
		require.ErrorIs(t, err, journal.ErrRestored)
		require.Equal(t, before, lasting(t, path), "nothing is changed")
	}
	require.NoError(t, os.WriteFile(path, k.before, 0o600))
	_, err := open(t, path).Get(t.Context(), journal.Ref{ID: "later"})
	require.NoError(t, err)
}

// A damaged sidecar does not make the file look older than its WAL.
func TestStaleIsNotADamagedSidecarsFile(t *testing.T) {
	t.Parallel()
	k := hit(t)
	for i := range k.side {
		path := k.put(t, k.after)
		side := bytes.Clone(k.side)
		side[i] ^= 1 << (i % 4)
		require.NoError(t, os.WriteFile(path+"-sidecar", side, 0o600))
		j := open(t, path)
		_, err := j.Join(t.Context())
		if err != nil { // if it names an earlier commit now, it does no harm
			require.ErrorIs(t, err, journal.ErrRestored)
		}
		_, err = j.Get(t.Context(), journal.Ref{ID: "later"})
		require.NoError(t, err)
		require.NoError(t, j.Close())
	}
}

// A backup of the latest commit is sound when it is put back.
func TestStaleIsNotTheLatestBackup(t *testing.T) {
	path, backup := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "backup.db")
	leave(t, path)
	j := open(t, path)
	goOn(t, j, "later")
	require.NoError(t, j.Close())
	j = open(t, path)
	require.NoError(t, j.Backup(t.Context(), backup))
	require.NoError(t, j.Close())
	copyFile(t, backup, path)
	j = open(t, path)
	require.NoError(t, sound(t.Context(), j))
	require.NoError(t, j.Adopt(t.Context()))
	require.NoError(t, sound(t.Context(), j))
}

// A commit that can't begin an epoch fails, even if it has nothing else to record but the time.
func TestEpochThatCantBegin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	seenAt(t, j, time.Now().Add(time.Minute))
	stop := refuse(t, path, "UPDATE ON onceward_head")
	require.ErrorContains(t, j.Close(), "refused by the test") // with its last commit
	stop()
	j = open(t, path)
	goOn(t, j, "invoice-2")
	assert.Empty(t, verify(t, j))
}

// An older file beside a later WAL is refused without its sidecar, too, and by a program that only reads.
func TestStaleFileWithoutItsSidecar(t *testing.T) {
	k := hit(t)
	path := k.put(t, k.older)
	require.NoError(t, os.Remove(path+"-sidecar"))
	before := lasting(t, path)
	_, err := sqlite.Open(path, sqlite.Options{})
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = sqlite.Open(path, readOnly) // beside the -shm that Open has made
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.ErrorContains(t, err, "the -wal beside it belongs to the newer one")
	assert.Equal(t, before, lasting(t, path), "nothing is changed")
}

// A file whose journal can't be read beside the WAL is refused before SQLite mixes the two.
func TestStaleFileWithOtherPages(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.db")
	alter(t, other, "CREATE TABLE notes (note); CREATE TABLE more (note); CREATE INDEX notes_note ON notes (note)")
	leave(t, other)
	file, err := os.ReadFile(other)
	require.NoError(t, err)
	k := hit(t)
	path := k.put(t, file)
	before := lasting(t, path)
	_, err = tryOpen(t, path)
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.Equal(t, before, lasting(t, path), "nothing is changed")
}

// An older file is refused also if the WAL beside it has a single commit yet.
func TestStaleFileBesideAWALOfOneCommit(t *testing.T) {
	t.Parallel()
	path, left := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	executes := func(id string) {
		_, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
	}
	executes("before")
	moveWAL(t, path, "TRUNCATE")
	copyFile(t, path, left)
	for i := range 3 {
		executes(fmt.Sprint("lost-", i))
	}
	moveWAL(t, path, "PASSIVE")
	executes("in the WAL")
	copyFile(t, path+"-wal", left+"-wal")
	copyFile(t, sidecar.Path(path), sidecar.Path(left))
	_, err = sqlite.Open(left, sqlite.Options{})
	require.ErrorIs(t, err, journal.ErrRestored)
}
