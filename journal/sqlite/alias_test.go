package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

func aliasOf(id string) journal.Ref { return journal.Ref{Parent: "\x00carried", ID: "key-of-" + id} }

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
