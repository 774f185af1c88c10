//go:build !unix

package osfile

// SyncDir: directories can't be synced here.
func SyncDir(string) error { return nil }
