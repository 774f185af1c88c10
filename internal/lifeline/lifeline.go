// Package lifeline ends tests' child processes with the starting test, in whatever way the test ends.
package lifeline

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
)

// variable has the number for the child's file that ends with the parent.
const variable = "ONCEWARD_TEST_LIFELINE"

// pipe is open for as long as this process lives. The children get the end for reading.
var pipe = sync.OnceValues(func() (ends [2]*os.File, err error) {
	ends[0], ends[1], err = os.Pipe()
	return ends, err
})

// Tie makes the child end with this process, if the child calls Follow. Call it after the child's environment is set,
// and before the child starts. On Windows, which passes no files to children, it does nothing.
func Tie(child *exec.Cmd) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	ends, err := pipe()
	if err != nil {
		return err
	}
	child.Env = append(child.Environ(), fmt.Sprint(variable, "=", 3+len(child.ExtraFiles)))
	child.ExtraFiles = append(child.ExtraFiles, ends[0])
	return nil
}

// Follow ends the process once its parent is gone. It returns at once. A process that is not tied goes on.
func Follow() {
	file, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return
	}
	_ = os.Unsetenv(variable) // the number means another file to this process's own children
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(uintptr(file), "lifeline"))
		os.Exit(1)
	}()
}
