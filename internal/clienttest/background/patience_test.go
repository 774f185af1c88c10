package background_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// A provider that answers "in flight" for a day ends the operation's patience, however often its process is replaced meanwhile.
func TestADayInFlightGoesOnOverDeploys(t *testing.T) {
	for name, last := range map[string]reply{
		"it answers until the end":         says(409, `{}`, "Retry-After", "60"),
		"it hangs when a process is ended": oncetest.Hangs(),
	} {
		virtual(t, name, func(t *testing.T) {
			j := memory.New()
			busy := says(409, `{}`, "Retry-After", "60")
			l := (&line{}).Then(loses()).Always(busy)
			opens := func() *process {
				return start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(func(e *providers.Endpoint) { e.Retention = 30 * 24 * time.Hour })}, MaxWait: time.Minute, AttemptTimeout: 20 * time.Second})
			}
			p := opens()
			require.ErrorIs(t, p.Ask(named(t, invoice), to("POST", ownURL)).Err, onceward.ErrPending)
			ref := onceward.Ref{ID: invoice}
			for deploys := range 5 {
				if deploys < 4 {
					assert.Equal(t, onceward.StatePending, p.Recorded(ref).State)
				}
				ctx, stop := context.WithTimeout(seam.Seldom(t.Context(), time.Minute), 5*time.Hour+50*time.Minute)
				_ = p.Run(ctx)
				stop()
				l.Always(last)
				ctx, stop = context.WithTimeout(t.Context(), 10*time.Minute)
				_ = p.Run(ctx)
				stop()
				l.Always(busy)
				require.NoError(t, p.Shutdown(t.Context()))
				p = opens()
			}
			op := p.Recorded(ref)
			assert.Equal(t, onceward.StateUnknown, op.State, "asked for %v: %s", time.Since(op.CreatedAt), op.Cause)
		})
	}
}

// Callers whose own time ends ask again for what an earlier attempt may have done. Such attempts count against the retry budget
// like any other, and first attempts stay free.
func TestRetryBudgetBoundsCallersThatTimeOut(t *testing.T) {
	for name, row := range map[string]struct {
		answer reply
		free   int // requests of fresh operations
	}{
		"a provider that hangs":            {oncetest.Hangs(), 40},
		"a provider that loses its answer": {loses(), 40},
	} {
		virtual(t, name, func(t *testing.T) {
			budget := backoff.Budget{Capacity: 10, Refill: 1e-9, PerSuccess: 1e-9, ProbeEvery: time.Minute}
			l := (&line{}).Always(row.answer)
			p := start(t, l, onceward.Config{RetryBudget: budget, Backoff: backoff.Policy{MaxAttempts: 1}})
			began := time.Now()
			ask := func(n int) outcome {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return p.Ask(onceward.WithOperation(ctx, fmt.Sprint("invoice-", n)))
			}
			for n := range row.free {
				require.ErrorIs(t, ask(n).Err, onceward.ErrPending)
			}
			assert.Len(t, l.Sent(), row.free, "first attempts of fresh operations are free")
			refused := 0
			for range 20 {
				pass(10 * time.Second)
				for n := range row.free {
					out := ask(n)
					require.ErrorIs(t, out.Err, onceward.ErrPending)
					if assert.Equal(t, onceward.StatePending, out.Op.State) && isBudget(out.Err) {
						refused++
						assert.LessOrEqual(t, time.Until(out.Op.DueAt), 8*time.Second, "a caller may ask again soon")
					}
				}
			}
			assert.Positive(t, refused)
			most := row.free + 10 + int(time.Since(began)/time.Minute) + 1
			assert.LessOrEqual(t, len(l.Sent()), most)
			assert.Greater(t, p.Stats().RetryBudget["stripe"], 0.9)

			l.Always(says(200, `{"id":"ch_1"}`))
			pass(time.Hour)
			require.NoError(t, ask(0).Err, "a probe gets through")
			require.NoError(t, ask(1000).Err)
		})
	}
}

func isBudget(err error) bool { return errors.Is(err, onceward.ErrRetryBudget) }

// A payment whose caller gave up is sent again for its caller alone. If it may have run, it is on the list after a day, however long
// the provider keeps its key.
func TestPaymentThatWaitsForItsCallerIsListedAfterADay(t *testing.T) {
	month := own(func(e *providers.Endpoint) { e.Retention = 30 * 24 * time.Hour })
	credential := with("Authorization", "Bearer s3cr3t") // that only its caller has
	secretBody := body(`{"amount":10,"card":{"number":"4242424242424242"}}`)
	for name, row := range map[string]struct {
		first   reply
		options []option
		name    bool
		listed  bool
	}{
		"an SDK's key":                           {loses(), []option{carrying("sdk-7")}, false, true},
		"an SDK's key, and nothing left":         {refuses(), []option{carrying("sdk-7")}, false, false},
		"a secret body":                          {loses(), []option{secretBody, with("Content-Type", "application/json")}, true, true},
		"a secret body, and nothing was sent":    {refuses(), []option{secretBody, with("Content-Type", "application/json")}, true, false},
		"a key and a credential of its caller's": {loses(), []option{carrying("sdk-7"), credential}, false, true},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(row.first)
			p := &teller{Process: start(t, l, onceward.Config{Providers: []providers.Provider{month}, Backoff: once})}
			ctx := t.Context()
			if row.name {
				ctx = named(t, invoice)
			}
			options := append([]option{to("POST", ownURL)}, row.options...)
			out := p.Ask(ctx, options...)
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			before := len(l.Sent())
			p.Runs(23 * time.Hour)
			assert.Empty(t, p.NeedsAttention())
			p.Runs(2 * time.Hour)
			if !row.listed {
				assert.Empty(t, p.NeedsAttention())
				return
			}
			require.Len(t, p.NeedsAttention(), 1)
			assert.Contains(t, p.Recorded(out.Op.Ref).Attention, "its caller")
			p.Runs(3 * 24 * time.Hour)
			require.Len(t, p.NeedsAttention(), 1)
			assert.Len(t, l.Sent(), before, "nothing in the background")

			require.NoError(t, p.Ask(ctx, options...).Err)
			assert.Empty(t, p.NeedsAttention())
		})
	}
}
