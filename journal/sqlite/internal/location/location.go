// Package location says which file a path leads to, and whether a journal may lie there.
//
// It knows names: those of links, mounts, and the files beside a journal. It must not know what is in a file. The
// journal opens the path from this package.
package location

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/onceward/onceward/journal/sqlite/internal/inplace"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// ErrNotJournal is sqlite.ErrNotJournal.
var ErrNotJournal = errors.New("sqlite: not a journal")

// making is held while a file may be made. An Open of the process that has the file open then would lose its POSIX
// locks, once the new file is closed.
var making sync.Mutex

// Find returns the real path of the file. If mayMake is set and the file does not exist, Find makes an empty one with
// mode 0600, since SQLite would use the umask. It makes none beside a WAL without a file, and opens no existing file.
func Find(path string, mayMake bool) (real string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("journal %s: %w", path, err)
	}
	making.Lock()
	defer making.Unlock()
	return find(abs, mayMake)
}

func find(path string, mayMake bool) (real string, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if inplace.HasWAL(path) {
			return "", inplace.Stale(path, 1)
		}
		if !mayMake {
			return "", fmt.Errorf("journal %s: %w, and none is made (Options.Existing); check the path", path, fs.ErrNotExist)
		}
		target, err := create(path)
		if err != nil {
			return "", err
		}
		if target != "" {
			return find(target, true)
		}
	case err != nil:
		return "", fmt.Errorf("journal %s: %w", path, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s is %s; give the path of a file", ErrNotJournal, path, describe(info.Mode()))
	}
	real, err = filepath.EvalSymlinks(path)
	if err == nil {
		err = osfile.CheckFilesystem(filepath.Dir(real))
	}
	if err != nil {
		return "", fmt.Errorf("journal %s: %w", path, err)
	}
	return real, nil
}

// create makes an empty file, unless another process comes first. If path is a link to a missing file, create returns
// the missing file's path instead.
func create(path string) (target string, err error) {
	dir := filepath.Dir(path)
	if err := osfile.CheckFilesystem(dir); err != nil {
		return "", fmt.Errorf("journal %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case err == nil:
		err = errors.Join(f.Close(), osfile.SyncDir(dir))
	case errors.Is(err, fs.ErrExist):
		if target, err = os.Readlink(path); err != nil {
			return "", nil // another process has made it
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
	}
	if err != nil {
		return "", fmt.Errorf("journal %s: can't be made: %w; check that its directory exists and can be written", path, err)
	}
	return target, nil
}

func describe(mode fs.FileMode) string {
	if mode.IsDir() {
		return "a directory"
	}
	return "not a regular file"
}

// Restrict removes the rights of other users from the journal's file. It works by path, because opening the file would
// cost SQLite's locks.
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
