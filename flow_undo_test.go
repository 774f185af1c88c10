package onceward_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// undoable makes one charge in a step of its name, with an undo that makes another.
func (p *process) undoable(ctx context.Context, name string) error {
	_, err := onceward.Step(ctx, name, func(ctx context.Context) (charge, error) { return p.post(ctx, name) },
		onceward.WithUndo(func(ctx context.Context, c charge) error {
			_, err := p.post(ctx, "undo-"+name+"-"+c.ID)
			return err
		}))
	return err
}

var errSoldOut = errors.New("sold out")

// soldOut makes the named steps and gives up.
func (p *process) soldOut(names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range names {
			if err := p.undoable(ctx, name); err != nil {
				return err
			}
		}
		return onceward.GiveUp(errSoldOut)
	}
}

func TestAFlowThatIsGivenUpIsUndone(t *testing.T) {
	virtual(t, "latest first, once", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := p.soldOut("create", "charge")
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, onceward.ErrFlowGivenUp)
		require.ErrorIs(t, err, errSoldOut)
		assert.Equal(t, []string{"create", "charge", "undo-charge-ch_1", "undo-create-ch_1"}, l.descriptions())
		assert.Len(t, distinct(l.keys()), 4)
		f := p.flow("order-991")
		assert.Equal(t, "started → create → charge → undone charge → undone create → given up", f.String())
		assert.Equal(t, "sold out", f.GivenUpFor)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrFlowGivenUp)
		assert.Len(t, l.sent(), 4)
	})
	virtual(t, "though its process dies at any time", func(t *testing.T) {
		for dies := range 5 {
			l, j := &line{}, memory.New()
			p := startFlows(t, l, onceward.Config{Journal: j})
			for i := range 4 {
				if i == dies {
					l.then(doing(p.crash, says(200, paid)))
				} else {
					l.then(says(200, paid))
				}
			}
			err := p.Flow(t.Context(), "order-991", nil, p.soldOut("create", "charge"))
			require.Error(t, err)
			p = startFlows(t, l, onceward.Config{Journal: j})
			_, err = p.Resume(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.soldOut("create", "charge")), onceward.ErrFlowGivenUp)
			assert.Equal(t, []string{"create", "charge", "undo-charge-ch_1", "undo-create-ch_1"}, uniq(l.descriptions()))
			assert.Len(t, distinct(l.keys()), 4, "what was sent again was sent under its key")
		}
	})
	virtual(t, "by somebody's word", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		failing := func(ctx context.Context) error {
			if err := p.undoable(ctx, "create"); err != nil {
				return err
			}
			return errSoldOut
		}
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, failing), onceward.ErrFlowFailed)
		f, err := p.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "the customer left")
		require.NoError(t, err)
		assert.True(t, f.Undoing)
		err = p.Flow(t.Context(), "order-991", nil, failing)
		require.ErrorIs(t, err, onceward.ErrFlowGivenUp)
		assert.ErrorContains(t, err, "the customer left")
		assert.Equal(t, []string{"create", "undo-create-ch_1"}, l.descriptions())
		require.NoError(t, p.Flow(t.Context(), "another", nil, p.sequence("create")))
		_, err = p.GiveUpFlow(t.Context(), onceward.Ref{ID: "another"}, "too late")
		require.ErrorIs(t, err, journal.ErrInvalidEvent, "it came to its end")
		_, err = p.GiveUpFlow(t.Context(), onceward.Ref{ID: "none"}, "")
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	})
	virtual(t, "with the step that was cut off, if it had an effect", func(t *testing.T) {
		l, j := &line{}, memory.New()
		p := startFlows(t, l, onceward.Config{Journal: j})
		two := func(ctx context.Context) error {
			if err := p.undoable(ctx, "create"); err != nil {
				return err
			}
			return p.undoable(ctx, "charge")
		}
		l.then(says(200, paid), doing(p.crash, says(200, `{"id":"ch_2"}`)))
		require.Error(t, p.Flow(t.Context(), "order-991", nil, two))
		p = startFlows(t, l, onceward.Config{Journal: j})
		_, err := p.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
		require.NoError(t, err)
		err = p.Flow(t.Context(), "order-991", nil, two)
		require.ErrorIs(t, err, onceward.ErrUndoBlocked, "the charge may have run")
		assert.ErrorContains(t, err, "charge")
		assert.Len(t, l.sent(), 2)
		l.then(says(200, `{"id":"ch_2"}`))
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, two), onceward.ErrFlowGivenUp)
		assert.Equal(t, []string{"create", "charge", "charge", "undo-charge-ch_2", "undo-create-ch_1"}, l.descriptions())
	})
	virtual(t, "once an unknown operation is resolved, not before", func(t *testing.T) {
		l := (&line{}).then(says(200, paid), frozen)
		p := startFlows(t, l, onceward.Config{})
		run := p.soldOut("create", "charge")
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrOutcomeUnknown)
		f, err := p.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
		require.NoError(t, err)
		err = p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, onceward.ErrUndoBlocked)
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.sent(), 2)
		assert.Equal(t, f.Operation("charge"), p.flow("order-991").WaitsFor)
		_, err = p.resolve(f.Operation("charge"), onceward.NotExecuted, nil)
		require.NoError(t, err)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrFlowGivenUp)
		assert.Equal(t, []string{"create", "charge", "undo-create-ch_1"}, l.descriptions())
	})
	virtual(t, "a refused operation has nothing to undo", func(t *testing.T) {
		l := (&line{}).then(says(200, paid), declined)
		p := startFlows(t, l, onceward.Config{})
		run := func(ctx context.Context) error {
			if err := p.undoable(ctx, "create"); err != nil {
				return err
			}
			if err := p.undoable(ctx, "charge"); err != nil {
				return onceward.GiveUp(err)
			}
			return nil
		}
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrFlowGivenUp)
		assert.Equal(t, []string{"create", "charge", "undo-create-ch_1"}, l.descriptions())
	})
	virtual(t, "an undo that fails is made again, and the others wait for it", func(t *testing.T) {
		l := (&line{}).then(says(200, paid), says(200, paid), refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := p.soldOut("create", "charge")
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		assert.Equal(t, "undo/charge", p.flow("order-991").WaitsFor.ID)
		pass(time.Minute)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrFlowGivenUp)
		assert.Equal(t, []string{"create", "charge", "undo-charge-ch_1", "undo-create-ch_1"}, l.descriptions())
	})
	virtual(t, "an effect that nothing tells how to undo is for a person", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(ctx context.Context) error {
			_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
				if _, err := p.post(ctx, "charge"); err != nil {
					return charge{}, err
				}
				return charge{}, errSoldOut
			})
			return onceward.GiveUp(err)
		}
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, onceward.ErrUndoBlocked)
		assert.ErrorContains(t, err, "operation charge took effect")
		assert.Equal(t, 1, p.flow("order-991").Failures)
	})
	virtual(t, "an undo may make named calls, and is made again with their keys", func(t *testing.T) {
		l, j := &line{}, memory.New()
		p := startFlows(t, l, onceward.Config{Journal: j})
		run := func(p *process) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					return p.post(onceward.WithOperation(ctx, "card"), "charge")
				}, onceward.WithUndo(func(ctx context.Context, c charge) error {
					_, err := p.post(onceward.WithOperation(ctx, "refund"), "refund")
					if err == nil {
						_, err = p.post(onceward.WithOperation(ctx, "tell"), "tell")
					}
					return err
				}))
				return errors.Join(err, onceward.GiveUp(errSoldOut))
			}
		}
		l.then(says(200, paid), says(200, paid), doing(p.crash, says(200, paid)))
		require.Error(t, p.Flow(t.Context(), "order-991", nil, run(p)))
		p = startFlows(t, l, onceward.Config{Journal: j})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run(p)), onceward.ErrFlowGivenUp)
		assert.Equal(t, []string{"charge", "refund", "tell", "tell"}, l.descriptions())
		assert.Len(t, distinct(l.keys()), 3)
		op, err := p.Lookup(t.Context(), p.flow("order-991").Operation("undo/charge/tell"))
		require.NoError(t, err)
		assert.Equal(t, onceward.Completed, op.State)
	})
	virtual(t, "a function that lost a step is refused", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			if err := p.undoable(ctx, "create"); err != nil {
				return err
			}
			return errSoldOut
		}), onceward.ErrFlowFailed)
		_, err := p.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
		require.NoError(t, err)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.sequence()), onceward.ErrFlowChanged)
		assert.Len(t, l.sent(), 1)
	})
}

// uniq leaves out what comes again.
func uniq(all []string) (first []string) {
	seen := map[string]bool{}
	for _, one := range all {
		if !seen[one] {
			seen[one] = true
			first = append(first, one)
		}
	}
	return first
}

func TestGiveUpOfNothingIsNothing(t *testing.T) {
	require.NoError(t, onceward.GiveUp(nil))
	err := onceward.GiveUp(errSoldOut)
	require.ErrorIs(t, err, errSoldOut)
	assert.True(t, strings.HasSuffix(err.Error(), "sold out"))
}
