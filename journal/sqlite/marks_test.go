//go:build unix

package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// Operations with one mark, in two accounts, are found in the order of their creation. Those of another provider are
// not found.
func TestFindIsInOrder(t *testing.T) {
	_, j, s := joined(t)
	var ops []journal.Operation
	for _, row := range []struct{ id, provider, account string }{{"a", "ledger", "one"}, {"b", "ledger", "two"}, {"c", "other", "one"}} {
		ev := begin(row.id, s)
		ev.Intent.Provider, ev.Intent.Account, ev.Intent.Reference, ev.Intent.ReferenceOurs = row.provider, row.account, "ref-1", true
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		doubt := complete(begun.Operation, s)
		doubt.Kind, doubt.Answer, doubt.Open, doubt.Delivered = machine.EventMarkUnknown, nil, true, false
		result, err := j.Apply(t.Context(), doubt)
		require.NoError(t, err)
		ops = append(ops, result.Operation)
	}
	for _, i := range []int{2, 1, 0} {
		result, err := j.Apply(t.Context(), tookEffect(ops[i], "ch_1"))
		require.NoError(t, err)
		require.Equal(t, journal.StateCompleted, result.Operation.State)
	}
	_, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: ops[0].Ref, At: time.Now(), Outcome: journal.StateCompleted})
	require.NoError(t, err) // it changes, and still has its object
	require.NoError(t, sqlite.Flush(j))
	for _, where := range []string{"in the log", "in their rows"} {
		for by, value := range map[machine.By]string{machine.ByObject: "ch_1", machine.ByReference: "ref-1"} {
			var ids []string
			found, err := j.FindBy(t.Context(), "ledger", by, value)
			require.NoError(t, err)
			for _, m := range found {
				ids = append(ids, m.Operation.ID)
			}
			assert.Equal(t, []string{"a", "b"}, ids, "%v, %s", by, where)
		}
	}
}

// An operation is found by the object that its answer names, at once and later.
func TestFindByTheObjectOfAnAnswer(t *testing.T) {
	_, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Object = "ch_1"
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	for _, where := range []string{"in the log", "in its row"} {
		found, err := j.FindBy(t.Context(), "ledger", machine.ByObject, "ch_1")
		require.NoError(t, err)
		assert.Len(t, found, 1, where)
	}
}

// An operation that has lost its answer is an error, and is not found without it.
func TestFindWithALostAnswer(t *testing.T) {
	path, j, s := joined(t)
	ev := begin("invoice-1", s)
	ev.Intent.Reference, ev.Intent.ReferenceOurs = "ref-1", true
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Delivered = false // so that it has a row
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	looks, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
	require.NoError(t, err)
	defer looks.Close()
	for _, lost := range []bool{false, true} {
		if lost {
			alter(t, path, "DELETE FROM onceward_answers")
		}
		for name, j := range map[string]*sqlite.Journal{"to who writes": j, "to who only looks": looks} {
			found, err := j.FindBy(t.Context(), "ledger", machine.ByReference, "ref-1")
			if lost {
				require.ErrorContains(t, err, "damaged", name)
				continue
			}
			require.NoError(t, err, name)
			require.Len(t, found, 1, name)
			assert.Equal(t, done.Answer.Status, found[0].Operation.Answer.Status, name)
		}
	}
}

// If an operation's marks can't be removed, the operation stays.
func TestMarksThatStay(t *testing.T) {
	path, j, s := joined(t)
	for _, id := range []string{"in a row", "in a block"} {
		ev := generate(id, s)
		ev.Intent.Reference, ev.Intent.ReferenceOurs = "ref of "+id, true
		kind := machine.EventComplete
		if id == "in a row" {
			kind = machine.EventCancel
		}
		ended(t, j, s, ev, kind)
	}
	seenAt(t, j, time.Now().Add(-machine.Confirmation))
	for handle, id := range []string{"in a row", "in a block"} {
		reaps := func() error {
			_, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventReap, Handle: int64(handle + 1), At: time.Now()})
			return err
		}
		stop := refuse(t, path, "DELETE ON onceward_marks")
		require.ErrorContains(t, reaps(), "refused by the test", id)
		stop()
		assert.Empty(t, verify(t, j), id)
		require.NoError(t, reaps(), id)
		found, err := j.FindBy(t.Context(), "ledger", machine.ByReference, "ref of "+id)
		require.NoError(t, err)
		assert.Empty(t, found, id)
		assert.Empty(t, verify(t, j), id)
	}
}
