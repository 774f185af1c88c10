//go:build !linux

package osfile

// CheckFilesystem can't tell on this system.
func CheckFilesystem(string) error { return nil }

// Volatile can't tell either.
func Volatile(string) string { return "" }

// NameMax is what the usual file systems allow.
func NameMax(string) int { return usualNameMax }
