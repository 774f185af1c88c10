package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers/providertest"
)

// An operator takes one of an operation's candidates by its id. From then on the object belongs to that operation
// alone.
func TestResolveTakesACandidate(t *testing.T) {
	t.Parallel()
	for _, row := range alikes {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, row.table)
			l.Box.Script(providertest.DropAfter(), providertest.DropAfter())
			for _, name := range []string{"invoice-1", "invoice-2"} {
				require.Error(t, l.Asks(name, row.path, order1).Err)
			}
			l.Runs(time.Hour)
			first, second := l.Stands("invoice-1"), l.Stands("invoice-2")
			require.NotEmpty(t, first.Attention)
			require.NotEmpty(t, second.Attention)

			takes := func(op onceward.Operation, resolution onceward.Resolution, id string) (onceward.Operation, error) {
				return l.Client.Resolve(t.Context(), op.Seen, resolution, onceward.ResolveOptions{By: "ann", Why: "the dashboard", Candidate: id})
			}
			_, err := takes(first, onceward.Executed, "obj_9")
			require.ErrorContains(t, err, "transfer obj_1")
			require.ErrorContains(t, err, "transfer obj_2")
			_, err = takes(first, onceward.NotExecuted, "obj_1")
			require.ErrorIs(t, err, journal.ErrInvalidEvent)
			require.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)

			op, err := takes(first, onceward.Executed, "obj_1")
			require.NoError(t, err)
			assert.Equal(t, onceward.StateCompleted, op.State)
			assert.Equal(t, "transfer obj_1", op.Object)
			assert.Equal(t, "obj_1", op.Answer.Pointer)
			assert.True(t, op.Answer.ByHand)
			require.NotNil(t, op.Resolved)
			assert.Equal(t, "ann", op.Resolved.By)
			assert.Equal(t, "the dashboard", op.Resolved.Why)

			_, err = takes(second, onceward.Executed, "transfer obj_1")
			require.ErrorIs(t, err, journal.ErrInvalidEvent, "it proves the first one")
			op, err = takes(second, onceward.Executed, "transfer obj_2")
			require.NoError(t, err)
			assert.Equal(t, "transfer obj_2", op.Object)
			l.Truly()
		})
	}
}
