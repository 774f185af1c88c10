//go:build unix

package sqlite_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// If the -shm file is removed and a later process opens the journal, the earlier process writes nothing any more. It
// leaves the later one's writes as they are, even if it closes last.
func TestShmRemovedAndOpenedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for i := range 100 {
		_, err := j.Apply(t.Context(), begin(fmt.Sprint("before-", i), s))
		require.NoError(t, err)
	}
	require.NoError(t, os.Remove(path+"-shm"))
	cmd, lines := start(t, "suffer", path, childCallers+"=8")
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

// A process that has lost the -shm file also says so if it can't read the later writes of others.
func TestShmRemovedAndTheFilesWrittenOver(t *testing.T) {
	for _, suffix := range []string{"-wal", ""} { // the first page is in the WAL
		t.Run("journal.db"+suffix, func(t *testing.T) {
			path, j, s := joined(t)
			root := one[int](t, anotherProcess(t, path), "SELECT rootpage FROM sqlite_schema WHERE name = 'onceward_names'")
			alter(t, path, "CREATE TABLE app (x)") // so that the writer reads all pages again
			require.NoError(t, os.Remove(path+"-shm"))
			content, err := os.ReadFile(path + suffix)
			require.NoError(t, err)
			if suffix == "" {
				clear(content[(root-1)*8192 : root*8192])
			} else {
				clear(content[32:]) // behind its header
			}
			require.NoError(t, os.WriteFile(path+suffix, content, 0o600))
			_, err = j.Apply(t.Context(), begin("invoice-1", s))
			require.ErrorIs(t, err, journal.ErrRestored)
			assert.ErrorContains(t, err, path+"-shm was removed or replaced")
			_ = j.Close()
		})
	}
}

// The journal notices an older copy that was written over its file before it records anything on top of it.
func TestOlderCopyWrittenOverTheFile(t *testing.T) {
	for name, after := range map[string]func(t *testing.T, path string, j *sqlite.Journal){
		"no other process writes": func(*testing.T, string, *sqlite.Journal) {},
		"others write": func(t *testing.T, path string, _ *sqlite.Journal) { // the process reads its knowledge again
			alter(t, path, "INSERT INTO app VALUES (1)")
		},
		"the sidecar is written": func(t *testing.T, _ string, j *sqlite.Journal) { require.NoError(t, sqlite.Mark(j)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			leave(t, path)
			alter(t, path, "CREATE TABLE app (x)")
			older, err := os.ReadFile(path)
			require.NoError(t, err)
			j := open(t, path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			claimed, err := j.Claim(t.Context(), claim(s), 10)
			require.NoError(t, err)
			require.Len(t, claimed, 1)
			_, err = j.Apply(t.Context(), complete(claimed[0].Operation, s))
			require.NoError(t, err)
			require.NoError(t, sqlite.Mark(j))
			moveWAL(t, path, "FULL")
			sqlite.Checkpointed(j)
			goOn(t, j, "later")
			require.NoError(t, os.WriteFile(path, older, 0o600)) // the file is the same one
			after(t, path, j)

			_, err = j.Apply(t.Context(), begin("meanwhile", s))
			require.ErrorIs(t, err, journal.ErrRestored)
			assert.ErrorContains(t, err, path+": an older copy was written over it")
			claimed, _ = j.Claim(t.Context(), claim(s), 10)
			require.Empty(t, claimed, "it was settled")
			_ = j.Close()
			_, err = sqlite.Open(path, sqlite.Options{})
			require.ErrorIs(t, err, journal.ErrRestored)
			assert.ErrorContains(t, err, "remove "+path+"-wal", "what tells them apart is still there")
		})
	}
}

// moving is a disk that calls then when a checkpoint has written its pages to the file, and syncs it.
type moving struct {
	careless
	path  string
	armed atomic.Bool
	then  func()
}

func (d *moving) sync(handle uintptr, name string) int32 {
	if name == d.path && d.armed.Swap(false) {
		d.then()
	}
	return d.careless.sync(handle, name)
}

// An older copy that is written over the file while the journal moves its WAL is noticed once that is done. Meanwhile the
// journal records what is asked of it.
func TestOlderCopyWrittenOverTheFileDuringACheckpoint(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	leave(t, path)
	older, err := os.ReadFile(path)
	require.NoError(t, err)
	written, released := make(chan struct{}), make(chan struct{})
	d := &moving{careless: careless{dir}, path: path, then: func() {
		assert.NoError(t, os.WriteFile(path, older, 0o600)) // the file is the same one
		close(written)
		<-released
	}}
	t.Cleanup(watch(d))
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	goOn(t, j, "before")
	moveWAL(t, path, "FULL")
	goOn(t, j, "known to be in the file")

	d.armed.Store(true)
	large := begin("this wakes the checkpointer", s)
	large.Intent.Request.Body = noise(3 << 20)
	_, err = j.Apply(t.Context(), large)
	require.NoError(t, err)
	<-written
	_, err = j.Apply(t.Context(), begin("meanwhile", s))
	require.NoError(t, err)
	close(released)
	sqlite.Checkpointed(j)
	_, err = j.Apply(t.Context(), begin("later", s))
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.ErrorContains(t, err, path+": an older copy was written over it")
	_ = j.Close()
	_, err = sqlite.Open(path, sqlite.Options{})
	require.ErrorIs(t, err, journal.ErrRestored)
}

// The journal notices a WAL that was emptied in place before it reports a success that is missing there. It also
// notices before it moves the WAL's zeros into the file.
func TestWALCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "before")
	moveWAL(t, path, "FULL")
	goOn(t, j, "lost")
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path+"-wal", 0))

	_, err = j.Apply(t.Context(), begin("meanwhile", s))
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = j.Apply(t.Context(), begin("later", s))
	require.ErrorIs(t, err, journal.ErrRestored)
	_ = j.Close()
	j = open(t, path)
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored, "commits are missing")
	require.NoError(t, j.Adopt(t.Context()))
	require.Empty(t, verify(t, j))
	_, err = j.Get(t.Context(), journal.Ref{ID: "before"})
	require.NoError(t, err)
}

// Legitimate writes of other processes do not look like an older copy.
func TestOtherWritersAreNoOlderCopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	for i, statement := range []string{"CREATE TABLE app AS SELECT randomblob(1000000) AS x", "PRAGMA wal_checkpoint(TRUNCATE)",
		"DROP TABLE app", "VACUUM", "PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(RESTART)", "VACUUM", "CREATE TABLE app (x)"} {
		alter(t, path, statement)
		goOn(t, j, fmt.Sprint("after-", i))
		require.NoError(t, sqlite.Mark(j))
	}
	require.NoError(t, sound(t.Context(), j))
}

// If another file is put in place, the sidecar tells the next process. It is updated to the latest commit, whatever WAL
// lies there. The sidecar of another journal is left alone.
func TestInPlaceNoMoreIsKeptInTheSidecar(t *testing.T) {
	t.Cleanup(sqlite.MarkNever())
	for _, another := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "journal.db")
		leave(t, path)
		older, side, wal := filepath.Join(t.TempDir(), "older.db"), filepath.Join(t.TempDir(), "sidecar"), filepath.Join(t.TempDir(), "wal")
		copyFile(t, path, older)
		other := filepath.Join(t.TempDir(), "journal.db")
		leave(t, other)
		if another {
			copyFile(t, other, older)
			copyFile(t, other+"-sidecar", side)
		}
		goOn(t, open(t, other), "invoice-1")
		copyFile(t, other+"-wal", wal)
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		require.NoError(t, sqlite.Mark(j))
		for n := range 3 {
			_, err = j.Apply(t.Context(), begin(fmt.Sprint("invoice-", n), s))
			require.NoError(t, err)
		}
		number := latest(t, path)
		require.NotEqual(t, number, named(t, path), "it lags behind")
		require.NoError(t, os.Rename(older, path))
		require.NoError(t, os.Rename(wal, path+"-wal"))
		if another {
			require.NoError(t, os.Rename(side, path+"-sidecar"))
			number = named(t, path)
		}
		_, err = j.Apply(t.Context(), begin("invoice-4", s))
		require.ErrorIs(t, err, journal.ErrRestored)
		assert.Equal(t, number, named(t, path))
	}
}

// vanishing is a disk that calls then at the first write to a WAL.
type vanishing struct {
	careless
	once sync.Once
	then func()
}

func (d *vanishing) write(name string, _ int64, _ []byte, do func() int32) int32 {
	if strings.HasSuffix(name, "-wal") {
		d.once.Do(d.then)
	}
	return do()
}

// Open fails if the file, or one beside it, vanishes meanwhile.
func TestOpenOfAVanishingFile(t *testing.T) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		path := filepath.Join(t.TempDir(), "journal.db")
		d := &vanishing{careless: careless{filepath.Dir(path)}, then: func() { assert.NoError(t, os.Remove(path+suffix)) }}
		stop := watch(d)
		_, err := sqlite.Open(path, sqlite.Options{})
		stop()
		require.ErrorIs(t, err, fs.ErrNotExist, suffix)
		assert.ErrorContains(t, err, path+suffix)
		for _, name := range filesOf(t, path) {
			require.NoError(t, os.Remove(name))
		}
		goOn(t, open(t, path), "invoice-1")
	}
}

// An older copy may come right after the journal has moved its WAL, before a commit has looked at the file. It is noticed, too.
func TestOlderCopyWrittenOverTheFileAfterACheckpoint(t *testing.T) {
	t.Cleanup(sqlite.MarkNever())
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	leave(t, path)
	older, err := os.ReadFile(path)
	require.NoError(t, err)
	written, released := make(chan struct{}), make(chan struct{})
	d := &moving{careless: careless{dir}, path: path, then: func() { close(written); <-released }}
	t.Cleanup(watch(d))
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	d.armed.Store(true)
	large := begin("this wakes the checkpointer", s)
	large.Intent.Request.Body = noise(3 << 20)
	_, err = j.Apply(t.Context(), large)
	require.NoError(t, err)
	<-written
	goOn(t, j, "meanwhile")
	close(released)
	sqlite.Checkpointed(j)
	require.NoError(t, os.WriteFile(path, older, 0o600)) // the file is the same one
	_, err = j.Apply(t.Context(), begin("later", s))
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.ErrorContains(t, err, path+": an older copy was written over it")
	_ = j.Close()
}
