//go:build !unix

package main

import (
	"errors"
	"net"
)

// listenForGroup refuses: this system has no modes that would keep other users out.
func listenForGroup(string) (net.Listener, error) {
	return nil, errors.New("this system can't keep other users from a socket: give an address")
}
