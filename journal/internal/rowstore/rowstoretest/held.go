package rowstoretest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

func (db Database) needsLocks(t *testing.T) {
	t.Helper()
	if db.Hold == nil {
		t.Skip("the database has one writer, and no locks of rows")
	}
}

// A sweep waits for the row, since a window that stays open by mistake is resent.
func heldSweep(t *testing.T, db Database) {
	db.needsLocks(t)
	p := db.join(t)
	before := time.Now()
	var held journal.Operation
	for _, id := range []string{"x", "y"} {
		begin := p.begin(id)
		begin.At = before.Add(2 * time.Hour)
		park := p.of(machine.EventPark, p.do(t, begin))
		park.At, park.Open, park.Attempts, park.Due = begin.At, true, 1, begin.At.Add(time.Minute)
		held = p.do(t, park)
	}
	release := db.Hold(t, held.Handle)
	reset := make(chan error, 1)
	go func() { reset <- p.ResetClock(t.Context(), before) }()
	p.beside(t, func() {})
	assert.Empty(t, reset, "it does not leave out the row")
	release()
	require.NoError(t, <-reset)
	for _, id := range []string{"x", "y"} {
		op, err := p.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		assert.True(t, op.WindowClosed, id)
	}
}

func heldAtClose(t *testing.T, db Database) {
	db.needsLocks(t)
	p := db.join(t)
	asked, delivered := p.do(t, p.begin("asked")), p.do(t, p.complete(p.do(t, p.begin("delivered"))))
	releases := []func(){db.Hold(t, asked.Handle), db.Hold(t, delivered.Handle)}
	p.do(t, p.of(machine.EventDeliver, delivered))
	waits, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := p.Apply(t.Context(), p.begin("asked"))
		waits <- err
	}()
	p.beside(t, func() {})
	go func() { closed <- p.Close() }()
	if err := <-waits; err != nil {
		assert.ErrorIs(t, err, journal.ErrClosed, "a caller that waits for a held row is sent away")
	}
	for _, release := range releases {
		release()
	}
	require.NoError(t, <-closed)
	got, err := db.Open(t).Get(t.Context(), delivered.Ref)
	require.NoError(t, err)
	assert.True(t, got.Delivered)
}

func heldFlow(t *testing.T, db Database) {
	db.needsLocks(t)
	p := db.join(t)
	begin := func(id string) machine.FlowEvent {
		return machine.FlowEvent{
			Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: p.s.ID(),
			Function: journal.FlowFunction{Name: "ride", Version: 1}, Key: "key-of-" + id, Input: []byte("{}"), InputDigest: "v1:" + id,
		}
	}
	first, err := p.ApplyFlow(t.Context(), begin("held"))
	require.NoError(t, err)
	d := db.Driver(t)
	defer func() { assert.NoError(t, d.Close()) }()
	tx, _, _, err := d.Begin(t.Context(), rowstore.Keys{})
	require.NoError(t, err)
	held, err := tx.Flow(t.Context(), first.Flow.Handle, rowstore.Digest{}, rowstore.WaitLock)
	require.NoError(t, err)
	require.False(t, held.Locked)
	waits := make(chan machine.Decision, 20)
	for range cap(waits) {
		go func() {
			result, err := p.ApplyFlow(t.Context(), begin("held"))
			assert.NoError(t, err)
			waits <- result.Decision
		}()
	}
	p.beside(t, func() {})
	other, err := p.ApplyFlow(t.Context(), begin("another"))
	require.NoError(t, err)
	assert.Equal(t, machine.Execute, other.Decision)
	assert.Empty(t, waits, "none is decided while the flow is held")
	tx.Rollback()
	for range cap(waits) {
		assert.Equal(t, machine.Wait, <-waits)
	}
}

// A function in the event runs beside others' requests.
func panics(t *testing.T, db Database) {
	p := db.join(t)
	p.do(t, p.begin("asked"))
	p.beside(t, func() {
		ev := p.begin("asked")
		ev.Intent.Same = func(string) bool { panic("a function of the caller's") }
		_, err := p.Apply(t.Context(), ev)
		assert.ErrorContains(t, err, "a function of the caller's")
	})
	for _, id := range []string{"first", "second"} {
		park := p.of(machine.EventPark, p.do(t, p.begin(id)))
		park.Unsent = true
		p.do(t, park)
	}
	_, err := p.Claim(t.Context(), machine.Event{
		Kind: machine.EventClaim, At: time.Now(), Session: p.s.ID(), Asker: 1,
		Today: func(op *journal.Operation) (machine.Today, bool) {
			if op.ID == "second" {
				panic("a function of the claim's")
			}
			return machine.Today{Terms: op.Terms, Form: op.Form}, true
		},
	}, 10)
	assert.ErrorContains(t, err, "a function of the claim's")
	op, err := p.Get(t.Context(), journal.Ref{ID: "first"})
	require.NoError(t, err)
	assert.Equal(t, journal.StatePending.String(), op.State.String(), "the claim of it is undone")
}
