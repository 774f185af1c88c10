//go:build unix && !linux

package osfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// NamesOf returns the number of a file's links. A missing file has none. This system does not show mount
// points.
func NamesOf(path string) (links uint64, mount bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if !info.Mode().IsRegular() {
		return 0, false, nil // others say what is wrong with it
	}
	if there, ok := info.Sys().(*syscall.Stat_t); ok {
		links = uint64(there.Nlink)
	}
	return links, false, nil
}
