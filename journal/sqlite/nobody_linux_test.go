package sqlite_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asNobody takes root's rights over files from the calling goroutine, until the returned function is called.
func asNobody(t *testing.T) (as func()) {
	t.Helper()
	if os.Getuid() != 0 {
		return func() {}
	}
	runtime.LockOSThread()
	require.NoError(t, syscall.Setfsuid(65534))
	return func() {
		require.NoError(t, syscall.Setfsuid(0))
		runtime.UnlockOSThread()
	}
}
