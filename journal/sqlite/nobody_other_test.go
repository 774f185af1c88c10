//go:build !linux

package sqlite_test

import (
	"os"
	"testing"
)

// asNobody skips the test for root, whose rights over files a goroutine can't give up here.
func asNobody(t *testing.T) (as func()) {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("run it as another user than root")
	}
	return func() {}
}
