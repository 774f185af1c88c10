//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// served is the number of operations that a child begins before it prints that it serves: more than a list reads at once.
const served = 350

// childServes begins and completes operations until it is killed. It prints a line once the first are there.
func childServes(path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		res, err := j.Apply(ctx, begin(fmt.Sprint("invoice-", n), s))
		if err == nil && n%3 > 0 {
			_, err = j.Apply(ctx, complete(res.Operation, s))
		}
		if err != nil {
			return err
		}
		if n == served {
			fmt.Println("serving")
		}
	}
}

// surroundings describes the files beside a journal: names, inodes, owners and modes.
func surroundings(t *testing.T, path string) map[string]string {
	t.Helper()
	there := make(map[string]string)
	for _, name := range filesOf(t, path) {
		info, err := os.Stat(name)
		if err != nil {
			continue // its process has removed it meanwhile
		}
		sys := info.Sys().(*syscall.Stat_t)
		inode := sys.Ino
		if name == path+"-sidecar" {
			inode = 0 // the writing process replaces it now and then
		}
		there[filepath.Base(name)] = fmt.Sprint(inode, " ", sys.Uid, " ", sys.Gid, " ", info.Mode())
	}
	return there
}

// whatever calls everything that reads a read-only Journal.
func whatever(t *testing.T, j *sqlite.Journal) (listed int) {
	t.Helper()
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		listed++
		if listed%500 == 1 {
			whole, err := j.Get(t.Context(), op.Ref)
			require.NoError(t, err)
			assert.Equal(t, op.Handle, whole.Handle)
		}
		if listed%501 == 1 && op.State == journal.StateInFlight { // completed operations are not found by their keys
			found, err := j.FindBy(t.Context(), "ledger", machine.ByKey, op.Key)
			require.NoError(t, err)
			require.Len(t, found, 1)
			assert.Equal(t, op.Ref, found[0].Operation.Ref)
		}
	}
	_, err := j.Get(t.Context(), journal.Ref{ID: "there is none"})
	require.ErrorIs(t, err, journal.ErrNotFound)
	for _, err := range j.ListFlows(t.Context(), journal.FlowFilter{}) {
		require.NoError(t, err)
	}
	_, err = j.GetFlow(t.Context(), journal.Ref{ID: "there is none"})
	require.ErrorIs(t, err, journal.ErrNotFound)
	bookmark, err := j.Bookmark(t.Context(), "feed")
	require.NoError(t, err)
	assert.Equal(t, "feed", bookmark.Name)
	_, err = j.SetBookmark(t.Context(), bookmark)
	require.ErrorIs(t, err, sqlite.ErrReadOnly)
	for _, err := range j.ListBookmarks(t.Context()) {
		require.NoError(t, err)
	}
	stats, err := j.Stats(t.Context())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, stats.Begun, int64(listed))
	violations, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, violations)
	copied := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, j.Backup(t.Context(), copied))
	c, err := sqlite.Open(copied, readOnly)
	require.NoError(t, err)
	n := 0
	for _, err := range c.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		n++
	}
	assert.GreaterOrEqual(t, n, listed)
	require.NoError(t, c.Close())
	return listed
}

// A process looks at the file of a writing process, of a killed one, and of none. It makes no file, changes no other
// process's files, and leaves the sidecar as it is.
func TestReadOnlyBesideAProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	cmd, out := start(t, "serve", path)
	require.True(t, out.Scan())
	require.Equal(t, "serving", out.Text())

	before := surroundings(t, path)
	for range 2 {
		j, err := sqlite.Open(path, readOnly)
		require.NoError(t, err)
		assert.Greater(t, whatever(t, j), served)
		require.NoError(t, j.Close())
	}
	assert.Equal(t, before, surroundings(t, path), "it runs")

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	sidecar, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)
	j, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	many := whatever(t, j)
	require.NoError(t, j.Close())
	assert.Equal(t, before, surroundings(t, path), "it was killed, and its session is left alone")
	unchanged, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)
	assert.Equal(t, string(sidecar), string(unchanged))

	require.NoError(t, open(t, path).Close())
	idle := surroundings(t, path)
	require.NotContains(t, idle, "journal.db-wal")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	if j, err = sqlite.Open(path, readOnly); assert.NoError(t, err) {
		assert.Equal(t, many, whatever(t, j))
		require.NoError(t, j.Close())
	}
	assert.Equal(t, idle, surroundings(t, path), "nobody has it open")
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, content, again)
}

// A reader is open before a writer, and stays open until after it.
func TestReadOnlyAroundAnOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	looking, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	see := func() (n int) {
		for _, err := range looking.List(t.Context(), journal.Filter{}) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	for n := range 3 {
		require.Equal(t, n, see())
		j := open(t, path)
		goOn(t, j, fmt.Sprint("invoice-", n))
		require.Equal(t, n+1, see())
		require.NoError(t, j.Close())
		require.Equal(t, n+1, see())
		if n == 1 {
			require.NoError(t, looking.Close())
			looking, err = sqlite.Open(path, readOnly)
			require.NoError(t, err)
		}
	}
	require.NoError(t, looking.Close())
	require.ErrorIs(t, looking.Close(), journal.ErrClosed)
}

func TestReadOnlyWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	w := open(t, path)
	s, err := w.Join(t.Context())
	require.NoError(t, err)
	j, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	defer j.Close()
	before := surroundings(t, path)
	ctx := t.Context()
	for name, write := range map[string]func() error{
		"Apply":       func() error { _, err := j.Apply(ctx, begin("invoice-1", s)); return err },
		"Claim":       func() error { _, err := j.Claim(ctx, machine.Event{}, 1); return err },
		"Reap":        func() error { _, err := j.Reap(ctx, machine.Event{}, 1); return err },
		"Join":        func() error { _, err := j.Join(ctx); return err },
		"Adopt":       func() error { return j.Adopt(ctx) },
		"ResetClock":  func() error { return j.ResetClock(ctx, time.Now()) },
		"Looks":       func() error { _, err := j.Looks(ctx, machine.Event{}, 1); return err },
		"RecordEvent": func() error { _, _, err := j.RecordEvent(ctx, machine.Heard{}, nil); return err },
		"ApplyFlow":   func() error { _, err := j.ApplyFlow(ctx, machine.FlowEvent{}); return err },
		"ClaimFlows":  func() error { _, err := j.ClaimFlows(ctx, machine.FlowEvent{}, 1); return err },
		"ReapFlows":   func() error { _, err := j.ReapFlows(ctx, machine.FlowEvent{}, 1); return err },
		"BeginTx":     func() error { _, err := j.BeginTx(ctx); return err },
	} {
		assert.ErrorIs(t, write(), sqlite.ErrReadOnly, name)
	}
	assert.Equal(t, before, surroundings(t, path))
}

// A mistyped path makes no file.
func TestExistingMakesNothing(t *testing.T) {
	for name, opts := range map[string]sqlite.Options{"existing": {Existing: true}, "read-only": readOnly} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "payements.db")
			_, err := sqlite.Open(path, opts)
			require.ErrorIs(t, err, fs.ErrNotExist)
			assert.ErrorContains(t, err, "check the path")
			require.ErrorIs(t, os.Symlink(path+"-target", path), nil)
			_, err = sqlite.Open(path, opts)
			require.ErrorIs(t, err, fs.ErrNotExist, "a link to nowhere")
			require.NoError(t, os.Remove(path))
			require.Empty(t, filesOf(t, path))
		})
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	j, err := sqlite.Open(path, sqlite.Options{Existing: true})
	require.NoError(t, err)
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Close())
}

// The file of another release is neither migrated nor misread. The process that has it open goes on.
func TestReadOnlyLeavesTheSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	_, out := start(t, "serve", path)
	require.True(t, out.Scan())
	j, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	defer j.Close()
	_, err = j.Stats(t.Context())
	require.NoError(t, err)
	newer := filepath.Join(t.TempDir(), "newer.db")
	require.NoError(t, j.Backup(t.Context(), newer))
	before := listOf(t, j)
	for version, is := range map[int]error{99: journal.ErrVersion, 0: journal.ErrVersion} {
		alter(t, newer, fmt.Sprint("UPDATE onceward_head SET version = ", version))
		_, err := sqlite.Open(newer, readOnly)
		require.ErrorIs(t, err, is)
	}
	assert.GreaterOrEqual(t, listOf(t, j), before)
}

func listOf(t *testing.T, j *sqlite.Journal) (n int) {
	t.Helper()
	for _, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		n++
	}
	return n
}

// If another file replaces the journal's while a reader has it open, the reader refuses it as another journal.
func TestReadOnlySeesAReplacement(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "journal.db"), filepath.Join(dir, "other.db")
	require.NoError(t, open(t, path).Close())
	j, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	defer j.Close()
	require.NoError(t, j.Backup(t.Context(), other))
	require.NoError(t, os.Rename(other, path))
	_, err = j.Stats(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.ErrorContains(t, err, "open it again")

	require.NoError(t, os.WriteFile(path+"-wal", make([]byte, 64), 0o600))
	_, err = sqlite.Open(path, readOnly)
	require.ErrorContains(t, err, "-shm")
}
