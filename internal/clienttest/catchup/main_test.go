package catchup_test

import (
	"os"
	"testing"

	"github.com/onceward/onceward/internal/tempfiles"
)

func TestMain(m *testing.M) { os.Exit(tempfiles.InMemory(m.Run)) }
