//go:build !linux

package sqlite

import "os"

// fileID tells a file from every other that there is.
type fileID struct{ os.FileInfo }

func (f fileID) same(other fileID) bool { return os.SameFile(f.FileInfo, other.FileInfo) }

// identify tells which file a path leads to.
func identify(path string) (fileID, error) {
	info, err := os.Stat(path)
	return fileID{info}, err
}
