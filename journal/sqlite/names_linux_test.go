package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// inItsOwnMounts runs the test again in a process with a mount namespace of its own. It reports whether this is that
// process.
func inItsOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childTest) == t.Name() {
		return true
	}
	out, err := testAlone(t, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	})
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) || strings.Contains(out, "--- SKIP") {
		t.Skip("no user may mount anything here")
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, out, "--- PASS: "+t.Name())
	return false
}

func bind(t *testing.T, from, to string) {
	t.Helper()
	err := syscall.Mount(from, to, "", syscall.MS_BIND, "")
	if errors.Is(err, syscall.EPERM) {
		t.Skip("no user may mount anything here")
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Unmount(to, syscall.MNT_DETACH) })
}

// A file that is a mount by itself is refused.
func TestFileMountedByItselfIsRefused(t *testing.T) {
	if !inItsOwnMounts(t) {
		return
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-sidecar"} {
		path := filepath.Join(t.TempDir(), "a journal.db")
		leave(t, path)
		container := filepath.Join(t.TempDir(), "a journal.db")
		if suffix != "" {
			copyFile(t, path, container)
		}
		for _, name := range []string{path + suffix, container + suffix} {
			f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		bind(t, path+suffix, container+suffix)
		_, err := sqlite.Open(container, sqlite.Options{})
		require.ErrorIs(t, err, sqlite.ErrSecondName, suffix)
		assert.ErrorContains(t, err, container+suffix)
		assert.ErrorContains(t, err, "mount the folder")
		if suffix == "" {
			assert.NoFileExists(t, container+"-wal")
		}
	}

	// Its folder may be a mount, or lie below one.
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, j.Close())
	container := t.TempDir()
	bind(t, filepath.Dir(path), container)
	other := open(t, filepath.Join(container, "journal.db"))
	assert.True(t, has(t, other, "invoice-1"))
}

func TestAFileWithTwoLinksIsRefused(t *testing.T) {
	for _, suffix := range []string{"", "-wal", "-shm", "-sidecar"} {
		path := filepath.Join(t.TempDir(), "journal.db")
		leave(t, path)
		f, err := os.OpenFile(path+suffix, os.O_CREATE|os.O_RDWR, 0o600)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		linked := filepath.Join(t.TempDir(), "linked")
		require.NoError(t, os.Link(path+suffix, linked))
		_, err = sqlite.Open(path, sqlite.Options{})
		require.ErrorIs(t, err, sqlite.ErrSecondName, suffix)
		assert.ErrorContains(t, err, path+suffix)
		assert.ErrorContains(t, err, "2 links")
		require.NoError(t, os.Remove(linked))
		require.NoError(t, open(t, path).Close())
	}
}
