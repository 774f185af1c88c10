//go:build !linux

package tempfiles

func folder() string { return "" }
