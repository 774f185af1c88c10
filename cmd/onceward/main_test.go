package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// binary is the built command: tests run it as people do.
var binary string

func TestMain(m *testing.M) {
	lifeline.Follow()
	if path := os.Getenv(applicationOf); path != "" {
		application(path)
		return
	}
	if os.Getenv(fullDisk) != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "onceward-command-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "onceward")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".") // its version is the same everywhere
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// said is a command run's output and exit code.
type said struct {
	out, err string
	code     int
}

func runs(t *testing.T, args ...string) said { return runsWith(t, "", args...) }

func runsWith(t *testing.T, in string, args ...string) said {
	t.Helper()
	s, err := try(t.Context(), in, args...)
	require.NoError(t, err)
	return s
}

func try(ctx context.Context, in string, args ...string) (said, error) {
	return tryIn(ctx, nil, in, args...)
}

// tryIn runs the command with env added to its environment.
func tryIn(ctx context.Context, env []string, in string, args ...string) (said, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(append(os.Environ(), "ONCEWARD_JOURNAL=", "ONCEWARD_SCHEMA=", "SUDO_USER="), env...)
	cmd.Stdin = strings.NewReader(in)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		err = nil
	}
	return said{out.String(), errs.String(), cmd.ProcessState.ExitCode()}, err
}

// journalWith makes a planted journal. An application has it open, with a session that lives.
func journalWith(t *testing.T) (path string, j *sqlite.Journal) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "payments.db")
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := j.Close(); !errors.Is(err, journal.ErrClosed) {
			require.NoError(t, err)
		}
	})
	_, err = planted.Plant(t.Context(), j, time.Now())
	require.NoError(t, err)
	return path, j
}
