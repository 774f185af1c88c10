//go:build !linux

package osfile

// CheckFilesystem detects nothing on this system.
func CheckFilesystem(string) error { return nil }

// Volatile detects nothing on this system.
func Volatile(string) string { return "" }
