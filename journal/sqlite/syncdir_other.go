//go:build !unix

package sqlite

// syncDir: directories can't be synced here.
func syncDir(string) error { return nil }
