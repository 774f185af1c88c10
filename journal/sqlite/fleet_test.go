//go:build unix

package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

const callersEach = 16

// childShares runs operations from the first input line to the second. It repeatedly prints their number, and how long
// the slowest write took.
func childShares(path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	var lived atomic.Int64
	var mu sync.Mutex
	var worst time.Duration
	var over atomic.Bool
	var callers sync.WaitGroup
	failed := make(chan error, callersEach)
	for g := range callersEach {
		callers.Go(func() {
			apply := func(ev machine.Event) journal.Operation {
				began := time.Now()
				result, err := j.Apply(ctx, ev)
				took := time.Since(began)
				if err != nil {
					failed <- err
					over.Store(true)
				}
				mu.Lock()
				defer mu.Unlock()
				worst = max(worst, took)
				return result.Operation
			}
			for n := 0; !over.Load(); n++ {
				apply(complete(apply(generate(fmt.Sprint(s.ID(), "-", g, "-", n), s)), s))
				if all := lived.Add(1); all%50 == 0 {
					fmt.Println("lived", all)
				}
			}
		})
	}
	_, err = in.ReadString('\n')
	over.Store(true)
	callers.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	fmt.Println("lived", lived.Load())
	fmt.Println("worst", worst.Microseconds())
	if err != nil && err != io.EOF {
		return err
	}
	return j.Close()
}

// No process that shares a file is starved. The test ends once each has done a fair part of the operations. The log
// says how evenly they share, and how long a write waits at worst.
func TestFleetSharesFairly(t *testing.T) {
	t.Parallel()
	const processes = 4
	operations := int64(soak.Times(1000, 16000))
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	var ins []io.WriteCloser
	var outs []*bufio.Scanner
	for range processes {
		_, in, out := startTalking(t, "share", path)
		ins, outs = append(ins, in), append(outs, out)
	}
	for _, out := range outs {
		require.True(t, out.Scan())
		require.Equal(t, "ready", out.Text())
	}
	began := time.Now()
	for _, in := range ins {
		_, err := io.WriteString(in, "go\n")
		require.NoError(t, err)
	}
	shares := make([]int64, processes)
	worst := make([]time.Duration, processes)
	var all int64
	var mu sync.Mutex
	var stop sync.Once
	var reading sync.WaitGroup
	var took time.Duration
	for i, out := range outs {
		reading.Go(func() {
			for out.Scan() {
				var what string
				var n int64
				_, err := fmt.Sscan(out.Text(), &what, &n)
				if !assert.NoError(t, err, out.Text()) {
					continue
				}
				if what == "worst" {
					worst[i] = time.Duration(n) * time.Microsecond
					continue
				}
				mu.Lock()
				all += n - shares[i]
				shares[i] = n
				enough := all >= operations && slices.Min(shares) >= operations/(4*processes)
				mu.Unlock()
				if enough {
					stop.Do(func() {
						took = time.Since(began)
						for _, in := range ins {
							_, err := io.WriteString(in, "enough\n")
							assert.NoError(t, err)
						}
					})
				}
			}
		})
	}
	reading.Wait()
	least, most, slowest := shares[0], shares[0], worst[0]
	for i := range shares {
		least, most, slowest = min(least, shares[i]), max(most, shares[i]), max(slowest, worst[i])
	}
	t.Logf("%d processes with %d callers: %d operations a second; shares %v, the largest %.2f of the smallest; the slowest write took %s",
		processes, callersEach, int64(float64(all)/took.Seconds()), shares, float64(most)/float64(least), slowest)
}

// childFolds leaves nothing in the log alone, as every end of a process does.
func childFolds(path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	return j.Close()
}

// childTakes begins some operations, and then, for each input line, takes over all it can, and prints their names.
func childTakes(path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	for n := range 40 {
		id := fmt.Sprint(s.ID(), "-", n)
		if _, err := j.Apply(ctx, begin(id, s)); err != nil {
			return err
		}
		fmt.Println("holds", id)
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		for more := true; more; {
			results, err := j.Claim(ctx, claim(s), 3)
			if err != nil {
				return err
			}
			for _, result := range results {
				fmt.Println("took", result.Operation.ID)
			}
			more = len(results) == 3
		}
		fmt.Println("ready")
	}
	return in.Err()
}

// A killed process's operations are taken over at once, each by one process. Those of a paused process are not.
func TestFleetTakesOverFromTheKilledAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	type process struct {
		cmd  *exec.Cmd
		in   io.WriteCloser
		out  *bufio.Scanner
		held []string
	}
	hear := func(p *process) (ids []string) {
		for p.out.Scan() && p.out.Text() != "ready" {
			_, id, _ := strings.Cut(p.out.Text(), " ")
			ids = append(ids, id)
		}
		return ids
	}
	var all []*process
	for range 4 {
		p := new(process)
		p.cmd, p.in, p.out = startTalking(t, "take", path)
		all = append(all, p)
	}
	for _, p := range all {
		p.held = hear(p)
		require.Len(t, p.held, 40)
	}
	killed, paused, others := all[0], all[1], all[2:]
	require.NoError(t, paused.cmd.Process.Signal(syscall.SIGSTOP))

	// takeOver makes the others take over all they can, at the same time.
	takeOver := func() (taken []string) {
		var mu sync.Mutex
		var asking sync.WaitGroup
		for _, p := range others {
			asking.Go(func() {
				_, err := io.WriteString(p.in, "take\n")
				assert.NoError(t, err)
				ids := hear(p)
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, ids...)
			})
		}
		asking.Wait()
		return taken
	}
	assert.Empty(t, takeOver(), "a paused process keeps what it holds")
	require.NoError(t, killed.cmd.Process.Kill())
	_ = killed.cmd.Wait()
	assert.ElementsMatch(t, killed.held, takeOver(), "each by one")
	assert.Empty(t, takeOver())

	require.NoError(t, paused.cmd.Process.Signal(syscall.SIGCONT))
	_, err := io.WriteString(paused.in, "take\n")
	require.NoError(t, err)
	assert.Empty(t, hear(paused), "it goes on, and holds its own")
	require.NoError(t, paused.cmd.Process.Kill())
	_ = paused.cmd.Wait()
	assert.ElementsMatch(t, paused.held, takeOver())
}
