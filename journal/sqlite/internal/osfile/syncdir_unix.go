//go:build unix

package osfile

import (
	"errors"
	"os"
)

// SyncDir makes the entries of a directory survive a loss of power.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
