//go:build unix

package osfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// OwnLike gives the file name, beside the journal at path, the rights of the journal's group and, if the process is root,
// its owner and group. SQLite does the same with the -wal. Otherwise only root could continue after root opened the
// journal once, and the group could not, even if it may write the journal.
func OwnLike(path, name string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Chmod(name, 0o600|info.Mode().Perm()&0o060); err != nil {
		return err
	}
	there, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	err = os.Chown(name, int(there.Uid), int(there.Gid))
	if errors.Is(err, fs.ErrPermission) {
		return nil // root without that right
	}
	return err
}
