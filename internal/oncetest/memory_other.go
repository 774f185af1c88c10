//go:build unix && !linux

package oncetest

func memoryFolder() string { return "" }
