//go:build !linux

package main

// examineDisk has nothing to say: only Linux tells.
func (f *file) examineDisk(*examination) {}

func clockSynchronised() (is, known bool) { return false, false }
