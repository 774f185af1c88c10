//go:build unix

package main

import (
	"net"
	"os"
	"syscall"
)

// listenForGroup opens a Unix socket that its owner and its group can reach, and no other user at any time.
func listenForGroup(path string) (net.Listener, error) {
	was := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(was)
	if err == nil {
		err = os.Chmod(path, 0o660)
	}
	return l, err
}
