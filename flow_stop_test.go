package onceward_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
)

// Whoever stops Run, as a deploy does, has found out nothing of the flows.
func TestWhoeverStopsRunFailsNoFlow(t *testing.T) {
	for _, row := range []struct {
		name    string
		stopped func(ctx context.Context) error // what the function makes of it
	}{
		{"in a call of a step", nil},
		{"between two steps", func(ctx context.Context) error { return context.Cause(ctx) }},
		{"between two steps, in words of its own", func(context.Context) error { return errors.New("too late") }},
		{"between two steps, and the function says that it is done", func(context.Context) error { return nil }},
		{"between two steps, and the function gives up for it", func(ctx context.Context) error { return onceward.GiveUp(ctx.Err()) }},
		{"between two steps, and the function gives up for its cause", func(ctx context.Context) error { return onceward.GiveUp(context.Cause(ctx)) }},
	} {
		for _, way := range []string{"forward", "undoing"} {
			for _, by := range []string{"Run's context", "Resume's deadline", "Shutdown"} {
				each(t, row.name+", "+way+", by "+by, func(t *testing.T, j journal.Journal) {
					l := &line{}
					var p *process
					waiting := false // the next run of the function waits for its context to end
					ride := onceward.DefineFlow("ride", 1, func(ctx context.Context, _ int) (int, error) {
						if waiting && row.stopped != nil {
							waiting = false
							<-ctx.Done()
							return 0, row.stopped(ctx)
						}
						if err := p.undoable(ctx, "create"); err != nil {
							return 0, err
						}
						return 1, p.undoable(ctx, "charge")
					})
					open := func() {
						p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once, Flows: []onceward.FlowDefinition{ride}, FlowBackoff: backoff.Policy{MaxAttempts: 1}})
					}
					open()
					l.then(says(200, paid), refuses())
					require.ErrorIs(t, errOf(ride.Run(t.Context(), p.Client, "order-991", 1)), onceward.ErrPending)
					if way == "undoing" {
						_, err := p.Resolve(t.Context(), p.seen("charge"), onceward.NotExecuted, byHand)
						require.NoError(t, err)
						_, err = p.GiveUpFlow(t.Context(), order991, "the customer left")
						require.NoError(t, err)
					}
					pass(time.Hour)

					waiting = row.stopped != nil
					if !waiting {
						l.then(hangs())
					}
					ctx, stop := context.WithCancelCause(t.Context())
					done := make(chan error, 1)
					switch by {
					case "Resume's deadline":
						ended, cancel := context.WithTimeout(ctx, 2*time.Second)
						defer cancel()
						go func() { _, err := p.Resume(ended); done <- err }()
					default:
						go func() { done <- p.Run(ctx) }()
					}
					pass(time.Second)
					switch by {
					case "Run's context":
						stop(errors.New("a deploy"))
					case "Shutdown":
						ended, cancel := context.WithTimeout(ctx, time.Second)
						_ = p.Shutdown(ended)
						cancel()
					}
					<-done
					stop(nil)
					f, err := p.LookupFlow(t.Context(), order991)
					require.NoError(t, err)
					assert.Zero(t, f.Failures, f.Cause)
					assert.Equal(t, onceward.FlowWaiting, f.State)
					assert.Equal(t, way == "undoing", f.Undoing)

					waiting = false
					_ = p.Shutdown(t.Context())
					open()
					pass(time.Hour)
					for range 3 { // what may have run is sent again first
						_, err = p.Resume(t.Context())
						require.NoError(t, err)
						pass(time.Hour)
					}
					f, err = p.LookupFlow(t.Context(), order991)
					require.NoError(t, err)
					want := "started → create → charge → finished"
					if way == "undoing" {
						want = "started → create → undone create → given up"
					}
					assert.Equal(t, want, f.String())
				})
			}
		}
	}
}

// seen is how far an operation of order-991 has come.
func (p *process) seen(step string) onceward.Seen {
	p.t.Helper()
	op, err := p.Lookup(p.t.Context(), p.flow("order-991").Operation(step))
	require.NoError(p.t, err)
	return op.Seen
}
