//go:build unix

package osfile

import (
	"errors"
	"os"
)

// SyncDir makes a directory's entries survive a power loss.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
