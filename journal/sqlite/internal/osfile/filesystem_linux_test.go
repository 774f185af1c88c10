package osfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNetworkFilesystemsAreRefused(t *testing.T) {
	for magic, refused := range map[uint32]bool{
		0x6969:     true,  // NFS
		0xff534d42: true,  // CIFS
		0xfe534d42: true,  // SMB2
		0x00c36400: true,  // Ceph
		0x01021997: true,  // 9P
		0xef53:     false, // ext4
		0x9123683e: false, // btrfs
		0x58465342: false, // xfs
		0x01021994: false, // tmpfs
		0x794c7630: false, // overlayfs
		0x65735546: false, // FUSE
	} {
		err := refuseNetwork(magic)
		if !refused {
			assert.NoError(t, err, "%x", magic)
			continue
		}
		assert.ErrorIs(t, err, ErrNetwork, "%x", magic)
		assert.ErrorContains(t, err, "give a path on a disk of this machine")
	}
	assert.NoError(t, CheckFilesystem(t.TempDir()))
	assert.Error(t, CheckFilesystem("/nowhere/at/all"))
}
