package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// inNamespaces is a child with its own users and mounts.
func inNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
}

// confine makes everything but the folder read-only, as in a container with a read-only root and a volume
// (mount_setattr(2), Linux 5.12).
func confine(folder string) error {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount(folder, folder, "", unix.MS_BIND, ""),
		unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}),
		unix.MountSetattr(unix.AT_FDCWD, folder, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}),
	)
	if err != nil {
		return err
	}
	for _, elsewhere := range []string{filepath.Dir(folder), os.TempDir(), "."} {
		if f, err := os.CreateTemp(elsewhere, ""); err == nil {
			return fmt.Errorf("%s could be written", f.Name())
		}
	}
	return nil
}
