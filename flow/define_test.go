package flow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// Flows that cannot be registered are refused.
func TestDefinitionThatCanNotBeRegistered(t *testing.T) {
	do := func(context.Context, int) (int, error) { return 0, nil }
	for says, definitions := range map[string][]flow.Definition{
		"has no name":             {flow.Define("", 1, do)},
		"versions count from 1":   {flow.Define("a", 0, do)},
		"version 2, is there twi": {flow.Define("a", 2, do), flow.Define("a", 1, do), flow.Define("a", 2, do)},
		"a definition is nil":     {nil},
	} {
		p := startFlows(t, &line{}, onceward.Config{})
		require.ErrorContains(t, p.Flows.Register(definitions...), says)
		require.NoError(t, p.Flows.Register(flow.Define("a", 2, do)), "none was added")
	}
	c, err := onceward.New(onceward.Config{Journal: &severed.Journal{Store: memory.New()}, Providers: []providers.Provider{providers.Stripe()}})
	require.NoError(t, err)
	_, err = flow.New(c, flow.Config{})
	require.ErrorContains(t, err, "keeps no flows")
	p := startFlows(t, &line{}, onceward.Config{})
	_, err = flow.New(p.Client, flow.Config{})
	require.ErrorContains(t, err, "has a Runner of flows already")
	_, err = flow.New(p.Client, flow.Config{Backoff: backoff.Policy{Initial: -1}})
	require.ErrorContains(t, err, "Config.Backoff")
}

// A function is registered while Run runs.
func TestDefinitionRegisteredWhileRunRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		works := flow.Define("works", 1, func(ctx context.Context, wait time.Duration) (int, error) {
			select {
			case <-time.After(wait):
				return 1, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		})
		died := startFlows(t, &line{}, onceward.Config{Journal: j}, flow.Config{Definitions: []flow.Definition{works}})
		go func() { _, _ = works.Run(t.Context(), died.Flows, "a", 30*time.Second) }()
		pass(time.Millisecond)
		died.Crash()
		p := startFlows(t, &line{}, onceward.Config{Journal: j})
		go func() { _ = p.Run(t.Context()) }()
		pass(time.Minute)
		assert.NotEqual(t, flow.StateFinished, p.flow("a").State, "nobody knows its function yet")
		require.NoError(t, p.Flows.Register(works))
		pass(40 * time.Second)
		assert.Equal(t, flow.StateFinished, p.flow("a").State)
	})
}
