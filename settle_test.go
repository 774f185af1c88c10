package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

// settler is an OnSettled that remembers what it got, and fails on some of it.
type settler struct {
	mu    sync.Mutex
	got   map[string][]onceward.Operation
	at    map[string][]time.Time
	fails map[string]func() error
}

func (s *settler) settle(_ context.Context, op onceward.Operation) error {
	s.mu.Lock()
	if s.got == nil {
		s.got, s.at = map[string][]onceward.Operation{}, map[string][]time.Time{}
	}
	s.got[op.ID], s.at[op.ID] = append(s.got[op.ID], op), append(s.at[op.ID], time.Now())
	fail := s.fails[op.ID]
	s.mu.Unlock()
	if fail != nil {
		return fail()
	}
	return nil
}

// leaves makes a call whose response's body is never closed.
func (p *process) leaves(ctx context.Context) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chargeURL, strings.NewReader(chargeForm))
	require.NoError(p.t, err)
	req.Header.Set("Content-Type", form)
	_, err = p.http.Do(req) //nolint:bodyclose // that is the point
	require.NoError(p.t, err)
}

func TestOnSettledGetsTheOutcomesThatReachedNobody(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(frozen, wrongKey)
		s := &settler{}
		dead := start(t, l, onceward.Config{Journal: j, OnSettled: s.settle})
		require.Equal(t, 500, dead.ask(named(t, "unknown, handed over")).status)
		require.Equal(t, 401, dead.ask(named(t, "cancelled, handed over")).status)
		require.NoError(t, dead.ask(named(t, "read and closed")).err)
		dead.leaves(named(t, "never closed"))
		leavesInFlight(t, dead, l,
			func() { dead.ask(named(t, "in flight")) },
			func() { dead.ask(named(t, "in flight, nothing promised"), to("POST", "https://elsewhere.example/")) },
		)
		assert.Empty(t, s.got)

		next := start(t, l, onceward.Config{Journal: dead.journal.Journal, OnSettled: s.settle})
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, report.Claimed)
		assert.Equal(t, 3, report.Settled)
		require.Len(t, s.got, 3)
		for id, state := range map[string]onceward.State{
			"never closed": onceward.Completed, "in flight": onceward.Completed, "in flight, nothing promised": onceward.Unknown,
		} {
			require.Len(t, s.got[id], 1, id)
			assert.Equal(t, state, s.got[id][0].State)
			if state == onceward.Completed {
				require.NotNil(t, s.got[id][0].Answer)
				assert.Equal(t, paid, string(s.got[id][0].Answer.Body))
			}
		}
		_, err = next.Resume(t.Context())
		require.NoError(t, err)
		next.crash()
		_, err = start(t, l, onceward.Config{Journal: dead.journal.Journal, OnSettled: s.settle}).Resume(t.Context())
		require.NoError(t, err)
		for id, got := range s.got {
			assert.Len(t, got, 1, "%s is settled for good", id)
		}
	})
}

func TestAFailingOnSettledDelaysNobodyAndGetsItAgain(t *testing.T) {
	for name, fail := range map[string]func() error{
		"an error": func() error { return errors.New("the ledger is down") },
		"a panic":  func() error { panic("a nil ledger") },
	} {
		virtual(t, name, func(t *testing.T) {
			l := &line{}
			s := &settler{fails: map[string]func() error{"poison": fail}}
			dead := start(t, l, onceward.Config{OnSettled: s.settle})
			dead.leaves(named(t, "poison"))
			for i := range 20 {
				dead.leaves(named(t, fmt.Sprint("invoice-", i)))
			}
			dead.crash()
			next := start(t, l, onceward.Config{Journal: dead.journal.Journal, OnSettled: s.settle, Concurrency: 1, Keep: time.Minute})
			report, err := next.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 20, report.Settled)
			assert.Equal(t, 1, report.Unsettled)

			running, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- next.Run(running) }()
			pass(12 * time.Hour)
			s.mu.Lock()
			calls := s.at["poison"]
			delete(s.fails, "poison")
			s.mu.Unlock()
			require.Greater(t, len(calls), 20)
			for i := 1; i < len(calls); i++ {
				assert.LessOrEqual(t, calls[i].Sub(calls[i-1]), 11*time.Minute)
			}
			assert.Less(t, len(calls), 12*60, "later and later")
			assert.False(t, next.recorded(onceward.Ref{ID: "poison"}).Tombstone, "it is never reaped")
			pass(time.Hour)
			stop()
			<-done
			assert.True(t, next.recorded(onceward.Ref{ID: "poison"}).Delivered)
			for id, got := range s.got {
				if id != "poison" {
					assert.Len(t, got, 1, id)
				}
			}
		})
	}
}

func TestWhatFailedToBeSettledIsOfferedToTheNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		s := &settler{fails: map[string]func() error{"invoice-1/charge": func() error { return errors.New("no") }}}
		first := start(t, l, onceward.Config{OnSettled: s.settle})
		first.leaves(named(t, "invoice-1/charge"))
		first.crash()
		second := start(t, l, onceward.Config{Journal: first.journal.Journal, OnSettled: s.settle})
		_, err := second.Resume(t.Context())
		require.NoError(t, err)
		require.NoError(t, second.Shutdown(t.Context()))
		clear(s.fails)
		_, err = start(t, l, onceward.Config{Journal: first.journal.Journal, OnSettled: s.settle}).Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, s.got["invoice-1/charge"], 2)
	})
}

func TestSettleAllOffersEveryNamedOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(says(200, paid), frozen, wrongKey)
		s := &settler{}
		p := start(t, l, onceward.Config{OnSettled: s.settle, SettleAll: true})
		done := make(chan error, 1)
		go func() { done <- p.Run(context.Background()) }()
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		require.ErrorIs(t, p.ask(named(t, "invoice-2/charge")).err, onceward.ErrOutcomeUnknown)
		require.NoError(t, p.ask(named(t, "invoice-3/charge")).err)
		unnamed := p.ask(t.Context())
		require.NoError(t, unnamed.err)
		pass(10 * time.Second)
		for id, state := range map[string]onceward.State{
			"invoice-1/charge": onceward.Completed, "invoice-2/charge": onceward.Unknown, "invoice-3/charge": onceward.Cancelled,
		} {
			require.Len(t, s.got[id], 1, state)
			assert.Equal(t, state, s.got[id][0].State)
		}
		assert.NotContains(t, s.got, unnamed.op.ID)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

func TestSettleAllOffersAReplayedOutcomeOnceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settler{}
		p := start(t, &line{}, onceward.Config{OnSettled: s.settle, SettleAll: true})
		for range 3 {
			require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
		}
		assert.Len(t, s.got["invoice-1/charge"], 1)
	})
}

func TestACallerWhoAsksAgainByNameTakesTheDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := &line{}, &settler{}
		dead := start(t, l, onceward.Config{OnSettled: s.settle})
		dead.leaves(named(t, "invoice-1/charge"))
		dead.crash()
		next := start(t, l, onceward.Config{Journal: dead.journal.Journal, OnSettled: s.settle})
		require.NoError(t, next.ask(named(t, "invoice-1/charge")).err)
		_, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Empty(t, s.got)
		assert.True(t, next.recorded(onceward.Ref{ID: "invoice-1/charge"}).Delivered)
	})
}

func TestWithoutOnSettledNothingWaitsToBeDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, (&line{}).then(says(200, paid), frozen, wrongKey), onceward.Config{})
		for i := range 3 {
			p.ask(named(t, fmt.Sprint("invoice-", i)))
		}
		for _, op := range p.everything() {
			assert.True(t, op.Delivered, op.State)
			assert.NotEqual(t, journal.InFlight, op.State)
		}
	})
}

func TestAnOutcomeThatChangesWhileItWaitsIsOfferedAsItStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		s := &settler{fails: map[string]func() error{"order-1": func() error { return errors.New("no") }}}
		dead := start(t, l, onceward.Config{OnSettled: s.settle})
		leavesInFlight(t, dead, l, func() { dead.ask(named(t, "order-1"), to("POST", "https://elsewhere.example/")) })
		p := start(t, l, onceward.Config{Journal: dead.journal.Journal, OnSettled: s.settle})
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, report.Unsettled)
		_, err = p.resolve(onceward.Ref{ID: "order-1"}, onceward.Executed, &onceward.Answer{Status: 200})
		require.NoError(t, err)
		clear(s.fails)
		pass(time.Hour)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		got := s.got["order-1"]
		assert.Equal(t, onceward.Completed, got[len(got)-1].State)
		require.NoError(t, p.Shutdown(t.Context())) // the note of a delivery rides on another commit
		assert.True(t, p.recorded(onceward.Ref{ID: "order-1"}).Delivered)
	})
}
