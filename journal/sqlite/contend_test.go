//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// contention is the activity of one of several processes with names that all of them use.
type contention struct {
	journal *sqlite.Journal
	session machine.Session
	say     func(...any)
}

// childSeed is the environment variable with the seed of a child's random numbers.
const childSeed = "ONCEWARD_SQLITE_SEED"

// childContends prints the operations that it executed, while some of its writes and syncs fail, and every fault that
// it finds.
func childContends(path string) error {
	ctx := context.Background()
	d := &disk{path: path, open: make(map[uintptr]*handle)}
	d.happened = sync.NewCond(&d.mu)
	defer watch(d)()
	seed, err := strconv.ParseUint(os.Getenv(childSeed), 10, 64)
	if err != nil {
		return err
	}
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	sixtieth := oneIn(60)
	fault := func(what diskDid, file string) int32 {
		if file == "-wal" && (what == synced || what == wrote) && sixtieth() {
			return sqlite3.SQLITE_FULL
		}
		return sqlite3.SQLITE_OK
	}
	d.fault.Store(&fault)
	var mu sync.Mutex
	c := &contention{j, s, func(what ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what...)
	}}
	var callers sync.WaitGroup
	for g := range 16 {
		random := rand.New(rand.NewPCG(seed, uint64(g)))
		callers.Go(func() {
			for n := range soak.Times(40, 150) {
				c.operation(ctx, random, fmt.Sprint(g, "-", n))
			}
		})
	}
	callers.Wait()
	d.fault.Store(nil)
	hears(ctx, j, s)
	return errors.Join(s.End(ctx), j.Close())
}

// operation begins an operation, and completes it if this caller executes it.
func (c *contention) operation(ctx context.Context, random *rand.Rand, unique string) {
	ev := begin(fmt.Sprint("name-", random.IntN(300)), c.session)
	if random.IntN(3) > 0 {
		ev = generate(c.session.ID()+unique, c.session)
	}
	impatient, leave := context.WithCancel(ctx)
	defer leave()
	if random.IntN(10) == 0 {
		time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, leave)
	}
	begun, err := c.journal.Apply(impatient, ev)
	switch {
	case err != nil:
		return
	case begun.Decision == machine.Replay:
		if string(begun.Operation.Answer.Body) != string(complete(begun.Operation, c.session).Answer.Body) {
			c.say("wrong: another's answer", begun.Operation.ID)
		}
		return
	case begun.Decision != machine.Execute:
		return
	}
	c.say("executed", begun.Operation.ID)
	ev = complete(begun.Operation, c.session)
	for done := (machine.Result{}); ; {
		if done, err = c.journal.Apply(ctx, ev); err != nil {
			continue // its own disk fails
		}
		if done.Decision != machine.Recorded && done.Decision != machine.Replay {
			c.say("wrong:", done.Decision, begun.Operation.ID)
		}
		break
	}
	if op, err := c.journal.Get(ctx, ev.Ref); errors.Is(err, journal.ErrNotFound) || err == nil && op.State != journal.StateCompleted {
		c.say("wrong: it was completed, and is", op.State, err, begun.Operation.ID)
	}
}

// No name is executed twice by processes whose commits fail now and then.
func TestContendingCommitsFailNowAndThen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	var mu sync.Mutex
	executed := map[string]int{}
	var processes sync.WaitGroup
	for n := range uint64(3) {
		cmd, out := start(t, "contend", path, fmt.Sprint(childSeed, "=", soak.Seed(t, 1)+n))
		processes.Go(func() {
			for out.Scan() {
				id, ok := strings.CutPrefix(out.Text(), "executed ")
				if !assert.True(t, ok, out.Text()) {
					continue
				}
				mu.Lock()
				executed[id]++
				mu.Unlock()
			}
			assert.NoError(t, cmd.Wait())
		})
	}
	processes.Wait()
	require.NotEmpty(t, executed)
	j := open(t, path)
	assert.Empty(t, verify(t, j))
	for id, times := range executed {
		assert.Equal(t, 1, times, id)
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err, id)
		assert.Equal(t, journal.StateCompleted, op.State, id)
	}
	t.Logf("%d operations", len(executed))
}
