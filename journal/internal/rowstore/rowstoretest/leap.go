package rowstoretest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// dying is the driver for a process that dies after so many commits, counted from a clock's leap.
type dying struct {
	rowstore.Driver
	commits atomic.Int64
	leapt   atomic.Bool
}

var errDead = errors.New("the process is dead")

func (d *dying) alive() error {
	if d.leapt.Load() && d.commits.Load() <= 0 {
		return errDead
	}
	return nil
}

func (d *dying) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	if err := d.alive(); err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	tx, head, found, err := d.Driver.Begin(ctx, keys)
	return &dyingTx{tx, d, head.Leaps}, head, found, err
}

func (d *dying) Read(ctx context.Context, f func(rowstore.Reader) error) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.Driver.Read(ctx, f)
}

type dyingTx struct {
	rowstore.Tx
	d     *dying
	leaps string
}

func (t *dyingTx) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	err := t.Tx.Commit(ctx, head, changes)
	if err == nil && head.Leaps != t.leaps {
		t.d.leapt.Store(true)
	} else if err == nil && t.d.leapt.Load() {
		t.d.commits.Add(-1)
	}
	return err
}

// leaps returns Head.Leaps.
func (db Database) leaps(t *testing.T) string {
	t.Helper()
	d := db.Driver(t)
	defer func() { assert.NoError(t, d.Close()) }()
	tx, head, _, err := d.Begin(t.Context(), rowstore.Keys{Lock: rowstore.WaitLock})
	require.NoError(t, err)
	tx.Rollback()
	return head.Leaps
}

// A clock was ahead by two hours, and a process dies during the sweep of the rows dated by the clock. The next process
// sends nothing of it, even once the clock has caught up, and goes on with the sweep. What the right clock has dated
// meanwhile keeps its window.
func unfinishedSweep(t *testing.T, db Database) {
	const many = 300 // more than a page
	right := time.Now()
	ahead := right.Add(2 * time.Hour)
	d := &dying{Driver: db.Driver(t)}
	d.commits.Store(1)
	j, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	require.NoError(t, err)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	p := &process{j, s}
	p.parkAt(t, "first", ahead)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := g; i < many; i += 16 {
				p.parkAt(t, fmt.Sprint("op-", i), ahead)
			}
		})
	}
	wg.Wait()
	for i := range 3 {
		p.parkAt(t, fmt.Sprint("last-", i), ahead)
	}
	require.ErrorIs(t, p.ResetClock(t.Context(), right), errDead)
	_ = p.Close()
	require.NotEmpty(t, db.leaps(t))

	next := db.join(t)
	closed := func(id string) bool {
		op, err := next.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		return op.WindowClosed
	}
	assert.True(t, closed("first"), "the first page was swept")
	require.False(t, closed("last-0"))
	next.parkAt(t, "fresh", right.Add(time.Minute))
	for id, at := range map[string]time.Time{"last-0": right.Add(time.Minute), "last-1": ahead.Add(time.Hour)} {
		begin := next.begin(id)
		begin.At = at
		result, err := next.Apply(t.Context(), begin)
		require.NoError(t, err)
		assert.Equal(t, machine.Stop.String(), result.Decision.String(), id)
	}
	_, err = next.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: ahead.Add(time.Hour), Session: next.s.ID()}, 1)
	require.NoError(t, err)
	require.NoError(t, next.Swept(t.Context()))
	for i := range many {
		require.True(t, closed(fmt.Sprint("op-", i)), i)
	}
	assert.True(t, closed("last-2"))
	assert.False(t, closed("fresh"))
	assert.NotContains(t, db.leaps(t), `"at"`, "all were told")
}

// parkAt begins an operation by a clock, and parks the operation for a minute with an attempt that may have run.
func (p *process) parkAt(t *testing.T, id string, at time.Time) journal.Operation {
	begin := p.begin(id)
	begin.At = at
	result, err := p.Apply(t.Context(), begin)
	assert.NoError(t, err)
	assert.Equal(t, machine.Execute, result.Decision)
	park := p.of(machine.EventPark, result.Operation)
	park.At, park.Open, park.Attempts, park.Due = at, true, 1, at.Add(time.Minute)
	result, err = p.Apply(t.Context(), park)
	assert.NoError(t, err)
	return result.Operation
}
