package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func verified(t *testing.T, j *postgres.Journal) {
	t.Helper()
	report, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, report)
}

// roundTrips counts the queries to the server.
type roundTrips struct{ of *atomic.Int64 }

func (r roundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	r.of.Add(1)
	return ctx
}
func (roundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (r roundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.of.Add(1)
	return ctx
}
func (roundTrips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (roundTrips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// sideBySide calls f for each number below n, from 50 goroutines.
func sideBySide(n int, f func(i int)) {
	var group sync.WaitGroup
	for g := range 50 {
		group.Go(func() {
			for i := g; i < n; i += 50 {
				f(i)
			}
		})
	}
	group.Wait()
}

// manySwept is a number of operations without an answer. It makes three pages.
const manySwept = 600

// swept opens a journal with operations, a third each pending, in flight and cancelled. trips counts its round trips.
func swept(t *testing.T, server *postgrestest.Cluster, opts *postgres.Options, trips *atomic.Int64) (*postgres.Journal, []journal.Ref) {
	t.Helper()
	postgres.Still(opts)
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = roundTrips{of: trips}
		return nil
	}
	j := open(t, server, *opts)
	s := join(t, j)
	refs := make([]journal.Ref, manySwept)
	sideBySide(manySwept, func(i int) {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		assert.NoError(t, err)
		op := begun.Operation
		refs[i] = op.Ref
		ev := machine.Event{Ref: op.Ref, Handle: op.Handle, At: time.Now(), Session: s.ID(), Claim: op.Claim, Generation: op.Generation}
		switch i % 3 {
		case 0:
			ev.Kind, ev.Attempts, ev.Wake, ev.Due = machine.EventPark, 1, time.Now().Add(time.Hour), time.Now().Add(time.Hour)
		case 1:
			ev.Kind = machine.EventCancel
		default:
			return
		}
		_, err = j.Apply(t.Context(), ev)
		assert.NoError(t, err)
	})
	return j, refs
}

// parkFlow begins a flow at a time, and parks it for an hour.
func parkFlow(t *testing.T, j *postgres.Journal, s machine.Session, id string, at time.Time) {
	ev := machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: id}, At: at, Session: s.ID(), InputDigest: "d"}
	begun, err := j.ApplyFlow(t.Context(), ev)
	assert.NoError(t, err)
	ev.Kind, ev.Handle, ev.Claim, ev.Due = machine.FlowEventPark, begun.Flow.Handle, begun.Flow.Claim, at.Add(time.Hour)
	_, err = j.ApplyFlow(t.Context(), ev)
	assert.NoError(t, err)
}

// An adoption and a reset of the clock take few round trips for hundreds of operations without an answer, and reach each
// of them. A reset takes none for a flow that it does not change.
func TestSweepTakesFewRoundTrips(t *testing.T) {
	t.Parallel()
	t.Run("adopt", func(t *testing.T) {
		server := postgrestest.Shared(t)
		opts := options(t, server)
		var trips atomic.Int64
		_, refs := swept(t, server, &opts, &trips)
		server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET restored = 'a test says so'`)
		j := open(t, server, opts)
		_, err := j.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		before := trips.Load()
		require.NoError(t, j.Adopt(t.Context()))
		assert.Less(t, trips.Load()-before, int64(manySwept/2), "one for each that was in flight, and some for each page")
		for _, ref := range refs {
			op, err := j.Get(t.Context(), ref)
			require.NoError(t, err)
			require.True(t, op.Adopted)
			require.NotEqual(t, journal.StateInFlight, op.State)
			matches, err := j.FindBy(t.Context(), "ledger", machine.ByKey, "key-of-"+ref.ID)
			require.NoError(t, err)
			require.Len(t, matches, 1, "what was in flight is found by its marks from now on")
		}
		verified(t, j)
	})
	t.Run("clock", func(t *testing.T) {
		server := postgrestest.Shared(t)
		opts := options(t, server)
		var trips atomic.Int64
		j, refs := swept(t, server, &opts, &trips)
		before, then := trips.Load(), time.Now().Add(-2*machine.Leap).Truncate(time.Millisecond)
		require.NoError(t, j.ResetClock(t.Context(), then))
		assert.Less(t, trips.Load()-before, int64(manySwept/10))
		for _, ref := range refs {
			op, err := j.Get(t.Context(), ref)
			require.NoError(t, err)
			require.True(t, op.UpdatedAt.Equal(then))
		}
		s, many := join(t, j), manySwept/2
		sideBySide(many, func(i int) { parkFlow(t, j, s, fmt.Sprint("ride-", i), then) })
		before = trips.Load()
		require.NoError(t, j.ResetClock(t.Context(), then.Add(-time.Minute)))
		assert.Less(t, trips.Load()-before, int64(many/5))
		verified(t, j)
	})
}

// leapt is a journal whose clock is far ahead and confirmed, and operations in flight that this clock has dated.
type leapt struct {
	server *postgrestest.Cluster
	opts   postgres.Options // for other processes
	j      *postgres.Journal
	s      machine.Session
	right  time.Time // by a clock that is right
	ahead  time.Time // by the one that is ahead
	ops    []journal.Operation
}

// leap returns a journal that uses a tracer, with n operations.
func leap(t *testing.T, tracer pgx.QueryTracer, n int) *leapt {
	t.Helper()
	server := postgrestest.Shared(t)
	l := &leapt{server: server, opts: options(t, server), right: time.Now().Truncate(time.Millisecond).UTC()}
	opts := l.opts
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = tracer
		return nil
	}
	l.j = open(t, server, opts)
	l.s = join(t, l.j)
	jumped := l.right.Add(30 * time.Hour)
	l.ahead = jumped.Add(machine.Confirmation)
	for _, at := range []time.Time{l.right, jumped, l.ahead} {
		_, err := l.j.Apply(t.Context(), machine.Event{Kind: machine.EventClock, At: at})
		require.NoError(t, err)
	}
	for i := range n {
		l.ops = append(l.ops, l.begin(t, l.j, l.s, fmt.Sprint("op-", i), l.ahead).Operation)
	}
	return l
}

// begin begins an operation at a time by its caller's clock. It has a window of a day.
func (l *leapt) begin(t *testing.T, j *postgres.Journal, s machine.Session, id string, at time.Time) machine.Result {
	t.Helper()
	ev := begin(id, s)
	ev.At, ev.Intent.Terms = at, journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true}
	result, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	return result
}

// closed reports whether an operation is not resent by its window any more.
func (l *leapt) closed(t *testing.T, id string) bool {
	t.Helper()
	op, err := l.j.Get(t.Context(), journal.Ref{ID: id})
	require.NoError(t, err)
	return op.WindowClosed
}

// last is the latest time, as the database has it.
func (l *leapt) last(t *testing.T, j *postgres.Journal) time.Time {
	t.Helper()
	stats, err := j.ReadStats(t.Context())
	require.NoError(t, err)
	return stats.Last
}

// hold has another session hold the row of an operation until release is called.
func hold(t *testing.T, server *postgrestest.Cluster, schema string, op journal.Operation) (release func()) {
	t.Helper()
	tx, err := server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM "`+schema+`".operations WHERE handle = $1 FOR UPDATE`, op.Handle)
	require.NoError(t, err)
	return func() { assert.NoError(t, tx.Rollback(t.Context())) }
}

// waitForHeld waits until a statement waits for a held operation.
func waitForHeld(t *testing.T, server *postgrestest.Cluster, schema string) {
	t.Helper()
	conn := server.Conn(t)
	require.Eventually(t, func() bool {
		var n int
		err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0", `"`+schema+`".operations`).Scan(&n)
		return assert.NoError(t, err) && n > 0
	}, soon, time.Millisecond, "nothing waits for the operation")
}

// beforeReset calls between once, before a reset of the clock sends its commit.
type beforeReset struct {
	roundTrips
	over    atomic.Bool
	between func()
}

func (b *beforeReset) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (b *beforeReset) TraceBatchStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceBatchStartData) context.Context {
	resets := slices.ContainsFunc(q.Batch.QueuedQueries, func(s *pgx.QueuedQuery) bool { return strings.Contains(s.SQL, "last_at = least(") })
	if resets && !b.over.Swap(true) {
		b.between()
	}
	return ctx
}

// During a reset, other processes go on with other names by the clock as it was. The operations and flows that they
// write meanwhile are corrected too.
func TestCallsDuringAReset(t *testing.T) {
	t.Parallel()
	during := &beforeReset{}
	l := leap(t, during, 6)
	other := open(t, l.server, l.opts)
	s := join(t, other)
	during.between = func() {
		assert.Equal(t, machine.Execute, l.begin(t, other, s, "fresh", l.right).Decision)
		assert.Equal(t, machine.Execute, l.begin(t, other, s, "wrong", l.ahead).Decision, "by the clock that is ahead still")
		parkFlow(t, other, s, "fresh", l.right)
		parkFlow(t, other, s, "wrong", l.ahead)
	}
	require.NoError(t, l.j.ResetClock(t.Context(), l.right))
	require.True(t, during.over.Load())
	for _, op := range l.ops {
		assert.True(t, l.closed(t, op.ID), op.ID)
	}
	assert.True(t, l.closed(t, "wrong"))
	assert.True(t, l.closed(t, "fresh"), "a clock may have sent this one too that was ahead for long")
	assert.Equal(t, machine.Execute, l.begin(t, other, s, "after", l.right).Decision)
	assert.False(t, l.closed(t, "after"))
	for flow, err := range l.j.ListFlows(t.Context(), journal.FlowFilter{}) {
		require.NoError(t, err)
		assert.WithinDuration(t, l.right.Add(time.Hour), flow.DueAt, time.Minute, flow.ID)
	}
	assert.WithinDuration(t, l.right, l.last(t, other), time.Minute)
	verified(t, l.j)
}

// A caller that leaves its reset has set the clock. Another process does not send what the clock ahead has dated, even
// before that was swept, and goes on with the sweep.
func TestResetThatWasLeft(t *testing.T) {
	t.Parallel()
	l := leap(t, nil, 6)
	release := hold(t, l.server, l.opts.Schema, l.ops[4])
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- l.j.ResetClock(ctx, l.right) }()
	waitForHeld(t, l.server, l.opts.Schema)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	require.NoError(t, l.j.Close())
	release()
	other := open(t, l.server, l.opts)
	l.j = other
	assert.Equal(t, l.right, l.last(t, other).UTC())
	assert.False(t, l.closed(t, l.ops[4].ID), "it was held")
	s := join(t, other)
	for _, op := range l.ops {
		assert.NotEqual(t, machine.Execute, l.begin(t, other, s, op.ID, l.right).Decision, op.ID)
		assert.True(t, l.closed(t, op.ID), op.ID)
	}
	verified(t, other)
}

// Two processes reset the clock at once, and wait for the same operation of another transaction. Both end, and every
// operation is corrected.
func TestTwoResetsAtOnce(t *testing.T) {
	t.Parallel()
	l := leap(t, nil, 6)
	other := open(t, l.server, l.opts)
	release := hold(t, l.server, l.opts.Schema, l.ops[3])
	ended := make(chan error, 2)
	for _, j := range []*postgres.Journal{l.j, other} {
		go func() { ended <- j.ResetClock(t.Context(), l.right) }()
	}
	waitForHeld(t, l.server, l.opts.Schema)
	release()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	for _, op := range l.ops {
		assert.True(t, l.closed(t, op.ID), op.ID)
	}
	assert.WithinDuration(t, l.right, l.last(t, l.j), time.Minute)
	verified(t, l.j)
}

// If the clock is reset after a process has decided by it, and before that is committed, the process decides anew.
func TestDecidedBeforeAReset(t *testing.T) {
	t.Parallel()
	l := leap(t, nil, 1)
	proxy, err := pgproxy.Start("tcp", l.server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	slow := openAt(t, l.server.URLThrough(proxy.Addr().String()), l.opts)
	s := join(t, slow)
	commit := proxy.Arm(pgproxy.Fault{Match: func(e pgproxy.Exchange) bool {
		return slices.ContainsFunc(e.SQL, func(sql string) bool { return strings.Contains(sql, `INSERT INTO "`+l.opts.Schema+`".operations`) })
	}, Side: pgproxy.Request, Then: pgproxy.Hold})
	t.Cleanup(commit.Release)
	begun := make(chan machine.Result, 1)
	go func() { begun <- l.begin(t, slow, s, "late", l.ahead) }()
	<-commit.Done()
	proxy.Redirect("127.0.0.1:1") // where nothing listens: the reset ends the connection, and comes before the next one
	require.NoError(t, l.j.ResetClock(t.Context(), l.right))
	proxy.Redirect(l.server.Addr())
	commit.Release()
	late := (<-begun).Operation
	require.False(t, late.SentSince.IsZero(), "its window does not begin when a clock said that was reset")
	assert.WithinDuration(t, l.right, late.SentSince, time.Minute)
	verified(t, l.j)
}
