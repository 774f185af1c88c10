package postgres_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// onSmallDisk makes servers that start next use a file system of that size.
func onSmallDisk(t *testing.T, size string) (folder string) {
	t.Helper()
	if os.Getenv("ONCEWARD_MOUNT") == "" {
		t.Skip("set ONCEWARD_MOUNT, as root, to mount file systems")
	}
	folder, err := os.MkdirTemp("", "onceward-disk-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o755))
	require.NoError(t, syscall.Mount("tmpfs", folder, "tmpfs", 0, "size="+size+",mode=1777"))
	t.Cleanup(func() {
		assert.NoError(t, syscall.Unmount(folder, syscall.MNT_DETACH))
		assert.NoError(t, os.Remove(folder))
	})
	t.Setenv("TMPDIR", folder)
	return folder
}

// fillDisk writes a file until no space is left.
func fillDisk(t *testing.T, folder string) (path string) {
	t.Helper()
	path = filepath.Join(folder, "fills-it")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	for size := 1 << 20; size >= 1; {
		if _, err := file.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) || errors.Is(err, io.ErrShortWrite) {
			size /= 2
		} else {
			require.NoError(t, err)
		}
	}
	return path
}

// answers reports whether the server is there, once it has recovered.
func answers(t *testing.T, server *postgrestest.Cluster) bool {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		conn, err := pgx.Connect(t.Context(), server.URL())
		if err == nil {
			_ = conn.Close(t.Context())
			return true
		}
		if refused, ok := errors.AsType[*net.OpError](err); ok && refused.Op == "dial" {
			return false // nothing listens: the server has stopped
		}
	}
	return false
}

// A full disk stops new operations and loses nothing. If there is no room for its log, the server stops by itself.
func TestDatabaseOnAFullDisk(t *testing.T) {
	folder := onSmallDisk(t, "260m")
	server := postgrestest.Start(t, postgrestest.Setting("max_wal_size", "64MB"), postgrestest.Setting("min_wal_size", "32MB"))
	opts := durable(t, server)
	j := openAt(t, server.URL(), opts)
	c := work(t.Context(), j, "op", 16)
	for range 2 {
		require.True(t, c.until(within(t, 60*time.Second), 300))
		filler := fillDisk(t, folder)
		before := c.failures()
		assert.Eventually(t, func() bool { return c.failures() > before+100 }, 60*time.Second, 10*time.Millisecond, "it is noticed")
		require.NoError(t, os.Remove(filler))
		if !answers(t, server) {
			server.Run(t)
		}
	}
	require.True(t, c.until(within(t, 60*time.Second), 300), "it goes on")
	c.end()
	c.assertKept(t, openAt(t, server.URL(), opts))
}
