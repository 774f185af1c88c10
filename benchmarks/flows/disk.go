package main

import (
	"fmt"
	"syscall"
)

// onDisk returns an error for a folder in memory: a commit costs nothing there.
func onDisk(folder string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return fmt.Errorf("what disk is %s on: %w", folder, err)
	}
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	if kind := uint32(fs.Type); kind == tmpfs || kind == ramfs {
		return fmt.Errorf("%s is in memory, where a commit costs nothing: give -dir a folder on a disk", folder)
	}
	return nil
}
