//go:build unix

package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// doubted is an operation that nobody knows the outcome of, which can be recognised by a reference.
func doubted(t *testing.T, j *sqlite.Journal, s journal.Session, id string) journal.Operation {
	t.Helper()
	ev := begin(id, s)
	ev.Intent.Reference, ev.Intent.ReferenceOurs = "ref-"+id, true
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	doubt := complete(begun.Operation, s)
	doubt.Kind, doubt.Answer, doubt.Open, doubt.Delivered = journal.EventDoubt, nil, true, false
	result, err := j.Apply(t.Context(), doubt)
	require.NoError(t, err)
	return result.Operation
}

// An operation is found by its object and its reference wherever it is kept, once, and one that can't be read is an error.
func TestFindWhereverItIsKept(t *testing.T) {
	path, j, s := joined(t)
	op := doubted(t, j, s, "invoice-1")
	doubted(t, j, s, "invoice-2")
	for range 2 { // what is heard again is no other object
		heard := tookEffect(op, "ch_1")
		_, err := j.Apply(t.Context(), heard)
		require.NoError(t, err)
	}
	by := map[journal.By]string{journal.ByObject: "ch_1", journal.ByReference: "ref-invoice-1"}
	for _, where := range []string{"in the log", "in its row"} {
		for by, value := range by {
			found, err := j.FindBy(t.Context(), "ledger", by, value)
			require.NoError(t, err)
			require.Len(t, found, 1, "%v, %s", by, where)
			assert.Equal(t, op.Ref, found[0].Operation.Ref)
		}
		require.NoError(t, sqlite.Fold(j))
	}
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_operations SET provider = 'other'; UPDATE onceward_blocks SET data = x'00'")
	j = open(t, path)
	for by, value := range by {
		_, err := j.FindBy(t.Context(), "ledger", by, value)
		require.ErrorContains(t, err, "damaged", by)
	}
}
