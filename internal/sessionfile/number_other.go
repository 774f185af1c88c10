//go:build !unix

package sessionfile

import "io/fs"

// number can't tell. A file that is open can't be replaced there.
func number(fs.FileInfo) string { return "" }
