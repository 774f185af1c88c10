package onceward_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// hosts is a transport that takes note of the host that each request asks for.
type hosts struct {
	http.RoundTripper
	mu  sync.Mutex
	got []string
}

func (h *hosts) RoundTrip(req *http.Request) (*http.Response, error) {
	h.mu.Lock()
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	h.got = append(h.got, host)
	h.mu.Unlock()
	return h.RoundTripper.RoundTrip(req)
}

func onHost(host string) option { return func(r *http.Request) { r.Host = host } }

// The charge would go to another virtual host.
func TestAHostOfOnesOwnIsAskedForByEveryAttempt(t *testing.T) {
	each(t, "those after a restart too", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses(), loses())
		h := &hosts{RoundTripper: l}
		p := start(t, h, onceward.Config{Journal: j, Backoff: backoff.Policy{MaxAttempts: 2}})
		require.ErrorIs(t, p.ask(named(t, "order-1"), onHost("eu.example")).err, onceward.ErrPending)
		p.crash()
		pass(time.Hour)
		report, err := start(t, h, onceward.Config{Journal: j}).Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		assert.Equal(t, []string{"eu.example", "eu.example", "eu.example"}, h.got)
	})
	virtual(t, "and is part of what the name is of", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		require.NoError(t, p.ask(named(t, "order-1"), onHost("eu.example")).err)
		require.NoError(t, p.ask(named(t, "order-1"), onHost("EU.example:443")).err)
		for _, other := range []string{"us.example", "api.stripe.com"} {
			out := p.ask(named(t, "order-1"), onHost(other))
			require.ErrorIs(t, out.err, onceward.ErrKeyReused)
			var e *onceward.Error
			require.ErrorAs(t, out.err, &e)
			assert.Equal(t, []string{"URL"}, e.Differs)
		}
		assert.Len(t, l.sent(), 1)
	})
}

func TestAnOperationIsRedirectedInItsOriginSixTimesAtMost(t *testing.T) {
	virtual(t, "however long the provider goes on", func(t *testing.T) {
		l := &line{}
		for range 50 {
			l.then(says(308, "", "Location", "/v1/charges"))
		}
		p := start(t, l, onceward.Config{Backoff: once})
		p.ask(named(t, "order-1"))
		assert.Len(t, l.sent(), 6)
	})
}

func TestEachOutcomeOfAnOperationIsDelivered(t *testing.T) {
	each(t, "the second one of the same process too", func(t *testing.T, j journal.Journal) {
		l := &line{}
		s := &settler{}
		dead := start(t, l, onceward.Config{Journal: j, OnSettled: s.settle})
		leavesInFlight(t, dead, l, func() { dead.ask(named(t, "order-1"), to("POST", "https://elsewhere.example/")) })
		p := start(t, l, onceward.Config{Journal: j, OnSettled: s.settle})
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		_, err = p.resolve(onceward.Ref{ID: "order-1"}, onceward.Executed, &onceward.Answer{Status: 200})
		require.NoError(t, err)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		var states []onceward.State
		for _, op := range s.got["order-1"] {
			states = append(states, op.State)
		}
		assert.Equal(t, []onceward.State{onceward.Unknown, onceward.Completed}, states)
	})
}

func TestAFlowIsUndoneThoughItsOperationsWereReaped(t *testing.T) {
	each(t, "by their records", func(t *testing.T, j journal.Journal) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Journal: j, FlowBackoff: backoff.Policy{MaxAttempts: 1}})
		failing := func(ctx context.Context) error { return errors.Join(p.undoable(ctx, "create"), errSoldOut) }
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, failing), onceward.ErrFlowSetAside)
		pass(400 * 24 * time.Hour)
		reaped := 0
		for range 2 { // the first one is by a clock that has jumped
			n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now(), Keep: 90 * 24 * time.Hour}, 10)
			require.NoError(t, err)
			reaped += n
			pass(time.Hour)
		}
		require.Equal(t, 1, reaped)
		_, err := p.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "too late")
		require.NoError(t, err)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, failing), onceward.ErrFlowGivenUp)
		assert.Equal(t, []string{"create", "undo-create-ch_1"}, l.descriptions())
	})
}

func TestUnnamedCallsOfAStepThatRunAtOnceAreNotOne(t *testing.T) {
	virtual(t, "the second is refused", func(t *testing.T) {
		l := (&line{}).always(takes(time.Second, says(200, paid)))
		p := startFlows(t, l, onceward.Config{})
		var first, second error
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
				var wg sync.WaitGroup
				wg.Go(func() { _, first = p.post(ctx, "charge") })
				synctest.Wait()
				_, second = p.post(ctx, "charge")
				wg.Wait()
				return charge{}, nil
			})
			return err
		})
		require.NoError(t, err)
		require.NoError(t, first)
		require.ErrorIs(t, second, onceward.ErrNameNeeded)
		assert.ErrorContains(t, second, "at the same time")
		assert.Len(t, l.sent(), 1)
	})
}

// unwilling is a journal that refuses parks, once they reach it.
type unwilling struct {
	*failing
	with    error
	refused atomic.Int32
}

func (j *unwilling) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	res, err := j.failing.Apply(ctx, ev)
	if err == nil && ev.Kind == journal.EventPark {
		j.refused.Add(1)
		return journal.Result{}, j.with
	}
	return res, err
}

func TestAnEventThatTheJournalRefusesIsNotKeptForEver(t *testing.T) {
	for name, with := range map[string]error{
		"it is invalid":              &journal.EventError{Kind: journal.EventPark, Reason: "the claim is gone"},
		"its operation is not there": journal.ErrNotFound,
	} {
		virtual(t, name, func(t *testing.T) {
			j := &unwilling{failing: &failing{Journal: memory.New()}, with: with}
			p := start(t, (&line{}).then(loses()), onceward.Config{Journal: j, Backoff: once})
			j.fails(false, journal.EventPark)
			require.ErrorIs(t, p.ask(named(t, "order-1")).err, onceward.ErrPending)
			j.fails(false)
			pass(time.Hour)
			assert.EqualValues(t, 1, j.refused.Load(), "it is tried once more, and is not a better one")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, p.Shutdown(ctx))
		})
	}
}

func TestACallLeavesNothingBehind(t *testing.T) {
	p := start(t, &line{}, onceward.Config{Providers: []providers.Provider{providers.Stripe(), own()}})
	const calls = 20
	freed := make(chan struct{}, calls)
	for range calls {
		func() {
			type weight [1 << 10]byte
			w := &weight{}
			runtime.AddCleanup(w, func(freed chan struct{}) { freed <- struct{}{} }, freed)
			ctx := context.WithValue(t.Context(), w, w)
			require.NoError(t, p.ask(ctx).err)
		}()
	}
	free := 0
	for again := 0; free < calls-1 && again < 100; { // a register may hold the last one
		runtime.GC()
		select {
		case <-freed:
			free++
		case <-time.After(10 * time.Millisecond): // cleanups run when they like
			again++
		}
	}
	assert.GreaterOrEqual(t, free, calls-1, "what calls were made with is held")
}
