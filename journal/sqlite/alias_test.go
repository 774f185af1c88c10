package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

func aliasOf(id string) journal.Ref { return journal.Ref{Parent: "\x00carried", ID: "key-of-" + id} }

// An operation is found by its second name, wherever it is stored.
func TestAliasFindsAnOperationAnywhere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	start := func(id string) journal.Operation {
		ev := begin(id, s)
		ev.Intent.Alias = aliasOf(id)
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, machine.Execute, result.Decision)
		return result.Operation
	}
	old := complete(start("tombstone"), s)
	_, err = j.Apply(t.Context(), old)
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(start("completed"), s))
	require.NoError(t, err)
	flying := start("in flight")
	look := func(where string, ids ...string) {
		t.Helper()
		beside, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
		require.NoError(t, err)
		defer beside.Close()
		for _, id := range ids {
			for _, ref := range []journal.Ref{aliasOf(id), {ID: id}} {
				for _, j := range []*sqlite.Journal{j, beside} {
					op, err := j.Get(t.Context(), ref)
					require.NoError(t, err, "%s: %s", where, id)
					assert.Equal(t, id, op.ID, where)
				}
			}
			ev := begin("another", s)
			ev.Intent.Alias = aliasOf(id)
			result, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			assert.Equal(t, machine.Misuse, result.Decision, "%s: %s", where, id)
			assert.Equal(t, id, result.Operation.ID, where)
			ev = begin(id, s)
			ev.Ref = aliasOf(id)
			ev.Intent.Fingerprint = "v1:" + id
			result, err = j.Apply(t.Context(), ev)
			require.NoError(t, err)
			assert.NotEqual(t, machine.Execute, result.Decision, "%s: %s", where, id)
			assert.Equal(t, id, result.Operation.ID, where)
		}
		seen := map[string]int{}
		for op, err := range j.List(t.Context(), journal.Filter{}) {
			require.NoError(t, err)
			seen[op.ID]++
		}
		for _, id := range ids {
			assert.Equal(t, 1, seen[id], "%s: %s", where, id)
		}
		assert.Empty(t, verify(t, j), where)
	}
	look("in the log", "tombstone", "completed", "in flight")
	look("in a block and a row", "tombstone", "completed", "in flight")
	_, err = j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now().Add(10 * 24 * time.Hour)}, 1)
	require.NoError(t, err)
	others(t, j, s, "a")
	others(t, j, s, "b")
	look("in a segment", "completed", "in flight")
	_, err = j.Apply(t.Context(), complete(flying, s))
	require.NoError(t, err)
	require.NoError(t, j.Close())
	j = open(t, path)
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	look("opened again", "completed", "in flight")

	far := time.Now().Add(1000 * time.Hour)
	for _, want := range []int{0, 1} { // a clock that jumped is confirmed once it has gone on
		n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: far}, 5000)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, want)
		far = far.Add(time.Hour)
	}
	for range 2 {
		op, err := j.Get(t.Context(), aliasOf("completed"))
		require.NoError(t, err, "its segment is spent")
		assert.True(t, op.Tombstone)
		require.NoError(t, j.Close())
		j = open(t, path)
	}
	assert.Empty(t, verify(t, j))
}

func TestClaimContinuesBehindSkippedOperations(t *testing.T) {
	for _, folded := range []bool{false, true} {
		j := open(t, filepath.Join(t.TempDir(), "journal.db"))
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		const many = 100
		for i := range many {
			ev := begin(fmt.Sprintf("op-%03d", i), s)
			ev.Intent.Provider = []string{"down", "up", "unlisted"}[i%3]
			begun, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			ev = complete(begun.Operation, s)
			ev.Kind, ev.Answer, ev.Unsent = machine.EventPark, nil, true
			_, err = j.Apply(t.Context(), ev)
			require.NoError(t, err)
		}
		if folded {
		}
		ev := claim(s)
		ev.At = ev.At.Add(time.Hour)
		ev.From = []string{"up", "unlisted"}
		asked := 0
		ev.Today = func(op *journal.Operation) (machine.Today, bool) {
			asked++
			assert.Equal(t, []byte(op.ID), op.Request.Body, "it has its request whole")
			return machine.Today{Terms: terms}, op.Provider == "up"
		}
		var ids []string
		for _, want := range []int{10, 10, 10, 3, 0} {
			results, err := j.Claim(t.Context(), ev, 10)
			require.NoError(t, err)
			assert.Len(t, results, want)
			for _, r := range results {
				assert.Equal(t, machine.Execute, r.Decision)
				assert.Equal(t, "up", r.Operation.Provider)
				ids = append(ids, r.Operation.ID)
			}
		}
		assert.True(t, slices.IsSorted(ids), "those created first come first")
		assert.Positive(t, asked)
		ev.From, ev.Today = []string{"down"}, nil
		results, err := j.Claim(t.Context(), ev, many)
		require.NoError(t, err)
		assert.Len(t, results, (many+2)/3)
	}
}

// The key of an unreadable operation is not free.
func TestAliasOfADamagedOperation(t *testing.T) {
	path, j, s := joined(t)
	carried := func(ev machine.Event) machine.Event {
		ev.Intent.Alias = aliasOf("one")
		return ev
	}
	_, err := j.Apply(t.Context(), carried(begin("order-1", s)))
	require.NoError(t, err)
	alter(t, path, "UPDATE onceward_rows SET record = zeroblob(length(record))")
	_, err = j.Apply(t.Context(), carried(begin("order-2", s)))
	require.ErrorContains(t, err, "damaged")
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), tx, carried(enqueue("order-2")))
	require.ErrorContains(t, err, "damaged")
	require.NoError(t, tx.Rollback(t.Context()))
	assert.False(t, has(t, j, "order-2"))
}
