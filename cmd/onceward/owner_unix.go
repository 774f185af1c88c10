//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/onceward/onceward/internal/sessionfile"
)

// becomeOwner rejects users other than the file's owner, since their files beside it would block the owner. As root,
// with --as-owner, it becomes the owner, for good.
func (c *command) becomeOwner(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	switch {
	case !c.asOwner && os.Geteuid() == 0:
		return refused("%s belongs to user %d: run this as that user, or with --as-owner", path, owner.Uid)
	case os.Geteuid() != 0:
		return refused("%s belongs to user %d: run this as that user", path, owner.Uid)
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("become user %d: %w", owner.Uid, err)
	}
	if err := syscall.Setgid(int(owner.Gid)); err != nil {
		return fmt.Errorf("become group %d: %w", owner.Gid, err)
	}
	if err := syscall.Setuid(int(owner.Uid)); err != nil {
		return fmt.Errorf("become user %d: %w", owner.Uid, err)
	}
	return nil
}

// ownerOf returns the user who owns a file.
func ownerOf(path string) (uid uint32, known bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	s, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return s.Uid, true
}

// othersMayRead reports whether other users than the owner may read or write a file. A group may read root's, as in a
// secret that Kubernetes mounts.
func othersMayRead(info os.FileInfo) bool {
	allowed := os.FileMode(0o700)
	if s, known := info.Sys().(*syscall.Stat_t); known && s.Uid == 0 {
		allowed |= 0o050
	}
	return info.Mode().Perm()&^allowed != 0
}

// sessionAlive reports whether a process holds the lock on a session's file beside the journal. It takes a shared lock
// and releases it at once, without blocking anyone. A copy in its place is not that file.
func sessionAlive(journal, session string) (alive, missing bool) {
	f, err := os.Open(journal + "-session-" + session)
	if err != nil {
		return false, os.IsNotExist(err)
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil {
		return true, false
	}
	is, err := f.Stat()
	return false, err == nil && sessionfile.IsCopy(journal, f.Name(), is)
}
