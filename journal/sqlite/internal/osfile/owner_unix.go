//go:build unix

package osfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// OwnLike gives a file that we made beside the journal to whoever may use that, as
// SQLite does with the -wal: else nobody but root could go on where root opened it once,
// and none of its group where the group may write it.
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
