package background_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// A flow can be given up beside a refusal, but not beside an effect without an undo. The table of the process that
// gives it up decides. It ends like other work, and is not waited for.
func TestFlowGivenUpDuringAnOutcome(t *testing.T) {
	declines := func(p *providers.Provider) {
		p.Declines = []providers.Decline{{Field: "status", Equals: "declined", Source: "made up"}}
	}
	const none = `{"status":"declined"}`
	for name, row := range map[string]struct {
		answer   reply
		resolved bool                      // as executed, once its answer was lost
		later    func(*providers.Provider) // of the process that gives it up
		state    flow.State
	}{
		"a refusal":                        {answer: declined, state: flow.StateGivenUp},
		"an effect":                        {answer: says(200, paid), state: flow.StateWaiting},
		"an effect that a person has seen": {answer: loses(), resolved: true, state: flow.StateWaiting},
		"a decline by its table":           {answer: says(200, none), later: declines, state: flow.StateGivenUp},
		"a decline by another provider's table": {answer: says(200, none), state: flow.StateWaiting, later: func(p *providers.Provider) {
			declines(p)
			p.Name = "another"
		}},
		"a decline by its renamed table": {answer: says(200, none), state: flow.StateGivenUp, later: func(p *providers.Provider) {
			declines(p)
			p.Name, p.KeysUnder = "another", "stripe"
		}},
		"a success, where the table knows declines": {answer: says(200, paid), later: declines, state: flow.StateWaiting},
		"a cut answer": {answer: cuts(200, none), later: declines, state: flow.StateWaiting},
		"an operation whose host no table lists any more": {answer: says(200, none), state: flow.StateWaiting, later: func(p *providers.Provider) {
			declines(p)
			p.Hosts = []string{"api.elsewhere.example"}
		}},
	} {
		virtual(t, name, func(t *testing.T) {
			j, l := memory.New(), (&line{}).Then(row.answer)
			fails := func(p *process) *flow.Func[string, string] {
				f := flow.Define("ship", 1, func(ctx context.Context, _ string) (string, error) {
					return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
						if out := p.Ask(ctx); out.Err != nil {
							return "", out.Err
						}
						return "", errors.New("the step fails")
					})
				})
				require.NoError(t, p.Flows.Register(f))
				return f
			}
			p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
			_, err := fails(p).Run(t.Context(), p.Flows, "order-1", "x")
			require.Error(t, err)
			if ops := p.Everything(); row.resolved {
				require.Len(t, ops, 1)
				_, err = p.ResolveAs(ops[0].Ref, onceward.Executed, nil)
				require.NoError(t, err)
			}
			_, err = p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-1"}, "the customer left")
			require.NoError(t, err)
			table := providers.Stripe()
			if row.later != nil {
				row.later(&table)
			}
			p = startFlows(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{table}})
			fails(p)
			_, err = p.Resume(t.Context())
			require.NoError(t, err)
			f, err := p.Flows.Flow(t.Context(), onceward.Ref{ID: "order-1"})
			require.NoError(t, err)
			assert.Equal(t, row.state, f.State)
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			require.NoError(t, p.Shutdown(ctx), "nothing is under way")
		})
	}
}

// The error from a flow that is blocked by an open operation says whether a process sends it in the background.
func TestFlowErrorNamesTheBackgroundSender(t *testing.T) {
	for name, row := range map[string]struct {
		answer  reply
		options []option
		sends   bool
	}{
		"a pending one":                      {answer: loses(), sends: true},
		"whose credential only a caller has": {answer: loses(), options: []option{bearer("sk_test_1")}},
		"an unknown one":                     {answer: frozen},
	} {
		virtual(t, name, func(t *testing.T) {
			p := startFlows(t, (&line{}).Then(row.answer), onceward.Config{Backoff: once})
			run := func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
					return "", p.Ask(ctx, row.options...).Err
				})
				return err
			}
			require.Error(t, p.Flow(t.Context(), "order-1", nil, run))
			_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-1"}, "the customer left")
			require.NoError(t, err)
			err = p.Flow(t.Context(), "order-1", nil, run)
			require.ErrorIs(t, err, flow.ErrUndoBlocked)
			var e *onceward.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, row.sends, e.InBackground)
		})
	}
}

// unclaimed is a journal that fails to claim flows.
type unclaimed struct{ *memory.Journal }

func (unclaimed) ClaimFlows(context.Context, machine.FlowEvent, int) ([]machine.FlowResult, error) {
	return nil, errBlinded
}

// A failed pass over the flows is logged, and reported to Trace.
func TestFlowsPassThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var failed []error
		p := startFlows(t, &line{}, onceward.Config{
			Journal: unclaimed{memory.New()}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Trace: &onceward.Trace{PassFailed: func(_ context.Context, err error) { failed = append(failed, err) }},
		})
		require.NoError(t, p.Flows.Register(flow.Define("ship", 1, func(context.Context, string) (string, error) { return "", nil })))
		ctx, stop := context.WithTimeout(t.Context(), time.Second/2)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		require.NotEmpty(t, failed)
		require.ErrorIs(t, failed[0], errBlinded)
		assert.Contains(t, log.String(), "a pass over the flows failed")
	})
}
