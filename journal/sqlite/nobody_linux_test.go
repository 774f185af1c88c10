package sqlite_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asNobody takes root's rights over files from the calling goroutine, until the test ends.
func asNobody(t *testing.T) {
	if os.Getuid() != 0 {
		return
	}
	runtime.LockOSThread()
	require.NoError(t, syscall.Setfsuid(65534))
	t.Cleanup(func() {
		require.NoError(t, syscall.Setfsuid(0))
		runtime.UnlockOSThread()
	})
}
