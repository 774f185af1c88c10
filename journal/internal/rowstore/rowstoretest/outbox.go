package rowstoretest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

func (p *process) enqueue(id string) machine.Event {
	ev := p.begin(id)
	ev.Kind, ev.Session, ev.Intent.Naming = machine.EventEnqueue, "", journal.Named
	return ev
}

func (p *process) beginTx(t *testing.T) journal.Tx {
	t.Helper()
	tx, err := p.BeginTx(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	return tx
}

func (p *process) decides(t *testing.T, tx journal.Tx, ev machine.Event, want machine.Decision) {
	t.Helper()
	result, err := p.EnqueueTx(t.Context(), tx, ev)
	require.NoError(t, err)
	require.Equal(t, want, result.Decision)
}

// A service that only enqueues also notices a clock that is set back.
func enqueuedMargin(t *testing.T, db Database) {
	p := db.join(t)
	least := func() time.Duration {
		d := db.Driver(t)
		defer func() { assert.NoError(t, d.Close()) }()
		tx, head, _, err := d.Begin(t.Context(), rowstore.Keys{})
		require.NoError(t, err)
		tx.Rollback()
		return head.Clock.LeastMargin
	}
	enqueue := func(id string, retention time.Duration) journal.Tx {
		ev := p.enqueue(id)
		ev.Intent.Terms.Retention = retention
		tx := p.beginTx(t)
		p.decides(t, tx, ev, machine.Recorded)
		return tx
	}
	require.NoError(t, enqueue("rolled back", 12*time.Hour).Rollback(t.Context()))
	assert.Zero(t, least())
	long := func(id string) (margin time.Duration) {
		ev := p.begin(id)
		ev.Intent.Terms.Retention = 96 * time.Hour
		p.do(t, ev)
		return ev.Intent.Terms.Margin()
	}
	lowest := long("before")
	for i, retention := range []time.Duration{3 * time.Hour, 2 * time.Hour, 3 * time.Hour} {
		require.NoError(t, enqueue(fmt.Sprint("a-", i), retention).Commit(t.Context()))
		terms := p.enqueue("").Intent.Terms
		terms.Retention = retention
		lowest = min(lowest, terms.Margin())
		assert.Equal(t, lowest, least(), i)
	}
	long("after")
	assert.Equal(t, lowest, least(), "another commit keeps it")
}

// The application may commit all the same, if the database allows the commit.
func refusedEnqueue(t *testing.T, db Database) {
	p := db.join(t)
	db.Refuse(t, "refused", 0)
	ev := p.enqueue("refused")
	ev.Intent.Provider, ev.Intent.Alias = "refused", journal.Ref{ID: "its second name"}
	tx := p.beginTx(t)
	p.decides(t, tx, p.enqueue("before"), machine.Recorded)
	_, err := p.EnqueueTx(t.Context(), tx, ev)
	require.Error(t, err)
	committed := tx.Commit(t.Context())
	for _, id := range []string{"refused", "its second name"} {
		_, err = p.Get(t.Context(), journal.Ref{ID: id})
		assert.ErrorIs(t, err, journal.ErrNotFound)
	}
	_, err = p.Get(t.Context(), journal.Ref{ID: "before"})
	if committed == nil {
		assert.NoError(t, err)
	} else {
		assert.ErrorIs(t, err, journal.ErrNotFound)
	}
}

func damagedEnqueue(t *testing.T, db Database) {
	p := db.join(t)
	op := p.do(t, p.begin("damaged"))
	db.Damage(t, op.Handle)
	tx := p.beginTx(t)
	_, err := p.EnqueueTx(t.Context(), tx, p.enqueue("damaged"))
	assert.ErrorIs(t, err, format.ErrDamaged)
	p.decides(t, tx, p.enqueue("sound"), machine.Recorded)
	require.NoError(t, tx.Commit(t.Context()))
	_, err = p.Get(t.Context(), journal.Ref{ID: "sound"})
	assert.NoError(t, err)
}

func openEnqueue(t *testing.T, db Database) {
	if db.Hold == nil {
		t.Skip("the database has one writer, and no locks of rows")
	}
	p := db.join(t)
	tx := p.beginTx(t)
	p.decides(t, tx, p.enqueue("enqueued"), machine.Recorded)
	begun := make(chan machine.Result, 10)
	for range cap(begun) {
		go func() {
			result, err := p.Apply(t.Context(), p.begin("enqueued"))
			assert.NoError(t, err)
			begun <- result
		}()
	}
	p.beside(t, func() {})
	assert.Empty(t, begun, "none is decided before the transaction ends")
	require.NoError(t, tx.Commit(t.Context()))
	decisions := make(map[machine.Decision]int)
	for range cap(begun) {
		decisions[(<-begun).Decision]++
	}
	assert.Equal(t, map[machine.Decision]int{machine.Execute: 1, machine.Wait: 9}, decisions)
}

func openFlow(t *testing.T, db Database) {
	if db.Hold == nil {
		t.Skip("the database has one writer, and no locks of rows")
	}
	p := db.join(t)
	tx := p.beginTx(t)
	ev := machine.FlowEvent{
		Kind: machine.FlowEventEnqueue, Ref: journal.Ref{ID: "ride"}, At: time.Now(),
		Function: journal.FlowFunction{Name: "ride", Version: 1}, Key: "key-of-ride", Input: []byte("{}"), InputDigest: "v1:ride",
	}
	enqueued, err := p.ApplyFlowTx(t.Context(), tx, ev)
	require.NoError(t, err)
	require.Equal(t, machine.Recorded, enqueued.Decision)
	begun := make(chan machine.Decision, 10)
	for range cap(begun) {
		go func() {
			ev := ev
			ev.Kind, ev.Session = machine.FlowEventBegin, p.s.ID()
			result, err := p.ApplyFlow(t.Context(), ev)
			assert.NoError(t, err)
			begun <- result.Decision
		}()
	}
	p.beside(t, func() {})
	assert.Empty(t, begun, "none is decided before the transaction ends")
	require.NoError(t, tx.Commit(t.Context()))
	decisions := make(map[machine.Decision]int)
	for range cap(begun) {
		decisions[<-begun]++
	}
	assert.Equal(t, map[machine.Decision]int{machine.Execute: 1, machine.Wait: 9}, decisions)
}
