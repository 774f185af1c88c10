package osfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Lock locks an existing file. It returns nil if another process, or another lock of the process, holds it.
func Lock(name string) (*flock.Flock, error) {
	lock := flock.New(name, flock.SetFlag(os.O_RDWR))
	locked, err := lock.TryLock()
	if err != nil || !locked {
		return nil, err
	}
	return lock, nil
}

// SyncFile makes a file's content survive a power loss.
func SyncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// GlobEscape escapes a path for filepath.Glob, so no part of the path is a pattern.
func GlobEscape(path string) string {
	escape := []string{`*`, `[*]`, `?`, `[?]`, `[`, `[[]`}
	if filepath.Separator != '\\' {
		escape = append(escape, `\`, `\\`)
	}
	return strings.NewReplacer(escape...).Replace(path)
}
