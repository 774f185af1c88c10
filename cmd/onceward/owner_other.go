//go:build !unix

package main

import "os"

// becomeOwner does nothing: files have no numbered owner here.
func (c *command) becomeOwner(string) error { return nil }

func ownerOf(string) (uid uint32, known bool) { return 0, false }

// othersMayRead can't tell: a file's mode says nothing here.
func othersMayRead(os.FileInfo) bool { return false }

// sessionAlive treats a session whose file exists as alive.
func sessionAlive(journal, session string) (alive, missing bool) {
	_, err := os.Stat(journal + "-session-" + session)
	return err == nil, os.IsNotExist(err)
}
