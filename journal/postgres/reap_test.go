package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 1000)
			assert.NoError(t, err)
			reaped <- n
		}()
	}
	assert.Equal(t, 130, <-reaped+<-reaped)
}

// An operation with a damaged row stays, and does not hold up others.
func TestDamagedRowsDoNotBlockReaping(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	handles := make(map[string]int64)
	for i := range 5 {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		handles[begun.Operation.ID] = begun.Operation.Handle
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
	}
	for _, id := range []string{"order-0", "order-2"} {
		server.Exec(t, fmt.Sprintf(`UPDATE "%s".operations SET facts = '' WHERE handle = %d`, opts.Schema, handles[id]))
	}
	n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 1000)
	require.ErrorContains(t, err, "is passed over")
	assert.Equal(t, 3, n)
	for _, id := range []string{"order-0", "order-2"} {
		_, err = j.Get(t.Context(), journal.Ref{ID: id})
		require.Error(t, err, id)
		assert.NotErrorIs(t, err, journal.ErrNotFound, id)
	}
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
	if !postgres.Rows {
		damaged = "INSERT INTO " + schema + ".operations (scope, parent, id, naming, provider, state, settled_at, delivered, tombstone, facts) " +
			"SELECT '', '', 'damaged', naming, provider, state, 1, true, false, '' FROM " + schema + ".operations, generate_series(1, 2000) WHERE id = 'order-0'"
	}
	server.Exec(t, damaged)
	n, err := j.Reap(within(t, soon), journal.Event{Kind: journal.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 1000)
	require.ErrorContains(t, err, "is passed over")
	assert.Equal(t, 3, n)
}
