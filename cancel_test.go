package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
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

// slowToAsk is a journal that hears of no intent within its caller's time.
type slowToAsk struct{ journal.Journal }

func (j slowToAsk) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	if ev.Kind == journal.EventBegin {
		<-ctx.Done()
		return journal.Result{}, ctx.Err()
	}
	return j.Journal.Apply(ctx, ev)
}

func TestACallerWhoseTimeIsUpIsNotToldThatNothingTookEffectWhereAnEarlierCallMayHave(t *testing.T) {
	refused := says(401, `{"error":{"type":"invalid_request_error"}}`)
	other := to("POST", "https://api.stripe.com/other")
	for _, row := range []struct {
		first   []reply // none: nobody has asked before
		options []option
		leaves  onceward.State
		is      error
	}{
		{nil, nil, journal.Absent, onceward.ErrNotSent},
		{[]reply{refused}, nil, onceward.Cancelled, onceward.ErrNotSent},
		{[]reply{loses()}, nil, onceward.Pending, onceward.ErrPending},
		{[]reply{loses()}, []option{other}, onceward.Unknown, onceward.ErrOutcomeUnknown},
		{[]reply{takes(time.Hour, says(200, paid))}, nil, onceward.InFlight, onceward.ErrInFlight},
		{[]reply{says(200, paid)}, nil, onceward.Completed, onceward.ErrInFlight},
		{[]reply{says(200, paid)}, []option{carrying("sdk-1")}, onceward.Completed, onceward.ErrInFlight},
	} {
		for when, patience := range map[string]time.Duration{"before it asks": 0, "while it asks": time.Second} {
			virtual(t, fmt.Sprintf("%s, %d options, %s", row.leaves, len(row.options), when), func(t *testing.T) {
				l, j := &line{}, memory.New()
				ref, ctx := onceward.Ref{ID: "invoice-1/charge"}, named(t, "invoice-1/charge")
				if row.options != nil && row.leaves == onceward.Completed {
					ref, ctx = carriedRef("sdk-1"), t.Context()
				}
				first := start(t, l, onceward.Config{Journal: j, Backoff: once, MaxWait: 2 * time.Hour, AttemptTimeout: 2 * time.Hour})
				if row.first != nil {
					l.then(row.first...)
					go first.ask(ctx, row.options...)
					pass(time.Minute)
					require.Equal(t, row.leaves, first.recorded(ref).State)
				}

				late, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				out := start(t, l, onceward.Config{Journal: slowToAsk{j}}).ask(late, row.options...)
				require.ErrorIs(t, out.err, row.is)
				require.ErrorIs(t, out.err, context.DeadlineExceeded)
				if row.is != onceward.ErrNotSent {
					require.NotErrorIs(t, out.err, onceward.ErrNotSent)
				}
				pass(2 * time.Hour)
			})
		}
	}
}
