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

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// adoptable is a journal that counts as restored.
type adoptable struct {
	server *postgrestest.Cluster
	opts   postgres.Options
	j      *postgres.Journal
	dead   machine.Session     // of j
	flying []journal.Operation // in flight
}

// restoredWith returns a journal that counts as restored, with six operations in flight.
func restoredWith(t *testing.T) *adoptable {
	t.Helper()
	server := postgrestest.Shared(t)
	a := &adoptable{server: server, opts: options(t, server)}
	a.j = open(t, server, a.opts)
	a.dead = join(t, a.j)
	for i := range 6 {
		begun, err := a.j.Apply(t.Context(), begin(fmt.Sprint("order-", i), a.dead))
		require.NoError(t, err)
		a.flying = append(a.flying, begun.Operation)
	}
	a.goesBack(t, "a test says so")
	require.Eventually(t, func() bool { _, err := a.j.Join(t.Context()); return err != nil }, soon, tick)
	return a
}

// goesBack has the journal count as restored.
func (a *adoptable) goesBack(t *testing.T, why string) {
	t.Helper()
	a.server.Exec(t, `UPDATE "`+a.opts.Schema+`".journal SET restored = $1`, why)
}

// adopting adopts the journal until the adoption waits for an operation that another session holds. Then it goes on once
// release is called.
func (a *adoptable) adopting(t *testing.T, ctx context.Context, held journal.Operation) (release func(), adopted <-chan error) {
	t.Helper()
	release = hold(t, a.server, a.opts.Schema, held)
	ended := make(chan error, 1)
	go func() { ended <- a.j.Adopt(ctx) }()
	waitForHeld(t, a.server, a.opts.Schema)
	return release, ended
}

// During an adoption, other processes record late answers, and none of them sends.
func TestCallsDuringAnAdoption(t *testing.T) {
	t.Parallel()
	a := restoredWith(t)
	release, adopted := a.adopting(t, t.Context(), a.flying[2])
	other := open(t, a.server, a.opts)
	_, err := other.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = other.Apply(t.Context(), begin("new", a.dead))
	require.Error(t, err)
	late := a.flying[5]
	_, err = other.Apply(t.Context(), machine.Event{Kind: machine.EventComplete, Ref: late.Ref, Handle: late.Handle, Claim: late.Claim, Generation: late.Generation,
		Session: late.Holder, At: time.Now(), Answer: &journal.Answer{Status: 200}})
	require.NoError(t, err)
	release()
	require.NoError(t, <-adopted)
	for _, op := range a.flying {
		now, err := a.j.Get(t.Context(), op.Ref)
		require.NoError(t, err)
		if op.Handle == late.Handle {
			assert.Equal(t, journal.StateCompleted, now.State)
			continue
		}
		assert.True(t, now.Adopted, now.ID)
		assert.NotEqual(t, journal.StateInFlight, now.State)
	}
	_, err = a.j.Apply(t.Context(), begin("new", join(t, a.j)))
	require.NoError(t, err)
	verified(t, a.j)
}

// If a process leaves an adoption half done, every process treats the journal as restored until it is adopted
// completely.
func TestAdoptionThatWasLeft(t *testing.T) {
	t.Parallel()
	a := restoredWith(t)
	ctx, cancel := context.WithCancel(t.Context())
	release, left := a.adopting(t, ctx, a.flying[2])
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	release()
	other := open(t, a.server, a.opts)
	for _, j := range []*postgres.Journal{a.j, other} {
		_, err := j.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		require.ErrorContains(t, err, "its adoption was begun")
	}
	require.NoError(t, other.Adopt(t.Context()))
	s := join(t, other)
	for _, op := range a.flying {
		asked, err := other.Apply(t.Context(), begin(op.ID, s))
		require.NoError(t, err)
		assert.True(t, asked.Operation.MayHaveRun, op.ID)
	}
	verified(t, other)
}

// If the journal is found to be restored once more during its adoption, it does not count as adopted.
func TestRestoredDuringAnAdoption(t *testing.T) {
	t.Parallel()
	a := restoredWith(t)
	release, adopted := a.adopting(t, t.Context(), a.flying[2])
	a.goesBack(t, "the database has gone back")
	release()
	require.ErrorIs(t, <-adopted, journal.ErrRestored)
	_, err := a.j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, a.j.Adopt(t.Context()))
	join(t, a.j)
	verified(t, a.j)
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
	return context.WithValue(ctx, isRead{}, strings.Contains(q.SQL, "least_writer FROM"))
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
