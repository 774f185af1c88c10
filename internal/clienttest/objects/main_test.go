// Package objects_test tests Client.Objects with package compare and a real journal.
package objects_test

import (
	"os"
	"testing"

	"github.com/onceward/onceward/internal/tempfiles"
)

func TestMain(m *testing.M) { os.Exit(tempfiles.InMemory(m.Run)) }
