package request_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

func TestNoCallSleepsPastItsDeadline(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		always reply
		at     bool // it is known at once that the time is too short
	}{
		{"a Retry-After beyond it", says(429, "", "Retry-After", "7200"), true},
		{"answers that never come", hangs(), false},
		{"bodies that never come", stalls(), false},
		{"lost answers", loses(), false},
		{"no connection", refuses(), false},
		{"in flight for ever", says(409, `{"error":{"code":"idempotency_key_in_use"}}`, "Retry-After", "1"), false},
	} {
		for _, deadline := range []time.Duration{20 * time.Millisecond, time.Second, 10 * time.Second, time.Hour} {
			for _, how := range []string{"http.Client.Timeout", "a context's deadline"} {
				virtual(t, row.name+", "+deadline.String()+" by "+how, func(t *testing.T) {
					l := (&line{}).Always(row.always)
					hc := &http.Client{Transport: l}
					ctx := named(t, "invoice-1/charge")
					if how == "http.Client.Timeout" {
						hc.Timeout = deadline
					} else {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, deadline)
						defer cancel()
					}
					p := start(t, nil, onceward.Config{HTTPClient: hc})
					began := time.Now()
					out := p.Ask(ctx)
					if row.at {
						assert.Zero(t, time.Since(began))
					}
					assert.LessOrEqual(t, time.Since(began), deadline-min(time.Second, deadline/10))
					if out.Err != nil {
						var e *onceward.Error
						require.ErrorAs(t, out.Err, &e)
						require.ErrorIs(t, e, onceward.ErrPending)
					}
					assert.Equal(t, onceward.StatePending, out.Op.State)
					assert.Equal(t, onceward.StatePending, p.Recorded(out.Op.Ref).State)
				})
			}
		}
	}
}

func TestBeforeItIsDueNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(429, "", "Retry-After", "600"))
		p := start(t, l, onceward.Config{})
		ctx := named(t, "invoice-1/charge")
		due := time.Now().Add(600 * time.Second)
		out := p.Ask(ctx)
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		require.Equal(t, 429, out.Status)
		for range 5 {
			pass(time.Minute)
			asked := time.Now()
			out = p.Ask(ctx)
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			assert.True(t, due.Equal(out.Op.DueAt))
			assert.Zero(t, time.Since(asked))
		}
		require.Len(t, l.Sent(), 1)
		pass(time.Until(due))
		require.NoError(t, p.Ask(ctx).Err)
		assert.Len(t, l.Sent(), 2)
	})
}

func TestMaxWaitBoundsACallWithoutADeadline(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, time.Hour} {
		virtual(t, wait.String(), func(t *testing.T) {
			l := (&line{}).Always(hangs())
			p := start(t, l, onceward.Config{MaxWait: wait, Backoff: backoff.Policy{MaxAttempts: 1000}})
			began := time.Now()
			require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge")).Err, onceward.ErrPending)
			if wait == 0 {
				wait = 2 * time.Minute
			}
			assert.LessOrEqual(t, time.Since(began), wait)
			assert.Greater(t, time.Since(began), wait/2)
		})
	}
}

// lingers is a journal that keeps the contexts that it derives until they end by themselves.
type lingers struct {
	machine.Store
	derived []context.Context
}

func (j *lingers) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	under, cancel := context.WithCancel(ctx)
	context.AfterFunc(under, cancel)
	j.derived = append(j.derived, under)
	return j.Store.Get(ctx, ref)
}

// A context that was derived between two attempts ends with the call, and Err says so. Package context panics, and ends
// the process, if Done is closed while Err is nil.
func TestAContextDerivedOutlivesItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &lingers{Store: memory.New()}
		p := start(t, (&line{}).Then(refuses(), refuses()), onceward.Config{Journal: j})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		synctest.Wait()
		require.NotEmpty(t, j.derived)
		for _, under := range j.derived {
			assert.ErrorIs(t, under.Err(), context.Canceled)
		}
	})
}

// A call whose pause would begin during Shutdown does not pause.
func TestNoPauseOnceShutdownHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *process
		var began time.Time
		down := make(chan error, 1)
		p = start(t, (&line{}).Then(refuses()), onceward.Config{Trace: &onceward.Trace{
			Delayed: func(context.Context, onceward.Operation, time.Duration) {
				go func() { down <- p.Shutdown(context.Background()) }()
				pass(time.Second)
				began = time.Now()
			},
		}})
		require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge")).Err, onceward.ErrPending)
		require.NoError(t, <-down)
		assert.False(t, began.IsZero())
		assert.Zero(t, time.Since(began))
	})
}
