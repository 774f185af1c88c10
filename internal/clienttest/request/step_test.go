package request_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/memory"
)

// An unnamed call whose context has ended takes no step number. The next call gets it.
func TestExpiredCallTakesNoStep(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		parent := onceward.WithParent(t.Context(), onceward.NewKey())
		over, cancel := context.WithCancel(parent)
		cancel()
		out := p.Ask(over)
		require.ErrorIs(t, out.Err, context.Canceled)
		require.ErrorIs(t, out.Err, onceward.ErrNotSent)
		require.NoError(t, p.Ask(parent).Err)
		assert.Len(t, l.Sent(), 1)
		require.NoError(t, p.Ask(parent).Err)
		assert.NotEqual(t, l.Keys()[0], l.Keys()[1], "one after an answer is the next")
	})
}

// A call whose step is ambiguous gets its context's error, if that has ended, instead of ErrNameNeeded.
func TestExpiredCallWithoutAStep(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := start(t, (&line{}).Then(hangs()), onceward.Config{})
		parent, end := context.WithCancel(onceward.WithParent(t.Context(), onceward.NewKey()))
		first := make(chan error, 1)
		go func() { first <- p.Ask(parent).Err }()
		synctest.Wait()
		over, cancel := context.WithCancel(parent)
		cancel()
		out := p.Ask(over)
		require.ErrorIs(t, out.Err, context.Canceled)
		require.NotErrorIs(t, out.Err, onceward.ErrNameNeeded)
		end()
		require.ErrorIs(t, <-first, context.Canceled)
	})
}

// unnoted is a journal that fails to record the notes of flows for a while.
type unnoted struct {
	*memory.Journal
	fails bool
}

func (j *unnoted) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	if j.fails {
		return machine.FlowResult{}, errDiskFull
	}
	return j.Journal.ApplyFlow(ctx, ev)
}

// A call in a step that fails to begin sends nothing, and does not block later calls.
func TestCallsInAStepThatAreNotBegun(t *testing.T) {
	for _, row := range []struct {
		name  string
		calls func(t *testing.T, ctx context.Context, p *process, j *unnoted)
		sent  int
	}{
		{"the second without a name", func(t *testing.T, ctx context.Context, p *process, _ *unnoted) {
			require.NoError(t, p.Ask(ctx).Err)
			require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrNameNeeded)
		}, 1},
		{"its name is too long beside the step's", func(t *testing.T, ctx context.Context, p *process, _ *unnoted) {
			require.ErrorIs(t, p.Ask(onceward.WithOperation(ctx, strings.Repeat("x", 510))).Err, onceward.ErrInvalidRequest)
			require.NoError(t, p.Ask(ctx).Err)
		}, 1},
		{"it can't be noted", func(t *testing.T, ctx context.Context, p *process, j *unnoted) {
			j.fails = true
			for range 2 {
				require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrJournal)
			}
			j.fails = false
		}, 0},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l, j := &line{}, &unnoted{Journal: memory.New()}
			p := startFlows(t, l, onceward.Config{Journal: j})
			err := p.Flow(t.Context(), "order-1", nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
					row.calls(t, ctx, p, j)
					return "paid", nil
				})
				return err
			})
			if row.sent == 0 {
				require.ErrorIs(t, err, onceward.ErrJournal)
			} else {
				require.NoError(t, err)
			}
			assert.Len(t, l.Sent(), row.sent)
		})
	}
}

// A call of a step that is refused as misuse, and not for its credential, fails. Its flow does not wait for a
// credential.
func TestCallInAStepThatIsMisused(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := startFlows(t, (&line{}).Then(misused), onceward.Config{})
		err := p.Flow(t.Context(), "order-1", nil, p.Sequence("charge"))
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, onceward.ErrKeyReused, "the flow waits: the error of its step is text alone")
		require.ErrorContains(t, err, "used for another request")
	})
}
