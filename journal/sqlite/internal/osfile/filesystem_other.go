//go:build !linux

package osfile

// CheckFilesystem can't tell on this system.
func CheckFilesystem(string) error { return nil }

// Volatile can't tell either.
func Volatile(string) string { return "" }
