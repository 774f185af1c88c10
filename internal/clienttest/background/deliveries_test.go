package background_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers/providertest"
)

// Outcomes.Handle gets the outcomes that no caller got.
func TestHandleGetsUndeliveredOutcomes(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(frozen, wrongKey)
		s := &settler{}
		dead := start(t, l, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		require.Equal(t, 500, dead.Ask(named(t, "unknown, handed over")).Status)
		require.Equal(t, 401, dead.Ask(named(t, "cancelled, handed over")).Status)
		require.NoError(t, dead.Ask(named(t, "read and closed")).Err)
		dead.Leaves(named(t, "never closed"))
		leavesInFlight(t, dead, l,
			func() { dead.Ask(named(t, "in flight")) },
			func() { dead.Ask(named(t, "in flight, nothing promised"), to("POST", "https://elsewhere.example/")) },
		)
		assert.Empty(t, s.Got)

		next := start(t, l, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, report.Claimed)
		assert.Equal(t, 3, report.Settled)
		require.Len(t, s.Got, 3)
		for id, state := range map[string]onceward.State{
			"never closed": onceward.StateCompleted, "in flight": onceward.StateCompleted, "in flight, nothing promised": onceward.StateUnknown,
		} {
			require.Len(t, s.Got[id], 1, id)
			assert.Equal(t, state, s.Got[id][0].State)
			if state == onceward.StateCompleted {
				require.NotNil(t, s.Got[id][0].Answer)
				assert.Equal(t, paid, string(s.Got[id][0].Answer.Body))
			}
		}
		_, err = next.Resume(t.Context())
		require.NoError(t, err)
		next.Crash()
		_, err = start(t, l, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}}).Resume(t.Context())
		require.NoError(t, err)
		for id, got := range s.Got {
			assert.Len(t, got, 1, "%s is settled for good", id)
		}
	})
}

// A failing Outcomes.Handle delays no other outcome, and gets its own again.
func TestHandleFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"an error": func() error { return errors.New("the ledger is down") },
		"a panic":  func() error { panic("a nil ledger") },
	} {
		virtual(t, name, func(t *testing.T) {
			l := &line{}
			s := &settler{Fails: map[string]func() error{"poison": fail}}
			dead := start(t, l, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle}})
			dead.Leaves(named(t, "poison"))
			for i := range 20 {
				dead.Leaves(named(t, fmt.Sprint("invoice-", i)))
			}
			dead.Crash()
			next := start(t, l, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}, Concurrency: 1, Keep: time.Minute})
			report, err := next.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 20, report.Settled)
			assert.Equal(t, 1, report.Unsettled)

			running, stop := context.WithCancel(seam.Seldom(t.Context(), time.Minute))
			done := make(chan error, 1)
			go func() { done <- next.Run(running) }()
			pass(12 * time.Hour)
			s.Mu.Lock()
			calls := s.At["poison"]
			delete(s.Fails, "poison")
			s.Mu.Unlock()
			require.Greater(t, len(calls), 20)
			for i := 1; i < len(calls); i++ {
				assert.LessOrEqual(t, calls[i].Sub(calls[i-1]), 11*time.Minute)
			}
			assert.Less(t, len(calls), 12*60, "later and later")
			assert.False(t, next.Recorded(onceward.Ref{ID: "poison"}).Tombstone, "it is never reaped")
			pass(time.Hour)
			stop()
			<-done
			assert.True(t, next.Recorded(onceward.Ref{ID: "poison"}).Delivered)
			for id, got := range s.Got {
				if id != "poison" {
					assert.Len(t, got, 1, id)
				}
			}
		})
	}
}

// An Outcomes.Handle that ends its goroutine, as t.FailNow does, has not accepted the outcome.
func TestHandleEndsItsGoroutine(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var calls atomic.Int32
		p := start(t, (&line{}).Then(refuses()), onceward.Config{Backoff: once, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error {
			if calls.Add(1) == 1 {
				runtime.Goexit()
			}
			return nil
		}}})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.EqualValues(t, 2, calls.Load())
		assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
	})
}

// An outcome whose Outcomes.Handle failed goes to the next process.
func TestHandleFailsAndItsProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		s := &settler{Fails: map[string]func() error{"invoice-1/charge": func() error { return errors.New("no") }}}
		first := start(t, l, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		first.Leaves(named(t, "invoice-1/charge"))
		first.Crash()
		second := start(t, l, onceward.Config{Journal: first.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		_, err := second.Resume(t.Context())
		require.NoError(t, err)
		require.NoError(t, second.Shutdown(t.Context()))
		clear(s.Fails)
		_, err = start(t, l, onceward.Config{Journal: first.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}}).Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, s.Got["invoice-1/charge"], 2)
	})
}

func TestHeardDeliversEveryNamedOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), frozen, wrongKey)
		s := &settler{}
		p := start(t, l, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle, Heard: true}})
		done := make(chan error, 1)
		go func() { done <- p.Run(context.Background()) }()
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		require.ErrorIs(t, p.Ask(named(t, "invoice-2/charge")).Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, p.Ask(named(t, "invoice-3/charge")).Err)
		unnamed := p.Ask(t.Context())
		require.NoError(t, unnamed.Err)
		pass(10 * time.Second)
		for id, state := range map[string]onceward.State{
			"invoice-1/charge": onceward.StateCompleted, "invoice-2/charge": onceward.StateUnknown, "invoice-3/charge": onceward.StateCancelled,
		} {
			require.Len(t, s.Got[id], 1, state)
			assert.Equal(t, state, s.Got[id][0].State)
		}
		assert.NotContains(t, s.Got, unnamed.Op.ID)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

// With Heard, Outcomes.Handle gets a replayed outcome once.
func TestHeardDeliversAReplayOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settler{}
		p := start(t, &line{}, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle, Heard: true}})
		for range 3 {
			require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
		}
		assert.Len(t, s.Got["invoice-1/charge"], 1)
	})
}

// A caller who asks again by name counts as the delivery.
func TestRepeatedCallTakesTheDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := &line{}, &settler{}
		dead := start(t, l, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		dead.Leaves(named(t, "invoice-1/charge"))
		dead.Crash()
		next := start(t, l, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		require.NoError(t, next.Ask(named(t, "invoice-1/charge")).Err)
		_, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Empty(t, s.Got)
		assert.True(t, next.Recorded(onceward.Ref{ID: "invoice-1/charge"}).Delivered)
	})
}

// A flow got an answer before it was given up. The late delivery does not undo the flow once more. The journal does not know
// that the flow had the answer, so Outcomes.Handle gets it.
func TestLateDeliveryOpensNoFlow(t *testing.T) {
	for _, all := range []bool{false, true} {
		virtual(t, fmt.Sprint("Heard: ", all), func(t *testing.T) {
			var logged bytes.Buffer
			l, s, undone := &line{}, &settler{}, 0
			dead := startFlows(t, l, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle, Heard: all}})
			require.ErrorIs(t, dead.Flow(t.Context(), "order-1", nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
					dead.Leaves(ctx)
					return "charged", nil
				}, flow.WithUndo(func(context.Context, string) error { undone++; return nil }))
				require.NoError(t, err)
				return flow.GiveUp(errors.New("sold out"))
			}), flow.ErrGivenUp)
			dead.Crash()
			next := startFlows(t, l, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle, Heard: all}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			left := next.Everything()
			require.Len(t, left, 1)
			require.False(t, left[0].Delivered)
			_, err := next.Resume(t.Context())
			require.NoError(t, err)
			assert.True(t, next.Recorded(left[0].Ref).Delivered)
			assert.Equal(t, 1, undone)
			assert.NotContains(t, logged.String(), "undone once more")
			f, err := next.Flows.Flow(t.Context(), onceward.Ref{ID: "order-1"})
			require.NoError(t, err)
			assert.Equal(t, flow.StateGivenUp, f.State)
			assert.Len(t, s.Got["charge"], 1)
		})
	}
}

// Without Outcomes.Handle no outcome waits to be delivered.
func TestNothingWaitsWithoutHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, (&line{}).Then(says(200, paid), frozen, wrongKey), onceward.Config{})
		for i := range 3 {
			p.Ask(named(t, fmt.Sprint("invoice-", i)))
		}
		for _, op := range p.Everything() {
			assert.True(t, op.Delivered, op.State)
			assert.NotEqual(t, journal.StateInFlight, op.State)
		}
	})
}

// An outcome that changes while it waits is delivered in its latest state.
func TestOutcomeThatChangesWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		s := &settler{Fails: map[string]func() error{"order-1": func() error { return errors.New("no") }}}
		dead := start(t, l, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "order-1"), to("POST", "https://elsewhere.example/")) })
		p := start(t, l, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, report.Unsettled)
		_, err = p.ResolveAs(onceward.Ref{ID: "order-1"}, onceward.Executed, &onceward.Answer{Status: 200})
		require.NoError(t, err)
		clear(s.Fails)
		pass(time.Hour)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		got := s.Got["order-1"]
		assert.Equal(t, onceward.StateCompleted, got[len(got)-1].State)
		require.NoError(t, p.Shutdown(t.Context())) // a delivery's note rides on another commit
		assert.True(t, p.Recorded(onceward.Ref{ID: "order-1"}).Delivered)
	})
}

// One failing outcome among hundreds delays none of them.
func TestFailingDeliveryDelaysNoOther(t *testing.T) {
	t.Parallel()
	virtual(t, "and two processes offer each once", func(t *testing.T) {
		const many = 500 // more than a pass claims at once
		l := &line{}
		j := memory.New()
		s := &settler{Fails: map[string]func() error{
			"order-7":  func() error { return errors.New("poison") },
			"order-11": func() error { panic("poison") },
		}}
		dead := start(t, l, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		for i := range many {
			dead.Leaves(named(t, fmt.Sprint("order-", i)))
		}
		dead.Crash()
		var claimed [2]onceward.Report
		done := make(chan error, 2)
		ps := []*process{start(t, l, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}}), start(t, l, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})}
		began := time.Now()
		for i, p := range ps {
			go func() {
				var err error
				claimed[i], err = p.Resume(context.Background())
				done <- err
			}()
		}
		require.NoError(t, errors.Join(<-done, <-done))
		assert.Zero(t, time.Since(began), "nobody waited for the poison")
		assert.Equal(t, many-2, claimed[0].Settled+claimed[1].Settled)
		assert.Equal(t, 2, claimed[0].Unsettled+claimed[1].Unsettled)
		for i := range many {
			id := fmt.Sprint("order-", i)
			require.Len(t, s.Got[id], 1, id)
			delivered := s.Fails[id] == nil
			require.Equal(t, delivered, ps[0].Recorded(onceward.Ref{ID: id}).Delivered, id)
		}
	})
}

func TestEachOutcomeOfAnOperationIsDelivered(t *testing.T) {
	each(t, "the second one of the same process too", func(t *testing.T, j machine.Store) {
		l := &line{}
		s := &settler{}
		dead := start(t, l, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "order-1"), to("POST", "https://elsewhere.example/")) })
		p := start(t, l, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		_, err = p.ResolveAs(onceward.Ref{ID: "order-1"}, onceward.Executed, &onceward.Answer{Status: 200})
		require.NoError(t, err)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		var states []onceward.State
		for _, op := range s.Got["order-1"] {
			states = append(states, op.State)
		}
		assert.Equal(t, []onceward.State{onceward.StateUnknown, onceward.StateCompleted}, states)
	})
}

// An operation gets a new outcome while Outcomes.Handle handles the earlier one. Outcomes.Handle gets the new one next,
// and once.
func TestOutcomeThatChangesWhileItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		var p *process
		var states []onceward.State
		taken := make(chan struct{})
		takes := func(_ context.Context, op onceward.Operation) error {
			states = append(states, op.State)
			if op.State == onceward.StateUnknown {
				_, err := p.ResolveAs(op.Ref, onceward.Executed, &onceward.Answer{Status: 200})
				require.NoError(t, err)
				pass(61 * time.Second) // Run has come by, and does not just now
				close(taken)
			}
			return nil
		}
		dead := start(t, l, onceward.Config{Outcomes: &onceward.Outcomes{Handle: takes}})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "order-1"), to("POST", "https://elsewhere.example/")) })
		p = start(t, l, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: takes}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		<-taken
		pass(10 * time.Millisecond)
		assert.Equal(t, []onceward.State{onceward.StateUnknown, onceward.StateCompleted}, states)
		pass(time.Hour)
		assert.Len(t, states, 2)
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// With Heard, Outcomes.Handle gets a call's outcome at once, and not in the next pass.
func TestHeardDeliversAtOnce(t *testing.T) {
	for name, answer := range map[string]reply{"an answer": says(200, paid), "an unknown outcome": frozen, "a refusal": wrongKey} {
		virtual(t, name, func(t *testing.T) {
			s := &settler{}
			p := start(t, (&line{}).Then(answer), onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle, Heard: true}})
			done := make(chan error, 1)
			go func() { done <- p.Run(context.Background()) }()
			pass(time.Second)
			_ = p.Ask(named(t, invoice))
			pass(20 * time.Millisecond)
			s.Mu.Lock()
			assert.Len(t, s.Got[invoice], 1)
			s.Mu.Unlock()
			require.NoError(t, p.Shutdown(t.Context()))
			require.NoError(t, <-done)
		})
	}
}

// An outcome that is delivered meanwhile is not delivered again.
func TestOutcomeIsDeliveredOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settler{Fails: map[string]func() error{invoice: func() error { return errors.New("no") }}}
		dead := start(t, &line{}, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		dead.Leaves(named(t, invoice))
		dead.Crash()
		p := start(t, &line{}, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, report.Unsettled)
		require.NoError(t, p.Ask(named(t, invoice)).Err, "its caller gets it")
		pass(time.Hour)
		report, err = p.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, s.Got[invoice], 1)
		assert.Zero(t, report.Settled, "Outcomes.Handle took nothing")
		assert.Zero(t, p.Stats().Offers)
	})
}

// An outcome that Outcomes.Handle refused is delivered again, even if the journal can't read the operation then.
func TestDeliveryDespiteAnUnreadableJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		s := &settler{Fails: map[string]func() error{invoice: func() error { return errors.New("no") }}}
		dead := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		dead.Leaves(named(t, invoice))
		dead.Crash()
		p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, report.Unsettled)
		clear(s.Fails)
		j.Unread = invoice
		pass(time.Hour)
		report, err = p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Settled)
		assert.Len(t, s.Got[invoice], 2)
		j.Unread = ""
		require.NoError(t, p.Shutdown(t.Context()))
		assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
	})
}

func TestFailedDeliveryIsRetriedAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settler{Fails: map[string]func() error{invoice: func() error { return errors.New("no") }}}
		dead := start(t, &line{}, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		dead.Leaves(named(t, invoice))
		dead.Crash()
		p := start(t, &line{}, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		at := s.At[invoice]
		require.Greater(t, len(at), 10)
		for i := 8; i < len(at); i++ {
			assert.NotZero(t, at[i].Sub(at[0])%(5*time.Second), "it is not the next pass that makes it")
		}
	})
}

func TestADeliveryThatIsNotNotedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		j := &failing{Store: memory.New()}
		j.Fails(false, machine.EventDeliver)
		s := &settler{}
		p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, p.Ask(named(t, "order-1")).Err)
		assert.Contains(t, logged.String(), errDiskFull.Error())
		logged.Reset()
		j.Fails(false)
		require.NoError(t, p.Ask(named(t, "order-2")).Err)
		assert.Empty(t, logged.String())
	})
}

// A process without hooks records a delivery later if the journal fails at first.
func TestADeliveryThatFailsIsNotedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failing{Store: memory.New()}
		p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return nil }}})
		j.Fails(false, machine.EventDeliver)
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		p.Crash()

		next := start(t, &line{}, onceward.Config{Journal: j})
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Settled+report.Unsettled, "there is nobody who settles it")
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		time.AfterFunc(time.Minute, func() { j.Fails(false) })
		require.ErrorIs(t, next.Run(ctx), context.DeadlineExceeded)
		assert.True(t, next.Recorded(onceward.Ref{ID: "invoice-1/charge"}).Delivered)
		assert.Zero(t, next.Stats().Offers)
	})
}

// With OnUnknown alone no hook gets a completed operation, and it counts as delivered.
func TestOnUnknownAloneTakesNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := start(t, &line{}, onceward.Config{Outcomes: &onceward.Outcomes{Handle: (&settler{}).Settle}})
		dead.Leaves(named(t, invoice))
		dead.Crash()
		next := start(t, &line{}, onceward.Config{Journal: dead.Journal.Store, Reconcile: &onceward.Reconcile{
			OnUnknown: func(context.Context, onceward.Operation, onceward.Looked) error { return nil },
		}})
		require.False(t, next.Recorded(onceward.Ref{ID: invoice}).Delivered)
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Settled+report.Unsettled)
		assert.True(t, next.Recorded(onceward.Ref{ID: invoice}).Delivered)
	})
}

// Outcomes.Handle gets a flow's unknown operation, even before the flow ends.
func TestHandleGetsTheUnknownOfAFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := &line{}, &settler{}
		dead := startFlows(t, l, onceward.Config{Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		leavesInFlight(t, dead, l, func() {
			_ = dead.Flow(t.Context(), "order-1", nil, func(ctx context.Context) error { return dead.Step(ctx, "charge") })
		})
		l.Always(frozen)
		next := startFlows(t, l, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Unknown)
		assert.Equal(t, 1, report.Settled)
		require.Len(t, s.Got, 1)
		for _, got := range s.Got {
			assert.Equal(t, onceward.StateUnknown, got[0].State)
		}
	})
}

// A delivery that is over does not wake Run again, even if a caller asks meanwhile.
func TestTakenDeliveryDoesNotWakeRun(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &claimed{Journal: memory.New()}
		var taken int
		p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Heard: true, Handle: func(context.Context, onceward.Operation) error {
			taken++
			<-time.After(time.Second)
			return nil
		}}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		pass(time.Second / 4)
		claims := func() int { return len(j.of("stripe")) }
		before := claims()
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		pass(2 * time.Second)
		assert.Equal(t, 1, taken)
		assert.Equal(t, 1, claims()-before, "to offer it")
		before = claims()
		require.NoError(t, p.Ask(named(t, "other")).Err)
		pass(time.Second / 2)
		require.NoError(t, p.Ask(named(t, "other")).Err) // which is there, and is offered once more
		pass(time.Minute)
		assert.LessOrEqual(t, claims()-before, 12+3)
		stop()
		<-done
	})
}

// OnUnknown got an operation that nothing looks up any more. It gets it again after another request, even if
// Outcomes.Handle still refuses the same outcome of the last one.
func TestOnUnknownGetsAnotherRequest(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var told []onceward.Operation
		l := atBank(t, onceward.Config{
			Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return errors.New("no") }},
			Reconcile: &onceward.Reconcile{OnUnknown: func(_ context.Context, op onceward.Operation, _ onceward.Looked) error {
				told = append(told, op)
				return nil
			}},
		}, unlooked)
		l.Loses("invoice-1", providertest.DropBefore())
		l.Runs(time.Hour)
		require.Len(t, told, 1)
		_, err := l.Resolve(t.Context(), l.Stands("invoice-1").Seen, onceward.NotExecuted, onceward.ResolveOptions{By: "ann", Why: "not there"})
		require.NoError(t, err)
		l.Loses("invoice-1", providertest.DropBefore())
		_, err = l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		require.Equal(t, told[0].Attention, l.Stands("invoice-1").Attention)
		l.Runs(time.Hour)
		require.Len(t, told, 2)
		assert.Equal(t, told[0].Generation+1, told[1].Generation)
	})
}
