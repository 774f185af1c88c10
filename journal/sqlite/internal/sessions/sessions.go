// Package sessions makes, locks and removes the files of sessions. A session is alive exactly as long as a process holds
// the lock on its file.
//
// It knows the files' names and their locks. It must not know what a session holds. The journal adds and removes the rows,
// and asks here which sessions are alive.
package sessions

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/onceward/onceward/internal/sessionfile"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// Path returns the path to the file for a session in the journal at path.
func Path(path, id string) string { return path + "-session-" + id }

// NewID returns at least 128 random bits.
func NewID() string { return rand.Text() }

// isID reports whether id can be a session's. Files with other names beside the journal belong to
// other programs.
func isID(id string) bool {
	return len(id) == len(rand.Text()) && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Make makes a session's file and locks it. Another process may lock and remove a file without a session. Then Make makes
// another one.
func Make(path string) (id string, lock *flock.Flock, err error) {
	for range 10 {
		id = NewID()
		name := Path(path, id)
		lock = flock.New(name, flock.SetFlag(os.O_CREATE|os.O_EXCL|os.O_RDWR), flock.SetPermissions(0o600))
		locked, err := lock.TryLock()
		if err != nil {
			return "", nil, err
		}
		if locked {
			held, _ := lock.Stat()
			there, err := os.Stat(name)
			if err == nil && os.SameFile(held, there) {
				if err := settleFile(path, name, held); err != nil {
					_ = os.Remove(name) // else each that fails would leave one
					return "", nil, errors.Join(err, lock.Close())
				}
				return id, lock, nil
			}
		}
		_ = lock.Close()
	}
	return "", nil, errors.New("its file was removed again and again")
}

// settleFile gives a session's new file the owner and the text, and syncs the file: the row must not survive a loss of
// power without the file.
func settleFile(path, name string, held fs.FileInfo) error {
	return cmp.Or(osfile.OwnLike(path, name), sessionfile.Describe(path, name, held), osfile.SyncDir(filepath.Dir(path)))
}

// Lock is osfile.Lock for a session's file. A copy in its place counts as none.
func Lock(path, id string) (*flock.Flock, error) {
	name := Path(path, id)
	lock, err := osfile.Lock(name)
	if lock == nil {
		return nil, err
	}
	is, err := lock.Stat()
	if err == nil && sessionfile.IsCopy(path, name, is) {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

// Sweep removes the files of sessions without a row, which has looks for. A process leaves one if it dies or fails
// between making or removing the two. Sweep locks the file before looking for the row: a lockable file without a row
// will never have one.
func Sweep(path string, has func(id string) (bool, error)) error {
	names, _ := filepath.Glob(osfile.GlobEscape(Path(path, "")) + "*")
	for _, name := range names {
		id := strings.TrimPrefix(name, Path(path, ""))
		if !isID(id) {
			continue
		}
		lock, err := osfile.Lock(name)
		if err != nil || lock == nil {
			continue // a later check finds out whether it is alive
		}
		found, err := has(id)
		if err == nil && !found {
			_ = os.Remove(name)
		}
		_ = lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
