package flow_test

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
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// undoable makes one charge in a step with its name, with an undo that makes another.
func (p *process) undoable(ctx context.Context, name string) error {
	_, err := flow.Step(ctx, name, func(ctx context.Context) (charge, error) { return p.Post(ctx, name) },
		flow.WithUndo(func(ctx context.Context, c charge) error {
			_, err := p.Post(ctx, "undo-"+name+"-"+c.ID)
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
		return flow.GiveUp(errSoldOut)
	}
}

// A flow that is given up is undone.
func TestGivenUpIsUndone(t *testing.T) {
	virtual(t, "latest first, once", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := p.soldOut("create", "charge")
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, flow.ErrGivenUp)
		require.ErrorIs(t, err, errSoldOut)
		assert.Equal(t, []string{"create", "charge", "undo-charge-ch_1", "undo-create-ch_1"}, l.Descriptions())
		assert.Len(t, distinct(l.Keys()), 4)
		f := p.flow("order-991")
		assert.Equal(t, "started → create → charge → undone charge → undone create → given up", f.String())
		assert.Equal(t, "sold out", f.GivenUpFor)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), flow.ErrGivenUp)
		assert.Len(t, l.Sent(), 4)
	})
	virtual(t, "though its process dies at any time", func(t *testing.T) {
		for dies := range 5 {
			l, j := &line{}, memory.New()
			p := startFlows(t, l, onceward.Config{Journal: j})
			for i := range 4 {
				if i == dies {
					l.Then(doing(p.Crash, says(200, paid)))
				} else {
					l.Then(says(200, paid))
				}
			}
			err := p.Flow(t.Context(), "order-991", nil, p.soldOut("create", "charge"))
			require.Error(t, err)
			p = startFlows(t, l, onceward.Config{Journal: j})
			_, err = p.Resume(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.soldOut("create", "charge")), flow.ErrGivenUp)
			assert.Equal(t, []string{"create", "charge", "undo-charge-ch_1", "undo-create-ch_1"}, uniq(l.Descriptions()))
			assert.Len(t, distinct(l.Keys()), 4, "what was sent again was sent under its key")
		}
	})
	virtual(t, "by an operator's statement", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		failing := func(ctx context.Context) error {
			if err := p.undoable(ctx, "create"); err != nil {
				return err
			}
			return errSoldOut
		}
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, failing), flow.ErrFailed)
		f, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "the customer left")
		require.NoError(t, err)
		assert.True(t, f.Undoing)
		err = p.Flow(t.Context(), "order-991", nil, failing)
		require.ErrorIs(t, err, flow.ErrGivenUp)
		assert.ErrorContains(t, err, "the customer left")
		assert.Equal(t, []string{"create", "undo-create-ch_1"}, l.Descriptions())
		require.NoError(t, p.Flow(t.Context(), "another", nil, p.Sequence("create")))
		_, err = p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "another"}, "too late")
		require.ErrorIs(t, err, journal.ErrInvalidEvent, "it came to its end")
		_, err = p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "none"}, "")
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	})
	virtual(t, "and an operation without an effect is not made then", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := func(ctx context.Context) error {
			_, err := flow.Step(ctx, "pay", func(ctx context.Context) (charge, error) {
				if _, err := p.Post(onceward.WithOperation(ctx, "deposit"), "deposit"); err != nil {
					return charge{}, err
				}
				return p.Post(onceward.WithOperation(ctx, "rest"), "rest")
			})
			return err
		}
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		_, err := p.ResolveAs(p.flow("order-991").WaitsFor, onceward.NotExecuted, nil)
		require.NoError(t, err)
		_, err = p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "the customer left")
		require.NoError(t, err)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), flow.ErrUndoBlocked, "nothing tells what undoes the deposit")
		assert.Equal(t, []string{"deposit"}, l.Descriptions())
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
		l.Then(says(200, paid), doing(p.Crash, says(200, `{"id":"ch_2"}`)))
		require.Error(t, p.Flow(t.Context(), "order-991", nil, two))
		p = startFlows(t, l, onceward.Config{Journal: j})
		_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
		require.NoError(t, err)
		err = p.Flow(t.Context(), "order-991", nil, two)
		require.ErrorIs(t, err, flow.ErrUndoBlocked, "the charge may have run")
		assert.ErrorContains(t, err, "charge")
		assert.Len(t, l.Sent(), 2)
		l.Then(says(200, `{"id":"ch_2"}`))
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, two), flow.ErrGivenUp)
		assert.Equal(t, []string{"create", "charge", "charge", "undo-charge-ch_2", "undo-create-ch_1"}, l.Descriptions())
	})
	virtual(t, "once an unknown operation is resolved, not before", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), frozen)
		p := startFlows(t, l, onceward.Config{})
		run := p.soldOut("create", "charge")
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrOutcomeUnknown)
		f, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
		require.NoError(t, err)
		err = p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, flow.ErrUndoBlocked)
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.Sent(), 2)
		assert.Equal(t, f.Operation("charge"), p.flow("order-991").WaitsFor)
		_, err = p.ResolveAs(f.Operation("charge"), onceward.NotExecuted, nil)
		require.NoError(t, err)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), flow.ErrGivenUp)
		assert.Equal(t, []string{"create", "charge", "undo-create-ch_1"}, l.Descriptions())
	})
	virtual(t, "a refused operation has nothing to undo", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), declined)
		p := startFlows(t, l, onceward.Config{})
		run := func(ctx context.Context) error {
			if err := p.undoable(ctx, "create"); err != nil {
				return err
			}
			if err := p.undoable(ctx, "charge"); err != nil {
				return flow.GiveUp(err)
			}
			return nil
		}
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), flow.ErrGivenUp)
		assert.Equal(t, []string{"create", "charge", "undo-create-ch_1"}, l.Descriptions())
	})
	virtual(t, "an undo that fails is made again, and the others wait for it", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), says(200, paid), refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := p.soldOut("create", "charge")
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		assert.Equal(t, "undo/charge", p.flow("order-991").WaitsFor.ID)
		pass(time.Minute)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), flow.ErrGivenUp)
		assert.Equal(t, []string{"create", "charge", "undo-charge-ch_1", "undo-create-ch_1"}, l.Descriptions())
	})
	virtual(t, "an effect that nothing tells how to undo is for a person", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
				if _, err := p.Post(ctx, "charge"); err != nil {
					return charge{}, err
				}
				return charge{}, errSoldOut
			})
			return flow.GiveUp(err)
		}
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, flow.ErrUndoBlocked)
		assert.ErrorContains(t, err, "operation charge took effect")
		assert.Equal(t, 1, p.flow("order-991").Failures)
	})
	virtual(t, "an undo may make named calls, and is made again with their keys", func(t *testing.T) {
		l, j := &line{}, memory.New()
		p := startFlows(t, l, onceward.Config{Journal: j})
		run := func(p *process) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					return p.Post(onceward.WithOperation(ctx, "card"), "charge")
				}, flow.WithUndo(func(ctx context.Context, c charge) error {
					_, err := p.Post(onceward.WithOperation(ctx, "refund"), "refund")
					if err == nil {
						_, err = p.Post(onceward.WithOperation(ctx, "tell"), "tell")
					}
					return err
				}))
				return errors.Join(err, flow.GiveUp(errSoldOut))
			}
		}
		l.Then(says(200, paid), says(200, paid), doing(p.Crash, says(200, paid)))
		require.Error(t, p.Flow(t.Context(), "order-991", nil, run(p)))
		p = startFlows(t, l, onceward.Config{Journal: j})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run(p)), flow.ErrGivenUp)
		assert.Equal(t, []string{"charge", "refund", "tell", "tell"}, l.Descriptions())
		assert.Len(t, distinct(l.Keys()), 3)
		op, err := p.Operation(t.Context(), p.flow("order-991").Operation("undo/charge/tell"))
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
	})
	virtual(t, "a function that lost a step is refused", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			if err := p.undoable(ctx, "create"); err != nil {
				return err
			}
			return errSoldOut
		}), flow.ErrFailed)
		_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
		require.NoError(t, err)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.Sequence()), flow.ErrChanged)
		assert.Len(t, l.Sent(), 1)
	})
}

// uniq returns all without repetitions.
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

// An undo that fails before it repeats an earlier run's operation, which took effect, fails. It is not tried again
// at once.
func TestUndoThatFailsBeforeItRepeatsItsOperation(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		p := startFlows(t, &line{}, onceward.Config{Journal: j})
		crashes := true
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, "create", func(ctx context.Context) (charge, error) {
					return p.Post(ctx, "create")
				}, flow.WithUndo(func(ctx context.Context, _ charge) error {
					if !crashes {
						return errSoldOut
					}
					_, err := p.Post(ctx, "undo-create")
					p.Crash()
					return err
				}))
				if err != nil {
					return err
				}
				return flow.GiveUp(errSoldOut)
			})
		}
		require.Error(t, run())
		crashes = false
		p = startFlows(t, &line{}, onceward.Config{Journal: j})
		require.ErrorIs(t, run(), flow.ErrFailed)
		assert.Equal(t, 1, p.flow("order-991").Failures)
		assert.True(t, p.flow("order-991").DueAt.After(time.Now()))
	})
}

// An operation that no process sends, and that blocks an undo, is read every ten minutes at most. A resolution wakes
// the flow.
func TestBlockedUndoIsRetriedEveryTenMinutes(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		runs := 0
		var p *process
		ride := flow.Define("ride", 1, func(ctx context.Context, _ int) (int, error) {
			runs++
			return flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
				return 1, p.Ask(ctx, with("Authorization", "Bearer secret-1")).Err
			})
		})
		p = startFlows(t, (&line{}).Then(loses()), onceward.Config{Backoff: once}, flow.Config{Definitions: []flow.Definition{ride}})
		require.ErrorIs(t, errOf(ride.Run(t.Context(), p.Flows, "order-991", 1)), onceward.ErrPending)
		_, err := p.Flows.GiveUp(t.Context(), order991, "the customer left")
		require.NoError(t, err)
		go func() { _ = p.Run(seam.Seldom(t.Context(), time.Minute)) }()
		pass(12 * time.Hour)
		assert.Equal(t, flow.StateWaiting, p.flow("order-991").State)
		assert.Less(t, runs, 150)
		assert.Greater(t, runs, 72)
		_, err = p.Resolve(t.Context(), p.seen("charge"), onceward.NotExecuted, byHand)
		require.NoError(t, err)
		pass(time.Second)
		assert.Equal(t, flow.StateGivenUp, p.flow("order-991").State)
	})
}

// GiveUp returns nil for nil. For an error it returns one that wraps it and ends with its text.
func TestGiveUpOfAnUnknownFlow(t *testing.T) {
	require.NoError(t, flow.GiveUp(nil))
	err := flow.GiveUp(errSoldOut)
	require.ErrorIs(t, err, errSoldOut)
	assert.True(t, strings.HasSuffix(err.Error(), "sold out"))
}

// A flow is undone though its operations were reaped.
func TestUndoThoughOperationsWereReaped(t *testing.T) {
	each(t, "by their records", func(t *testing.T, j machine.Store) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Journal: j}, flow.Config{Backoff: backoff.Policy{MaxAttempts: 1}})
		failing := func(ctx context.Context) error { return errors.Join(p.undoable(ctx, "create"), errSoldOut) }
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, failing), flow.ErrSetAside)
		pass(400 * 24 * time.Hour)
		reaped := 0
		for range 2 { // the first one is by a clock that has jumped
			n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: 90 * 24 * time.Hour}, 10)
			require.NoError(t, err)
			reaped += n
			pass(time.Hour)
		}
		require.Equal(t, 1, reaped)
		_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "too late")
		require.NoError(t, err)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, failing), flow.ErrGivenUp)
		assert.Equal(t, []string{"create", "undo-create-ch_1"}, l.Descriptions())
	})
}

// Undoing a flow covers each of its effects.
func TestUndoCoversEveryEffect(t *testing.T) {
	errDeclined := errors.New("declined")
	for _, end := range []string{"crashed", "pending"} {
		virtual(t, "behind a step that failed, "+end, func(t *testing.T) {
			l, j := &line{}, memory.New()
			run := func(p *process) func(context.Context) error {
				return func(ctx context.Context) error {
					_, err := flow.Step(ctx, "card", func(ctx context.Context) (charge, error) {
						c, err := p.Post(ctx, "card")
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
				l.Then(declined, doing(p.Crash, says(200, paid)))
			} else {
				l.Then(declined, refuses())
			}
			require.Error(t, p.Flow(t.Context(), "order-991", nil, run(p)))
			p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
			_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "the customer left")
			require.NoError(t, err)
			if end == "pending" {
				require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run(p)), flow.ErrGivenUp, "the charge was not sent, and needs no undo")
				bank := p.Recorded(onceward.Ref{Parent: "flow order-991", ID: "bank"})
				assert.Equal(t, journal.StateCancelled, bank.State)
				pass(time.Hour)
				_, err = p.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, []string{"card"}, l.Descriptions(), "it is not sent any more, nor undone")
				return
			}
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run(p)), flow.ErrUndoBlocked, "the charge may still be made")
			pass(time.Hour)
			_, err = p.Resume(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run(p)), flow.ErrGivenUp)
			assert.Contains(t, l.Descriptions(), "undo-bank-ch_1")
		})
	}
	virtual(t, "if the function does not come to it, a person decides", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		goesOn := true
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if goesOn {
					_, err := flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
						_, err := p.Post(ctx, "charge")
						return 0, errors.Join(err, errSoldOut)
					})
					return err
				}
				return nil
			})
		}
		require.ErrorIs(t, run(), errSoldOut)
		_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
		require.NoError(t, err)
		goesOn = false
		err = run()
		require.ErrorIs(t, err, flow.ErrUndoBlocked)
		assert.ErrorContains(t, err, "operation charge took effect")
	})
}

// A group that cancels its context is undone all the same.
func TestUndoOfAGroupThatCancelsItsContext(t *testing.T) {
	virtual(t, "each step by its record", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(fails error) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				ctx, cancel := context.WithCancelCause(flow.Parallel(ctx, "a", "b"))
				defer cancel(nil)
				_, err := flow.Step(ctx, "a", func(ctx context.Context) (int, error) { return 0, fails })
				if err != nil {
					defer cancel(err)
					if errors.Is(err, flow.ErrGivenUp) {
						cancel(err)
					}
				}
				return errors.Join(err, p.undoable(ctx, "b"))
			})
		}
		require.Error(t, run(errSoldOut))
		_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "the customer left")
		require.NoError(t, err)
		for range 20 {
			err = run(errSoldOut)
			pass(time.Minute)
		}
		require.ErrorIs(t, err, flow.ErrGivenUp)
		assert.Equal(t, []string{"b", "undo-b-ch_1"}, l.Descriptions())
	})
	virtual(t, "a step that was cut off", func(t *testing.T) {
		l, j := &line{}, memory.New()
		p := startFlows(t, l, onceward.Config{Journal: j})
		run := func(steps ...string) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) (err error) {
				ctx, cancel := context.WithCancelCause(flow.Parallel(ctx, "a", "b"))
				defer cancel(nil)
				for _, step := range steps {
					if failed := p.undoable(ctx, step); failed != nil {
						cancel(failed)
						err = errors.Join(err, failed)
					}
				}
				return err
			})
		}
		l.Then(doing(p.Crash, says(200, paid)), says(200, paid))
		require.Error(t, run("a"))
		p = startFlows(t, l, onceward.Config{Journal: j})
		_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "the customer left")
		require.NoError(t, err)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, run("b", "a"), flow.ErrGivenUp)
		assert.Equal(t, []string{"a", "undo-a-ch_1"}, uniq(l.Descriptions()))
	})
}

// If the journal fails to record that a flow gave up, the flow is undone later all the same.
func TestGivingUpThatCanNotBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failingFlows{Journal: memory.New()}
		l := &line{}
		p := startFlows(t, l, onceward.Config{Journal: j})
		run := p.soldOut("create")
		j.fails.Store(int32(machine.FlowEventGiveUp))
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.Error(t, err)
		j.fails.Store(0)
		pass(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, p.Flow(ctx, "order-991", nil, run), flow.ErrGivenUp)
		assert.Equal(t, []string{"create", "undo-create-ch_1"}, l.Descriptions())
	})
}
