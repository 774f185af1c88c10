package flow_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal/memory"
)

// errOf drops a call's result and returns its error.
func errOf[T any](_ T, err error) error { return err }

func (p *process) flow(id string) flow.Flow {
	p.T.Helper()
	f, err := p.Flows.Flow(p.T.Context(), onceward.Ref{ID: id})
	require.NoError(p.T, err)
	return f
}

func TestAFlowMakesItsStepsOnce(t *testing.T) {
	virtual(t, "and shows how far it has come", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		var seen []string
		run := func() error {
			return p.Flow(t.Context(), "order-991", 7, func(ctx context.Context) error {
				for _, name := range []string{"create", "charge", "send"} {
					if err := p.Step(ctx, name); err != nil {
						return err
					}
					seen = append(seen, p.flow("order-991").String())
				}
				return nil
			})
		}
		require.NoError(t, run())
		assert.Equal(t, []string{"started → create", "started → create → charge", "started → create → charge → send"}, seen)
		f := p.flow("order-991")
		assert.Equal(t, "started → create → charge → send → finished", f.String())
		assert.JSONEq(t, paid, string(f.Steps[1].Result))
		op, err := p.Operation(t.Context(), f.Operation("charge"))
		require.NoError(t, err)
		assert.Equal(t, l.Keys()[1], string(op.Key))

		require.NoError(t, run(), "asked again, it runs through what is recorded")
		assert.Equal(t, []string{"create", "charge", "send"}, l.Descriptions())
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", 8, p.Sequence("create")), onceward.ErrKeyReused)
	})
	virtual(t, "though its process dies at any time", func(t *testing.T) {
		names := []string{"create", "charge", "send", "file"}
		for dies := range 9 {
			l, j := &line{}, memory.New()
			p := startFlows(t, l, onceward.Config{Journal: j})
			n := 0
			moment := func() {
				if n == dies {
					p.Crash()
				}
				n++
			}
			crashing := func(ctx context.Context) error {
				for _, name := range names {
					moment()
					_, err := flow.Step(ctx, name, func(ctx context.Context) (charge, error) {
						c, err := p.Post(ctx, name)
						moment()
						return c, err
					})
					if err != nil {
						return err
					}
				}
				return nil
			}
			err := p.Flow(t.Context(), "order-991", 7, crashing)
			assert.Equal(t, dies < 8, err != nil)
			p = startFlows(t, l, onceward.Config{Journal: j})
			require.NoError(t, p.Flow(t.Context(), "order-991", 7, p.Sequence(names...)))
			assert.Equal(t, names, l.Descriptions())
			assert.Len(t, distinct(l.Keys()), 4)
		}
	})
}

func TestAStepThatCanNotBeResumedIsRefused(t *testing.T) {
	do := func(ctx context.Context) (int, error) { return 1, nil }
	for name, row := range map[string]struct {
		in   func(p *process, ctx context.Context) error
		says string
	}{
		"of no flow": {func(p *process, ctx context.Context) error {
			_, err := flow.Step(context.Background(), "a", do)
			return err
		}, "belongs to no flow"},
		"twice": {func(p *process, ctx context.Context) error {
			_, err := flow.Step(ctx, "a", do)
			require.NoError(p.T, err)
			_, err = flow.Step(ctx, "a", do)
			return err
		}, "an earlier step has its name"},
		"in another": {func(p *process, ctx context.Context) error {
			_, err := flow.Step(ctx, "a", func(ctx context.Context) (int, error) { return flow.Step(ctx, "b", do) })
			return err
		}, "made in the step a"},
		"beside another": {func(p *process, ctx context.Context) error {
			var err error
			_, _ = flow.Step(ctx, "a", func(context.Context) (int, error) {
				_, err = flow.Step(ctx, "b", do)
				return 1, nil
			})
			return err
		}, "at the same time as the step a"},
		"without a name": {func(p *process, ctx context.Context) error { _, err := flow.Step(ctx, "", do); return err }, "no name"},
		"with a slash":   {func(p *process, ctx context.Context) error { _, err := flow.Step(ctx, "a/b", do); return err }, "slash"},
		"called undo":    {func(p *process, ctx context.Context) error { _, err := flow.Step(ctx, "undo", do); return err }, "taken"},
		"too long": {func(p *process, ctx context.Context) error {
			_, err := flow.Step(ctx, strings.Repeat("a", 300), do)
			return err
		}, "more than"},
		"with a control character": {func(p *process, ctx context.Context) error { _, err := flow.Step(ctx, "a\n", do); return err }, "control"},
		"without JSON": {func(p *process, ctx context.Context) error {
			_, err := flow.Step(ctx, "a", func(context.Context) (func(), error) { return func() {}, nil })
			return err
		}, "can't be recorded"},
		"a flow in a flow": {func(p *process, ctx context.Context) error { return p.Flow(ctx, "other", nil, p.Sequence()) }, "begin in another"},
	} {
		virtual(t, name, func(t *testing.T) {
			p := startFlows(t, &line{}, onceward.Config{})
			err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { return row.in(p, ctx) })
			require.ErrorIs(t, err, flow.ErrStep)
			assert.ErrorContains(t, err, row.says)
		})
	}
	virtual(t, "or made after its function returned", func(t *testing.T) {
		p := startFlows(t, &line{}, onceward.Config{})
		var inside context.Context
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { inside = ctx; return nil }))
		_, err := flow.Step(inside, "a", do)
		require.ErrorIs(t, err, flow.ErrStep)
	})
}

func TestTimeAndRandomnessAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		var times []time.Time
		var ids []string
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				at, err := flow.TimeStep(ctx, "at")
				if err != nil {
					return err
				}
				id, err := flow.UUIDStep(ctx, "receipt")
				if err != nil {
					return err
				}
				times, ids = append(times, at), append(ids, id)
				return p.Step(ctx, "charge")
			})
		}
		began := time.Now()
		require.ErrorIs(t, run(), onceward.ErrPending)
		pass(time.Hour)
		require.NoError(t, run())
		require.Len(t, ids, 2)
		assert.Equal(t, ids[0], ids[1])
		assert.Equal(t, times[0], times[1])
		assert.True(t, times[0].Equal(began))
		assert.Len(t, ids[0], 36)
	})
}

func TestParallelSteps(t *testing.T) {
	virtual(t, "have the keys of their names, in any order", func(t *testing.T) {
		names := []string{"a", "b", "c", "d"}
		key := onceward.NewKey()
		var keys []map[string]string
		for run := range 5 {
			l := &line{}
			p := startFlows(t, l, onceward.Config{})
			err := p.Flow(onceward.WithParent(t.Context(), key), "order-991", nil, func(ctx context.Context) error {
				if err := p.Step(ctx, "before"); err != nil {
					return err
				}
				var wg sync.WaitGroup
				parallel := flow.Parallel(ctx, names...)
				errs := make([]error, len(names))
				for i := range names {
					wg.Go(func() {
						<-time.After(time.Duration((i*7+run*3)%5) * time.Second)
						errs[i] = p.Step(parallel, names[i])
					})
				}
				wg.Wait()
				return errors.Join(append(errs, p.Step(ctx, "after"))...)
			})
			require.NoError(t, err)
			byName := map[string]string{}
			for _, s := range l.Sent() {
				byName[s.Body] = s.Key
			}
			keys = append(keys, byName)
			assert.Len(t, byName, 6)
		}
		for _, k := range keys[1:] {
			assert.Equal(t, keys[0], k)
		}
	})
	virtual(t, "a step that waits does not keep the others from being made", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				ctx = flow.Parallel(ctx, "a", "b", "c")
				return errors.Join(p.Step(ctx, "a"), p.Step(ctx, "b"), p.Step(ctx, "c"))
			})
		}
		l.Then(refuses())
		require.ErrorIs(t, run(), onceward.ErrPending)
		assert.Equal(t, []string{"b", "c"}, l.Descriptions())
		pass(time.Minute)
		require.NoError(t, run())
		assert.Equal(t, []string{"b", "c", "a"}, l.Descriptions())
	})
	virtual(t, "a step that fails may break off the others, as in an errgroup", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		sorry := errors.New("sorry")
		fails := true
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				ctx, cancel := context.WithCancelCause(flow.Parallel(ctx, "a", "b", "c"))
				defer cancel(nil)
				errs := make(chan error, 3)
				go func() { errs <- p.Step(ctx, "a") }()
				go func() {
					_, err := flow.Step(ctx, "b", func(context.Context) (int, error) {
						<-time.After(time.Second)
						if fails {
							return 0, sorry
						}
						return 1, nil
					})
					if err != nil {
						cancel(err)
					}
					errs <- err
				}()
				go func() {
					<-time.After(2 * time.Second)
					errs <- p.Step(ctx, "c")
				}()
				first := <-errs
				return errors.Join(first, <-errs, <-errs)
			})
		}
		l.Then(hangs())
		err := run()
		require.ErrorIs(t, err, flow.ErrFailed)
		require.ErrorIs(t, err, sorry)
		f := p.flow("order-991")
		assert.Equal(t, 1, f.Failures, "it is a failure, and backs off")
		fails = false
		pass(time.Minute)
		require.NoError(t, run())
		assert.Equal(t, []string{"a", "a", "c"}, l.Descriptions())
		assert.Len(t, distinct(l.Keys()), 2)
	})
	virtual(t, "a removed one is noticed", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := func(names ...string) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				parallel := flow.Parallel(ctx, names...)
				for _, name := range names {
					if err := p.Step(parallel, name); err != nil {
						return err
					}
				}
				return p.Step(ctx, "after")
			})
		}
		l.Then(says(200, paid), says(200, paid), refuses())
		require.ErrorIs(t, run("a", "b"), onceward.ErrPending)
		pass(time.Minute)
		err := run("b")
		require.ErrorIs(t, err, flow.ErrChanged)
		told, _ := errors.AsType[*flow.Error](err)
		assert.Equal(t, "a", told.Step)
	})
	virtual(t, "a renamed one is noticed before another is made in its stead", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(name string, fails error) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				return errors.Join(p.Step(flow.Parallel(ctx, name), name), fails)
			})
		}
		require.ErrorIs(t, run("charge", errSoldOut), errSoldOut)
		pass(time.Hour)
		require.ErrorIs(t, run("pay", nil), flow.ErrChanged)
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "a step that Parallel was not given is refused", func(t *testing.T) {
		p := startFlows(t, &line{}, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { return p.Step(flow.Parallel(ctx, "a"), "b") })
		require.ErrorIs(t, err, flow.ErrStep)
	})
}

func TestAStepMayHaveItsOwnTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(hangs())
		p := startFlows(t, l, onceward.Config{})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
					defer cancel()
					return p.Post(ctx, "charge")
				})
				return err
			})
		}
		require.ErrorIs(t, run(), onceward.ErrPending)
		f := p.flow("order-991")
		assert.Zero(t, f.Failures)
		assert.True(t, f.DueAt.After(time.Now()), "it does not spin")
		pass(time.Second)
		require.NoError(t, run())
		assert.Len(t, distinct(l.Keys()), 1)
	})
}
