//go:build unix

package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/internal/tempfiles"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// childVariable names the task of this test binary as a child, and childPath the journal that the child uses.
const (
	childVariable = "ONCEWARD_SQLITE_CHILD"
	childPath     = "ONCEWARD_SQLITE_PATH"
)

func TestMain(m *testing.M) {
	children := map[string]func(path string) error{"hold": childHolds, "fill": childFillsTheDisk,
		"live": childLives, "adopt": childAdopts, "suffer": childSuffers, "share": childShares, "take": childTakes,
		"load": childLoads, "fold": childFolds, "contend": childContends, "reset": childResets,
		"hear": childHears, "serve": childServes, "sell": childSells, "trade": childTrades}
	watch(careless{})
	if run, ok := children[os.Getenv(childVariable)]; ok {
		lifeline.Follow()
		if err := run(os.Getenv(childPath)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(tempfiles.InMemory(m.Run))
}

// child is this test binary with that task. It ends with this process, in whatever way that ends.
func child(t *testing.T, what, path string, environment ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), childVariable+"="+what, childPath+"="+path), environment...)
	require.NoError(t, lifeline.Tie(cmd))
	return cmd
}

// start is startTalking for a child that gets no further input.
func start(t *testing.T, what, path string, environment ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd, _, out := startTalking(t, what, path, environment...)
	return cmd, out
}

// startTalking starts this test binary as a child with that task, and reads its output.
func startTalking(t *testing.T, what, path string, environment ...string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd := child(t, what, path, environment...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, in, bufio.NewScanner(out)
}

// childHolds begins one operation and waits to be killed.
func childHolds(path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	if _, err := j.Apply(ctx, begin("held by "+s.ID(), s)); err != nil {
		return err
	}
	fmt.Println("held by " + s.ID())
	select {}
}

func TestAPausedProcessKeepsItsSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	cmd, lines := start(t, "hold", path)
	require.True(t, lines.Scan())
	id := lines.Text()
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))

	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	results, err := j.Claim(t.Context(), claim(s), 10)
	require.NoError(t, err)
	assert.Empty(t, results)
	result, err := j.Apply(t.Context(), begin(id, s))
	require.NoError(t, err)
	assert.Equal(t, machine.Wait, result.Decision)

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	results, err = j.Claim(t.Context(), claim(s), 10)
	require.NoError(t, err)
	require.Len(t, results, 1)
	assert.Equal(t, id, results[0].Operation.ID)
}

// If a copy replaces a session's file, it proves nothing about the lock of the original.
func TestSessionFileReplacedIsNotDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	_, lines := start(t, "hold", path)
	require.True(t, lines.Scan())
	id := lines.Text()
	files := sessionFiles(t, path)
	require.Len(t, files, 1)
	copyFile(t, files[0], files[0]+".new")
	require.NoError(t, os.Rename(files[0]+".new", files[0]))

	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	claimed, err := j.Claim(t.Context(), claim(s), 10)
	assert.Empty(t, claimed, "its process lives")
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = j.Apply(t.Context(), begin(id, s))
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.NotEmpty(t, verify(t, j))
	require.NoError(t, j.Adopt(t.Context()))
	assert.Empty(t, verify(t, j))
	claimed, err = j.Claim(t.Context(), claim(s), 10)
	require.NoError(t, err)
	assert.Len(t, claimed, 1, "by then nobody has it, as who adopts it says")
}

// Other sessions take over the operations of a killed process. This holds if the journal was moved with all files
// beside it, and if an older release has left the session's file.
func TestSessionOfAKilledProcessIsDead(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, path string) string{
		"moved": func(t *testing.T, path string) string {
			to := filepath.Join(t.TempDir(), "journal.db")
			copyAll(t, path, to)
			return to
		},
		"of an older release": func(t *testing.T, path string) string {
			for _, file := range sessionFiles(t, path) {
				require.NoError(t, os.Remove(file))
				require.NoError(t, os.WriteFile(file, nil, 0o600))
			}
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			cmd, lines := start(t, "hold", path)
			require.True(t, lines.Scan())
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			j := open(t, leave(t, path))
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			claimed, err := j.Claim(t.Context(), claim(s), 10)
			require.NoError(t, err)
			assert.Len(t, claimed, 1)
		})
	}
}

// Processes that open a new file together make one journal.
func TestProcessesOpenANewFileTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	var held []string
	var outs []*bufio.Scanner
	for range 4 {
		_, lines := start(t, "hold", path)
		outs = append(outs, lines)
	}
	for _, lines := range outs {
		require.True(t, lines.Scan())
		require.True(t, strings.HasPrefix(lines.Text(), "held by "), lines.Text())
		held = append(held, lines.Text())
	}
	j := open(t, path)
	var ids []string
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		ids = append(ids, op.ID)
	}
	assert.ElementsMatch(t, held, ids)
}

// A journal that is moved with all its files goes on without an adoption. The operations of a killed process are taken over.
func TestJournalThatIsMoved(t *testing.T) {
	for name, move := range map[string]func(t *testing.T, from, to string){
		"within a file system": func(t *testing.T, from, to string) {
			require.NoError(t, os.Rename(filepath.Dir(from), filepath.Dir(to)))
		},
		"to another": func(t *testing.T, from, to string) {
			require.NoError(t, os.Mkdir(filepath.Dir(to), 0o700))
			for _, name := range filesOf(t, from) {
				copyFile(t, name, to+strings.TrimPrefix(name, from))
			}
			require.NoError(t, os.RemoveAll(filepath.Dir(from)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "from", "journal.db"), filepath.Join(dir, "to", "journal.db")
			require.NoError(t, os.Mkdir(filepath.Dir(from), 0o700))
			cmd, lines := start(t, "hold", from)
			require.True(t, lines.Scan())
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			move(t, from, to)
			j := open(t, to)
			goOn(t, j, "after")
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			results, err := j.Claim(t.Context(), claim(s), 10)
			require.NoError(t, err)
			require.Len(t, results, 1)
			assert.Equal(t, lines.Text(), results[0].Operation.ID)
			assert.Empty(t, verify(t, j))
		})
	}
}

// childFillsTheDisk writes until files can't grow any more, and then until they can again.
func childFillsTheDisk(path string) error {
	signal.Ignore(syscall.SIGXFSZ) // the test wants the write's own error
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	full := syscall.Rlimit{Cur: 512 << 10, Max: before.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		return err
	}
	var acknowledged []string
	write := func(id string) error {
		_, err := j.Apply(ctx, begin(id, s))
		if err == nil {
			acknowledged = append(acknowledged, id)
		}
		return err
	}
	for n := 0; err == nil; n++ {
		err = write(fmt.Sprint("before-", n))
	}
	fmt.Println("full", err)
	for n := range 3 {
		if err := write(fmt.Sprint("full-", n)); err == nil {
			return fmt.Errorf("a write was acknowledged that can't have been written")
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	for n := range 3 {
		if err := write(fmt.Sprint("after-", n)); err != nil {
			return err
		}
	}
	for _, id := range acknowledged {
		if _, err := j.Get(ctx, journal.Ref{ID: id}); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	fmt.Println("kept", len(acknowledged))
	return j.Close()
}

// On a full disk writes fail closed. The journal goes on when there is room again.
func TestFullDiskFailsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	cmd, lines := start(t, "fill", path)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
	}
	require.NoError(t, cmd.Wait(), "%q", said)
	require.Len(t, said, 2)
	assert.Contains(t, said[0], path)
	assert.Regexp(t, "the disk (is full|reports an error)", said[0])
	assert.Regexp(t, `^kept \d\d+`, said[1])
	j := open(t, path)
	op, err := j.Get(t.Context(), journal.Ref{ID: "after-2"})
	require.NoError(t, err)
	assert.Equal(t, journal.StateInFlight, op.State)
	_, err = j.Get(t.Context(), journal.Ref{ID: "full-0"})
	require.ErrorIs(t, err, journal.ErrNotFound)
}

// childLives opens, uses and closes a journal again and again, and leaves an operation in flight every time. Its
// sidecar is written as often as possible.
func childLives(path string) error {
	sqlite.MarkAlways()
	ctx := context.Background()
	for n := 0; ; n++ {
		j, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			return err
		}
		s, err := j.Join(ctx)
		if err != nil {
			return err
		}
		for i := range 20 {
			begun, err := j.Apply(ctx, begin(fmt.Sprint(s.ID(), "-", i), s))
			if err != nil {
				return err
			}
			if i == 0 {
				continue
			}
			if _, err := j.Apply(ctx, complete(begun.Operation, s)); err != nil {
				return err
			}
		}
		if err := j.Close(); err != nil {
			return err
		}
		fmt.Println("closed", n)
	}
}

// A process that is killed never leaves a journal that looks restored.
func TestKilledNeverLooksRestored(t *testing.T) {
	t.Parallel()
	kills := soak.Times(4, 30)
	random := seeded(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	closed := 0
	for n := range kills {
		if n%3 == 0 { // a new journal, so that kills hit its first moments as well
			path = filepath.Join(dir, fmt.Sprint(n, ".db"))
		}
		// Two at a time, so that they get in each other's way.
		cmd, lines := start(t, "live", path)
		other, otherLines := start(t, "live", path)
		for range random.IntN(8) {
			if lines.Scan(); assert.Regexp(t, "^closed ", lines.Text()) {
				closed++
			}
		}
		// Some time later, at any point of its next round.
		for range random.IntN(2000) {
			_ = cmd.Process.Signal(syscall.Signal(0))
		}
		require.NoError(t, cmd.Process.Kill())
		require.NoError(t, other.Process.Kill())
		for otherLines.Scan() {
			assert.Regexp(t, "^closed ", otherLines.Text())
		}
		_ = cmd.Wait()
		_ = other.Wait()

		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		_, err = j.Claim(t.Context(), claim(s), 1000)
		require.NoError(t, err)
		require.NoError(t, s.End(t.Context()))
		require.NoError(t, j.Close())
	}
	t.Logf("%d kills, %d times closed before them", kills, closed)
	text, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)
	assert.Regexp(t, `^onceward-sidecar 1 [A-Z2-7]+ [1-9]\d*\n$`, string(text))
	names, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	assert.Equal(t, []string{path, path + "-sidecar"}, names, "nothing is left of the dead")
}

func childAdopts(path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	if err := j.Adopt(context.Background()); err != nil {
		return err
	}
	fmt.Println("adopted")
	return j.Close()
}

// An adoption counts for processes that have the journal open.
func TestAdoptionCountsForOpenProcesses(t *testing.T) {
	path := restored["a copy without its sidecar"].make(t)
	j := open(t, path)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	cmd, lines := start(t, "adopt", path)
	require.True(t, lines.Scan())
	require.Equal(t, "adopted", lines.Text())
	require.NoError(t, cmd.Wait())
	goOn(t, j, "after")
	require.NoError(t, j.Close())
	goOn(t, open(t, path), "after it was opened again")
}

// An adoption also counts for transactions of the application, however often they were refused before.
func TestAdoptionCountsForTransactions(t *testing.T) {
	path := restored["a copy without its sidecar"].make(t)
	j := open(t, path)
	enqueues := func() error {
		tx, err := j.BeginSQL(t.Context())
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("order-1"))
		return errors.Join(err, tx.Commit())
	}
	for range 3 {
		require.ErrorIs(t, enqueues(), journal.ErrRestored)
		require.NoError(t, sqlite.Flush(j))
	}
	cmd, lines := start(t, "adopt", path)
	require.True(t, lines.Scan())
	require.Equal(t, "adopted", lines.Text())
	require.NoError(t, cmd.Wait())
	until(t, func() bool { return enqueues() == nil })
	assert.True(t, has(t, j, "order-1"))
}
