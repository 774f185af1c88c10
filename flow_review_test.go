package onceward_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

func TestAGroupThatCancelsItsContextIsUndoneAllTheSame(t *testing.T) {
	virtual(t, "each step by its record", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(fails error) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				ctx, cancel := context.WithCancelCause(onceward.Parallel(ctx, "a", "b"))
				defer cancel(nil)
				_, err := onceward.Step(ctx, "a", func(ctx context.Context) (int, error) { return 0, fails })
				if err != nil {
					defer cancel(err)
					if errors.Is(err, onceward.ErrFlowGivenUp) {
						cancel(err)
					}
				}
				return errors.Join(err, p.undoable(ctx, "b"))
			})
		}
		require.Error(t, run(errSoldOut))
		_, err := p.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "the customer left")
		require.NoError(t, err)
		for range 20 {
			err = run(errSoldOut)
			pass(time.Minute)
		}
		require.ErrorIs(t, err, onceward.ErrFlowGivenUp)
		assert.Equal(t, []string{"b", "undo-b-ch_1"}, l.descriptions())
	})
}

func TestLocalStepsMayBeParallel(t *testing.T) {
	a := newBookkeeper(t, filepath.Join(t.TempDir(), "app.db"), &line{})
	for i := range 20 {
		require.NoError(t, a.Flow(t.Context(), fmt.Sprint("order-", i), nil, func(ctx context.Context) error {
			for _, n := range []string{"u1", "u2", "u3"} {
				if _, err := onceward.UUIDStep(ctx, n); err != nil {
					return err
				}
			}
			var names []string
			for k := range 8 {
				names = append(names, fmt.Sprint("local-", k))
			}
			par := onceward.Parallel(ctx, names...)
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for k := range errs {
				wg.Go(func() {
					_, errs[k] = onceward.LocalStep(par, fmt.Sprint("local-", k), func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, nil })
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		}))
	}
	assert.Len(t, a.flow("order-0").Steps, 11)
}

func TestAGivingUpThatCanNotBeRecordedIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failingFlows{Journal: memory.New()}
		l := &line{}
		p := startFlows(t, l, onceward.Config{Journal: j})
		run := p.soldOut("create")
		j.fails.Store(int32(journal.FlowGiveUp))
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.Error(t, err)
		j.fails.Store(0)
		pass(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, p.Flow(ctx, "order-991", nil, run), onceward.ErrFlowGivenUp)
		assert.Equal(t, []string{"create", "undo-create-ch_1"}, l.descriptions())
	})
}

func TestARemovedStepWhoseOperationWasBegunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(charges bool) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if err := p.step(ctx, "create"); err != nil || !charges {
					return err
				}
				_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					c, err := p.post(ctx, "charge")
					return c, errors.Join(err, errSoldOut)
				})
				return err
			})
		}
		require.Error(t, run(true))
		pass(time.Hour)
		assert.ErrorIs(t, run(false), onceward.ErrFlowChanged)
	})
}

func TestOneParentUnderTwoScopesHasTwoChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		key := onceward.NewKey()
		for _, tenant := range []string{"tenant-1", "tenant-2"} {
			ctx := onceward.WithParent(onceward.WithScope(t.Context(), tenant), key)
			require.NoError(t, p.ask(onceward.WithOperation(ctx, "charge")).err)
			require.NoError(t, p.Flow(ctx, "order-991", nil, p.sequence("create")))
		}
		assert.Len(t, distinct(l.keys()), 4)
	})
}

func TestSettleAllGetsTheOperationsOfFlowsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := &line{}, memory.New()
		var mu sync.Mutex
		var got []string
		cfg := onceward.Config{Journal: j, SettleAll: true, OnSettled: func(_ context.Context, op onceward.Operation) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, op.ID)
			return nil
		}}
		p := startFlows(t, l, cfg)
		l.then(says(200, paid), doing(p.crash, says(200, paid)))
		require.Error(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create", "charge")))
		p = startFlows(t, l, cfg)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create", "charge")))
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"charge", "create"}, slices.Sorted(slices.Values(got)))
	})
}
