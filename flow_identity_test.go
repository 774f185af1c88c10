package onceward_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
)

func TestNothingOfAFlowIsForgottenByItsUndoing(t *testing.T) {
	errDeclined := errors.New("declined")
	for _, end := range []string{"crashed", "pending"} {
		virtual(t, "behind a step that failed, "+end, func(t *testing.T) {
			l, j := &line{}, memory.New()
			run := func(p *process) func(context.Context) error {
				return func(ctx context.Context) error {
					_, err := onceward.Step(ctx, "card", func(ctx context.Context) (charge, error) {
						c, err := p.post(ctx, "card")
						if err != nil && strings.Contains(err.Error(), "status 402") {
							return c, errDeclined
						}
						return c, err
					})
					if errors.Is(err, errDeclined) {
						err = p.undoable(ctx, "bank")
					}
					return err
				}
			}
			p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
			if end == "crashed" {
				l.then(declined, doing(p.crash, says(200, paid)))
			} else {
				l.then(declined, refuses())
			}
			require.Error(t, p.Flow(t.Context(), "order-991", nil, run(p)))
			p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
			_, err := p.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "the customer left")
			require.NoError(t, err)
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run(p)), onceward.ErrUndoBlocked, "the charge may still be made")
			pass(time.Hour)
			_, err = p.Resume(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run(p)), onceward.ErrFlowGivenUp)
			assert.Contains(t, l.descriptions(), "undo-bank-ch_1")
		})
	}
	virtual(t, "if the function does not come to it, a person decides", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		goesOn := true
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if goesOn {
					_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (int, error) {
						_, err := p.post(ctx, "charge")
						return 0, errors.Join(err, errSoldOut)
					})
					return err
				}
				return nil
			})
		}
		require.ErrorIs(t, run(), errSoldOut)
		_, err := p.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
		require.NoError(t, err)
		goesOn = false
		err = run()
		require.ErrorIs(t, err, onceward.ErrUndoBlocked)
		assert.ErrorContains(t, err, "operation charge took effect")
	})
}

func TestARenamedStepWhoseOperationWasMadeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(name string, fails error) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				_, err := onceward.Step(ctx, name, func(ctx context.Context) (charge, error) {
					c, err := p.post(ctx, "charge")
					return c, errors.Join(err, fails)
				})
				return err
			})
		}
		require.ErrorIs(t, run("charge", errSoldOut), errSoldOut)
		pass(time.Hour)
		require.ErrorIs(t, run("pay", nil), onceward.ErrFlowChanged)
		assert.Len(t, l.sent(), 1)
		pass(time.Hour)
		require.NoError(t, run("charge", nil))
		assert.Len(t, l.sent(), 1)
	})
}

func TestAFlowsKeysAreNobodyElses(t *testing.T) {
	virtual(t, "not those of an operation beside it", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		ctx := onceward.WithParent(t.Context(), onceward.NewKey())
		require.NoError(t, p.Flow(ctx, "order-991", nil, p.sequence("charge")))
		out := p.ask(onceward.WithOperation(ctx, "flow order-991"))
		require.NoError(t, out.err)
		out = p.ask(onceward.WithOperation(onceward.WithParent(t.Context(), out.op.Key), "charge"))
		require.NoError(t, out.err)
		assert.Len(t, distinct(l.keys()), 3)
	})
	virtual(t, "not those of a flow whose name looks like it", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		ctx := onceward.WithParent(t.Context(), onceward.NewKey())
		require.NoError(t, p.Flow(ctx, "order-991", nil, p.sequence("charge")))
		parent := ""
		for op, err := range p.Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			parent = op.Parent
		}
		require.NoError(t, p.Flow(t.Context(), strings.TrimPrefix(parent, "flow"), nil, p.sequence("charge")))
		assert.Len(t, distinct(l.keys()), 2)
	})
	virtual(t, "not another journal's", func(t *testing.T) {
		l := &line{}
		p, other := startFlows(t, l, onceward.Config{}), startFlows(t, l, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (charge, error) { return other.post(ctx, "charge") })
			return err
		})
		require.ErrorIs(t, err, onceward.ErrInvalidRequest)
	})
}

func TestAProcessThatLostItsSessionMakesNoFurtherStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := &line{}, memory.New()
		p, other := startFlows(t, l, onceward.Config{Journal: j}), startFlows(t, l, onceward.Config{Journal: j})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			if err := p.undoable(ctx, "create"); err != nil {
				return err
			}
			for _, s := range p.journal.Sessions() {
				j.Kill(s.ID())
			}
			_, err := other.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
			require.NoError(t, err)
			require.ErrorIs(t, other.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				return errors.Join(other.undoable(ctx, "create"), other.undoable(ctx, "charge"))
			}), onceward.ErrFlowGivenUp)
			return p.undoable(ctx, "charge")
		})
		require.ErrorIs(t, err, onceward.ErrInFlight)
		assert.Equal(t, []string{"create", "undo-create-ch_1"}, l.descriptions())
	})
}
