package osfile

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// ID identifies a file among all files.
type ID struct {
	device [2]uint32 // major and minor
	inode  uint64
}

// Same reports whether both are one file.
func (f ID) Same(other ID) bool { return f == other }

// Stamp changes when a file is written.
type Stamp struct {
	size, seconds int64
	nanoseconds   uint32
}

// Identify returns the ID of the file at a path. It does not read the file's times. From Linux 6.13 on, the
// first write after such a read records another time, and the next fsync writes the inode too
// (https://docs.kernel.org/filesystems/multigrain-ts.html).
func Identify(path string) (ID, error) {
	file, _, err := look(path, unix.STATX_INO)
	return file, err
}

// Look is Identify for a seldom written file, with the file's stamp.
func Look(path string) (ID, Stamp, error) {
	return look(path, unix.STATX_INO|unix.STATX_SIZE|unix.STATX_MTIME)
}

func look(path string, mask int) (ID, Stamp, error) {
	var there unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, mask, &there)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statx(unix.AT_FDCWD, path, 0, mask, &there)
	}
	if err != nil {
		return ID{}, Stamp{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return ID{[2]uint32{there.Dev_major, there.Dev_minor}, there.Ino}, Stamp{int64(there.Size), there.Mtime.Sec, there.Mtime.Nsec}, nil
}
