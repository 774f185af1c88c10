package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// The program's own look-up names another payment's object, with or without a kind. The object settles one payment.
func TestAnObjectOfAnotherPaymentSettlesNone(t *testing.T) {
	for _, row := range []struct{ kind, names string }{
		{"", "payment obj_1"}, {"", "obj_1"}, {"", "object obj_1"}, {"payment", "object obj_1"}, {"payment", "obj_1"}, {"payment", "payment obj_1"},
	} {
		each(t, "a table whose kind is "+row.kind+", and the look-up names "+row.names, func(t *testing.T, j machine.Store) {
			hook := func(context.Context, onceward.Operation) (onceward.Finding, error) {
				return onceward.Finding{Found: journal.FindingTookEffect, Object: row.names}, nil
			}
			l := atBank(t, onceward.Config{Journal: j, Reconcile: &onceward.Reconcile{Lookup: hook}}, func(p *providers.Provider) {
				p.Endpoints[0].Object, p.Endpoints[0].Lookups = row.kind, nil
				p.Events = nil
			})
			require.NoError(t, l.Pays("invoice-1").Err)
			l.Box.Script(providertest.DropBefore())
			require.ErrorIs(t, l.Pays("invoice-2").Err, onceward.ErrOutcomeUnknown)
			pass(time.Minute)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-2"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-2").State)
			assert.NotEmpty(t, l.Stands("invoice-2").Evidence, "a person sees it")
			assert.Equal(t, 1, l.Effects())
		})
	}
}
