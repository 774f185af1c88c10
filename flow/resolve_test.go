package flow_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

var byHand = onceward.ResolveOptions{By: "ops", Why: "seen in the dashboard"}

// isAnswerGone checks that an error is of a flow which failed for want of an operation's answer. It must not look as
// if the flow's own answer were gone, since its caller would then not ask again.
func isAnswerGone(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, flow.ErrFailed)
	require.NotErrorIs(t, err, onceward.ErrAnswerGone)
	e, ok := errors.AsType[*onceward.Error](err)
	require.True(t, ok)
	assert.True(t, e.Kind == onceward.ErrAnswerGone || e.Operation.State == onceward.StateCompleted, "%v", e)
}

// order991 is the flow that these tests are about.
var order991 = onceward.Ref{ID: "order-991"}

// trapped runs a flow of two undoable steps into the trap. The second one's operation took effect, but the
// journal does not have its answer.
func trapped(t *testing.T, j machine.Store, l *line, resolves bool) (p *process, run func(context.Context) error) {
	t.Helper()
	p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.Stripe(), own(func(e *providers.Endpoint) {
		e.Remembers, e.Retention = providers.Nothing, 0
	})}}, flow.Config{Backoff: backoff.Policy{MaxAttempts: 2}})
	run = func(ctx context.Context) error {
		if err := p.undoable(ctx, "create"); err != nil {
			return err
		}
		return p.undoable(ctx, "charge")
	}
	if resolves {
		l.Then(says(200, paid), frozen)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrOutcomeUnknown)
		op, err := p.Operation(t.Context(), p.flow("order-991").Operation("charge"))
		require.NoError(t, err)
		_, err = p.Resolve(t.Context(), op.Seen, onceward.Executed, byHand) // README's recipe
		require.NoError(t, err)
	}
	return p, run
}

func TestStepWithAReapedAnswerCanBeResolved(t *testing.T) {
	each(t, "its result is stated", func(t *testing.T, j machine.Store) {
		l := &line{}
		p, run := trapped(t, j, l, true)
		for _, state := range []flow.State{flow.StateWaiting, flow.StateSetAside} {
			err := p.Flow(t.Context(), "order-991", nil, run)
			isAnswerGone(t, err)
			assert.ErrorContains(t, err, "Resolve,")
			assert.ErrorContains(t, err, `result of step "charge" by ResolveStep`)
			assert.Equal(t, state, p.flow("order-991").State)
			pass(time.Hour)
		}
		f, err := p.Flows.ResolveStep(t.Context(), order991, "charge", charge{ID: "ch_2"}, byHand)
		require.NoError(t, err)
		assert.Equal(t, flow.StateWaiting, f.State)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
		assert.Len(t, l.Sent(), 2)
		f = p.flow("order-991")
		assert.Equal(t, "started → create → charge by hand → finished", f.String())
		assert.JSONEq(t, `{"by":"ops","why":"seen in the dashboard","result":{"id":"ch_2"}}`, string(f.Steps[len(f.Steps)-1].Result))
	})
	each(t, "and is undone", func(t *testing.T, j machine.Store) {
		l := &line{}
		p, run := trapped(t, j, l, true)
		_, err := p.Flows.GiveUp(t.Context(), order991, "the customer left")
		require.NoError(t, err)
		for range 2 {
			err := p.Flow(t.Context(), "order-991", nil, run)
			require.ErrorIs(t, err, flow.ErrUndoBlocked)
			assert.ErrorContains(t, err, "ResolveStep")
			pass(time.Hour)
		}
		_, err = p.Flows.ResolveStep(t.Context(), order991, "charge", charge{ID: "ch_2"}, byHand)
		require.NoError(t, err)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), flow.ErrGivenUp)
		assert.Equal(t, []string{"create", "charge", "undo-charge-ch_2", "undo-create-ch_1"}, l.Descriptions())
	})
	each(t, "its answer is supplied", func(t *testing.T, j machine.Store) {
		l := &line{}
		p, run := trapped(t, j, l, true)
		isAnswerGone(t, p.Flow(t.Context(), "order-991", nil, run))
		op, err := p.Operation(t.Context(), p.flow("order-991").Operation("charge"))
		require.NoError(t, err)
		how := byHand
		how.Answer = &onceward.Answer{Status: 200, Body: []byte(`{"id":"ch_2"}`)}
		_, err = p.Resolve(t.Context(), op.Seen, onceward.Executed, how)
		require.NoError(t, err)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run), "it goes on at once")
		assert.Equal(t, "started → create → charge → finished", p.flow("order-991").String())
		assert.Len(t, l.Sent(), 2)
	})
	virtual(t, "its answer was cut off", func(t *testing.T) {
		l := (&line{}).Then(cuts(200, paid))
		p, _ := trapped(t, nil, l, false)
		run := func(ctx context.Context) error {
			_, err := flow.Step(ctx, "order", func(ctx context.Context) (string, error) {
				out := p.Ask(ctx, to("POST", ownURL))
				return out.Body, out.Err
			})
			return err
		}
		for range 2 {
			err := p.Flow(t.Context(), "order-991", nil, run)
			isAnswerGone(t, err)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			pass(time.Hour)
		}
		_, err := p.Flows.ResolveStep(t.Context(), order991, "order", paid, byHand)
		require.NoError(t, err)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "of an undo, too", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), frozen)
		p, _ := trapped(t, nil, l, false)
		run := p.soldOut("create")
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrOutcomeUnknown)
		op, err := p.Operation(t.Context(), p.flow("order-991").Operation("undo/create"))
		require.NoError(t, err)
		_, err = p.Resolve(t.Context(), op.Seen, onceward.Executed, byHand)
		require.NoError(t, err)
		err = p.Flow(t.Context(), "order-991", nil, run)
		isAnswerGone(t, err)
		assert.ErrorContains(t, err, `result of step "undo/create" by ResolveStep`)
		_, err = p.Flows.ResolveStep(t.Context(), order991, "undo/create", nil, byHand)
		require.NoError(t, err)
		err = p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, flow.ErrGivenUp)
		require.ErrorContains(t, err, "sold out")
		assert.Len(t, l.Sent(), 2)
		_, err = p.Flows.ResolveStep(t.Context(), order991, "undo/create", nil, byHand)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	})
}

// A wrong result, given by hand, can be replaced.
func TestWrongResolvedResultCanBeReplaced(t *testing.T) {
	virtual(t, "as long as no run has gone by it to the end", func(t *testing.T) {
		l := &line{}
		p, run := trapped(t, nil, l, true)
		_, err := p.Flows.ResolveStep(t.Context(), order991, "charge", "ch_2", byHand)
		require.NoError(t, err)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), flow.ErrChanged)
		_, err = p.Flows.ResolveStep(t.Context(), order991, "charge", charge{ID: "ch_2"}, byHand)
		require.NoError(t, err)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
		_, err = p.Flows.ResolveStep(t.Context(), order991, "charge", charge{ID: "ch_3"}, byHand)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		assert.ErrorContains(t, err, "finished")
	})
}

// ResolveStep refuses a step whose result is known, or that still runs.
func TestResolveStepRefusesKnownAndRunningSteps(t *testing.T) {
	virtual(t, "it is refused", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), frozen)
		p, run := trapped(t, nil, l, false)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrOutcomeUnknown)
		_, err := p.Flows.ResolveStep(t.Context(), order991, "charge", charge{}, byHand)
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown, "its operation comes first")
		_, err = p.Flows.ResolveStep(t.Context(), order991, "create", charge{}, byHand)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		assert.ErrorContains(t, err, "recorded")
		_, err = p.Flows.ResolveStep(t.Context(), order991, "letter", charge{}, byHand)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		assert.ErrorContains(t, err, "not begun")
		_, err = p.Flows.ResolveStep(t.Context(), onceward.Ref{ID: "none"}, "charge", charge{}, byHand)
		require.ErrorIs(t, err, journal.ErrNotFound)
		_, err = p.Flows.ResolveStep(t.Context(), order991, "charge", func() {}, byHand)
		require.Error(t, err)
		assert.Equal(t, "started → create → waiting", p.flow("order-991").String())
	})
	virtual(t, "while a caller runs it", func(t *testing.T) {
		l := &line{}
		p, _ := trapped(t, nil, l, true)
		running, stop := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			done <- p.Flow(running, "order-991", nil, func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		pass(time.Second)
		_, err := p.Flows.ResolveStep(t.Context(), order991, "charge", charge{}, byHand)
		require.ErrorIs(t, err, onceward.ErrInFlight)
		stop(errors.New("enough"))
		require.Error(t, <-done)
	})
}

// A step that returns a result needs one from ResolveStep. Without it the flow fails with ErrChanged until an
// operator states one.
func TestResolvedStepNeedsItsResult(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		p, run := trapped(t, j, l, true)
		_, err := p.Flows.ResolveStep(t.Context(), order991, "charge", nil, byHand)
		require.NoError(t, err, "nobody knows yet what the step returns")
		pass(time.Hour)
		err = p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, flow.ErrChanged, "an undo of nothing would be made")
		assert.ErrorContains(t, err, "ResolveStep")
		_, err = p.Flows.ResolveStep(t.Context(), order991, "charge", charge{ID: "ch_2"}, byHand)
		require.NoError(t, err)
		pass(time.Hour)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
	})
	virtual(t, "a step that returns nothing", func(t *testing.T) {
		l := (&line{}).Then(cuts(200, paid))
		p := startFlows(t, l, onceward.Config{Backoff: once, Providers: []providers.Provider{own(func(e *providers.Endpoint) { e.Remembers, e.Retention = providers.Nothing, 0 })}})
		run := func(ctx context.Context) error {
			_, err := flow.Step(ctx, "letter", func(ctx context.Context) (struct{}, error) {
				return struct{}{}, p.Ask(ctx, to("POST", ownURL)).Err
			})
			return err
		}
		isAnswerGone(t, p.Flow(t.Context(), "order-991", nil, run))
		_, err := p.Flows.ResolveStep(t.Context(), order991, "letter", nil, byHand)
		require.NoError(t, err)
		pass(time.Hour)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
		assert.Len(t, l.Sent(), 1)
	})
}
