package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// caller begins and completes operations, and enqueues others beside rows of its own, whatever happens meanwhile. It keeps
// the answers that it got.
type caller struct {
	j      *mysql.Journal
	db     *sql.DB
	table  string
	prefix string

	told     *atomic.Int64 // commits of all callers
	restored *atomic.Bool  // the journal counts as restored; nil if it must not

	begun, completed, enqueued, doubtful []string
	failures                             int
}

func (c *caller) run(ctx context.Context, t *testing.T) {
	var s machine.Session
	for n := 0; ctx.Err() == nil; n++ {
		if s == nil {
			joined, err := c.j.Join(context.Background())
			if c.fails(t, err) {
				continue
			}
			s = joined
		}
		id := fmt.Sprint(c.prefix, "-", n)
		ev := machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: c.j.Now(), Session: s.ID(), Intent: intent(id)}
		result, err := c.j.Apply(context.Background(), ev)
		if errors.Is(err, journal.ErrSessionLost) {
			s = nil
		}
		if !c.fails(t, err) {
			assert.Equal(t, machine.Execute, result.Decision, id)
			c.begun = append(c.begun, id)
			c.complete(t, result.Operation, s)
		}
		c.enqueue(t, fmt.Sprint(id, "-later"))
	}
}

// fails counts a failure. A server that is killed loses no acknowledged commit, so nothing counts as restored.
func (c *caller) fails(t *testing.T, err error) bool {
	if err == nil {
		return false
	}
	if is := errors.Is(err, journal.ErrRestored); is && c.restored != nil {
		c.restored.Store(true)
	} else {
		assert.False(t, is, err)
	}
	c.failures++
	time.Sleep(5 * time.Millisecond)
	return true
}

func (c *caller) complete(t *testing.T, op journal.Operation, s machine.Session) {
	for range 4000 {
		if c.restored != nil && c.restored.Load() {
			return
		}
		result, err := c.j.Apply(context.Background(), machine.Event{
			Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: c.j.Now(), Session: s.ID(), Claim: op.Claim, Generation: op.Generation, Attempts: 1, Delivered: true,
			Answer: &journal.Answer{Status: 201, Body: []byte("paid " + op.ID)},
		})
		if !c.fails(t, err) {
			assert.Contains(t, []machine.Decision{machine.Recorded, machine.Ignored}, result.Decision)
			c.completed = append(c.completed, op.ID)
			c.told.Add(1)
			return
		}
	}
}

// enqueue writes an operation and a row in one transaction.
func (c *caller) enqueue(t *testing.T, id string) {
	tx, err := c.db.Begin()
	if c.fails(t, err) {
		return
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("INSERT INTO "+c.table+" VALUES (?)", id); c.fails(t, err) {
		return
	}
	ev := enqueue(id)
	ev.At = c.j.Now()
	if _, err := c.j.EnqueueTx(context.Background(), mysql.SQL(tx), ev); c.fails(t, err) {
		return
	}
	if c.fails(t, mysql.SQL(tx).Commit(context.Background())) {
		c.doubtful = append(c.doubtful, id)
		return
	}
	c.enqueued = append(c.enqueued, id)
	c.told.Add(1)
}

// A server that is killed under load, again and again, loses no acknowledged commit, and tears no transaction.
func TestKilledServerUnderLoad(t *testing.T) {
	server := mysqltest.Start(t)
	opts := options(t, server)
	opts.Unsafe, opts.Durability, opts.Logger = false, mysql.Provider, slog.New(slog.NewTextHandler(io.Discard, nil))
	var callers []*caller
	var told atomic.Int64
	goOn := func() {
		until := told.Load() + 20
		require.Eventually(t, func() bool { return told.Load() >= until }, 5*time.Minute, time.Millisecond, "the callers go on")
	}
	for p := range 2 {
		j := open(t, server, opts)
		if p == 0 {
			server.Exec(t, "CREATE TABLE "+opts.Schema+".theirs (id VARBINARY(100) NOT NULL) ENGINE=InnoDB")
		}
		for i := range 6 {
			callers = append(callers, &caller{told: &told, j: j, db: theirs(t, server, nil), table: opts.Schema + ".theirs", prefix: fmt.Sprint("p", p, "-", i)})
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for _, c := range callers {
		group.Go(func() { c.run(ctx, t) })
	}
	var others []*sql.Conn
	for i := range soak.Times(3, 60) {
		goOn()
		for _, conn := range others {
			assert.NoError(t, conn.PingContext(t.Context()), "a process ends only its own connections")
			_ = conn.Close()
		}
		others = nil
		if i%3 == 2 {
			server.Sever(t)
		} else {
			server.Kill9(t)
			server.Run(t)
			for range 20 { // they get numbers that connections had before
				conn, err := server.DB().Conn(t.Context())
				require.NoError(t, err)
				others = append(others, conn)
			}
		}
	}
	goOn()
	stop()
	group.Wait()
	begun, enqueued, failures := 0, 0, 0
	for _, c := range callers {
		begun, enqueued, failures = begun+len(c.begun), enqueued+len(c.enqueued), failures+c.failures
	}
	assert.Zero(t, lost(t, server, callers, callers[0].j))
	t.Logf("%d begun, %d enqueued, %d failures", begun, enqueued, failures)
	assert.Positive(t, begun)
	assert.Positive(t, enqueued)
}

// lost looks for the commits that callers know of, and returns how many are missing. Those that are there are whole.
func lost(t *testing.T, server *mysqltest.Server, callers []*caller, j *mysql.Journal) (missing int) {
	t.Helper()
	rows := make(map[string]int)
	found, err := server.DB().Query("SELECT id, count(*) FROM " + callers[0].table + " GROUP BY id")
	require.NoError(t, err)
	for found.Next() {
		var id string
		var n int
		require.NoError(t, found.Scan(&id, &n))
		rows[id] = n
	}
	require.NoError(t, found.Err())
	for _, c := range callers {
		for _, id := range c.begun {
			if _, err := j.Get(t.Context(), journal.Ref{ID: id}); err != nil {
				assert.ErrorIs(t, err, journal.ErrNotFound, id)
				missing++
			}
		}
		for _, id := range c.completed {
			if op, err := j.Get(t.Context(), journal.Ref{ID: id}); err != nil || op.Answer == nil {
				missing++
			} else {
				assert.Equal(t, "paid "+id, string(op.Answer.Body))
			}
		}
		for _, id := range c.enqueued {
			if rows[id] == 0 {
				missing++
			}
		}
		for _, id := range append(c.enqueued, c.doubtful...) { // both, or neither
			_, err := j.Get(t.Context(), journal.Ref{ID: id})
			assert.Equal(t, rows[id] == 1, err == nil, id)
			delete(rows, id)
		}
	}
	assert.Empty(t, rows, "rows without a commit")
	violations, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, violations)
	return missing
}
