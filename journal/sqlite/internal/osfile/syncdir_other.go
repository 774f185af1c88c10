//go:build !unix

package osfile

// SyncDir does nothing: this system cannot sync directories.
func SyncDir(string) error { return nil }
