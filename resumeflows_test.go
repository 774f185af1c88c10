package onceward_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// A flow that has failed without an answer goes on once somebody gives it, and does not wait until it would try again.
func TestFlowGoesOnOnceItHasAnAnswer(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := tellerOfFlows(t, atBank(t, onceward.Config{}, unlooked).box)
		hourly := flow.Config{Backoff: backoff.Policy{Initial: time.Hour, Max: time.Hour}}
		l.process = &process{oncetest.StartFlows(t, l.via, onceward.Config{
			Providers: []providers.Provider{l.box.Provider()}, Backoff: once,
			Authorize: func(r *http.Request) error { r.Header.Set("Authorization", tellerToken); return nil },
		}, hourly)}
		ship := charges(l)
		require.NoError(t, l.Flows.Register(ship))
		l.box.Script(providertest.DropAfter())
		_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(running) }()
		resolves := func(answer *onceward.Answer) {
			_, err := l.Resolve(t.Context(), l.charge().Seen, onceward.Executed, onceward.ResolveOptions{Answer: answer})
			require.NoError(t, err)
			pass(time.Second)
		}
		resolves(nil)
		require.Equal(t, 1, l.order().Failures, "its result can't be made of that")
		resolves(&onceward.Answer{Status: 200, Body: []byte(`{"id":"obj_1"}`)})
		assert.Equal(t, flow.StateFinished, l.order().State)
		assert.Equal(t, 1, l.effects())
		stop()
		<-done
	})
}
