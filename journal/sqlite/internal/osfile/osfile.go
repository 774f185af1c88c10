// Package osfile asks the operating system about files: their identity, their names, their file system and their owner.
// It also locks and syncs files. A function returns nothing if the system does not know.
package osfile

import "errors"

// ErrNetwork reports a network file system.
var ErrNetwork = errors.New("sqlite: network file system")
