package onceward_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func TestAThousandCallersOfOneNameShareOneRequest(t *testing.T) {
	eachJournal(t, func(t *testing.T, open func() journal.Journal) {
		srv, p := inBox(t, providers.Stripe(), onceward.Config{Journal: open()})
		srv.Script(providertest.DelayAfter(20 * time.Millisecond))
		var callers sync.WaitGroup
		answers := make([]outcome, 1000)
		for i := range answers {
			callers.Go(func() {
				answers[i] = p.ask(named(t, "invoice-1/charge"), to("POST", srv.URL+"/v1/charges"))
			})
		}
		callers.Wait()
		first := 0
		for _, a := range answers {
			require.NoError(t, a.err)
			assert.Equal(t, paid, a.body)
			assert.Equal(t, answers[0].op.Key, a.op.Key)
			if !a.op.Replayed {
				first++
			}
		}
		assert.Equal(t, 1, first)
		assert.Equal(t, 1, srv.Requests())
		assert.Len(t, srv.Effects(), 1)
	})
}

func TestWhenTheLeaderGivesUpAnotherGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(hangs())
		p := start(t, l, onceward.Config{})
		ctx, giveUp := context.WithCancel(named(t, "invoice-1/charge"))
		leader := make(chan outcome, 1)
		go func() { leader <- p.ask(ctx) }()
		synctest.Wait()
		waiters := make(chan outcome, 1)
		for range 10 {
			go func() { waiters <- p.ask(named(t, "invoice-1/charge")) }()
		}
		synctest.Wait()
		giveUp()
		require.ErrorIs(t, (<-leader).err, context.Canceled)
		for range 10 {
			out := <-waiters
			require.NoError(t, out.err)
			assert.Equal(t, paid, out.body)
		}
		require.Len(t, l.sent(), 2)
		assert.Equal(t, l.keys()[0], l.keys()[1])
	})
}

func TestWaitersAreToldWhatTheLeaderIs(t *testing.T) {
	for _, row := range []struct {
		name  string
		reply reply
		kind  error
	}{
		{"not due yet", takes(time.Second, says(429, "", "Retry-After", "7200")), onceward.ErrPending},
		{"unknown", takes(time.Second, frozen), onceward.ErrOutcomeUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(row.reply)
			p := start(t, l, onceward.Config{})
			go p.ask(named(t, "invoice-1/charge"))
			synctest.Wait()
			require.ErrorIs(t, p.ask(named(t, "invoice-1/charge")).err, row.kind)
			assert.Len(t, l.sent(), 1)
		})
	}
}

func TestAWaiterWithAnotherRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(takes(time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		leader := make(chan outcome, 1)
		go func() { leader <- p.ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		require.ErrorIs(t, p.ask(named(t, "invoice-1/charge"), body("other")).err, onceward.ErrKeyReused)
		require.NoError(t, (<-leader).err)
		assert.Len(t, l.sent(), 1)
	})
}

func TestAnotherProcesssAnswerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		other := start(t, l, onceward.Config{Journal: p.journal.Journal})
		leader := make(chan outcome, 1)
		go func() { leader <- p.ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()

		short, cancel := context.WithTimeout(named(t, "invoice-1/charge"), time.Second)
		defer cancel()
		out := other.ask(short)
		require.ErrorIs(t, out.err, onceward.ErrInFlight)
		assert.Equal(t, onceward.InFlight, out.op.State)
		require.NoError(t, short.Err(), "told before its deadline")

		out = other.ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.err)
		assert.True(t, out.op.Replayed)
		assert.Equal(t, paid, out.body)
		require.NoError(t, (<-leader).err)
		assert.Len(t, l.sent(), 1)
	})
}

func TestAWaiterBehindARefusedRequestGetsTheWholeAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(says(200, paid))
		p := start(t, l, onceward.Config{Journal: slowToBegin{memory.New(), time.Second}})
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		refused := make(chan outcome, 1)
		go func() { refused <- p.ask(named(t, "invoice-1/charge"), body("other")) }()
		synctest.Wait()
		out := p.ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.err)
		assert.Equal(t, paid, out.body)
		require.ErrorIs(t, (<-refused).err, onceward.ErrKeyReused)
		assert.Len(t, l.sent(), 1)
	})
}
