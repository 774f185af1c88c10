package osfile

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"sync"
)

// Machine returns the hashed IDs of this machine and of its current run, or "" if unknown. They are hashed
// because the ID of a machine is confidential
// (https://www.freedesktop.org/software/systemd/man/latest/machine-id.html).
func Machine() (machine, boot string) { return machineOnce() }

var machineOnce = sync.OnceValues(func() (machine, boot string) {
	return hashed("/etc/machine-id"), hashed("/proc/sys/kernel/random/boot_id")
})

func hashed(name string) string {
	text, err := os.ReadFile(name)
	id := strings.TrimSpace(string(text))
	if err != nil || id == "" || id == "uninitialized" {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(id))
	mac.Write([]byte("onceward journal"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
