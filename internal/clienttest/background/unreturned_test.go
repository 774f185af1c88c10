package background_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// booking is a hook that notes what it gets.
type booking struct {
	mu  sync.Mutex
	all []string
}

func (b *booking) book(op onceward.Operation) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, op.ID+" "+op.State.String())
	return nil
}

// settle is an Outcomes.Handle.
func (b *booking) settle(_ context.Context, op onceward.Operation) error { return b.book(op) }

// got returns what the hook got.
func (b *booking) got() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.all...)
}

// eachHook runs a test with a hook for the outcomes that no caller has, and with one for all.
func eachHook(t *testing.T, test func(t *testing.T, cfg onceward.Config, b *booking)) {
	t.Helper()
	for name, set := range map[string]func(*onceward.Config, *booking){
		"Handle": func(cfg *onceward.Config, b *booking) { cfg.Outcomes = &onceward.Outcomes{Handle: b.settle} },
		"Handle and Heard": func(cfg *onceward.Config, b *booking) {
			cfg.Outcomes = &onceward.Outcomes{Handle: b.settle, Heard: true}
		},
	} {
		virtual(t, name, func(t *testing.T) {
			cfg, b := onceward.Config{Journal: memory.New()}, &booking{}
			set(&cfg, b)
			test(t, cfg, b)
		})
	}
}

// runs runs a process in the background until the test ends.
func runs(t *testing.T, p *process) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

// orders is a provider that answers a repeated key without the recorded answer.
func orders() []providers.Provider {
	return []providers.Provider{own(func(e *providers.Endpoint) {
		e.Rules = append([]providers.Rule{{Status: 409, Field: "code", Equals: "used", Verdict: providers.AnswerGone}}, e.Rules...)
	})}
}

// The hook gets a completed operation whose caller got an error instead of the response, while the process lives.
func TestHookGetsAnOutcomeWithoutAResponse(t *testing.T) {
	t.Parallel()
	eachHook(t, func(t *testing.T, cfg onceward.Config, b *booking) {
		cfg.Providers = orders()
		p := start(t, (&line{}).Then(loses()).Always(says(409, `{"code":"used"}`)), cfg)
		runs(t, p)
		require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, onceward.ErrAnswerGone)
		pass(time.Minute)
		assert.Equal(t, []string{"order-1 completed"}, b.got())
		require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, onceward.ErrAnswerGone)
		pass(time.Minute)
		assert.Len(t, b.got(), 1, "asking again makes no second outcome")
		assert.True(t, p.Recorded(onceward.Ref{ID: "order-1"}).Delivered)
	})
}

// Outcomes.HandleTx gets such an outcome too, as it gets every one.
func TestHandleTxGetsAnOutcomeWithoutAResponse(t *testing.T) {
	t.Parallel()
	virtualShop(t, "", onceward.Config{Outcomes: &onceward.Outcomes{HandleTx: books}, Providers: orders()}, func(t *testing.T, s *shop, l *line) {
		l.Then(loses(), says(409, `{"code":"used"}`))
		require.ErrorIs(t, s.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, onceward.ErrAnswerGone)
		pass(time.Minute)
		assert.Equal(t, []string{"order-1 is completed"}, s.booked(t))
	})
}

// The next process delivers such an outcome if the first one dies before it calls the hook.
func TestHookGetsAnOutcomeWithoutAResponseAfterACrash(t *testing.T) {
	t.Parallel()
	eachHook(t, func(t *testing.T, cfg onceward.Config, b *booking) {
		cfg.Providers = orders()
		p := start(t, (&line{}).Then(loses(), says(409, `{"code":"used"}`)), cfg)
		require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, onceward.ErrAnswerGone)
		p.Crash()
		cfg.Journal = p.Journal.Store
		_, err := start(t, &line{}, cfg).Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"order-1 completed"}, b.got())
	})
}

// The hook gets an operation that a webhook completed between two attempts, if no attempt and no look-up bring its answer.
func TestHookGetsAnOutcomeHeardBetweenTwoAttempts(t *testing.T) {
	t.Parallel()
	eachHook(t, func(t *testing.T, cfg onceward.Config, b *booking) {
		cfg.Backoff = backoff.Policy{Initial: time.Minute, Max: time.Minute, MaxAttempts: 2}
		l := atBank(t, cfg, func(p *providers.Provider) {
			e := &p.Endpoints[0]
			e.Retention, e.Remembers, e.InFlightGuard = 24*time.Hour, providers.Everything, true
		})
		l.Box.Visible(time.Hour)
		l.Box.Script(providertest.DropAfter(), providertest.DropAfter(), providertest.DropAfter(), providertest.DropAfter())
		runs(t, l.Process)
		done := make(chan outcome, 1)
		go func() { done <- l.Pays("invoice-1") }()
		synctest.Wait() // in the pause before the second attempt
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now()))
		require.NoError(t, err)
		require.ErrorIs(t, (<-done).Err, onceward.ErrAnswerGone)
		pass(time.Minute)
		assert.Equal(t, []string{"invoice-1 completed"}, b.got())
	})
}

// The hook gets an outcome whose caller got another hook's panic.
func TestHookGetsAnOutcomeWhoseCallerPanicked(t *testing.T) {
	t.Parallel()
	eachHook(t, func(t *testing.T, cfg onceward.Config, b *booking) {
		cfg.Trace = &onceward.Trace{Ended: func(context.Context, onceward.Operation, error) { panic("a hook of the program") }}
		p := start(t, &line{}, cfg)
		runs(t, p)
		require.Panics(t, func() { p.Ask(named(t, "order-1")) })
		pass(time.Minute)
		assert.Equal(t, []string{"order-1 completed"}, b.got())
	})
}

// A step's answer was lost, and a webhook completes the operation. The hook gets it if the flow does not ask for it: the flow is
// set aside, or fails before the step.
func TestHookGetsTheOutcomeOfAFlowThatDoesNotAsk(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]flow.State{"set aside": flow.StateSetAside, "waiting": flow.StateWaiting} {
		t.Run(name, func(t *testing.T) {
			eachHook(t, func(t *testing.T, cfg onceward.Config, b *booking) {
				l := tellerOfFlows(t, atBank(t, onceward.Config{}).Box, cfg)
				cfg.Providers, cfg.Backoff, cfg.Reconcile = []providers.Provider{l.Box.Provider()}, once, plain()
				cfg.Authorize = func(r *http.Request) error { r.Header.Set("Authorization", tellerToken); return nil }
				hourly := flow.Config{Backoff: backoff.Policy{Initial: time.Hour, Max: time.Hour}} // or it might fail so often that it is set aside
				l.Process = oncetest.StartFlows(t, l.Via, cfg, hourly)
				step, down := "charge", false
				ship := flow.Define("send", 1, func(ctx context.Context, _ string) (string, error) {
					if down {
						return "", errors.New("the stock is not known yet")
					}
					return flow.Step(ctx, step, func(ctx context.Context) (string, error) { return "paid", l.Posts(ctx, "/payments", `{"amount":10}`) })
				})
				require.NoError(t, l.Flows.Register(ship))
				l.Box.Visible(24 * time.Hour)
				l.Box.Script(providertest.DropAfter())
				_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
				require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
				if down = true; state == flow.StateSetAside {
					down, step = false, "another step"
				}
				_, _ = ship.Run(t.Context(), l.Flows, "order-1", "x")
				runs(t, l.Process)
				pass(time.Second)
				_, err = l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", l.Charge().Key, "obj_1", time.Now()))
				require.NoError(t, err)
				pass(2 * time.Minute)
				require.Equal(t, state, l.Order().State)
				assert.Contains(t, b.got(), "charge completed")
				assert.True(t, l.Recorded(l.Charge().Ref).Delivered)
			})
		})
	}
}

// The hook recognises a flow's step by the operation's fields, as docs/outcomes.md lists them.
func TestHookRecognisesAStepOfAFlow(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		type origin struct{ flow, parent, id, inbound string }
		var mu sync.Mutex
		got := map[origin]bool{}
		p := startFlows(t, &line{}, onceward.Config{Outcomes: &onceward.Outcomes{Heard: true, Handle: func(_ context.Context, op onceward.Operation) error {
			mu.Lock()
			defer mu.Unlock()
			got[origin{op.Flow.ID, op.Flow.Parent, op.ID, string(op.InboundKey)}] = true
			return nil
		}}})
		runs(t, p)
		parent := onceward.NewKey()
		require.ErrorIs(t, p.Flow(onceward.WithParent(t.Context(), parent), "order-1", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
				return "paid", errors.Join(p.Ask(ctx).Err, p.Ask(onceward.WithOperation(ctx, "fee")).Err)
			}, flow.WithUndo(func(ctx context.Context, _ string) error { return p.Ask(ctx).Err }))
			require.NoError(t, err)
			return flow.GiveUp(errors.New("sold out"))
		}), flow.ErrGivenUp)
		require.NoError(t, p.Ask(named(t, "invoice-1")).Err)
		pass(time.Minute)
		assert.Equal(t, map[origin]bool{
			{"order-1", string(parent), "charge", ""}:      true,
			{"order-1", string(parent), "charge/fee", ""}:  true,
			{"order-1", string(parent), "undo/charge", ""}: true,
			{"", "", "invoice-1", ""}:                      true,
		}, got)
	})
}
