package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/onceward/onceward/internal/shown"
)

// volatile are file systems that may not outlive the machine's run or its container.
var volatile = map[int64]string{unix.TMPFS_MAGIC: "memory (tmpfs)", unix.RAMFS_MAGIC: "memory (ramfs)", unix.OVERLAYFS_SUPER_MAGIC: "a container's own layer (overlayfs)"}

func (f *file) examineDisk(x *examination) {
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(f.path), &fs); err != nil {
		x.failed("disk", err)
		return
	}
	why := volatile[int64(fs.Type)]
	x.judge(why == "", "a local one", checked{"filesystem", levelWarn, "it lies in " + why + ": what is there may not outlive a restart",
		"keep it on a disk, in a volume that is mounted as a folder", "journal"})
	free := int64(fs.Bavail) * int64(fs.Bsize)
	x.judge(free >= leastFree, shown.Bytes(free)+" free",
		checked{"space", levelFail, shown.Bytes(free) + " are free: once none is, nothing is recorded and nothing is sent", "make room", "disk-full"})
	if info, err := os.Stat(f.path); err == nil {
		if s, is := info.Sys().(*syscall.Stat_t); is && s.Nlink > 1 {
			x.finds(levelFail, "links", fmt.Sprintf("the file has %d names, and under each it would have another WAL", s.Nlink), "leave it one", "journal")
			return
		}
		x.ok("links", "it has one name")
	}
}

// clockSynchronised returns the state by adjtimex(2).
func clockSynchronised() (is, known bool) {
	state, err := unix.Adjtimex(&unix.Timex{})
	const timeError = 5 // TIME_ERROR: the clock is not synchronised
	return state != timeError, err == nil
}
