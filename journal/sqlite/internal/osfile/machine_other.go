//go:build !linux

package osfile

// Machine can't tell.
func Machine() (machine, boot string) { return "", "" }
