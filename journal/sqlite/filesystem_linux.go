package sqlite

import (
	"fmt"
	"os"
	"syscall"
)

// networkFilesystems by their magic number (statfs(2), and linux/magic.h). FUSE is
// not among them: it may be anything, virtiofs and local disks too. Where it is a
// network's, as sshfs is, one machine's processes still share memory on it.
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

func checkFilesystem(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return refuseNetwork(uint32(fs.Type))
}

func refuseNetwork(magic uint32) error {
	if name, ok := networkFilesystems[magic]; ok {
		return fmt.Errorf("%w: it lies on %s; give a path on a disk of this machine", ErrNetworkFilesystem, name)
	}
	return nil
}
