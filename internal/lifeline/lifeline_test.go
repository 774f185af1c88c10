//go:build unix

package lifeline_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lifeline"
)

const roleVariable = "ONCEWARD_LIFELINE_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "parent":
		if err := startChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {}
	case "child":
		lifeline.Follow()
		fmt.Println("started")
		select {}
	}
	os.Exit(m.Run())
}

// startChild starts a child that has this process's output.
func startChild() error {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleVariable+"=child")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := lifeline.Tie(child); err != nil {
		return err
	}
	return child.Start()
}

// A child ends with a parent that is killed. Their common output is closed only then.
func TestAChildEndsWithItsParent(t *testing.T) {
	t.Parallel()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), roleVariable+"=parent")
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	reader := bufio.NewReader(out)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "started\n", line)
	require.NoError(t, parent.Process.Kill())
	rest, err := io.ReadAll(reader)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Error(t, parent.Wait())
}
