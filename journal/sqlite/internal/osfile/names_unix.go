//go:build unix

package osfile

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// NamesOf returns the number of a file's links, and whether it is a mount point, which only Linux shows. A missing file has
// none.
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
	return links, isMountPoint(path), nil
}

var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// isMountPoint searches the list of this process's mounts (proc(5)), which only Linux has. It returns false if the list is
// unreadable.
func isMountPoint(path string) bool {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for mount := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(mount); len(fields) > 4 && unescapeMount.Replace(fields[4]) == path {
			return true
		}
	}
	return false
}
