package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// mounted mounts a file system of one megabyte. That takes root, and a machine that allows mounts: set ONCEWARD_MOUNT.
func mounted(t *testing.T) (dir string, remount func(flags uintptr) error) {
	t.Helper()
	if os.Getenv("ONCEWARD_MOUNT") == "" {
		t.Skip("set ONCEWARD_MOUNT, as root, to mount file systems")
	}
	dir = t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir, func(flags uintptr) error {
		return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=1m")
	}
}

// On a full file system writes fail closed. The journal goes on when there is room again.
func TestFullFileSystemFailsClosed(t *testing.T) {
	dir, _ := mounted(t)
	path := filepath.Join(dir, "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	ballast := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 400<<10), 0o600))
	var told []string
	for n := 0; err == nil; n++ {
		ev := begin(fmt.Sprint("op-", n), s)
		if _, err = j.Apply(t.Context(), ev); err == nil {
			told = append(told, ev.Ref.ID)
		}
	}
	assert.ErrorContains(t, err, "the disk is full")
	assert.ErrorContains(t, err, path)
	require.NotEmpty(t, told)
	require.NoError(t, os.Remove(ballast))
	goOn(t, j, "after")
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	j = open(t, path)
	for _, id := range told {
		_, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err, id)
	}
	require.NoError(t, sound(t.Context(), j))
}

// On a file system that is remounted read-only, writes fail closed.
func TestReadOnlyFileSystemFailsClosed(t *testing.T) {
	dir, remount := mounted(t)
	path := filepath.Join(dir, "journal.db")
	leave(t, path)
	require.NoError(t, remount(syscall.MS_RDONLY))
	_, err := tryOpen(t, path)
	require.Error(t, err)
	assert.ErrorContains(t, err, path)
	assert.ErrorContains(t, err, "can be written")
	require.NoError(t, remount(0))
	goOn(t, open(t, path), "after")
}
