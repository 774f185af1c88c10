package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// manySwept is a number of operations without an answer, and of flows. It makes three pages of each.
const manySwept = 120

// swept opens a journal with operations, a third each pending, in flight and cancelled, and as many waiting flows.
// trips counts its round trips.
func swept(t *testing.T, server *postgrestest.Cluster, opts *postgres.Options, trips *atomic.Int64) (*postgres.Journal, []journal.Ref) {
	postgres.Still(opts)
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = roundTrips{of: trips}
		return nil
	}
	j := open(t, server, *opts)
	postgres.SweepBy(j, manySwept/3, time.Minute)
	s := join(t, j)
	var refs []journal.Ref
	for i := range manySwept {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		op := begun.Operation
		refs = append(refs, op.Ref)
		ev := journal.Event{Ref: op.Ref, Handle: op.Handle, At: time.Now(), Session: s.ID(), Claim: op.Claim, Generation: op.Generation}
		switch i % 3 {
		case 0:
			ev.Kind, ev.Attempts, ev.Wake, ev.Due = journal.EventPark, 1, time.Now().Add(time.Hour), time.Now().Add(time.Hour)
		case 1:
			ev.Kind = journal.EventCancel
		default:
			continue
		}
		_, err = j.Apply(t.Context(), ev)
		require.NoError(t, err)
	}
	for i := range manySwept {
		ev := journal.FlowEvent{Kind: journal.FlowEventBegin, Ref: journal.Ref{ID: fmt.Sprint("ride-", i)}, At: time.Now(), Session: s.ID(), InputDigest: "d"}
		begun, err := j.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
		ev.Kind, ev.Handle, ev.Claim, ev.Due = journal.FlowEventPark, begun.Flow.Handle, begun.Flow.Claim, time.Now().Add(time.Hour)
		_, err = j.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
	}
	return j, refs
}

// A sweep takes few round trips for hundreds of operations without an answer, and reaches each of them.
func TestSweepTakesFewRoundTrips(t *testing.T) {
	t.Parallel()
	t.Run("adopt", func(t *testing.T) {
		server := postgrestest.Shared(t)
		opts := options(t, server)
		var trips atomic.Int64
		_, refs := swept(t, server, &opts, &trips)
		server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET restored = 'a test says so'`)
		j := open(t, server, opts)
		postgres.SweepBy(j, manySwept/3, time.Minute)
		_, err := j.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		before := trips.Load()
		require.NoError(t, j.Adopt(t.Context()))
		assert.Less(t, trips.Load()-before, int64(manySwept), "one for two: with a commit for each page, and one that cuts off all sessions")
		for _, ref := range refs {
			op, err := j.Get(t.Context(), ref)
			require.NoError(t, err)
			require.True(t, op.Adopted)
			require.NotEqual(t, journal.StateInFlight, op.State)
			matches, err := j.FindBy(t.Context(), "ledger", journal.ByKey, "key-of-"+ref.ID)
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
		before, then := trips.Load(), time.Now().Add(-2*journal.Leap).Truncate(time.Millisecond)
		require.NoError(t, j.ResetClock(t.Context(), then))
		assert.Less(t, trips.Load()-before, int64(manySwept/2))
		for _, ref := range refs {
			op, err := j.Get(t.Context(), ref)
			require.NoError(t, err)
			require.True(t, op.UpdatedAt.Equal(then))
		}
		flows := 0
		for flow, err := range j.ListFlows(t.Context(), journal.FlowFilter{}) {
			require.NoError(t, err)
			require.True(t, flow.CreatedAt.Equal(then))
			flows++
		}
		assert.Equal(t, manySwept, flows)
		verified(t, j)
	})
}

func verified(t *testing.T, j *postgres.Journal) {
	report, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, report)
}

// A sweep may take longer than other transactions, as long as it makes progress.
func TestSweepHasTimeForEachPage(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	proxy, err := pgproxy.Start("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	j := openAt(t, server.URLThrough(proxy.Addr().String()), opts)
	s := join(t, j)
	const pages = 25
	for i := range pages {
		_, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
	}
	postgres.SweepBy(j, 1, 4*time.Second)
	proxy.Delay(60 * time.Millisecond) // three times a page: 4.5 seconds
	require.NoError(t, j.ResetClock(t.Context(), time.Now().Add(-2*journal.Leap)))
}

// A sweep ends with its caller's context.
func TestSweepEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	begun, err := j.Apply(t.Context(), begin("order", s))
	require.NoError(t, err)
	proxy, err := pgproxy.Start("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	other := openAt(t, server.URLThrough(proxy.Addr().String()), opts)
	postgres.SweepBy(other, 1, time.Minute)
	proxy.Arm(pgproxy.Fault{Match: func(e pgproxy.Exchange) bool {
		if slices.ContainsFunc(e.SQL, func(sql string) bool { return strings.Contains(sql, "state <> 3") }) {
			cancel()
		}
		return false
	}})
	require.ErrorIs(t, other.ResetClock(ctx, time.Now().Add(-2*journal.Leap)), context.Canceled)
	op, err := j.Get(t.Context(), begun.Operation.Ref)
	require.NoError(t, err)
	assert.True(t, op.UpdatedAt.Equal(begun.Operation.UpdatedAt))
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

// A sweep waits for a row that another transaction holds for a while, without starting again.
func TestSweepWaitsForLockedRows(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	pages := &sweptPages{waiting: make(chan struct{})}
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = pages
		return nil
	}
	j := open(t, server, opts)
	postgres.SweepBy(j, 1, time.Minute)
	doubts(t, j, join(t, j), "", "order-0", "order-1")
	conn := server.Conn(t)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM "`+opts.Schema+`".operations WHERE id = 'order-1' FOR UPDATE`)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- j.ResetClock(t.Context(), time.Now().Add(-2*journal.Leap)) }()
	select {
	case <-pages.waiting:
	case <-time.After(soon):
		require.Fail(t, "nobody tries to lock what is held")
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-ended)
	assert.EqualValues(t, 1, pages.first.Load(), "how often it has begun")
}

// While a page of a sweep waits for one operation, it locks none of the others. Otherwise two processes that sweep the
// same page would wait for each other.
func TestPageThatWaitsKeepsNothing(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	pages := &sweptPages{waiting: make(chan struct{})}
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = pages
		return nil
	}
	j := open(t, server, opts)
	postgres.SweepBy(j, 2, time.Minute)
	doubts(t, j, join(t, j), "", "order-0", "order-1", "order-2")
	lock := func(id string) pgx.Tx {
		tx, err := server.Conn(t).Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SET LOCAL lock_timeout = '15s'`)
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT 1 FROM "`+opts.Schema+`".operations WHERE id = $1 FOR UPDATE`, []byte(id))
		assert.NoError(t, err)
		return tx
	}
	second := lock("order-1")
	ended := make(chan error, 1)
	go func() { ended <- j.ResetClock(t.Context(), time.Now().Add(-2*journal.Leap)) }()
	select {
	case <-pages.waiting:
	case <-time.After(soon):
		require.Fail(t, "nobody tries to lock what is held")
	}
	first := lock("order-0")
	require.NoError(t, first.Rollback(t.Context()))
	require.NoError(t, second.Rollback(t.Context()))
	require.NoError(t, <-ended)
}

// sweptPages counts the first pages of sweeps. waiting is closed once many have tried to lock one.
type sweptPages struct {
	roundTrips
	first, locks atomic.Int64
	waiting      chan struct{}
}

func (p *sweptPages) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	switch {
	case strings.Contains(q.SQL, "state <> 3") && slices.Contains(q.Args, any(int64(0))):
		p.first.Add(1)
	case strings.Contains(q.SQL, "FOR UPDATE") && p.locks.Add(1) == 10:
		close(p.waiting)
	}
	return ctx
}
func (*sweptPages) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
