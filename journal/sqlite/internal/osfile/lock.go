package osfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Lock locks a file, which must exist. It returns nil if another process, or another
// lock of this one's, holds it.
func Lock(name string) (*flock.Flock, error) {
	lock := flock.New(name, flock.SetFlag(os.O_RDWR))
	locked, err := lock.TryLock()
	if err != nil || !locked {
		return nil, err
	}
	return lock, nil
}

// SyncFile makes what is in a file survive the loss of power.
func SyncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// GlobEscape takes the meaning from what filepath.Glob would read as a pattern, so that none is malformed.
func GlobEscape(path string) string {
	escape := []string{`*`, `[*]`, `?`, `[?]`, `[`, `[[]`}
	if filepath.Separator != '\\' {
		escape = append(escape, `\`, `\\`)
	}
	return strings.NewReplacer(escape...).Replace(path)
}
