package main

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers/providertest"
)

// A second user on the machine, outside the socket's group, can't make a call through.
func TestASecondUserCantConnect(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	s := open(t, providertest.Objects("ch_"))
	s.start(t, "--new")
	for at := s.dir; at != "/"; at = filepath.Dir(at) { // the folders keep none out: the socket's mode has to
		info, err := os.Stat(at)
		require.NoError(t, err)
		if info.Mode().Perm()&0o001 == 0 {
			require.NoError(t, os.Chmod(at, info.Mode().Perm()|0o011))
		}
	}
	require.NoError(t, connectAs(t, 0, s.socket))
	assert.ErrorIs(t, connectAs(t, 65534, s.socket), syscall.EACCES)
}

// connectAs connects to a socket on a separate thread, as a user and the group with that number alone.
func connectAs(t *testing.T, user uintptr, socket string) error {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if user != 0 {
			for _, call := range [][3]uintptr{{syscall.SYS_SETGROUPS, 0, 0}, {syscall.SYS_SETFSGID, user, 0}, {syscall.SYS_SETFSUID, user, 0}} {
				syscall.RawSyscall(call[0], call[1], call[2], 0)
			}
		}
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err == nil {
			err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket})
			syscall.Close(fd)
		}
		result <- err
	}()
	return <-result
}
