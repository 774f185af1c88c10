package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// durable returns options without any exemption.
func durable(t testing.TB, server *postgrestest.Cluster) postgres.Options {
	return postgres.Options{Schema: server.Schema(t), Deployment: "test", Migrate: true, Failover: postgres.MayLose}
}

// openAt opens the journal at another address than the server's own.
func openAt(t testing.TB, url string, opts postgres.Options) *postgres.Journal {
	t.Helper()
	j, err := postgres.Open(t.Context(), url, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// callers begin and complete operations, each under a name of its own, whatever happens meanwhile. They keep the
// results that they got.
type callers struct {
	j      *postgres.Journal
	prefix string
	// patience is how long a caller keeps an answer that can't be recorded. A client keeps it as long as the process
	// lives.
	patience time.Duration

	stop  context.CancelFunc
	group sync.WaitGroup

	mu        sync.Mutex
	begun     map[string]journal.Operation // acknowledged
	completed map[string]bool              // acknowledged
	doubtful  map[string]error             // names whose begin came back with an error
	errors    map[string]int
	decisions map[machine.Decision]int
	restored  time.Time // when a call failed with ErrRestored
	lost      int       // lost sessions
}

// work starts that many callers. They run until they are stopped.
func work(ctx context.Context, j *postgres.Journal, prefix string, n int) *callers {
	ctx, stop := context.WithCancel(ctx)
	c := &callers{j: j, prefix: prefix, patience: 30 * time.Second, stop: stop, begun: map[string]journal.Operation{}, completed: map[string]bool{}, doubtful: map[string]error{},
		errors: map[string]int{}, decisions: map[machine.Decision]int{}}
	for i := range n {
		c.group.Go(func() { c.call(ctx, i) })
	}
	return c
}

// end stops the callers, and waits until those that have begun an operation have completed it.
func (c *callers) end() {
	c.stop()
	c.group.Wait()
}

// endAll ends all callers of a fleet before it verifies any of them. Callers that went on would add operations to
// verify.
func endAll(t *testing.T, fleet []*callers) {
	t.Helper()
	for _, c := range fleet {
		c.end()
	}
	for _, c := range fleet {
		c.assertKept(t, c.j)
	}
}

// acknowledged is the number of begins that succeeded so far.
func (c *callers) acknowledged() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.begun)
}

// failures is the number of calls that failed so far.
func (c *callers) failures() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.errors {
		n += times
	}
	return n
}

// until waits until n more begins have succeeded, or the context ends.
func (c *callers) until(ctx context.Context, n int) bool {
	target := c.acknowledged() + n
	for c.acknowledged() < target {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (c *callers) call(ctx context.Context, i int) {
	var s machine.Session
	for n := 0; ctx.Err() == nil; n++ {
		if s == nil {
			var err error
			if s, err = c.j.Join(ctx); err != nil {
				c.failed("", err)
				time.Sleep(10 * time.Millisecond)
				continue
			}
		}
		name := fmt.Sprintf("%s-%d-%d", c.prefix, i, n)
		ev := begin(name, s)
		ev.At = c.j.Now()
		// Not under ctx: a call that it cancels would be in doubt without a fault.
		r, err := c.j.Apply(context.WithoutCancel(ctx), ev)
		if err != nil {
			if c.failed(name, err); errors.Is(err, journal.ErrSessionLost) {
				s = nil
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		c.mu.Lock()
		c.decisions[r.Decision]++
		c.begun[name] = r.Operation
		c.mu.Unlock()
		c.complete(r.Operation, s)
	}
	if s != nil {
		_ = s.End(context.Background())
	}
}

// complete records the answer, and tries again until that succeeds.
func (c *callers) complete(op journal.Operation, s machine.Session) {
	for deadline := time.Now().Add(c.patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		ev := complete(op, s)
		ev.At = c.j.Now()
		r, err := c.j.Apply(context.Background(), ev)
		if err != nil {
			c.failed("", err)
			if errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrInvalidEvent) {
				return
			}
			continue
		}
		c.mu.Lock()
		c.decisions[r.Decision]++
		c.completed[op.ID] = r.Decision == machine.Recorded || r.Decision == machine.Ignored
		c.mu.Unlock()
		return
	}
}

func (c *callers) failed(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name != "" {
		c.doubtful[name] = err
	}
	if errors.Is(err, journal.ErrRestored) && c.restored.IsZero() {
		c.restored = time.Now()
	}
	if errors.Is(err, journal.ErrSessionLost) {
		c.lost++
	}
	c.errors[err.Error()]++
}

// tally compares the callers' results with the journal.
type tally struct{ missing, unanswered, landed, absent int }

// verify compares the callers' results with the journal.
func (c *callers) verify(t *testing.T, j *postgres.Journal) (is tally) {
	t.Helper()
	for name := range c.begun {
		op, err := j.Get(t.Context(), journal.Ref{ID: name})
		switch {
		case errors.Is(err, journal.ErrNotFound):
			is.missing++
		case err != nil:
			require.NoError(t, err)
		case c.completed[name] && (op.State != journal.StateCompleted || string(op.Answer.Body) != "paid "+name):
			is.unanswered++
		}
	}
	for name := range c.doubtful {
		switch _, err := j.Get(t.Context(), journal.Ref{ID: name}); {
		case errors.Is(err, journal.ErrNotFound):
			is.absent++
		default:
			require.NoError(t, err)
			is.landed++
		}
	}
	t.Logf("%d begins acknowledged, %d missing; %d answers acknowledged, %d missing; %d begins failed, %d of them had landed; errors: %v",
		len(c.begun), is.missing, len(c.completed), is.unanswered, len(c.doubtful), is.landed, c.errors)
	return is
}

// assertKept asserts that every acknowledged event is recorded, and that no caller has lost a session.
func (c *callers) assertKept(t *testing.T, j *postgres.Journal) {
	t.Helper()
	is := c.verify(t, j)
	assert.NotEmpty(t, c.completed)
	assert.Zero(t, is.missing, "acknowledged intents are missing")
	assert.Zero(t, is.unanswered, "acknowledged answers are missing")
	assert.Len(t, c.completed, len(c.begun), "everything that was begun was completed in the end")
	assert.Zero(t, c.lost, "nobody is buried for an outage of the database")
	assert.Zero(t, c.restored, "nothing has gone back")
	for d := range c.decisions {
		assert.Contains(t, []machine.Decision{machine.Execute, machine.Recorded, machine.Ignored}, d)
	}
}

func TestRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := durable(t, server)
	j := openAt(t, server.URL(), opts)
	c := work(t.Context(), j, "op", 16)
	for range soak.Times(2, 8) {
		c.until(t.Context(), 300)
		server.Restart(t, postgrestest.Immediate)
	}
	assert.True(t, c.until(t.Context(), 300), "it goes on")
	c.end()
	c.assertKept(t, openAt(t, server.URL(), opts))
}

func TestKilledServerUnderLoad(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := durable(t, server)
	j := openAt(t, server.URL(), opts)
	c := work(t.Context(), j, "op", 16)
	for range soak.Times(1, 4) {
		c.until(t.Context(), 300)
		server.Kill9(t)
		server.Run(t)
	}
	assert.True(t, c.until(t.Context(), 300), "it goes on")
	c.end()
	c.assertKept(t, openAt(t, server.URL(), opts))
}

func TestTerminatedBackendsUnderLoad(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := durable(t, server)
	j := openAt(t, server.URL(), opts)
	c := work(t.Context(), j, "op", 16)
	conn := server.Conn(t)
	for range soak.Times(10, 60) {
		c.until(t.Context(), 50)
		_, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
		require.NoError(t, err)
	}
	assert.True(t, c.until(t.Context(), 300), "it goes on")
	c.end()
	c.assertKept(t, openAt(t, server.URL(), opts))
}

// setting reads a setting of the server.
func setting(t testing.TB, conn *pgx.Conn, sql string) (value string) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}
