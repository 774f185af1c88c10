package sqlite

import "github.com/onceward/onceward/journal/sqlite/internal/osfile"

// IsMountPoint tells it by the list of mounts, as is done before Linux 5.8.
func IsMountPoint(path string) bool { return osfile.IsMountPoint(path) }
