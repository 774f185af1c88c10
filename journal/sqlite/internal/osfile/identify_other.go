//go:build !linux

package osfile

import (
	"os"
	"time"
)

// ID tells a file from every other that there is.
type ID struct{ os.FileInfo }

// Same tells whether both are one file.
func (f ID) Same(other ID) bool { return os.SameFile(f.FileInfo, other.FileInfo) }

// Identify tells which file a path leads to.
func Identify(path string) (ID, error) {
	info, err := os.Stat(path)
	return ID{info}, err
}

// Stamp changes where a file is written.
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
