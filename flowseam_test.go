package onceward_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
)

// A flow is given up beside what was refused, and not beside what took effect and that nothing takes back.
func TestFlowGivenUpBesideAnOutcome(t *testing.T) {
	for name, row := range map[string]struct {
		answer reply
		state  flow.State
	}{
		"a refusal": {declined, flow.StateGivenUp},
		"an effect": {says(200, paid), flow.StateWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startFlows(t, (&line{}).Then(row.answer), onceward.Config{})
				fails := flow.Define("ship", 1, func(ctx context.Context, _ string) (string, error) {
					return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
						if out := p.Ask(ctx); out.Err != nil {
							return "", out.Err
						}
						return "", errors.New("the step fails")
					})
				})
				require.NoError(t, p.Flows.Register(fails))
				_, err := fails.Run(t.Context(), p.Flows, "order-1", "x")
				require.Error(t, err)
				_, err = p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-1"}, "the customer left")
				require.NoError(t, err)
				_, err = p.Resume(t.Context())
				require.NoError(t, err)
				f, err := p.Flows.Lookup(t.Context(), onceward.Ref{ID: "order-1"})
				require.NoError(t, err)
				assert.Equal(t, row.state, f.State)
			})
		})
	}
}
