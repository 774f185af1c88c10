//go:build !linux

package sqlite_test

import (
	"os"
	"testing"
)

func asNobody(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root writes everywhere")
	}
}
