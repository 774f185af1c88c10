package flow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
)

// A function that handled a failed step handles it in the undoing, too.
func TestHandledStepErrorIsReplayedInTheUndoing(t *testing.T) {
	const full = flow.Reason("full")
	cases := 0
	for name, first := range map[string]reply{
		"it called no provider": {},
		"it was refused":        says(400, `{"error":{"type":"invalid_request_error","code":"parameter_missing"}}`),
		"it was declined":       says(402, `{"error":{"type":"card_error","code":"card_declined"}}`),
	} {
		copes := func(t *testing.T, by string, j machine.Store) {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Journal: j})
			calls := name != "it called no provider"
			if calls {
				l.Then(first)
			}
			crashes := by == "a person, after a crash"
			do := func(ctx context.Context) error {
				_, err := flow.Step(ctx, "card-a", func(ctx context.Context) (charge, error) {
					if !calls {
						return charge{}, full
					}
					c, err := p.Post(ctx, "card-a")
					if err != nil && !errors.Is(err, onceward.ErrNotSent) {
						err = full
					}
					return c, err
				})
				if errors.Is(err, full) {
					err = p.undoable(ctx, "card-b")
				}
				if crashes {
					p.Crash()
				}
				if err != nil {
					return err
				}
				if by == "its function" {
					return flow.GiveUp(errSoldOut)
				}
				return errSoldOut
			}
			err := p.Flow(t.Context(), "order-991", nil, do)
			if by != "its function" {
				require.Error(t, err)
				crashes = false
				p = startFlows(t, l, onceward.Config{Journal: j})
				_, err = p.Flows.GiveUp(t.Context(), order991, "sold out")
				require.NoError(t, err)
				err = p.Flow(t.Context(), "order-991", nil, do)
			}
			require.ErrorIs(t, err, flow.ErrGivenUp)
			assert.Equal(t, flow.StateGivenUp, p.flow("order-991").State)
			assert.Contains(t, l.Descriptions(), "undo-card-b-ch_1")
		}
		for _, by := range []string{"its function", "a person", "a person, after a crash"} {
			cases++
			sampled(t, cases, 4, name+", by "+by, func(t *testing.T, j machine.Store) { copes(t, by, j) })
		}
	}
}

// A step whose failure the function handled, and that took effect after all, is undone together with its replacement.
func TestHandledStepThatTookEffectIsUndone(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		const noToken = flow.Reason("no token")
		l := (&line{}).Then(doing(func() { <-time.After(time.Hour) }, says(200, `{"id":"ch_late"}`)), frozen)
		stopped, p := startFlows(t, l, onceward.Config{Journal: j}), startFlows(t, l, onceward.Config{Journal: j})
		token := true
		run := func(p *process) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, "card-a", func(ctx context.Context) (charge, error) {
					if !token {
						return charge{}, noToken
					}
					return p.Post(ctx, "card-a")
				}, flow.WithUndo(func(ctx context.Context, c charge) error {
					_, err := p.Post(ctx, "undo-card-a-"+c.ID)
					return err
				}))
				if errors.Is(err, noToken) {
					err = p.undoable(ctx, "card-b")
				}
				if err != nil {
					return err
				}
				return flow.GiveUp(errSoldOut)
			})
		}
		over := make(chan error)
		go func() { over <- run(stopped) }()
		pass(time.Minute)
		for _, s := range stopped.Journal.Sessions() {
			require.NoError(t, s.End(t.Context()))
		}
		require.ErrorIs(t, run(p), onceward.ErrOutcomeUnknown)
		_, err := p.ResolveAs(p.flow("order-991").WaitsFor, onceward.NotExecuted, nil)
		require.NoError(t, err)
		pass(time.Minute)
		token = false
		require.ErrorIs(t, run(p), flow.ErrGivenUp)
		assert.Equal(t, []string{"card-a", "card-a", "card-b", "undo-card-b-ch_1"}, l.Descriptions())
		token = true
		require.Error(t, <-over)
		require.Equal(t, onceward.StateCompleted, p.Recorded(p.flow("order-991").Operation("card-a")).State)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, run(p), flow.ErrGivenUp)
		assert.Contains(t, l.Descriptions(), "undo-card-a-ch_late")
	})
}

// A branch that the function took once, without an effect, does not block the undoing of the branch that it took later.
func TestAbandonedBranchDoesNotBlockTheUndoing(t *testing.T) {
	for _, cut := range []bool{false, true} {
		each(t, fmt.Sprintf("cut off %t", cut), func(t *testing.T, j machine.Store) {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Journal: j})
			full := true
			fails := func(ctx context.Context, name string) error {
				return errOf(flow.Step(ctx, name, func(context.Context) (int, error) {
					if full {
						return 0, errSoldOut
					}
					return 1, nil
				}))
			}
			run := func() error {
				return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
					if fails(ctx, "check") != nil {
						_, _ = fails(ctx, "elsewhere"), fails(ctx, "tell")
						return errSoldOut
					}
					return errors.Join(p.undoable(ctx, "charge"), errSoldOut)
				})
			}
			require.ErrorIs(t, run(), errSoldOut)
			pass(time.Hour)
			full = false
			if cut {
				l.Then(doing(p.Crash, says(200, paid)))
			}
			require.Error(t, run())
			p = startFlows(t, l, onceward.Config{Journal: j})
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			_, err = p.Flows.GiveUp(t.Context(), order991, "sold out")
			require.NoError(t, err)
			require.ErrorIs(t, run(), flow.ErrGivenUp)
			assert.Contains(t, l.Descriptions(), "undo-charge-ch_1")
		})
	}
}

// A failed step runs again as long as no later step is done or has begun an operation. Its errors are not recorded
// anew in each run.
func TestFailedStepIsMadeAgainForward(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{}, flow.Config{Backoff: backoff.Policy{MaxAttempts: 100}})
		runs := 0
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				runs++
				_, first := flow.Step(ctx, "first", func(context.Context) (int, error) {
					if runs <= 30 {
						return 0, fmt.Errorf("run %d", runs)
					}
					return 1, nil
				})
				_, second := flow.Step(ctx, "second", func(context.Context) (int, error) {
					if first != nil {
						return 0, errSoldOut
					}
					return 1, nil
				})
				return errors.Join(first, second)
			})
		}
		for range 30 {
			require.ErrorIs(t, run(), errSoldOut)
			pass(time.Hour)
		}
		assert.LessOrEqual(t, len(p.flow("order-991").Steps), 10)
		require.NoError(t, run())
		assert.Equal(t, "started → first → second → finished", p.flow("order-991").String())
		require.NoError(t, run(), "by what is recorded")
	})
}

// A function replaced a failed step by another. The failed step is not made beside its replacement, even if it would
// succeed by then.
func TestFailedStepStaysSoAfterAnother(t *testing.T) {
	busy, done := says(429, `{"error":{"message":"busy"}}`, "Retry-After", "60"), says(200, paid)
	for _, row := range []struct {
		name string
		then []reply // to the requests after the first card; nil if its process ends
		sent []string
	}{
		{"the process ended", nil, []string{"card-a", "card-b", "ship"}},
		{"a later step failed", []reply{done, busy}, []string{"card-a", "card-b", "ship", "ship"}},
		{"it may have taken effect", []reply{loses(), busy}, []string{"card-a", "card-b", "card-b", "card-b", "ship"}},
		{"it has none", []reply{busy}, []string{"card-a", "card-b", "card-b", "ship"}},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(append([]reply{busy}, row.then...)...)
			p := startFlows(t, l, onceward.Config{Journal: j})
			ends := row.then == nil
			run := func() error {
				soon := func(ctx context.Context, name string) error {
					return errOf(flow.Step(ctx, name, func(ctx context.Context) (charge, error) {
						ctx, cancel := context.WithCancel(ctx)
						defer time.AfterFunc(5*time.Second, cancel).Stop()
						return p.Post(ctx, name)
					}))
				}
				return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
					err := soon(ctx, "card-a")
					if _, waits := errors.AsType[*flow.Error](err); err != nil && !waits {
						err = soon(ctx, "card-b")
					}
					if ends {
						p.Crash()
					}
					if err != nil {
						return err
					}
					return soon(ctx, "ship")
				})
			}
			require.Error(t, run())
			ends = false
			p = startFlows(t, l, onceward.Config{Journal: j})
			pass(2 * time.Hour)
			require.NoError(t, run())
			assert.Equal(t, row.sent, l.Descriptions())
			require.NoError(t, run(), "by what is recorded")
			assert.Len(t, l.Sent(), len(row.sent))
		})
	}
}
