package osfile

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// ID tells a file from every other that there is.
type ID struct {
	device [2]uint32 // major and minor
	inode  uint64
}

// Same tells whether both are one file.
func (f ID) Same(other ID) bool { return f == other }

// Identify tells which file a path leads to. It does not ask for the file's times: from
// Linux 6.13 on the first write after someone did notes another time, and the fsync
// after that writes the inode too (https://docs.kernel.org/filesystems/multigrain-ts.html).
func Identify(path string) (ID, error) {
	var there unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO, &there)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO, &there)
	}
	switch {
	case err == nil:
		return ID{[2]uint32{there.Dev_major, there.Dev_minor}, there.Ino}, nil
	case !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM):
		return ID{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	// Linux before 4.11, or a sandbox that does not know statx.
	var old unix.Stat_t
	if err := unix.Stat(path, &old); err != nil {
		return ID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return ID{[2]uint32{unix.Major(old.Dev), unix.Minor(old.Dev)}, old.Ino}, nil
}
