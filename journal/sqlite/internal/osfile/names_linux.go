package osfile

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// NamesOf returns the number of a file's links, and whether it is a mount point. A missing file has none. Its
// device does not show a mount point, because it is the device of the mounted file system.
func NamesOf(path string) (links uint64, mount bool, err error) {
	var there unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_NLINK|unix.STATX_TYPE, &there)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_NLINK|unix.STATX_TYPE, &there)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, false, nil
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM): // as Identify
		var old unix.Stat_t
		if err := unix.Stat(path, &old); err != nil {
			return 0, false, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
		if old.Mode&unix.S_IFMT != unix.S_IFREG {
			return 0, false, nil
		}
		return uint64(old.Nlink), IsMountPoint(path), nil //nolint:unconvert // not on all architectures
	case err != nil:
		return 0, false, &fs.PathError{Op: "statx", Path: path, Err: err}
	case there.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0, false, nil // others say what is wrong with it
	case there.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return uint64(there.Nlink), there.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	return uint64(there.Nlink), IsMountPoint(path), nil // Linux before 5.8
}

// IsMountPoint searches the list of this process's mounts (proc(5)). It returns false if the list is
// unreadable.
func IsMountPoint(path string) bool {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	defer f.Close()
	return mountedAt(bufio.NewScanner(f), path)
}

var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func mountedAt(mounts *bufio.Scanner, path string) bool {
	for mounts.Scan() {
		if fields := strings.Fields(mounts.Text()); len(fields) > 4 && unescapeMount.Replace(fields[4]) == path {
			return true
		}
	}
	return false
}
