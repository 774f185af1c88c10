//go:build unix

package sessionfile

import (
	"fmt"
	"io/fs"
	"syscall"
)

// number returns a text that identifies the file among all that exist, or "" if the system has none.
func number(info fs.FileInfo) string {
	there, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(there.Dev, ":", there.Ino)
}
