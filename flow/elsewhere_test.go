package flow_test

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// A step whose function finds its work done elsewhere is not done while an earlier run's operation may still be sent.
func TestStepDoneElsewhere(t *testing.T) {
	cases := 0
	for name, row := range map[string]struct {
		first func(p *process) reply
		held  bool // an operator holds the operation, and releases it later
		sent  int
		state journal.State
	}{
		"it never left":      {func(*process) reply { return refuses() }, false, 0, journal.StateCancelled},
		"its answer is lost": {func(*process) reply { return loses() }, false, 2, journal.StateCompleted},
		"it was cut off":     {func(p *process) reply { return doing(p.Crash, says(200, paid)) }, false, 2, journal.StateCompleted},
		"it is on hold":      {func(*process) reply { return loses() }, true, 2, journal.StateCompleted},
	} {
		for _, way := range []string{"a step", "an undo"} {
			cases++
			sampled(t, cases, 4, name+", "+way, func(t *testing.T, j machine.Store) {
				l := &line{}
				cfg := onceward.Config{Journal: j, Backoff: once}
				p := startFlows(t, l, cfg)
				elsewhere := false
				pay := func(ctx context.Context) error {
					if elsewhere {
						return nil
					}
					return errOf(p.Post(ctx, "charge"))
				}
				run := func() error {
					return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
						if way == "a step" {
							return errOf(flow.Step(ctx, "charge", func(ctx context.Context) (int, error) { return 1, pay(ctx) }))
						}
						_, err := flow.Step(ctx, "charge", func(context.Context) (int, error) { return 1, nil },
							flow.WithUndo(func(ctx context.Context, _ int) error { return pay(ctx) }))
						return cmp.Or(err, flow.GiveUp(errSoldOut))
					})
				}
				op := onceward.Ref{Parent: "flow order-991", ID: map[string]string{"a step": "charge", "an undo": "undo/charge"}[way]}
				l.Then(row.first(p))
				require.Error(t, run())
				p, elsewhere = startFlows(t, l, cfg), true
				if row.held {
					_, err := p.ResolveAs(op, onceward.Hold, nil)
					require.NoError(t, err)
				}
				for range 3 {
					pass(time.Minute)
					_ = run()
					ended := p.flow("order-991").State.Ended()
					assert.True(t, !ended || p.Recorded(op).State.Settled(), "it came to its end before its operation did")
					if row.held {
						row.held = false
						_, err := p.ResolveAs(op, journal.Reinstate, nil)
						require.NoError(t, err)
					}
					_, err := p.Resume(t.Context())
					require.NoError(t, err)
				}
				assert.True(t, p.flow("order-991").State.Ended())
				assert.Len(t, l.Sent(), row.sent)
				assert.Equal(t, row.state, p.Recorded(op).State)
			})
		}
	}
}

// A step is not done either while a call that its function left behind is under way.
func TestStepThatReturnsDuringItsCall(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(takes(time.Minute, says(200, paid)))
		p := startFlows(t, l, onceward.Config{})
		run := func(ctx context.Context) error {
			return errOf(flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
				go func() { _, _ = p.Post(ctx, "charge") }()
				pass(time.Second)
				return 1, nil
			}))
		}
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrInFlight)
		pass(time.Hour)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
		assert.Len(t, distinct(l.Keys()), 1)
	})
}

// A function finds its step's work done elsewhere while an earlier run's operation is pending. The step fails if
// no other process can send that operation.
func TestStepDoneElsewhereWithItsOwnPendingOperation(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		elsewhere := false
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				return errOf(flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
					if elsewhere {
						return 1, nil
					}
					return 1, p.Ask(ctx, with("Authorization", "Bearer secret-1")).Err
				}))
			})
		}
		require.ErrorIs(t, run(), onceward.ErrPending)
		pass(time.Hour)
		elsewhere = true
		err := run()
		require.ErrorIs(t, err, flow.ErrFailed)
		assert.ErrorContains(t, err, "is sent by no other process")
	})
}

// A step begins no other operation while one of an earlier run took effect, or still may, and this run has not repeated
// it.
func TestStepDoesNotChargeASecondCardWhileTheFirstIsOpen(t *testing.T) {
	cases := 0
	for name, row := range map[string]struct {
		first   reply
		charged []string
	}{
		"the first never left":        {refuses(), []string{"card-b"}},
		"the answer to it is lost":    {loses(), []string{"card-a", "card-a"}},
		"it took effect":              {says(200, paid), []string{"card-a"}},
		"it is unknown":               {frozen, []string{"card-a"}},
		"it was declined":             {says(402, `{"error":{"type":"card_error","code":"card_declined"}}`), []string{"card-a", "card-b"}},
		"it was refused, and is free": {says(400, `{"error":{"type":"invalid_request_error","code":"parameter_missing"}}`), []string{"card-a", "card-b"}},
	} {
		cases++
		sampled(t, cases, 3, name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(row.first)
			cfg := onceward.Config{Journal: j, Backoff: once}
			p := startFlows(t, l, cfg)
			card := "card-a"
			run := func() error {
				return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
					return errOf(flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
						defer func() {
							if card == "card-a" {
								p.Crash() // so that the step is not recorded
							}
						}()
						return p.Post(onceward.WithOperation(ctx, card), card)
					}))
				})
			}
			require.Error(t, run())
			p, card = startFlows(t, l, cfg), "card-b"
			for range 5 {
				pass(time.Hour)
				_ = run()
				_, err := p.Resume(t.Context())
				require.NoError(t, err)
			}
			assert.Equal(t, row.charged, l.Descriptions())
		})
	}
}

// A card that was never charged is not charged later, beside its replacement.
func TestFirstCardIsNotChargedBesideTheSecond(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		cfg := onceward.Config{Journal: j, Backoff: once}
		for _, card := range []string{"card-a", "card-b", "card-a"} {
			p := startFlows(t, l, cfg)
			require.Error(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				return errOf(flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					c, err := p.Post(onceward.WithOperation(ctx, card), card)
					p.Crash()
					return c, err
				}))
			}))
			pass(time.Hour)
		}
		assert.Equal(t, []string{"card-b"}, l.Descriptions())
	})
}

// A step begins no other operation in the same run as long as its first one has no outcome.
func TestStepDoesNotChargeASecondCardInTheSameRun(t *testing.T) {
	for name, first := range map[string]reply{"it is pending": loses(), "it is unknown": frozen} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(first)
			p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
			var second error
			err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				return errOf(flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					c, err := p.Post(ctx, "card-a")
					if err != nil {
						c, second = p.Post(onceward.WithOperation(ctx, "b"), "card-b")
						err = second
					}
					return c, err
				}))
			})
			require.ErrorIs(t, second, onceward.ErrNotSent)
			require.Error(t, err)
			assert.Equal(t, p.flow("order-991").Operation("charge"), p.flow("order-991").WaitsFor)
			assert.Equal(t, []string{"card-a"}, l.Descriptions())
		})
	}
}

// A step that began an operation is refused as another kind of step, which could not ask for that operation.
func TestStepWithAnOperationIsOfAnotherKind(t *testing.T) {
	for _, way := range []string{"forward", "undoing"} {
		virtual(t, way, func(t *testing.T) {
			l, j := &line{}, memory.New()
			p := startFlows(t, l, onceward.Config{Journal: j})
			run := func(ctx context.Context) error { return p.undoable(ctx, "charge") }
			l.Then(doing(p.Crash, says(200, paid)))
			require.Error(t, p.Flow(t.Context(), "order-991", nil, run))
			p = startFlows(t, l, onceward.Config{Journal: j})
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			if way == "undoing" {
				_, err := p.Flows.GiveUp(t.Context(), order991, "sold out")
				require.NoError(t, err)
			}
			err = p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { return errOf(flow.UUIDStep(ctx, "charge")) })
			require.ErrorIs(t, err, flow.ErrChanged)
		})
	}
}
