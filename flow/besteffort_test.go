package flow_test

import (
	"cmp"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
)

// forgets is a provider that promises nothing about a key, so that a lost answer leaves its operation unknown.
func forgets() providers.Provider {
	return own(func(e *providers.Endpoint) { e.Remembers, e.Retention = providers.Nothing, 0 })
}

// A message with an unknown outcome blocks neither its flow nor the undoing.
func TestUnknownBestEffortDoesNotBlockItsFlow(t *testing.T) {
	const noUse = flow.Reason("the message has no number")
	for name, row := range map[string]struct {
		reply reply
		is    error
	}{
		"its answer is lost":    {loses(), onceward.ErrOutcomeUnknown},
		"its answer is cut off": {cuts(200, paid), onceward.ErrAnswerGone},
		"it is of no use":       {says(200, paid), noUse},
	} {
		for _, gives := range []string{"", "its function", "a person"} {
			each(t, name+", given up by "+gives, func(t *testing.T, j machine.Store) {
				l := (&line{}).Then(says(200, paid), row.reply)
				cfg := onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.Stripe(), forgets()}}
				p, calls := startFlows(t, l, cfg), 0
				var told error
				run := func() error {
					return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
						if err := p.undoable(ctx, "create"); err != nil {
							return err
						}
						_, told = flow.BestEffort(ctx, "notify", func(ctx context.Context) (string, error) {
							calls++
							err := p.Ask(ctx, to(http.MethodPost, ownURL)).Err
							if gives == "a person" && calls == 1 {
								p.Crash() // before the step is recorded
							}
							if err == nil {
								err = noUse
							}
							return "sent", err
						})
						if gives == "its function" {
							return flow.GiveUp(errSoldOut)
						}
						return p.Step(ctx, "charge")
					})
				}
				err := run()
				if gives == "a person" {
					p = startFlows(t, l, cfg)
					_, err = p.Flows.GiveUp(t.Context(), order991, "sold out")
					require.NoError(t, err)
					err = run()
				}
				if gives != "" {
					require.ErrorIs(t, err, flow.ErrGivenUp)
					assert.Contains(t, l.Descriptions(), "undo-create-ch_1")
					return
				}
				require.NoError(t, err)
				require.ErrorIs(t, told, row.is)
				assert.Equal(t, flow.StateFinished, p.flow("order-991").State)
				told = nil
				pass(time.Hour)
				require.NoError(t, run(), "and it is the same for who asks again")
				require.ErrorIs(t, told, row.is)
				assert.Equal(t, 1, calls)
				assert.Len(t, l.Sent(), 3)
			})
		}
	}
}

// A flow waits for a message that may still be sent, so that the message does not come after the flow's end.
func TestFlowWaitsForAPendingBestEffort(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				message, err := flow.BestEffort(ctx, "notify", func(ctx context.Context) (charge, error) { return p.Post(ctx, "notify") })
				assert.Equal(t, err == nil, message.ID == "ch_1")
				return err
			})
		}
		require.ErrorIs(t, run(), onceward.ErrPending)
		pass(time.Hour)
		require.NoError(t, run())
		assert.Len(t, distinct(l.Keys()), 1)
	})
}

// A result that an operator states becomes the step's result.
func TestBestEffortByHand(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid))
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				message, err := flow.BestEffort(ctx, "notify", func(ctx context.Context) (charge, error) {
					_, err := p.Post(ctx, "notify")
					return charge{}, cmp.Or(err, errSoldOut)
				})
				assert.Equal(t, err == nil, message.ID == "ch_2")
				return err
			})
		}
		require.ErrorIs(t, run(), errSoldOut)
		_, err := p.Flows.ResolveStep(t.Context(), order991, "notify", charge{ID: "ch_2"}, byHand)
		require.NoError(t, err)
		require.NoError(t, run())
	})
}

// BestEffort refuses a type of result that JSON can't give back, as Step does.
func TestBestEffortRefusesAnInterface(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := startFlows(t, &line{}, onceward.Config{})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			return errOf(flow.BestEffort(ctx, "notify", func(context.Context) (any, error) { panic("not called") }))
		}), flow.ErrStep)
	})
}
