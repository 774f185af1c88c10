//go:build !linux

package osfile

// CheckFilesystem detects nothing on this system.
func CheckFilesystem(string) error { return nil }

// Volatile detects nothing on this system.
func Volatile(string) string { return "" }

// NameMax returns the limit of the usual file systems.
func NameMax(string) int { return usualNameMax }
