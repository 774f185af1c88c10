//go:build !linux

package osfile

import "os"

// ID tells a file from every other that there is.
type ID struct{ os.FileInfo }

// Same tells whether both are one file.
func (f ID) Same(other ID) bool { return os.SameFile(f.FileInfo, other.FileInfo) }

// Identify tells which file a path leads to.
func Identify(path string) (ID, error) {
	info, err := os.Stat(path)
	return ID{info}, err
}
