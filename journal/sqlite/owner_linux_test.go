package sqlite_test

import (
	"bufio"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

const nobodysID = 65534

// The files that a process makes beside the journal belong to the journal's owner.
func TestOwnerOfFilesBesideTheJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	owner := os.Getuid()
	if owner == 0 {
		owner = nobodysID
		for _, name := range []string{filepath.Dir(path), path, path + "-sidecar"} {
			require.NoError(t, os.Chown(name, owner, owner))
		}
		require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755))
	}
	j := open(t, path) // as root, once
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	names := filesOf(t, path)
	require.Len(t, names, 5, "the journal, its -wal, its -shm, its sidecar and the session's file")
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.EqualValues(t, owner, info.Sys().(*syscall.Stat_t).Uid, name)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	require.NoError(t, j.Close())
	t.Cleanup(asNobody(t))
	goOn(t, open(t, path), "invoice-2")
}

// A process of the group may take a file that its group may use.
func TestOwnersGroupTakesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	if os.Getuid() == 0 {
		require.NoError(t, os.Chmod(filepath.Dir(path), 0o777))
		require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755))
		for _, name := range []string{path, path + "-sidecar"} {
			require.NoError(t, os.Chown(name, 12345, nobodysID))
			require.NoError(t, os.Chmod(name, 0o660))
		}
		t.Cleanup(asNobody(t))
		require.NoError(t, syscall.Setfsgid(nobodysID))
		t.Cleanup(func() { require.NoError(t, syscall.Setfsgid(0)) })
		goOn(t, open(t, path), "invoice-1")
		info, err := os.Stat(path + "-sidecar")
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o660), info.Mode().Perm(), "its group may write that, too")
		return
	}
	require.NoError(t, os.Chmod(path, 0o660))
	goOn(t, open(t, path), "invoice-1")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "its owner takes back what others were allowed")
}

// If root looks at the file of another user's service, the service goes on and starts again.
func TestReadOnlyLeavesTheOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can look at another user's journal")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	require.NoError(t, open(t, path).Close())
	for _, name := range append(filesOf(t, path), dir) {
		require.NoError(t, os.Chown(name, nobodysID, nobodysID))
	}
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	before := surroundings(t, path)
	j, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	whatever(t, j)
	require.NoError(t, j.Close())
	assert.Equal(t, before, surroundings(t, path))

	exe, err := os.Executable()
	require.NoError(t, err)
	binary := filepath.Join(dir, "service")
	content, err := os.ReadFile(exe)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(binary, content, 0o755))
	cmd := child(t, "serve", path)
	cmd.Path = binary
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodysID, Gid: nobodysID}}
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	out := bufio.NewScanner(pipe)
	require.True(t, out.Scan())
	require.Equal(t, "serving", out.Text())
	before = surroundings(t, path)
	j, err = sqlite.Open(path, readOnly)
	require.NoError(t, err)
	whatever(t, j)
	require.NoError(t, j.Close())
	assert.Equal(t, before, surroundings(t, path))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	j, err = sqlite.Open(path, readOnly)
	require.NoError(t, err)
	whatever(t, j)
	require.NoError(t, j.Close())
	assert.Equal(t, before, surroundings(t, path))
	t.Cleanup(asNobody(t))
	goOn(t, open(t, path), "invoice-after")
}

// A file that all others may read is refused, if the process that opens it can't change that.
func TestOwnerThatLetsOthersRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has files that it can let another user have")
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o777))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755))
	require.NoError(t, os.Chmod(path, 0o666))
	t.Cleanup(asNobody(t))
	_, err := sqlite.Open(path, sqlite.Options{})
	require.ErrorContains(t, err, "run chmod 600 on it")
}
