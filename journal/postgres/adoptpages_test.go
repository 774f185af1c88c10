package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// pausedAdoptions calls between before the second page of an adoption.
type pausedAdoptions struct {
	roundTrips
	pages   atomic.Int64
	between func()
}

func (p *pausedAdoptions) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "state <> 3") && p.pages.Add(1) == 2 {
		p.between()
	}
	return ctx
}
func (*pausedAdoptions) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// adoptable is a journal that counts as restored, with six operations in flight. It is adopted two operations at a
// time, and calls between amid the adoption.
func adoptable(t *testing.T, between func(opts postgres.Options)) (j *postgres.Journal, server *postgrestest.Cluster, opts postgres.Options, flying []journal.Operation) {
	t.Helper()
	server = postgrestest.Shared(t)
	opts = options(t, server)
	plain := opts
	pauses := &pausedAdoptions{between: func() { between(plain) }}
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = pauses
		return nil
	}
	j = open(t, server, opts)
	postgres.SweepBy(j, 2, time.Minute)
	s := join(t, j)
	for i := range 6 {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		flying = append(flying, begun.Operation)
	}
	server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET restored = 'a test says so'`)
	require.Eventually(t, func() bool { _, err := j.Join(t.Context()); return err != nil }, soon, tick)
	return j, server, plain, flying
}

// heldHeart holds a heart twice: after it has read whether the journal counts as restored, and before its next query.
type heldHeart struct {
	roundTrips
	on, read   atomic.Bool
	conn       atomic.Pointer[pgx.Conn]
	has, takes chan struct{}
	next, goOn chan struct{}
}

type isRead struct{}

func (h *heldHeart) TraceQueryStart(ctx context.Context, conn *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	h.asks(conn)
	return context.WithValue(ctx, isRead{}, strings.HasPrefix(q.SQL, "SELECT restored, promoted, epoch"))
}

func (h *heldHeart) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	if is, _ := ctx.Value(isRead{}).(bool); is && h.on.Swap(false) {
		h.conn.Store(conn)
		close(h.has)
		<-h.takes
		h.read.Store(true)
	}
}

func (h *heldHeart) TraceBatchStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	h.asks(conn)
	return ctx
}

func (h *heldHeart) asks(conn *pgx.Conn) {
	if h.conn.Load() == conn && h.read.Swap(false) {
		close(h.next)
		<-h.goOn
	}
}

// A heart that read the journal before an adoption does not report it as restored after it.
func TestHeartThatReadBeforeAnAdoption(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	held := &heldHeart{has: make(chan struct{}), takes: make(chan struct{}), next: make(chan struct{}), goOn: make(chan struct{})}
	opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.Tracer = held
		return nil
	}
	j := open(t, server, opts)
	defer close(held.goOn)
	server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET restored = 'a test says so'`)
	require.Eventually(t, func() bool { _, err := j.Join(t.Context()); return err != nil }, soon, tick)
	held.on.Store(true)
	wait := func(c chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(soon):
			require.Fail(t, "the heart asks nothing")
		}
	}
	wait(held.has)
	err := j.Adopt(t.Context())
	for range 4 { // on each of its connections: a new one checks the server by itself
		if err == nil {
			_, err = j.Join(t.Context())
		}
	}
	close(held.takes)
	require.NoError(t, err)
	wait(held.next)
	_, err = j.Join(t.Context())
	require.NoError(t, err)
}

// During an adoption, other processes record late answers, and none of them sends.
func TestCallsDuringAnAdoption(t *testing.T) {
	t.Parallel()
	var late []journal.Operation
	var server *postgrestest.Cluster
	between := func(opts postgres.Options) {
		other := open(t, server, opts)
		_, err := other.Join(t.Context())
		assert.ErrorIs(t, err, journal.ErrRestored)
		for _, op := range late {
			_, err := other.Apply(t.Context(), journal.Event{Kind: journal.EventComplete, Ref: op.Ref, Handle: op.Handle, Claim: op.Claim, Generation: op.Generation,
				Session: op.Holder, At: time.Now(), Answer: &journal.Answer{Status: 200}})
			assert.NoError(t, err)
		}
	}
	j, server2, _, flying := adoptable(t, between)
	server, late = server2, []journal.Operation{flying[0], flying[5]}
	require.NoError(t, j.Adopt(t.Context()))
	for i, op := range flying {
		now, err := j.Get(t.Context(), op.Ref)
		require.NoError(t, err)
		if i == 0 || i == 5 {
			assert.Equal(t, journal.StateCompleted, now.State)
			continue
		}
		assert.True(t, now.Adopted, now.ID)
		assert.NotEqual(t, journal.StateInFlight, now.State)
	}
	next := join(t, j)
	_, err := j.Apply(t.Context(), begin("new", next))
	require.NoError(t, err)
	verified(t, j)
}

// If a process leaves an adoption half done, every process treats the journal as restored until it is adopted
// completely.
func TestAdoptionThatWasLeft(t *testing.T) {
	t.Parallel()
	j, server, opts, flying := adoptable(t, func(postgres.Options) {})
	require.NoError(t, postgres.Adopting(t.Context(), j))
	other := open(t, server, opts)
	for _, j := range []*postgres.Journal{j, other} {
		_, err := j.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		require.ErrorContains(t, err, "its adoption was begun")
	}
	require.NoError(t, other.Adopt(t.Context()))
	s := join(t, other)
	for _, op := range flying {
		asked, err := other.Apply(t.Context(), begin(op.ID, s))
		require.NoError(t, err)
		assert.True(t, asked.Operation.MayHaveRun, op.ID)
	}
	verified(t, other)
}

// If the journal is found to be restored once more during its adoption, it does not count as adopted.
func TestRestoredDuringAnAdoption(t *testing.T) {
	t.Parallel()
	var server *postgrestest.Cluster
	j, server2, _, _ := adoptable(t, func(opts postgres.Options) {
		conn := server.Conn(t)
		_, err := conn.Exec(t.Context(), `UPDATE "`+opts.Schema+`".journal SET restored = 'the database has gone back'`)
		assert.NoError(t, err)
	})
	server = server2
	require.ErrorIs(t, j.Adopt(t.Context()), journal.ErrRestored)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	join(t, j)
}
