//go:build !linux

package osfile

// Machine returns nothing on this system.
func Machine() (machine, boot string) { return "", "" }
