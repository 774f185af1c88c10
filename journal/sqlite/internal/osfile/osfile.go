// Package osfile asks the operating system about files: which one a path leads to, by how
// many names it may be reached, on what it lies, and whose it is; and locks and syncs them.
// What a system can't tell, its functions leave out.
package osfile

import "errors"

// ErrNetwork is for a file system over a network.
var ErrNetwork = errors.New("sqlite: network file system")

// usualNameMax is NAME_MAX of Linux (limits.h), macOS and Windows.
const usualNameMax = 255
