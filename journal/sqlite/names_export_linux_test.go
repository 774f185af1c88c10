package sqlite

// IsMountPoint tells it by the list of mounts, as is done before Linux 5.8.
func IsMountPoint(path string) bool { return isMountPoint(path) }
