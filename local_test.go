package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// What is refused on this side of the wire: by the retry budget, or by a transport
// below.

func TestAnExhaustedRetryBudgetParksAndSaysThatItWasLocal(t *testing.T) {
	virtual(t, "and a success, or time, gives retries back", func(t *testing.T) {
		l := (&line{}).always(loses())
		p := start(t, l, onceward.Config{
			RetryBudget: backoff.Budget{Capacity: 3, Refill: 0.001, PerSuccess: 1, ProbeEvery: 24 * time.Hour},
			Providers:   []providers.Provider{own(), providers.Stripe()},
		})
		first := p.ask(named(t, "a"), to("POST", ownURL))
		require.ErrorIs(t, first.err, onceward.ErrPending)
		require.ErrorIs(t, first.err, onceward.ErrRetryBudget)
		assert.Contains(t, first.op.Cause, "retry budget")
		assert.Len(t, l.sent(), 4, "one attempt and three retries")
		assert.True(t, first.op.DueAt.After(time.Now()))

		second := p.ask(named(t, "b"), to("POST", ownURL))
		require.ErrorIs(t, second.err, onceward.ErrRetryBudget)
		assert.Len(t, l.sent(), 5, "a first attempt is free, and what others used up is gone")

		third := p.ask(named(t, "c"))
		require.ErrorIs(t, third.err, onceward.ErrPending)
		assert.Len(t, l.sent(), 9, "another provider has a budget of its own")

		l.then(says(200, paid))
		require.NoError(t, p.ask(named(t, "d"), to("POST", ownURL)).err)
		require.ErrorIs(t, p.ask(named(t, "e"), to("POST", ownURL)).err, onceward.ErrRetryBudget)
		assert.Len(t, l.sent(), 12, "the success gave one back")
	})
	virtual(t, "one probe is let through", func(t *testing.T) {
		l := (&line{}).always(loses())
		p := start(t, l, onceward.Config{RetryBudget: backoff.Budget{Capacity: 1, Refill: 1e-9, PerSuccess: 1e-9, ProbeEvery: time.Minute}})
		require.ErrorIs(t, p.ask(named(t, "a")).err, onceward.ErrRetryBudget)
		assert.Len(t, l.sent(), 2)
		pass(2 * time.Minute)
		require.ErrorIs(t, p.ask(named(t, "b")).err, onceward.ErrRetryBudget)
		assert.Len(t, l.sent(), 4, "its first attempt and the probe")
	})
	virtual(t, "a response in hand is in the error", func(t *testing.T) {
		l := (&line{}).always(unavailable)
		p := start(t, l, onceward.Config{RetryBudget: backoff.Budget{Capacity: 1, Refill: 1e-9, ProbeEvery: time.Hour}})
		out := p.ask(named(t, "a"))
		require.ErrorIs(t, out.err, onceward.ErrRetryBudget)
		assert.Equal(t, 503, out.status)
		assert.Equal(t, onceward.Pending, out.op.State)
		assert.Contains(t, out.op.Cause, "retry budget")
	})
}

// refusing is a transport that refuses by itself, after it has used the one below
// for the given number of tries.
type refusing struct {
	*line
	tries int
	mark  func(error) error
}

var errOpen = errors.New("the circuit is open")

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	for range r.tries {
		if resp, err := r.line.RoundTrip(req); err == nil {
			return resp, nil
		}
	}
	return nil, r.mark(errOpen)
}

func TestOnlyATransportThatRefusedByItselfProvesThatNothingWasSent(t *testing.T) {
	keyless := own()
	keyless.Endpoints = []providers.Endpoint{{Pattern: "POST /"}}
	plain := func(err error) error { return err }
	wrapped := func(err error) error { return fmt.Errorf("breaker: %w", onceward.NotSent(err)) }
	for _, row := range []struct {
		name  string
		tries int
		mark  func(error) error
		want  onceward.State
	}{
		{"marked, nothing tried before", 0, onceward.NotSent, onceward.Pending},
		{"marked and wrapped", 0, wrapped, onceward.Pending},
		{"not marked", 0, plain, onceward.Unknown},
		{"marked, but a try of its own was sent", 1, onceward.NotSent, onceward.Unknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).always(loses())
			p := start(t, refusing{l, row.tries, row.mark}, onceward.Config{Providers: []providers.Provider{keyless}})
			out := p.ask(named(t, "a"), to("POST", ownURL))
			require.ErrorIs(t, out.err, errOpen)
			assert.Equal(t, row.want, out.op.State)
			assert.LessOrEqual(t, len(l.sent()), 1, "never sent again on a hunch")
		})
	}
	virtual(t, "marked, behind a redirect that was followed", func(t *testing.T) {
		hops := 0
		p := start(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			if hops++; hops == 1 {
				return says(307, "", "Location", "/elsewhere").answer(req)
			}
			return nil, onceward.NotSent(errOpen)
		}), onceward.Config{Providers: []providers.Provider{keyless}})
		out := p.ask(named(t, "a"), to("POST", ownURL))
		require.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, 2, hops)
	})
	assert.NoError(t, onceward.NotSent(nil))
}

func TestAPanicInTheBackgroundParksAndSparesTheProgram(t *testing.T) {
	virtual(t, "Authorize", func(t *testing.T) {
		l := &line{}
		j := memory.New()
		dead := start(t, l, onceward.Config{Journal: j})
		leavesInFlight(t, dead, l, func() { dead.ask(named(t, "a")) })
		var broken atomic.Bool
		broken.Store(true)
		p := start(t, l, onceward.Config{Journal: j, Authorize: func(*http.Request) error {
			if broken.Load() {
				panic("a bug")
			}
			return nil
		}})
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.Pending, p.recorded(onceward.Ref{ID: "a"}).State)
		broken.Store(false)
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
	})
}

func TestAPoisonOutcomeAmongThousandsDelaysNone(t *testing.T) {
	virtual(t, "and two processes offer each once", func(t *testing.T) {
		const many = 2000
		l := &line{}
		j := memory.New()
		s := &settler{fails: map[string]func() error{
			"order-7":  func() error { return errors.New("poison") },
			"order-11": func() error { panic("poison") },
		}}
		dead := start(t, l, onceward.Config{Journal: j, OnSettled: s.settle})
		for i := range many {
			dead.leaves(named(t, fmt.Sprint("order-", i)))
		}
		dead.crash()
		var claimed [2]onceward.Report
		done := make(chan error, 2)
		ps := []*process{start(t, l, onceward.Config{Journal: j, OnSettled: s.settle}), start(t, l, onceward.Config{Journal: j, OnSettled: s.settle})}
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
			require.Len(t, s.got[id], 1, id)
			delivered := s.fails[id] == nil
			require.Equal(t, delivered, ps[0].recorded(onceward.Ref{ID: id}).Delivered, id)
		}
	})
}

func TestASessionThatHasSeenItsOwnLossSendsNothingMore(t *testing.T) {
	virtual(t, "though nobody has taken its operation over yet", func(t *testing.T) {
		l, j := &line{}, memory.New()
		p := start(t, l, onceward.Config{Journal: j})
		l.then(doing(func() { j.Kill(p.journal.Sessions()[0].ID()) }, loses()))
		out := p.ask(named(t, "a"))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		assert.Len(t, l.sent(), 1)
	})
}
