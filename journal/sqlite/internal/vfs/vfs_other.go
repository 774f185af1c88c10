//go:build !linux

// Package vfs does nothing outside Linux.
package vfs

// Parameter returns nothing: a connection uses the default VFS.
func Parameter() string { return "" }
