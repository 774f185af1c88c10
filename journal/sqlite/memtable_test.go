//go:build unix

package sqlite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// An operation that changed after it was folded is read in its present state, by either of its names, in every process.
func TestMemtableForgetsFoldedOperations(t *testing.T) {
	_, j, s := joined(t)
	ev := begin("invoice-1", s)
	ev.Intent.Alias = aliasOf("invoice-1")
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	reads := func(want journal.State) {
		t.Helper()
		for _, ref := range []journal.Ref{ev.Ref, ev.Intent.Alias} {
			op, err := j.Get(t.Context(), ref)
			require.NoError(t, err)
			assert.Equal(t, want, op.State, ref)
		}
	}
	reads(journal.StateInFlight)
	require.NoError(t, sqlite.Fold(j))
	reads(journal.StateInFlight)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	reads(journal.StateCompleted)
	require.NoError(t, sqlite.Fold(j))
	reads(journal.StateCompleted)
}

// If a log's first operations were folded, a process that opens it reads it from its first row on.
func TestMemtableOfALogThatWasCut(t *testing.T) {
	path, j, s := joined(t)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	for _, id := range []string{"invoice-2", "invoice-3"} {
		_, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
	}
	copied := path + "-copy"
	copyAll(t, path, copied)
	j = open(t, copied)
	for n, id := range []string{"invoice-1", "invoice-2", "invoice-3"} {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		assert.EqualValues(t, n+1, op.Handle)
	}
	require.NoError(t, j.Adopt(t.Context()))
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	for n, id := range []string{"invoice-2", "invoice-4", "invoice-3"} {
		result, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		assert.EqualValues(t, []int{2, 4, 3}[n], result.Operation.Handle)
	}
	assert.Empty(t, verify(t, j))
}

// Memory holds the present objects of operations that only the log has, each once.
func TestMemtableOfObjects(t *testing.T) {
	path, j, s := joined(t)
	want := make(map[string][]int64)
	op := doubted(t, j, s, "invoice-1")
	hears := func(objects string) error {
		ev := tookEffect(op, objects)
		ev.Answer, ev.Evidence.Finding = nil, journal.FindingAmbiguous
		_, err := j.Apply(t.Context(), ev)
		return err
	}
	for n := range 20 { // more than an operation keeps
		require.NoError(t, hears(fmt.Sprintf("ch_%d, ch_%d", n, n+1)))
	}
	kept, err := j.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	require.Less(t, len(kept.Evidence), 20)
	for _, e := range kept.Evidence {
		for _, object := range e.Objects() {
			_, id, named := strings.Cut(object, " ")
			if !named {
				id = object
			}
			want["object "+id] = []int64{op.Handle}
		}
	}
	nothing := doubted(t, j, s, "invoice-2")
	require.Empty(t, nothing.Object)
	begun, err := j.Apply(t.Context(), begin("invoice-3", s))
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Object = "ch_100"
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	want["object ch_100"] = []int64{begun.Operation.Handle}
	assert.Equal(t, want, sqlite.Objects(j))

	stop := refuse(t, path, "INSERT ON onceward_log")
	require.ErrorContains(t, hears("ch_200"), "refused by the test")
	stop()
	assert.Equal(t, want, sqlite.Objects(j), "what was not recorded is forgotten")

	require.NoError(t, sqlite.Fold(j))
	assert.Empty(t, sqlite.Objects(j))
}
