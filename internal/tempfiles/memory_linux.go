package tempfiles

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	locked = "onceward-tests-"
	making = "onceward-making-"
)

// folder returns a folder in memory with room for the files of tests, or "".
func folder() string {
	const folder, room = "/dev/shm", 2 << 30
	var on syscall.Statfs_t
	if syscall.Statfs(folder, &on) != nil || on.Bavail*uint64(on.Bsize) < room {
		return ""
	}
	return folder
}

// within makes a folder within shared, and removes the folders of tests that were killed. A process holds the lock on
// the folder for life, or until the file is closed.
func within(shared string) (dir string, lock *os.File, err error) {
	left, _ := filepath.Glob(filepath.Join(shared, locked+"*"))
	for _, dir := range left {
		if lock, err := lockFolder(dir); err == nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
	made, err := os.MkdirTemp(shared, making)
	if err != nil {
		return "", nil, err
	}
	if lock, err = lockFolder(made); err != nil {
		return "", nil, err
	}
	dir = filepath.Join(shared, locked+strings.TrimPrefix(filepath.Base(made), making))
	return dir, lock, os.Rename(made, dir)
}

func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
