package osfile

import (
	"fmt"
	"os"
	"syscall"
)

// networkFilesystems are the magic numbers of network file systems (statfs(2), and linux/magic.h). FUSE is not in the
// list: a FUSE file system may be anything, such as virtiofs or a local disk. On a network's FUSE, like sshfs, the
// processes of one machine still share memory.
var networkFilesystems = map[uint32]string{
	0x00006969: "NFS",
	0x0000517b: "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x00c36400: "Ceph",
	0x01021997: "9P",
	0x73757245: "Coda",
	0x0000564c: "NCP",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
}

func CheckFilesystem(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return refuseNetwork(uint32(fs.Type))
}

func refuseNetwork(magic uint32) error {
	if name, ok := networkFilesystems[magic]; ok {
		return fmt.Errorf("%w: it lies on %s; give a path on a disk of this machine", ErrNetwork, name)
	}
	return nil
}

// volatileFilesystems are file systems whose files end with the machine's run or the container, by the same
// numbers, with advice.
var volatileFilesystems = map[uint32]string{
	0x01021994: "tmpfs, which is in memory: a restart of the machine loses it; give a path on a disk",
	0x858458f6: "ramfs, which is in memory: a restart of the machine loses it; give a path on a disk",
	0x794c7630: "overlayfs, such as a container's own layer, which is lost with the container; give a path on a volume",
}

// Volatile returns the kind of a directory's file system if its files may be lost, or "".
func Volatile(dir string) string {
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil {
		return "" // CheckFilesystem says so
	}
	return volatileFilesystems[uint32(fs.Type)]
}
