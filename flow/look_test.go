package flow_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal"
)

func TestFlowsLists(t *testing.T) {
	virtual(t, "by state and scope", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Backoff: once})
		for i, scope := range []string{"a", "b", "a"} {
			if i == 2 {
				l.Then(refuses())
			}
			_ = p.Flow(onceward.WithScope(t.Context(), scope), fmt.Sprint("order-", i), nil, p.Sequence("create"))
		}
		a := "a"
		for _, row := range []struct {
			filter flow.Filter
			want   []string
		}{
			{flow.Filter{}, []string{"order-0", "order-1", "order-2"}},
			{flow.Filter{Limit: 2}, []string{"order-0", "order-1"}},
			{flow.Filter{Scope: &a}, []string{"order-0", "order-2"}},
			{flow.Filter{States: []flow.State{flow.StateWaiting}}, []string{"order-2"}},
		} {
			var got []string
			for f, err := range p.Flows.List(t.Context(), row.filter) {
				require.NoError(t, err)
				got = append(got, f.ID)
			}
			assert.Equal(t, row.want, got)
		}
		_, err := p.Flows.Lookup(t.Context(), onceward.Ref{ID: "none"})
		require.ErrorIs(t, err, journal.ErrNotFound)
	})
}
