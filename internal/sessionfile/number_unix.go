//go:build unix

package sessionfile

import (
	"fmt"
	"io/fs"
	"syscall"
)

// number is what no other file has that there is.
func number(info fs.FileInfo) string {
	there, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(there.Dev, ":", there.Ino)
}
