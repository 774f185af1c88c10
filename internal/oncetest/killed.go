//go:build unix

package oncetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/tempfiles"
)

// childVariable holds the plan for a process that a crash test has started.
const childVariable = "ONCEWARD_TEST_CRASH_CHILD"

// Main is the TestMain of a package whose tests start processes with [StartChild]. Such a process carries out its plan,
// and runs no test. Main does not return.
func Main[Plan any](m *testing.M, carryOut func(*Plan) error) {
	encoded, isChild := os.LookupEnv(childVariable)
	if !isChild {
		os.Exit(tempfiles.InMemory(m.Run))
	}
	var plan Plan
	err := json.Unmarshal([]byte(encoded), &plan)
	if err == nil {
		err = carryOut(&plan)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Child is a process that carries out a plan.
type Child struct {
	Stdin  io.WriteCloser
	Out    *json.Decoder // of its standard output
	Stderr bytes.Buffer  // complete once it has ended
	cmd    *exec.Cmd
}

// StartChild starts the test's own program again, which carries out the plan as [Main] says. The plan has to survive
// JSON. The process is killed when ctx ends.
func StartChild(ctx context.Context, plan any) (*Child, error) {
	encoded, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Child{cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(encoded),
		// Otherwise the race detector would keep each child for a second.
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	p.cmd.Stderr = &p.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.Out = json.NewDecoder(stdout)
	if p.Stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// Kill kills the process, which may have ended.
func (p *Child) Kill() { _ = p.cmd.Process.Kill() }

// Signal sends the process a signal.
func (p *Child) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// PID returns the process's number.
func (p *Child) PID() int { return p.cmd.Process.Pid }

// End waits for the process, and reports whether SIGKILL ended it. It returns an error for any other failure.
func (p *Child) End() (killed bool, err error) {
	err = p.cmd.Wait()
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("%w: %s", err, &p.Stderr)
	}
	return false, nil
}

// OutliveNobody ends the process once the starting test is gone. It holds the calling goroutine, and reads standard
// input.
func OutliveNobody() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(2)
}

// Point is a moment in an operation's life.
type Point string

// The points on the wire, and in the program's own Outcomes.Handle.
const (
	AfterConnect    Point = "after connect"
	AfterLastByte   Point = "after the request's last byte"
	AfterStatusLine Point = "after the status line"
	MidBody         Point = "mid-body"
	InHandle        Point = "in Outcomes.Handle"
)

// BeforeEvent returns the point at which an event is about to be recorded.
func BeforeEvent(k machine.EventKind) Point { return Point("before " + k.String()) }

// AfterEvent returns the point between an event's record and the caller's knowledge.
func AfterEvent(k machine.EventKind) Point { return Point("after " + k.String()) }

// Doom says at which point a process kills or stops itself.
type Doom struct {
	At       Point
	Pass     int  // how often the point is passed before
	Together int  // it strikes once this many goroutines wait there
	Stop     bool // the process is stopped instead, until it gets a signal to continue
}

// Fate is this process's doom.
type Fate struct {
	Doom
	passed  atomic.Int64
	stopped sync.Once
	goes    chan os.Signal
}

// NewFate makes this process end as doom says.
func NewFate(doom Doom) *Fate {
	f := &Fate{Doom: doom, goes: make(chan os.Signal, 1)}
	if doom.Stop {
		signal.Notify(f.goes, syscall.SIGCONT)
	}
	return f
}

// Reach reports that the process has come to p. It does not return if the process ends there.
func (f *Fate) Reach(p Point) {
	if p != f.At {
		return
	}
	switch n := int(f.passed.Add(1)) - f.Pass; {
	case n <= 0:
	case f.Stop:
		f.stopped.Do(func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			<-f.goes
		})
	case n < f.Together:
		select {}
	default:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// RestartAfter is the time from a process's death to its successor.
const RestartAfter = 100 * time.Millisecond

// StormWorkers is the number of callers in each process during a storm of kills.
const StormWorkers = 8

// PatienceOfAStorm is the longest last life of a storm, on a machine that is slow and busy.
const PatienceOfAStorm = 5 * time.Minute

// SeveralAtOnce calls play for each of n items, which is quicker, since they mostly wait.
func SeveralAtOnce(n, atOnce int, play func(i int)) {
	slots := make(chan struct{}, atOnce)
	var playing sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		playing.Go(func() {
			defer func() { <-slots }()
			play(i)
		})
	}
	playing.Wait()
}
