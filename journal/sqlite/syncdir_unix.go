//go:build unix

package sqlite

import (
	"errors"
	"os"
)

// syncDir makes the entries of a directory survive the loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
