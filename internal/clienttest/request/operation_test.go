package request_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

func TestLookupFindsOperationsBehindAnSDK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(declined)
		p := start(t, l, onceward.Config{})
		out := p.Ask(onceward.WithScope(named(t, "invoice-1/charge"), "tenant-42"))
		op, err := p.Operation(t.Context(), onceward.Ref{Scope: "tenant-42", ID: "invoice-1/charge"})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, out.Op.Key, op.Key)
		assert.Equal(t, "stripe", op.Provider)
		assert.Equal(t, 1, op.Attempts)
		require.NotNil(t, op.Answer)
		assert.Equal(t, 402, op.Answer.Status)
		assert.True(t, op.Answer.Refused)
		assert.Equal(t, out.Body, string(op.Answer.Body))

		_, err = p.Operation(t.Context(), onceward.Ref{ID: "invoice-1/charge"})
		require.ErrorIs(t, err, journal.ErrNotFound)
	})
}

func TestOperationsListsByStateAndScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), frozen, wrongKey, limited)
		p := start(t, l, onceward.Config{Backoff: once})
		for i, scope := range []string{"a", "b", "a", "b"} {
			p.Ask(onceward.WithScope(named(t, fmt.Sprint("invoice-", i)), scope))
			pass(time.Millisecond)
		}
		a := "a"
		for _, row := range []struct {
			filter onceward.Filter
			want   []string
		}{
			{onceward.Filter{}, []string{"invoice-0", "invoice-1", "invoice-2", "invoice-3"}},
			{onceward.Filter{Limit: 2}, []string{"invoice-0", "invoice-1"}},
			{onceward.Filter{Scope: &a}, []string{"invoice-0", "invoice-2"}},
			{onceward.Filter{States: []onceward.State{onceward.StateUnknown, onceward.StatePending}}, []string{"invoice-1", "invoice-3"}},
			{onceward.Filter{States: []onceward.State{onceward.StateCancelled}, Scope: &a}, []string{"invoice-2"}},
		} {
			var got []string
			for op, err := range p.Operations(t.Context(), row.filter) {
				require.NoError(t, err)
				got = append(got, op.ID)
			}
			assert.Equal(t, row.want, got)
		}
		p.Crash()
		errs := 0
		for _, err := range p.Operations(t.Context(), onceward.Filter{}) {
			require.Error(t, err)
			errs++
		}
		assert.Equal(t, 1, errs, "it ends after an error")
	})
}

// A call below a parent key can have any scope, also below two parents. A call that leaves an inbound request has none.
func TestParentHasNoScope(t *testing.T) {
	p := start(t, &line{}, onceward.Config{Secret: testSecret})
	below := onceward.WithParent(onceward.WithParent(t.Context(), "first-parent-1"), "second-parent-2")
	out := p.Ask(onceward.WithScope(onceward.WithOperation(below, "charge"), "shop"))
	require.NoError(t, out.Err)
	assert.Equal(t, "shop", out.Op.Scope)
	outside := onceward.WithParent(p.ArrivesBy(http.MethodGet, "Tenant", "a"), "")
	out = p.Ask(onceward.WithOperation(outside, "charge"))
	require.NoError(t, out.Err)
	assert.Empty(t, out.Op.Scope)
	assert.Empty(t, out.Op.Parent)
	for _, ctx := range []context.Context{outside, onceward.WithParent(outside, "second-parent-2")} {
		out = p.Ask(ctx, carrying("brought-along"))
		require.NoError(t, out.Err)
		assert.Empty(t, out.Op.Scope)
	}
}

// Operations yields nothing more once its caller breaks the loop.
func TestOperationsUntilItIsEnough(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		p := start(t, &line{}, onceward.Config{Journal: j})
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, p.Ask(named(t, name)).Err)
		}
		seen := 0
		for _, err := range p.Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			if seen++; seen == 2 {
				break
			}
		}
		assert.Equal(t, 2, seen)
	})
}
