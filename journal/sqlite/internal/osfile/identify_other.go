//go:build !linux

package osfile

import (
	"os"
	"time"
)

// ID identifies a file among all files.
type ID struct{ os.FileInfo }

// Same reports whether both are one file.
func (f ID) Same(other ID) bool { return os.SameFile(f.FileInfo, other.FileInfo) }

// Identify returns the ID of the file at a path.
func Identify(path string) (ID, error) {
	info, err := os.Stat(path)
	return ID{info}, err
}

// Stamp changes when a file is written.
type Stamp struct {
	size    int64
	written time.Time
}

// Look is Identify, with the file's stamp.
func Look(path string) (ID, Stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return ID{}, Stamp{}, err
	}
	return ID{info}, Stamp{info.Size(), info.ModTime()}, nil
}
