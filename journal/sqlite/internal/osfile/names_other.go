//go:build !unix

package osfile

// NamesOf returns nothing on this system.
func NamesOf(string) (links uint64, mount bool, err error) { return 0, false, nil }
