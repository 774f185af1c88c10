//go:build !unix

package osfile

// NamesOf can't tell.
func NamesOf(string) (links uint64, mount bool, err error) { return 0, false, nil }
