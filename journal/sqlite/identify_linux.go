package sqlite

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// fileID tells a file from every other that there is.
type fileID struct {
	device [2]uint32 // major and minor
	inode  uint64
}

func (f fileID) same(other fileID) bool { return f == other }

// identify tells which file a path leads to. It does not ask for the file's times: from
// Linux 6.13 on the first write after someone did notes another time, and the fsync
// after that writes the inode too (https://docs.kernel.org/filesystems/multigrain-ts.html).
func identify(path string) (fileID, error) {
	var there unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO, &there)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO, &there)
	}
	switch {
	case err == nil:
		return fileID{[2]uint32{there.Dev_major, there.Dev_minor}, there.Ino}, nil
	case !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM):
		return fileID{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	// Linux before 4.11, or a sandbox that does not know statx.
	var old unix.Stat_t
	if err := unix.Stat(path, &old); err != nil {
		return fileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{[2]uint32{unix.Major(old.Dev), unix.Minor(old.Dev)}, old.Ino}, nil
}
