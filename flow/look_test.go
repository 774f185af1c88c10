package flow_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
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
			for f, err := range p.Flows.Flows(t.Context(), row.filter) {
				require.NoError(t, err)
				got = append(got, f.ID)
			}
			assert.Equal(t, row.want, got)
		}
		_, err := p.Flows.Flow(t.Context(), onceward.Ref{ID: "none"})
		require.ErrorIs(t, err, journal.ErrNotFound)
	})
}

// Errors, logs and hooks name an operation's flow, also if that flow has a parent.
func TestOperationNamesItsFlow(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		var log bytes.Buffer
		var settled []onceward.Operation
		l := (&line{}).Then(loses())
		p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once, Outcomes: &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error { settled = append(settled, op); return nil }, Heard: true},
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		parent := onceward.NewKey()
		ctx := onceward.WithParent(t.Context(), parent)
		err := p.Flow(ctx, "order-991", nil, p.Sequence("charge"))
		var e *onceward.Error
		require.ErrorAs(t, err, &e)
		want := journal.FlowRef{ID: "order-991", Parent: string(parent), Handle: 1}
		assert.Equal(t, want, e.Operation.Flow)
		assert.ErrorContains(t, e, "charge, flow order-991 #1")
		pass(time.Hour)
		for range 2 {
			require.NoError(t, p.Flow(ctx, "order-991", nil, p.Sequence("charge")))
			_, err = p.Resume(t.Context())
			require.NoError(t, err)
		}
		if assert.Len(t, settled, 1) {
			assert.Equal(t, want, settled[0].Flow)
		}
		assert.Contains(t, log.String(), `operation.flow="order-991 #1"`)
	})
}
