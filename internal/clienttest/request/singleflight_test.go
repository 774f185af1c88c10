package request_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// Two unnamed calls with the same request that run at once are two operations.
func TestUnnamedCallsShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(takes(time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		for range 2 {
			go p.Ask(t.Context())
		}
		pass(3 * time.Second)
		assert.Len(t, l.Sent(), 2)
		assert.Equal(t, 2, l.Most())
	})
}

// Trace distinguishes a caller that shared the answer of a concurrent call from one that asked later.
func TestSharedOutcomeIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told := map[onceward.CallResult]int{}
		p := start(t, (&line{}).Always(takes(time.Second, says(200, paid))), onceward.Config{Trace: &onceward.Trace{
			Asked: func(_ context.Context, _ onceward.Operation, outcome onceward.CallResult, _ error, _ time.Duration) {
				mu.Lock()
				told[outcome]++
				mu.Unlock()
			},
		}})
		for range 2 {
			go p.Ask(named(t, invoice))
		}
		pass(3 * time.Second)
		p.Ask(named(t, invoice))
		assert.Equal(t, map[onceward.CallResult]int{onceward.CallExecuted: 1, onceward.CallShared: 1, onceward.CallReplayed: 1}, told)
	})
}

// A thousand callers of one name share one request.
func TestThousandCallersShareOneRequest(t *testing.T) {
	t.Parallel()
	eachJournal(t, func(t *testing.T, open func() machine.Store) {
		srv, p := inBox(t, providers.Stripe(), onceward.Config{Journal: open()})
		srv.Script(providertest.DelayAfter(20 * time.Millisecond))
		var callers sync.WaitGroup
		answers := make([]outcome, 1000)
		for i := range answers {
			callers.Go(func() {
				answers[i] = p.Ask(named(t, "invoice-1/charge"), to("POST", srv.URL+"/v1/charges"))
			})
		}
		callers.Wait()
		first := 0
		for _, a := range answers {
			require.NoError(t, a.Err)
			assert.Equal(t, paid, a.Body)
			assert.Equal(t, answers[0].Op.Key, a.Op.Key)
			if !a.Op.Replayed {
				first++
			}
		}
		assert.Equal(t, 1, first)
		assert.Equal(t, 1, srv.Requests())
		assert.Len(t, srv.Effects(), 1)
	})
}

func TestAnotherCallerTakesOverFromTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(hangs())
		p := start(t, l, onceward.Config{})
		ctx, giveUp := context.WithCancel(named(t, "invoice-1/charge"))
		leader := make(chan outcome, 1)
		go func() { leader <- p.Ask(ctx) }()
		synctest.Wait()
		waiters := make(chan outcome, 1)
		for range 10 {
			go func() { waiters <- p.Ask(named(t, "invoice-1/charge")) }()
		}
		synctest.Wait()
		giveUp()
		require.ErrorIs(t, (<-leader).Err, context.Canceled)
		for range 10 {
			out := <-waiters
			require.NoError(t, out.Err)
			assert.Equal(t, paid, out.Body)
		}
		require.Len(t, l.Sent(), 2)
		assert.Equal(t, l.Keys()[0], l.Keys()[1])
	})
}

func TestWaitersGetTheLeadersOutcome(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		reply reply
		kind  error
	}{
		{"not due yet", takes(time.Second, says(429, "", "Retry-After", "7200")), onceward.ErrPending},
		{"unknown", takes(time.Second, frozen), onceward.ErrOutcomeUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.reply)
			p := start(t, l, onceward.Config{})
			go p.Ask(named(t, "invoice-1/charge"))
			synctest.Wait()
			require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge")).Err, row.kind)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// Trace says which call the answer came from.
func TestTraceNamesTheCallThatAnswered(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		told := make(chan onceward.CallResult, 3)
		p := start(t, (&line{}).Then(takes(time.Second, says(200, paid))), onceward.Config{Trace: &onceward.Trace{
			Asked: func(_ context.Context, _ onceward.Operation, outcome onceward.CallResult, _ error, _ time.Duration) {
				told <- outcome
			},
		}})
		for range 2 {
			go p.Ask(named(t, invoice))
		}
		assert.ElementsMatch(t, []onceward.CallResult{onceward.CallExecuted, onceward.CallShared}, []onceward.CallResult{<-told, <-told})
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		assert.Equal(t, onceward.CallReplayed, <-told)
	})
}

// A caller that waited for another call waits for the Retry-After that this call got, too.
func TestWaitersKeepARetryAfter(t *testing.T) {
	panicking := &onceward.Trace{Ended: func(_ context.Context, op onceward.Operation, _ error) {
		if op.State == onceward.StateCancelled {
			panic("a hook's")
		}
	}}
	for _, row := range []struct {
		name  string
		cfg   onceward.Config
		first string        // the first request's body
		ends  time.Duration // when the first call has gone
	}{
		{"of one that goes away", onceward.Config{}, chargeForm, 20 * time.Second},
		{"of one that is out of attempts", onceward.Config{Backoff: once}, chargeForm, 10 * time.Second},
		{"of one that met a panic", onceward.Config{Backoff: once, Trace: panicking}, chargeForm, 10 * time.Second},
		{"of one with another request", onceward.Config{Backoff: once}, "other", 10 * time.Second},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(takes(10*time.Second, says(429, "", "Retry-After", "60")))
			row.cfg.Providers = []providers.Provider{own(noRetention)}
			p := start(t, l, row.cfg)
			asks := func(ctx context.Context, content string) outcome {
				return p.Ask(ctx, to("POST", ownURL), carrying("k-1"), body(content))
			}
			began := time.Now()
			leading, leave := context.WithCancel(t.Context())
			go func() {
				defer func() { _ = recover() }()
				asks(leading, row.first)
			}()
			synctest.Wait()
			waiters := make(chan outcome, 3)
			for range cap(waiters) {
				go func() { waiters <- asks(t.Context(), chargeForm) }()
			}
			go func() {
				pass(20 * time.Second)
				leave()
			}()
			hurried, giveUp := context.WithTimeout(t.Context(), 40*time.Second)
			defer giveUp()
			require.ErrorIs(t, asks(hurried, chargeForm).Err, onceward.ErrNotSent)
			assert.Equal(t, row.ends, time.Since(began), "whose own time is up before that is told at once")
			for range cap(waiters) {
				out := <-waiters
				require.NoError(t, out.Err)
				assert.Equal(t, paid, out.Body)
			}
			require.Len(t, l.Sent(), 2)
			assert.Equal(t, 70*time.Second, l.Sent()[1].At.Sub(began))
		})
	}
}

func TestAWaiterWithAnotherRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(takes(time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		leader := make(chan outcome, 1)
		go func() { leader <- p.Ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge"), body("other")).Err, onceward.ErrKeyReused)
		require.NoError(t, (<-leader).Err)
		assert.Len(t, l.Sent(), 1)
	})
}

func TestAnotherProcesssAnswerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		other := start(t, l, onceward.Config{Journal: p.Journal.Store})
		leader := make(chan outcome, 1)
		go func() { leader <- p.Ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()

		short, cancel := context.WithTimeout(named(t, "invoice-1/charge"), time.Second)
		defer cancel()
		out := other.Ask(short)
		require.ErrorIs(t, out.Err, onceward.ErrInFlight)
		assert.Equal(t, onceward.StateInFlight, out.Op.State)
		require.NoError(t, short.Err(), "told before its deadline")

		out = other.Ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.Err)
		assert.True(t, out.Op.Replayed)
		assert.Equal(t, paid, out.Body)
		require.NoError(t, (<-leader).Err)
		assert.Len(t, l.Sent(), 1)
	})
}

// A waiter behind a refused request gets the whole answer.
func TestWaiterBehindARefusedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(200, paid))
		p := start(t, l, onceward.Config{Journal: slowToBegin{memory.New(), time.Second}})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		refused := make(chan outcome, 1)
		go func() { refused <- p.Ask(named(t, "invoice-1/charge"), body("other")) }()
		synctest.Wait()
		out := p.Ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.Err)
		assert.Equal(t, paid, out.Body)
		require.ErrorIs(t, (<-refused).Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
	})
}
