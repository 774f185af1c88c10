// Package location says which file a path leads to, and whether a journal may lie there.
//
// It knows names: of links, of mounts, and of the files beside a journal. It must not know what is in a file. The journal
// opens the path that it gets here.
package location

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// ErrNotJournal is sqlite.ErrNotJournal.
var ErrNotJournal = errors.New("sqlite: not a journal")

// Create returns the real path of the file. If the file does not exist, it makes an empty one with mode 0600,
// before SQLite would use the umask, unless the file was removed from its WAL. It never opens an existing
// file. Another goroutine may have opened the made file, so made, if not nil, must stay open as long.
func Create(path string) (real string, made *os.File, err error) {
	defer func() {
		if err != nil && made != nil {
			_ = made.Close()
		}
	}()
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", made, fmt.Errorf("journal %s: %w", path, err)
	}
	path = abs
	dir := filepath.Dir(path)
	if err := osfile.CheckFilesystem(dir); err != nil {
		return "", made, fmt.Errorf("journal %s: %w", path, err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := sidecar.RefuseStale(path); err != nil {
			return "", made, err
		}
		if err := cmp.Or(BelongsBeside(path), fits(path)); err != nil {
			return "", made, fmt.Errorf("%w: %w", ErrNotJournal, err)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err == nil {
			made, err = f, osfile.SyncDir(dir)
		}
		if target, link := os.Readlink(path); errors.Is(err, fs.ErrExist) && link == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, target)
			}
			return Create(target) // the link's target does not exist yet
		}
		if err != nil && !errors.Is(err, fs.ErrExist) { // another process may have come first
			return "", made, fmt.Errorf("journal %s: can't be made: %w; check that its directory exists and can be written", path, err)
		}
	case err != nil:
		return "", made, fmt.Errorf("journal %s: %w", path, err)
	case !info.Mode().IsRegular():
		return "", made, fmt.Errorf("%w: %s is %s; give the path of a file", ErrNotJournal, path, describe(info.Mode()))
	}
	real, err = filepath.EvalSymlinks(path)
	if err == nil {
		err = osfile.CheckFilesystem(filepath.Dir(real))
	}
	if err != nil {
		return "", made, fmt.Errorf("journal %s: %w", path, err)
	}
	return real, made, nil
}

func describe(mode fs.FileMode) string {
	if mode.IsDir() {
		return "a directory"
	}
	return "not a regular file"
}

// Restrict removes the rights of other users from the journal's file. It works by path, because opening the
// file would cost SQLite its locks.
func Restrict(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		err = os.Chmod(name, info.Mode().Perm()&^0o077)
		if errors.Is(err, fs.ErrPermission) && info.Mode().Perm()&0o007 == 0 {
			continue // the owner lets the group use it
		}
		if err != nil {
			return fmt.Errorf("journal %s: others may read it, and that can't be changed: %w; run chmod 600 on it", path, err)
		}
	}
	return nil
}

// Existing returns the real path of a file that is there. Nothing is made.
func Existing(path string) (real string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("journal %s: %w", path, err)
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := sidecar.RefuseStale(abs); err != nil {
			return "", err
		}
		return "", fmt.Errorf("journal %s: %w, and none is made (Options.Existing); check the path", abs, fs.ErrNotExist)
	case err != nil:
		return "", fmt.Errorf("journal %s: %w", abs, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s is %s; give the path of a file", ErrNotJournal, abs, describe(info.Mode()))
	}
	real, err = filepath.EvalSymlinks(abs)
	if err == nil {
		err = osfile.CheckFilesystem(filepath.Dir(real))
	}
	if err != nil {
		return "", fmt.Errorf("journal %s: %w", abs, err)
	}
	return real, nil
}
