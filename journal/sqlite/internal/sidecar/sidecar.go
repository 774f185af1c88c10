// Package sidecar is the file beside a journal that proves a restore or a copy of the journal, or the loss of its WAL.
//
// It knows the sidecar's text, and the journal's identity and commits as numbers. It must not know who commits, when a
// sidecar is due, or what a restored journal may still do. The journal compares, and the checkpointer keeps the sidecar up to
// date.
package sidecar

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// Content is the file beside the journal with the journal's identity and the number of a commit. That commit was
// durable before the sidecar was written. The journal is therefore never behind its sidecar, whenever the process dies,
// unless an older journal replaced the file.
type Content struct {
	Identity string
	Number   int64
}

// Path returns the path to the sidecar for the journal at path.
func Path(path string) string { return path + "-sidecar" }

// NewIdentity returns at least 128 random bits, as letters and digits.
func NewIdentity() string { return rand.Text() }

// ErrUnclear reports a sidecar that was not written whole, or has another writer.
var ErrUnclear = errors.New("it can't be understood")

// String returns the one line, which begins with the version of the format.
func (s Content) String() string {
	return fmt.Sprintf("onceward-sidecar 1 %s %d\n", s.Identity, s.Number)
}

// Parse reads the text of a sidecar. It returns ErrUnclear for any text that String does not return.
func Parse(text string) (s Content, err error) {
	_, err = fmt.Sscanf(text, "onceward-sidecar 1 %s %d\n", &s.Identity, &s.Number)
	if err != nil || s.Number < 0 || s.String() != text {
		return Content{}, ErrUnclear
	}
	return s, nil
}

// Read reads the sidecar of the journal at path. It returns ErrUnclear or an error of package os.
func Read(path string) (Content, error) {
	text, err := os.ReadFile(Path(path))
	if err != nil {
		return Content{}, err
	}
	return Parse(string(text))
}

// Write replaces the sidecar by s completely or not at all. It survives a loss of power if sync is set.
// Otherwise the earlier one may survive.
func (s Content) Write(path string, sync bool) (err error) {
	dir, base := filepath.Split(Path(path))
	f, err := os.CreateTemp(dir, base+"-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(s.String())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := osfile.OwnLike(path, f.Name()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), Path(path)); err != nil || !sync {
		return err
	}
	return osfile.SyncDir(dir)
}

// Place is Write for a required sidecar.
func (s Content) Place(path string) error {
	var err error
	for range 10 {
		if err = s.Write(path, true); !errors.Is(err, fs.ErrNotExist) {
			break // else another process's Open swept the new one away
		}
	}
	if err != nil {
		return fmt.Errorf("its sidecar can't be written: %w", err)
	}
	return nil
}

// Advance has the sidecar of a healthy journal name a later commit.
func (s Content) Advance(path string) error {
	switch now, err := Read(path); {
	case errors.Is(err, fs.ErrNotExist):
		return s.Write(path, true)
	case err != nil:
		return err
	case now.Identity != s.Identity || now.Number >= s.Number:
		return nil // another process adopted the journal, or came first
	}
	return s.Write(path, false)
}

// Sweep removes the files of processes that died while they wrote a sidecar.
func Sweep(path string) {
	names, _ := filepath.Glob(osfile.GlobEscape(Path(path)+"-") + "*")
	for _, name := range names {
		if strings.Trim(strings.TrimPrefix(name, Path(path)+"-"), "0123456789") == "" {
			_ = os.Remove(name) // otherwise it belongs to another process
		}
	}
}

// Contradicts says how the sidecar, or an error in reading the sidecar, proves that a journal is not whole. identity is
// the journal's, and number is its latest commit.
func (s Content) Contradicts(err error, identity string, number int64) (string, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if number > 1 {
			return "has history, and no sidecar", nil // a new one has its sidecar before its first commit
		}
		return "", nil
	case errors.Is(err, ErrUnclear):
		return "has a sidecar that can't be understood", nil
	case err != nil:
		return "", fmt.Errorf("its sidecar can't be read: %w", err)
	case s.Identity != identity:
		return "has the sidecar of another journal", nil
	case s.Number > number:
		return fmt.Sprintf("is older than its sidecar: it ends with commit %d, not %d", number, s.Number), nil
	}
	return "", nil
}
