package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// An older release has no look-up for an endpoint, and compares the same fields as the newer one. It calls no person for an operation
// that the newer one finds.
func TestOlderTableLeavesItsLookupsToTheNewerOne(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Crash()
		older := another(t, l.Box, onceward.Config{Journal: l.Journal.Store}, unlooked)
		older.Runs(20 * time.Hour)
		assert.Empty(t, older.Told())
		assert.Empty(t, older.NeedsAttention())
		newer := another(t, l.Box, onceward.Config{Journal: l.Journal.Store})
		newer.Runs(time.Hour)
		assert.Equal(t, onceward.StateCompleted, newer.Stands("invoice-1").State)
		assert.Empty(t, append(older.Told(), newer.Told()...))
	})
}

// A release gives an endpoint a separate row. Its unknown operations lack the fields of that row, so no process of the release can
// look for them. They are left to processes of the release before for a day, and then are a person's.
func TestOperationOfAFormerRowIsListedAfterADay(t *testing.T) {
	wider := func(p *providers.Provider) { p.Endpoints[0].Pattern, p.Events = "POST /{kind}", nil }
	begun := func(t *testing.T) *teller {
		l := atBank(t, onceward.Config{})
		former := another(t, l.Box, onceward.Config{Journal: l.Journal.Store}, wider)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, former.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		former.Crash()
		return l
	}
	virtual(t, "no process of the release before runs", func(t *testing.T) {
		l := begun(t)
		l.Runs(20 * time.Hour)
		assert.Empty(t, l.Told())
		assert.Empty(t, l.NeedsAttention())
		l.Runs(6 * time.Hour)
		assert.Equal(t, []string{"invoice-1"}, l.NeedsAttention())
		assert.Len(t, l.Told(), 1)

		back := another(t, l.Box, onceward.Config{Journal: l.Journal.Store}, wider)
		back.Runs(time.Hour)
		assert.Equal(t, onceward.StateCompleted, back.Stands("invoice-1").State, "a process that can looks for it all the same")
	})
	virtual(t, "beside one of the release before", func(t *testing.T) {
		l := begun(t)
		l.Runs(2 * time.Hour)
		former := another(t, l.Box, onceward.Config{Journal: l.Journal.Store}, wider)
		former.Runs(time.Hour)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		assert.Empty(t, append(former.Told(), l.Told()...))
	})
	virtual(t, "the program has a look-up of its own", func(t *testing.T) {
		l := begun(t)
		hook := another(t, l.Box, onceward.Config{Journal: l.Journal.Store, Reconcile: &onceward.Reconcile{
			Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
				return onceward.Finding{Found: journal.FindingTookEffect, Object: "obj_1"}, nil
			},
		}})
		hook.Runs(time.Hour)
		assert.Equal(t, onceward.StateCompleted, hook.Stands("invoice-1").State)
		assert.Empty(t, hook.Told())
	})
}
