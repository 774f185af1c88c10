//go:build !unix

package sqlite

// namesOf can't tell.
func namesOf(string) (links uint64, mount bool, err error) { return 0, false, nil }
