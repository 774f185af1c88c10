package otelonceward_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
)

// A flow's operations hang under its steps, and these under its run.
func TestSpansOfAFlow(t *testing.T) {
	s := newSetup(t, nil)
	runner, err := flow.New(s.client, flow.Config{Trace: s.telemetry.FlowTrace()})
	require.NoError(t, err)
	ctx, caller := s.tracers.Tracer("test").Start(t.Context(), "caller")
	pay := func(ctx context.Context) error {
		_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", s.payStep(ctx) })
		return err
	}
	require.NoError(t, runner.Do(ctx, "order-77", nil, pay))
	caller.End()
	runs, steps, claims := spansNamed(s, "onceward flow"), spansNamed(s, "onceward step charge"), spansNamed(s, charges)
	require.Len(t, runs, 1)
	require.Len(t, steps, 1)
	require.Len(t, claims, 1)
	assert.Equal(t, caller.SpanContext().SpanID(), runs[0].Parent.SpanID())
	assert.Equal(t, runs[0].SpanContext.SpanID(), steps[0].Parent.SpanID())
	assert.Equal(t, steps[0].SpanContext.SpanID(), claims[0].Parent.SpanID())
	assert.Equal(t, "finished", attributesOf(runs[0])["onceward.flow.state"])
	assert.NotContains(t, attributesOf(runs[0]), "onceward.operation.id")
	assert.Equal(t, codes.Unset, runs[0].Status.Code)

	s.then(loses(), loses(), loses(), loses(), loses())
	require.ErrorIs(t, runner.Do(t.Context(), "order-78", nil, pay), onceward.ErrPending)
	steps = spansNamed(s, "onceward step charge")
	require.Len(t, steps, 2)
	assert.Equal(t, "pending", attributesOf(steps[1])["error.type"])
	assert.Equal(t, codes.Error, steps[1].Status.Code)
}

// A later run of a flow is a trace of its own, with a link to the caller who asked for the flow.
func TestSpansOfAResumedFlow(t *testing.T) {
	s := newSetup(t, func(cfg *onceward.Config) {
		cfg.Backoff = backoff.Policy{MaxAttempts: 1, Initial: time.Millisecond, Max: time.Millisecond}
	})
	runner, err := flow.New(s.client, flow.Config{Trace: s.telemetry.FlowTrace(), Backoff: backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond}})
	require.NoError(t, err)
	pay := flow.Define("pay", 1, func(ctx context.Context, _ string) (string, error) {
		return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", s.payStep(ctx) })
	})
	require.NoError(t, runner.Register(pay))
	s.then(loses())
	ctx, caller := s.tracers.Tracer("test").Start(t.Context(), "caller")
	_, err = pay.Run(ctx, runner, "order-77", "")
	require.ErrorIs(t, err, onceward.ErrPending)
	caller.End()
	main, end := s.tracers.Tracer("test").Start(t.Context(), "main")
	require.Eventually(t, func() bool {
		_, err := s.client.Resume(main)
		f, err2 := runner.Flow(t.Context(), onceward.Ref{ID: "order-77"})
		return assert.NoError(t, err) && assert.NoError(t, err2) && f.State == flow.StateFinished
	}, 10*time.Second, 5*time.Millisecond)
	end.End()
	runs := spansNamed(s, "onceward flow pay")
	require.GreaterOrEqual(t, len(runs), 2)
	assert.Equal(t, caller.SpanContext().SpanID(), runs[0].Parent.SpanID())
	assert.Empty(t, runs[0].Links, "it hangs under who asked")
	for _, run := range runs[1:] {
		assert.False(t, run.Parent.IsValid(), "a root")
		require.Len(t, run.Links, 1)
		assert.Equal(t, caller.SpanContext().SpanID(), run.Links[0].SpanContext.SpanID())
		assert.Equal(t, caller.SpanContext().TraceID(), run.Links[0].SpanContext.TraceID())
	}
}
