package onceward_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
)

func TestCancelledBeforeAnythingWasSent(t *testing.T) {
	for _, row := range []struct {
		name   string
		script []reply
		hook   bool // cancelled by the Begun hook
	}{
		{"as soon as it is begun", nil, true},
		{"while it waits to connect again", []reply{refuses(), refuses(), refuses()}, false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(named(t, "invoice-1/charge"))
			l := (&line{}).then(row.script...)
			p := start(t, l, onceward.Config{
				Backoff: backoff.Policy{Initial: time.Minute, Max: time.Minute},
				Trace: &onceward.Trace{
					Begun: func(onceward.Operation) {
						if row.hook {
							cancel()
						}
					},
					Delayed: func(onceward.Operation, time.Duration) { cancel() },
				},
			})
			out := p.ask(ctx)
			require.ErrorIs(t, out.err, context.Canceled)
			require.ErrorIs(t, out.err, onceward.ErrNotSent)
			assert.Equal(t, onceward.Cancelled, out.op.State)
			assert.Empty(t, l.sent())
			l.then(says(200, paid))
			l.script = l.script[len(l.script)-1:]
			again := p.ask(named(t, "invoice-1/charge"))
			require.NoError(t, again.err)
			assert.Zero(t, again.op.Generation)
			assert.Len(t, l.sent(), 1)
		})
	}
}

func TestCancelledAfterItWasSentIsParkedAndDueAtOnce(t *testing.T) {
	for _, row := range []struct {
		name    string
		options []option
		first   func(cancel func()) reply
	}{
		{"during the attempt", nil, func(cancel func()) reply { return doing(cancel, hangs()) }},
		{"during the attempt, under a carried key", []option{carrying("sdk-1")}, func(cancel func()) reply { return doing(cancel, hangs()) }},
		{"while it reads the body", nil, func(cancel func()) reply { return doing(cancel, stalls()) }},
	} {
		virtual(t, row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			again := t.Context()
			if row.options == nil {
				ctx, again = onceward.WithOperation(ctx, "invoice-1/charge"), named(t, "invoice-1/charge")
			}
			mine := errors.New("the user pressed stop")
			l := &line{}
			l.then(row.first(func() { cancel(mine) }))
			p := start(t, l, onceward.Config{})
			began := time.Now()
			out := p.ask(ctx, row.options...)
			require.ErrorIs(t, out.err, onceward.ErrPending)
			require.ErrorIs(t, out.err, mine)
			assert.Zero(t, time.Since(began))
			assert.Equal(t, onceward.Pending, out.op.State)
			require.NoError(t, p.ask(again, row.options...).err)
			assert.Zero(t, time.Since(began), "it was due at once")
			require.Len(t, l.sent(), 2)
			assert.Equal(t, l.keys()[0], l.keys()[1])
		})
	}
}

func TestCancelledAfterItWasSentWhereTheRuleForbidsAnother(t *testing.T) {
	for name, named := range map[string]bool{"named": true, "unnamed": false} {
		virtual(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if named {
				ctx = onceward.WithOperation(ctx, "order-1")
			}
			l := (&line{}).then(doing(cancel, hangs()))
			p := start(t, l, onceward.Config{})
			options := []option{to("POST", "https://api.stripe.com/other")}
			if !named {
				options = nil // an unnamed one with a key of ours never parks
			}
			out := p.ask(ctx, options...)
			require.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
			require.ErrorIs(t, out.err, context.Canceled)
			assert.Equal(t, onceward.Unknown, p.recorded(out.op.Ref).State)
		})
	}
}

func TestAWaiterWhoGivesUpHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		leader := make(chan outcome, 1)
		go func() { leader <- p.ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(named(t, "invoice-1/charge"), 5*time.Second)
		defer cancel()
		waiter := p.ask(ctx)
		require.ErrorIs(t, waiter.err, onceward.ErrInFlight)
		require.NoError(t, ctx.Err(), "told before its deadline")
		require.NoError(t, (<-leader).err)
		assert.Len(t, l.sent(), 1)
	})
}

func TestAWaiterWhoIsCancelledIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		leader := make(chan outcome, 1)
		go func() { leader <- p.ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(named(t, "invoice-1/charge"))
		time.AfterFunc(time.Second, cancel)
		out := p.ask(ctx)
		require.ErrorIs(t, out.err, context.Canceled)
		require.ErrorIs(t, out.err, onceward.ErrInFlight)
		require.NoError(t, (<-leader).err)
	})
}

func TestAnAlreadyDeadContextRecordsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(named(t, "invoice-1/charge"))
		cancel()
		l := &line{}
		p := start(t, l, onceward.Config{})
		out := p.ask(ctx)
		require.ErrorIs(t, out.err, context.Canceled)
		assert.Empty(t, l.sent())
		assert.Empty(t, p.everything())
	})
}
