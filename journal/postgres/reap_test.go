package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// Two processes reap at the same time. An operation goes once.
func TestReapersBesideEachOther(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	var pods []*postgres.Journal
	for range 2 {
		pods = append(pods, open(t, server, opts))
	}
	s := join(t, pods[0])
	for i := range 130 {
		begun, err := pods[0].Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		_, err = pods[0].Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
	}
	reaped := make(chan int, len(pods))
	for _, j := range pods {
		go func() {
			n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 1000)
			assert.NoError(t, err)
			reaped <- n
		}()
	}
	assert.Equal(t, 130, <-reaped+<-reaped)
}

// An operation whose request or answer is damaged is reaped like any other. One whose row is damaged stays, and does not
// hold up others.
func TestReapBesideDamage(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	for i := range 5 {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
		of := fmt.Sprintf(` WHERE handle = %d`, begun.Operation.Handle)
		for id, damage := range map[int]string{0: "DELETE FROM %s.answers", 2: "DELETE FROM %s.requests", 4: "UPDATE %s.operations SET facts = ''"} {
			if id == i {
				server.Exec(t, fmt.Sprintf(damage, `"`+opts.Schema+`"`)+of)
			}
		}
	}
	n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 1000)
	require.ErrorContains(t, err, "is passed over")
	assert.Equal(t, 4, n)
	for _, id := range []string{"order-0", "order-2"} {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		assert.True(t, op.Tombstone, id)
	}
	_, err = j.Get(t.Context(), journal.Ref{ID: "order-4"})
	require.Error(t, err)
	assert.NotErrorIs(t, err, journal.ErrNotFound)
	wrong, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.NotEmpty(t, wrong)
}

// There are more damaged operations than one commit examines. Reaping continues behind them.
func TestReapBehindManyDamaged(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	for i := range 3 {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
	}
	schema := `"` + opts.Schema + `"`
	damaged := "INSERT INTO " + schema + ".operations (handle, provider, state, settled_at, delivered, tombstone, facts) " +
		"SELECT n, 'ledger', 3, 1, true, false, '' FROM generate_series(1, 2000) n"
	server.Exec(t, damaged)
	n, err := j.Reap(within(t, soon), machine.Event{Kind: machine.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 1000)
	require.ErrorContains(t, err, "is passed over")
	assert.Equal(t, 3, n)
}
