package flow_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// A step's unnamed calls at the same time are not taken for one operation.
func TestUnnamedCallsAtOnceAreNotOne(t *testing.T) {
	virtual(t, "the second is refused", func(t *testing.T) {
		l := (&line{}).Always(takes(time.Second, says(200, paid)))
		p := startFlows(t, l, onceward.Config{})
		var first, second error
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
				var wg sync.WaitGroup
				wg.Go(func() { _, first = p.Post(ctx, "charge") })
				synctest.Wait()
				_, second = p.Post(ctx, "charge")
				wg.Wait()
				return charge{}, nil
			})
			return err
		})
		require.NoError(t, err)
		require.NoError(t, first)
		require.ErrorIs(t, second, onceward.ErrNameNeeded)
		assert.ErrorContains(t, second, "at the same time")
		assert.Len(t, l.Sent(), 1)
	})
}

// No two operations in a flow share a key, whatever names their steps and operations have. Undos share no key
// with steps.
func FuzzKeysOfAFlowAreDistinct(f *testing.F) {
	f.Add("charge", "", "charge2", "")
	f.Add("charge", "tip", "charge", "fee")
	f.Add("a", "b/c", "a/b", "c")
	f.Add("undo", "a", "a", "undo")
	f.Add("a", "undo/a", "undo", "a/a")
	f.Add("", "", " ", "\x00")
	f.Fuzz(func(t *testing.T, step, name, otherStep, otherName string) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		call := func(ctx context.Context, name, what string) error {
			if name != "" {
				ctx = onceward.WithOperation(ctx, name)
			}
			_, err := p.Post(ctx, what)
			return err
		}
		made := 0
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			for _, s := range []struct{ step, name string }{{step, name}, {otherStep, otherName}} {
				_, err := flow.Step(ctx, s.step, func(ctx context.Context) (int, error) {
					err := call(ctx, s.name, "make")
					if err == nil {
						made++
					}
					return 1, err
				}, flow.WithUndo(func(ctx context.Context, _ int) error {
					err := call(ctx, s.name, "undo")
					if err == nil {
						made++
					}
					return err
				}))
				if err != nil {
					return flow.GiveUp(err)
				}
			}
			return flow.GiveUp(errors.New("so that all is undone"))
		})
		require.Error(t, err)
		require.Len(t, distinct(l.Keys()), made)
		require.Len(t, l.Keys(), made)
	})
}

// A flow's keys follow from its name and its steps.
func TestKeysFollowFromNameAndSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := []byte("0123456789abcdef")
		var keys [2][]string
		for i := range keys {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Secret: secret})
			ctx := onceward.WithScope(t.Context(), "tenant-42")
			require.NoError(t, p.Flow(ctx, "order-991", nil, p.Sequence("create", "charge")))
			keys[i] = l.Keys()
			f, err := p.Flows.Flow(ctx, onceward.Ref{Scope: "tenant-42", ID: "order-991"})
			require.NoError(t, err)
			_, err = p.Operation(ctx, f.Operation("create"))
			require.NoError(t, err)
			require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create")))
			assert.NotContains(t, keys[i], l.Keys()[2], "another scope is another flow")
		}
		assert.Equal(t, keys[0], keys[1], "with Config.Secret they come back after the loss of the journal")
	})
	virtual(t, "and from its parent", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		ctx := onceward.WithParent(t.Context(), onceward.NewKey())
		require.NoError(t, p.Flow(ctx, "ride", nil, p.Sequence("create")))
		other := onceward.WithParent(t.Context(), onceward.NewKey())
		require.NoError(t, p.Flow(other, "ride", nil, p.Sequence("create")))
		require.NoError(t, p.Flow(ctx, "ride", nil, p.Sequence("create")))
		assert.Len(t, distinct(l.Keys()), 2)
		assert.Len(t, l.Keys(), 2)
	})
}

func TestAStepMakesOneUnnamedCall(t *testing.T) {
	virtual(t, "a second one is refused", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
				if _, err := p.Post(ctx, "first"); err != nil {
					return charge{}, err
				}
				return p.Post(ctx, "first")
			})
			return err
		})
		require.ErrorIs(t, err, onceward.ErrNameNeeded)
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "named ones may stand beside it", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(id string) error {
			return p.Flow(t.Context(), id, nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
					_, first := p.Post(ctx, "first")
					_, second := p.Post(onceward.WithOperation(ctx, "tip"), "tip")
					_, third := p.Post(onceward.WithOperation(ctx, "fee"), "fee")
					return 3, errors.Join(first, second, third)
				})
				return err
			})
		}
		require.NoError(t, run("order-991"))
		assert.Len(t, distinct(l.Keys()), 3)
		op, err := p.Operation(t.Context(), p.flow("order-991").Operation("charge/tip"))
		require.NoError(t, err)
		assert.Equal(t, l.Keys()[1], string(op.Key))
	})
	virtual(t, "one without a name in its name is refused", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
				return p.Post(onceward.WithOperation(ctx, ""), "x")
			})
			return err
		})
		require.ErrorIs(t, err, onceward.ErrInvalidRequest)
		assert.ErrorContains(t, err, "name is empty")
		assert.Empty(t, l.Sent())
	})
	virtual(t, "outside of a step there is none", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { _, err := p.Post(ctx, "x"); return err })
		require.ErrorIs(t, err, onceward.ErrNameNeeded)
		assert.ErrorContains(t, err, "outside its steps")
		assert.Empty(t, l.Sent())
	})
	virtual(t, "after a step there is none", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			var inside context.Context
			_, err := flow.Step(ctx, "a", func(ctx context.Context) (int, error) { inside = ctx; return 1, nil })
			for _, ctx := range []context.Context{inside, onceward.WithOperation(inside, "tip")} {
				_, late := p.Post(ctx, "late")
				require.ErrorIs(t, late, onceward.ErrNameNeeded)
				require.ErrorContains(t, late, "its step has ended")
			}
			return err
		}))
		assert.Empty(t, l.Sent())
	})
	virtual(t, "of the flow's own scope", func(t *testing.T) {
		p := startFlows(t, &line{}, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "a", func(ctx context.Context) (charge, error) { return p.Post(onceward.WithScope(ctx, "other"), "x") })
			return err
		})
		require.ErrorIs(t, err, onceward.ErrInvalidRequest)
	})
	virtual(t, "an SDK's own retry of it is the same one", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					if c, err := p.Post(ctx, "x"); err == nil {
						return c, nil
					}
					_, _ = p.Post(ctx, "x")
					return charge{}, errors.New("the SDK's own")
				})
				return err
			})
		}
		err := run()
		require.ErrorIs(t, err, onceward.ErrPending, "whatever the SDK makes of it")
		f := p.flow("order-991")
		assert.Equal(t, flow.StateWaiting, f.State)
		assert.Equal(t, f.Operation("charge"), f.WaitsFor)
		assert.Zero(t, f.Failures)
		pass(time.Minute)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		require.NoError(t, run())
		assert.Len(t, distinct(l.Keys()), 1)
	})
}

func TestFlowsShareNoKeys(t *testing.T) {
	virtual(t, "not those of an operation beside it", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		ctx := onceward.WithParent(t.Context(), onceward.NewKey())
		require.NoError(t, p.Flow(ctx, "order-991", nil, p.Sequence("charge")))
		out := p.Ask(onceward.WithOperation(ctx, "flow order-991"))
		require.NoError(t, out.Err)
		out = p.Ask(onceward.WithOperation(onceward.WithParent(t.Context(), out.Op.Key), "charge"))
		require.NoError(t, out.Err)
		assert.Len(t, distinct(l.Keys()), 3)
	})
	virtual(t, "not those of a flow whose name looks like it", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		ctx := onceward.WithParent(t.Context(), onceward.NewKey())
		require.NoError(t, p.Flow(ctx, "order-991", nil, p.Sequence("charge")))
		parent := ""
		for op, err := range p.Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			parent = op.Parent
		}
		require.NoError(t, p.Flow(t.Context(), strings.TrimPrefix(parent, "flow"), nil, p.Sequence("charge")))
		assert.Len(t, distinct(l.Keys()), 2)
	})
	virtual(t, "not another journal's", func(t *testing.T) {
		l := &line{}
		p, other := startFlows(t, l, onceward.Config{}), startFlows(t, l, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) { return other.Post(ctx, "charge") })
			return err
		})
		require.ErrorIs(t, err, onceward.ErrInvalidRequest)
	})
}

// Heard gets flows' operations too.
func TestHeardGetsOperationsOfFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := &line{}, memory.New()
		var mu sync.Mutex
		var got []string
		cfg := onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Heard: true, Handle: func(_ context.Context, op onceward.Operation) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, op.ID)
			return nil
		}}}
		p := startFlows(t, l, cfg)
		l.Then(says(200, paid), doing(p.Crash, says(200, paid)))
		require.Error(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create", "charge")))
		p = startFlows(t, l, cfg)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create", "charge")))
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"charge", "create"}, slices.Sorted(slices.Values(got)))
	})
}

// An operation whose note failed does not begin when an SDK retries in the same step. The undoing of the flow would not
// know the operation.
func TestOperationWhoseStepNoteFailedIsNotBegun(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l, j := &line{}, &failingFlows{Journal: memory.New()}
		p := startFlows(t, l, onceward.Config{Journal: j})
		_ = p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			return errOf(flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
				j.fails.Store(int32(machine.FlowEventRecord))
				_, err := p.Post(ctx, "charge")
				require.ErrorIs(t, err, onceward.ErrJournal)
				_, err = p.Post(ctx, "charge")
				assert.ErrorIs(t, err, onceward.ErrJournal)
				j.fails.Store(0)
				c, err := p.Post(ctx, "charge")
				require.NoError(t, err)
				p.Crash()
				return c, err
			}))
		})
		require.Len(t, l.Sent(), 1)
		kinds := map[string]flow.StepRecord{}
		for _, s := range p.flow("order-991").Steps {
			kinds[s.Name] = s
		}
		assert.Equal(t, journal.StepCall, kinds["charge"].Kind)
	})
}

// A step that began an operation, and fails in a later run before it repeats that call, has not failed. Otherwise the
// function would handle the failure and pay elsewhere.
func TestStepThatFailsBeforeItRepeatsItsOperation(t *testing.T) {
	errVault := errors.New("no token")
	cases := 0
	for what, first := range map[string]func(p *process) reply{
		"it failed":         func(*process) reply { return says(500, `{}`) },
		"it is under way":   func(*process) reply { return hangs() },
		"it was cut off":    func(p *process) reply { return doing(p.Crash, says(200, paid)) },
		"it was not begun":  nil,
		"it was made whole": func(*process) reply { return says(200, paid) },
	} {
		for _, late := range []bool{false, true} {
			cases++
			sampled(t, cases, 5, fmt.Sprintf("%s, late %t", what, late), func(t *testing.T, j machine.Store) {
				l := &line{}
				p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
				again := false
				run := func(ctx context.Context) error {
					_, err := flow.Step(ctx, "card-a", func(ctx context.Context) (charge, error) {
						ctx, stop := context.WithTimeout(ctx, time.Second)
						defer stop()
						if again && !late {
							return charge{}, errVault
						}
						if again {
							<-ctx.Done()
						}
						c, err := p.Post(ctx, "card-a")
						if what == "it was made whole" && !again {
							p.Crash() // and the step is not recorded
						}
						return c, err
					})
					if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errVault) {
						_, err = flow.Step(ctx, "card-b", func(ctx context.Context) (charge, error) { return p.Post(ctx, "card-b") })
					}
					return err
				}
				if first != nil {
					l.Then(first(p))
					require.Error(t, p.Flow(t.Context(), "order-991", nil, run))
					pass(time.Hour)
				}
				again = true
				p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
				err := p.Flow(t.Context(), "order-991", nil, run)
				if first == nil {
					require.NoError(t, err)
					assert.Equal(t, []string{"card-b"}, l.Descriptions())
					return
				}
				require.Error(t, err)
				ctx, stop := context.WithTimeout(seam.Seldom(t.Context(), time.Minute), 2*time.Hour)
				defer stop()
				require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
				op, err := p.Operation(t.Context(), onceward.Ref{Parent: "flow order-991", ID: "card-a"})
				require.NoError(t, err)
				assert.Equal(t, onceward.StateCompleted, op.State)
				assert.NotContains(t, l.Descriptions(), "card-b")

				again = false // and it goes on where it can
				if what != "it was made whole" {
					require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
					assert.NotContains(t, l.Descriptions(), "card-b")
				}
			})
		}
	}
}

// A step fails, and its flow is set aside, if it fails before it repeats an operation that only it sends. There is
// nothing to wait for.
func TestStepThatFailsBeforeItsOwnPendingOperation(t *testing.T) {
	for _, undoing := range []bool{false, true} {
		each(t, fmt.Sprintf("undoing %t", undoing), func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(says(200, paid), refuses())
			p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}}, flow.Config{Backoff: backoff.Policy{MaxAttempts: 2}})
			ask := func(ctx context.Context, name string) error {
				return p.Ask(onceward.WithOperation(ctx, name), to(http.MethodPost, ownURL), with("Authorization", "Bearer secret-1")).Err
			}
			both := func(ctx context.Context) (int, error) {
				err := ask(ctx, "order")
				if err == nil {
					err = ask(ctx, "notice")
				}
				return 1, err
			}
			run := func(ctx context.Context) error {
				if undoing {
					_, err := flow.Step(ctx, "create", func(context.Context) (int, error) { return 1, nil },
						flow.WithUndo(func(ctx context.Context, _ int) error { return errOf(both(ctx)) }))
					return cmp.Or(err, flow.GiveUp(errSoldOut))
				}
				_, err := flow.Step(ctx, "create", both)
				if errors.Is(err, onceward.ErrAnswerGone) {
					_, err = flow.Step(ctx, "elsewhere", both)
				}
				return err
			}
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
			pass(8 * 24 * time.Hour)
			for range 2 { // the first one is by a clock that has jumped
				_, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: time.Hour}, 10)
				require.NoError(t, err)
				pass(time.Hour)
			}
			for _, state := range []flow.State{flow.StateWaiting, flow.StateSetAside} {
				err := p.Flow(t.Context(), "order-991", nil, run)
				isAnswerGone(t, err)
				assert.ErrorContains(t, err, "ResolveStep")
				assert.Equal(t, state, p.flow("order-991").State)
				pass(time.Hour)
			}
			require.Len(t, l.Sent(), 1)

			step := map[bool]string{false: "create", true: "undo/create"}[undoing]
			_, err := p.Resolve(t.Context(), p.seen(step+"/notice"), onceward.NotExecuted, byHand)
			require.NoError(t, err)
			_, err = p.Flows.ResolveStep(t.Context(), order991, step, 1, byHand)
			require.NoError(t, err)
			err = p.Flow(t.Context(), "order-991", nil, run)
			assert.Equal(t, undoing, errors.Is(err, flow.ErrGivenUp), err)
			assert.Equal(t, !undoing, err == nil, err)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// A step that is interrupted before it repeats an operation of an earlier run, which took effect, does not fail its
// flow.
func TestInterruptedStepDoesNotFailItsFlow(t *testing.T) {
	for name, broken := range map[string]func(ctx context.Context, stop func()) error{
		"its run is stopped": func(ctx context.Context, stop func()) error { stop(); return context.Cause(ctx) },
		"the journal fails":  func(context.Context, func()) error { return fmt.Errorf("look it up: %w", onceward.ErrJournal) },
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Journal: j})
			again := false
			run := func() error {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				return p.Flow(ctx, "order-991", nil, func(ctx context.Context) error {
					_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
						if again {
							return charge{}, broken(ctx, stop)
						}
						c, err := p.Post(ctx, "charge")
						p.Crash()
						return c, err
					})
					return err
				})
			}
			require.Error(t, run())
			again = true
			p = startFlows(t, l, onceward.Config{Journal: j})
			require.ErrorIs(t, run(), onceward.ErrPending)
			assert.Equal(t, flow.StateWaiting, p.flow("order-991").State)
			assert.Zero(t, p.flow("order-991").Failures)
		})
	}
}

// A waiting flow's error names the operation, whatever the step or the function made of the wait.
func TestWaitingFlowNamesItsOperation(t *testing.T) {
	const soldOut = flow.Reason("sold out")
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(cuts(200, paid), loses())
		p := startFlows(t, l, onceward.Config{Backoff: once, Providers: []providers.Provider{own(func(e *providers.Endpoint) { e.Remembers, e.Retention = providers.Nothing, 0 })}})
		run := func(ctx context.Context) error {
			return errOf(flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
				first := p.Ask(ctx, to(http.MethodPost, ownURL)).Err
				second := p.Ask(onceward.WithOperation(ctx, "fee"), to(http.MethodPost, ownURL)).Err
				return 0, errors.Join(soldOut, first, second)
			}))
		}
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, onceward.ErrAnswerGone)
		require.NotErrorIs(t, err, soldOut)
		assert.ErrorContains(t, err, "sold out", "its text has it")
		e, _ := errors.AsType[*onceward.Error](err)
		assert.Equal(t, "charge/fee", e.Operation.ID)
	})
}
