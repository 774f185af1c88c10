package background_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// A flow failed because an operation has no answer. It goes on as soon as an operator gives one, without waiting for
// its next retry.
func TestFlowGoesOnOnceItHasAnAnswer(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := tellerOfFlows(t, atBank(t, onceward.Config{}, unlooked).Box)
		hourly := flow.Config{Backoff: backoff.Policy{Initial: time.Hour, Max: time.Hour}}
		l.Process = oncetest.StartFlows(t, l.Via, onceward.Config{
			Providers: []providers.Provider{l.Box.Provider()}, Backoff: once,
			Authorize: func(r *http.Request) error { r.Header.Set("Authorization", tellerToken); return nil },
		}, hourly)
		ship := charges(l)
		require.NoError(t, l.Flows.Register(ship))
		l.Box.Script(providertest.DropAfter())
		_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(running) }()
		resolves := func(answer *onceward.Answer) {
			_, err := l.Resolve(t.Context(), l.Charge().Seen, onceward.Executed, onceward.ResolveOptions{Answer: answer})
			require.NoError(t, err)
			pass(time.Second)
		}
		resolves(nil)
		require.Equal(t, 1, l.Order().Failures, "its result can't be made of that")
		resolves(&onceward.Answer{Status: 200, Body: []byte(`{"id":"obj_1"}`)})
		assert.Equal(t, flow.StateFinished, l.Order().State)
		assert.Equal(t, 1, l.Effects())
		stop()
		<-done
	})
}

// unreadFlow is a journal that fails to read a flow, as often as times says.
type unreadFlow struct {
	*memory.Journal
	times atomic.Int64
}

func (j *unreadFlow) GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error) {
	if j.times.Add(-1) >= 0 {
		return journal.Flow{}, errBlinded
	}
	return j.Journal.GetFlow(ctx, ref)
}

// A running flow's found operation goes to that flow, even if the flow ends soon. One that is found after the end
// goes to Outcomes.Handle, as no run asks any more.
func TestFoundOperationOfAFlow(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		ends   bool // before it is found
		unread int64
		child  bool
		fails  bool // after it is found
		told   int
	}{
		{name: "while it goes on", told: 0},
		{name: "while it goes on, though it fails", fails: true, told: 0},
		{name: "after its end", ends: true, told: 1},
		{name: "after its end, which can't be read just then", ends: true, unread: 1, told: 1},
		{name: "while it goes on, where it has a parent", child: true, told: 0},
		{name: "after its end, where it has a parent", ends: true, child: true, told: 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j, log, told, wanted := &unreadFlow{Journal: memory.New()}, &bytes.Buffer{}, 0, true
			cfg := onceward.Config{Journal: j, Logger: slog.New(slog.NewTextHandler(log, nil)), Outcomes: &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
				if op.ID == "charge" && op.State == onceward.StateCompleted {
					told++
				}
				return nil
			}}}
			if row.ends {
				cfg.Reconcile = oncetest.SaysAbsent()
			}
			l := tellerOfFlows(t, atBank(t, onceward.Config{}).Box, cfg)
			ship := flow.Define("ship", 1, func(ctx context.Context, _ string) (string, error) {
				paid, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
					if !wanted {
						return "left open", nil
					}
					return "paid", l.Posts(ctx, "/payments", `{"amount":10}`)
				})
				if err == nil && row.fails {
					return "", errors.New("no stock")
				}
				return paid, err
			})
			waits := flow.Define("wait", 1, func(context.Context, string) (string, error) {
				if row.ends {
					return "", errors.New("not yet")
				}
				return "at once", nil
			})
			require.NoError(t, l.Flows.Register(ship, waits))
			ctx, parent := t.Context(), ""
			if row.child {
				key := onceward.NewKey()
				ctx, parent = onceward.WithParent(ctx, key), string(key)
				_, _ = waits.Run(onceward.WithParent(t.Context(), onceward.NewKey()), l.Flows, "another's", "x")
			}
			lost := providertest.DropAfter()
			if row.ends {
				lost = providertest.Straggle(12 * time.Hour)
			}
			l.Box.Script(lost)
			_, err := ship.Run(ctx, l.Flows, "order-1", "x")
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			if row.ends {
				wanted = false
				pass(3 * time.Minute)
				require.NoError(t, l.Asks("control", "/payments", `{"amount":11}`).Err)
				l.Runs(6 * time.Hour)
				require.Equal(t, onceward.StateCancelled, l.Charge().State)
				pass(12 * time.Hour)
				late := l.Box.Effects()[1]
				_, err = l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", onceward.Key(late.Key), late.Object, late.At))
				require.NoError(t, err)
				j.times.Store(row.unread)
			}
			l.Runs(time.Minute)
			f, err := l.Flows.Flow(t.Context(), onceward.Ref{Parent: parent, ID: "order-1"})
			require.NoError(t, err)
			require.Equal(t, !row.fails, f.State == flow.StateFinished)
			require.Equal(t, onceward.StateCompleted, l.Charge().State)
			assert.Equal(t, row.told, told)
			assert.NotContains(t, log.String(), "undone once more")
			assert.True(t, l.Recorded(l.Charge().Ref).Delivered)
		})
	}
}

// A flow pauses until a provider's Retry-After. Resolving another operation of it does not shorten the pause.
func TestResolutionDoesNotShortenAProvidersPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(frozen, says(429, `{"error":{"message":"busy"}}`, "Retry-After", "60"))
		p := startFlows(t, l, onceward.Config{})
		ride := flow.Define("ride", 1, func(ctx context.Context, _ int) (int, error) {
			ctx = flow.Parallel(ctx, "note", "letter")
			return 1, errors.Join(p.Step(ctx, "note"), p.Step(ctx, "letter"))
		})
		require.NoError(t, p.Flows.Register(ride))
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, leave)
		_, err := ride.Run(ctx, p.Flows, "order-1", 1)
		require.ErrorIs(t, err, onceward.ErrPending)
		require.Len(t, l.Sent(), 2)
		i := slices.IndexFunc(p.Everything(), func(op journal.Operation) bool { return op.State == journal.StateUnknown })
		require.NotEqual(t, -1, i)

		go func() { _ = p.Run(t.Context()) }()
		_, err = p.ResolveAs(p.Everything()[i].Ref, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(paid)})
		require.NoError(t, err)
		pass(50 * time.Second)
		assert.Len(t, l.Sent(), 2)
		pass(20 * time.Second)
		assert.Len(t, l.Sent(), 3)
		f, err := p.Flows.Flow(t.Context(), onceward.Ref{ID: "order-1"})
		require.NoError(t, err)
		assert.Equal(t, flow.StateFinished, f.State)
	})
}

// A flow that can't be read at a resolution is not woken. That is logged, and the flow finds out by itself later.
func TestFlowThatCantBeWoken(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j, log := &unreadFlow{Journal: memory.New()}, &bytes.Buffer{}
		l := tellerOfFlows(t, atBank(t, onceward.Config{}, unlooked).Box, onceward.Config{Journal: j, Logger: slog.New(slog.NewTextHandler(log, nil))})
		ship := charges(l)
		require.NoError(t, l.Flows.Register(ship))
		l.Box.Script(providertest.DropAfter())
		_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		j.times.Store(1)
		_, err = l.Resolve(t.Context(), l.Charge().Seen, onceward.Executed, onceward.ResolveOptions{Answer: &onceward.Answer{Status: 200, Body: []byte(`{"id":"obj_1"}`)}})
		require.NoError(t, err)
		assert.Contains(t, log.String(), "a flow was not woken")
		l.Runs(11 * time.Minute)
		assert.Equal(t, flow.StateFinished, l.Order().State)
	})
}

// A process whose journal has no flows resolves and finds operations in other processes' flows.
func TestFlowsOfOthersAlone(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		m := memory.New()
		l := tellerOfFlows(t, atBank(t, onceward.Config{}).Box, onceward.Config{Journal: m})
		ship := charges(l)
		require.NoError(t, l.Flows.Register(ship))
		beside := another(t, l.Box, onceward.Config{Journal: struct {
			machine.Store
			machine.Reconciler
		}{m, m}})
		for i, settled := range []func(op onceward.Operation){
			func(op onceward.Operation) {
				_, err := beside.Resolve(t.Context(), op.Seen, onceward.Executed, onceward.ResolveOptions{Answer: &onceward.Answer{Status: 200, Body: []byte(`{"id":"obj_1"}`)}})
				require.NoError(t, err)
			},
			func(op onceward.Operation) { beside.Runs(time.Minute) },
		} {
			l.Box.Script(providertest.DropAfter())
			name := fmt.Sprint("order-", i+1)
			_, err := ship.Run(t.Context(), l.Flows, name, "x")
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			var e *onceward.Error
			require.ErrorAs(t, err, &e)
			settled(e.Operation)
			l.Runs(11 * time.Minute)
			f, err := l.Flows.Flow(t.Context(), onceward.Ref{ID: name})
			require.NoError(t, err)
			assert.Equal(t, flow.StateFinished, f.State)
		}
		assert.Equal(t, 2, l.Effects())
	})
}

// A flow that was given up is undone at once if an operation of it took effect after all, and the log says so.
func TestFlowIsOpenedAgainAtOnce(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		log := &bytes.Buffer{}
		l := tellerOfFlows(t, atBank(t, onceward.Config{}).Box, onceward.Config{Reconcile: oncetest.SaysAbsent(), Logger: slog.New(slog.NewTextHandler(log, nil))})
		ship := charges(l)
		require.NoError(t, l.Flows.Register(ship))
		l.Box.Script(providertest.Straggle(12 * time.Hour))
		_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		_, err = l.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-1"}, "the customer left")
		require.NoError(t, err)
		pass(3 * time.Minute)
		require.NoError(t, l.Asks("control", "/payments", `{"amount":11}`).Err)
		l.Runs(6 * time.Hour)
		require.Equal(t, flow.StateGivenUp, l.Order().State)
		pass(12 * time.Hour)
		late := l.Box.Effects()[1]

		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(running) }()
		pass(1234 * time.Millisecond)
		_, err = l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", onceward.Key(late.Key), late.Object, late.At))
		require.NoError(t, err)
		pass(100 * time.Millisecond)
		assert.Equal(t, flow.StateGivenUp, l.Order().State, "its answer was looked up, and it is undone")
		assert.Equal(t, 3, l.Effects(), "what took effect late was given back")
		assert.Contains(t, log.String(), "a flow that was given up is undone once more")
		stop()
		<-done
	})
}

// An operator decided that an operation in a given-up flow had no effect. The flow is undone once another operator has
// proof of the effect.
func TestFlowIsOpenedAgainByProof(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(frozen)
		p := startFlows(t, l, onceward.Config{Journal: j})
		undone := 0
		ship := flow.Define("ship", 1, func(ctx context.Context, _ string) (oncetest.Charge, error) {
			return flow.Step(ctx, "charge", func(ctx context.Context) (oncetest.Charge, error) { return p.Post(ctx, "charge") },
				flow.WithUndo(func(context.Context, oncetest.Charge) error {
					undone++
					return nil
				}))
		})
		require.NoError(t, p.Flows.Register(ship))
		_, err := ship.Run(t.Context(), p.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		ref := p.Everything()[0].Ref
		_, err = p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-1"}, "the customer left")
		require.NoError(t, err)
		_, err = p.ResolveAs(ref, onceward.NotExecuted, nil)
		require.NoError(t, err)
		state := func() flow.State {
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			f, err := p.Flows.Flow(t.Context(), onceward.Ref{ID: "order-1"})
			require.NoError(t, err)
			return f.State
		}
		require.Equal(t, flow.StateGivenUp, state())
		require.Zero(t, undone)
		_, err = p.ResolveAs(ref, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(paid)})
		require.NoError(t, err)
		state()
		require.Equal(t, flow.StateGivenUp, state())
		assert.Equal(t, 1, undone)
		assert.Len(t, l.Sent(), 1)
	})
}

// A flow that an operator resolves goes on at once by its own process's clock, even if the operator's clock is hours
// ahead.
func TestFlowIsWokenByAClockAhead(t *testing.T) {
	t.Parallel()
	ref := onceward.Ref{ID: "order-1"}
	for name, row := range map[string]struct {
		says func(p *process, op onceward.Operation) error
		ends flow.State
	}{
		"resolved": {func(p *process, op onceward.Operation) error {
			_, err := p.Resolve(p.T.Context(), op.Seen, onceward.NotExecuted, onceward.ResolveOptions{})
			return err
		}, flow.StateFinished},
		"retried": {func(p *process, op onceward.Operation) error {
			_, err := p.Resolve(p.T.Context(), op.Seen, onceward.NotExecuted, onceward.ResolveOptions{})
			_, retried := p.Flows.Retry(p.T.Context(), ref)
			return errors.Join(err, retried)
		}, flow.StateFinished},
		"given up": {func(p *process, op onceward.Operation) error {
			_, err := p.Resolve(p.T.Context(), op.Seen, onceward.NotExecuted, onceward.ResolveOptions{})
			_, given := p.Flows.GiveUp(p.T.Context(), ref, "the customer left")
			return errors.Join(err, given)
		}, flow.StateGivenUp},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(frozen)
			ship := func(p *process) *flow.Func[string, int] {
				return flow.Define("ship", 1, func(ctx context.Context, _ string) (int, error) { return 1, p.Step(ctx, "charge") })
			}
			p := startFlows(t, l, onceward.Config{Journal: j})
			ours := ship(p)
			require.NoError(t, p.Flows.Register(ours))
			_, err := ours.Run(t.Context(), p.Flows, ref.ID, "x")
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			pass(time.Minute)
			running, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(running) }()
			pass(time.Hour) // it is looked after every ten minutes by then
			other := startFlows(t, l, onceward.Config{Journal: j})
			setClock(other.Client, func() time.Time { return time.Now().Add(5 * time.Hour) })
			op, err := other.Operation(t.Context(), p.Everything()[0].Ref)
			require.NoError(t, err)
			require.NoError(t, row.says(other, op))
			pass(10 * time.Minute)
			f, err := p.Flows.Flow(t.Context(), ref)
			require.NoError(t, err)
			assert.Equal(t, row.ends, f.State)
			stop()
			<-done
		})
	}
}

// A report has the first hundred flows' problems, and counts all.
func TestProblemsOfManyFlows(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		m := memory.New()
		p := startFlows(t, &line{}, onceward.Config{Journal: m})
		waits := flow.Define("wait", 1, func(context.Context, int) (int, error) { return 0, errors.New("not yet") })
		require.NoError(t, p.Flows.Register(waits))
		for i := range 101 {
			_, err := waits.Run(t.Context(), p.Flows, fmt.Sprint("order-", i), i)
			require.ErrorContains(t, err, "not yet")
		}
		pass(time.Hour)
		report, err := startFlows(t, &line{}, onceward.Config{Journal: m, Concurrency: 200}).Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 101, report.Flows.Unregistered)
		assert.Len(t, report.Flows.Problems, 100)
	})
}
