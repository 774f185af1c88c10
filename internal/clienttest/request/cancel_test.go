package request_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// The caller's context is cancelled before anything was sent.
func TestCancelledBeforeSending(t *testing.T) {
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
			l := (&line{}).Then(row.script...)
			p := start(t, l, onceward.Config{
				Backoff: backoff.Policy{Initial: time.Minute, Max: time.Minute},
				Trace: &onceward.Trace{
					Started: func(ctx context.Context, _ onceward.Operation, _ onceward.Why) context.Context {
						if row.hook {
							cancel()
						}
						return ctx
					},
					Delayed: func(context.Context, onceward.Operation, time.Duration) { cancel() },
				},
			})
			out := p.Ask(ctx)
			require.ErrorIs(t, out.Err, context.Canceled)
			require.ErrorIs(t, out.Err, onceward.ErrNotSent)
			assert.Equal(t, onceward.StateCancelled, out.Op.State)
			assert.Empty(t, l.Sent())
			l.Instead(says(200, paid))
			again := p.Ask(named(t, "invoice-1/charge"))
			require.NoError(t, again.Err)
			assert.Zero(t, again.Op.Generation)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// An operation whose caller is cancelled after it was sent is parked, and due at once.
func TestCancelledAfterSendingIsParked(t *testing.T) {
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
			l.Then(row.first(func() { cancel(mine) }))
			p := start(t, l, onceward.Config{})
			began := time.Now()
			out := p.Ask(ctx, row.options...)
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			require.ErrorIs(t, out.Err, mine)
			assert.Zero(t, time.Since(began))
			assert.Equal(t, onceward.StatePending, out.Op.State)
			require.NoError(t, p.Ask(again, row.options...).Err)
			assert.Zero(t, time.Since(began), "it was due at once")
			require.Len(t, l.Sent(), 2)
			assert.Equal(t, l.Keys()[0], l.Keys()[1])
		})
	}
}

// An operation whose caller is cancelled after it was sent is unknown if the rule forbids another request.
func TestCancelledAfterSendingForGood(t *testing.T) {
	for name, named := range map[string]bool{"named": true, "unnamed": false} {
		virtual(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if named {
				ctx = onceward.WithOperation(ctx, "order-1")
			}
			l := (&line{}).Then(doing(cancel, hangs()))
			p := start(t, l, onceward.Config{})
			options := []option{to("POST", "https://api.stripe.com/other")}
			if !named {
				options = nil // an unnamed one with a key of ours never parks
			}
			out := p.Ask(ctx, options...)
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			require.ErrorIs(t, out.Err, context.Canceled)
			assert.Equal(t, onceward.StateUnknown, p.Recorded(out.Op.Ref).State)
		})
	}
}

func TestWaiterThatGivesUpAffectsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		leader := make(chan outcome, 1)
		go func() { leader <- p.Ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(named(t, "invoice-1/charge"), 5*time.Second)
		defer cancel()
		waiter := p.Ask(ctx)
		require.ErrorIs(t, waiter.Err, onceward.ErrInFlight)
		require.NoError(t, ctx.Err(), "told before its deadline")
		require.NoError(t, (<-leader).Err)
		assert.Len(t, l.Sent(), 1)
	})
}

func TestCancelledWaiterGetsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		leader := make(chan outcome, 1)
		go func() { leader <- p.Ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(named(t, "invoice-1/charge"))
		time.AfterFunc(time.Second, cancel)
		out := p.Ask(ctx)
		require.ErrorIs(t, out.Err, context.Canceled)
		require.ErrorIs(t, out.Err, onceward.ErrInFlight)
		require.NoError(t, (<-leader).Err)
	})
}

func TestExpiredContextRecordsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(named(t, "invoice-1/charge"))
		cancel()
		l := &line{}
		p := start(t, l, onceward.Config{})
		out := p.Ask(ctx)
		require.ErrorIs(t, out.Err, context.Canceled)
		assert.Empty(t, l.Sent())
		assert.Empty(t, p.Everything())
	})
}

// slowToAsk is a journal that records no intent before its caller's time is over.
type slowToAsk struct{ machine.Store }

func (j slowToAsk) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if ev.Kind == machine.EventBegin {
		<-ctx.Done()
		return machine.Result{}, ctx.Err()
	}
	return j.Store.Apply(ctx, ev)
}

// A caller whose time is over does not get ErrNotSent if an earlier call may have taken effect.
func TestCancelledAfterAnEarlierCall(t *testing.T) {
	refused := says(401, `{"error":{"type":"invalid_request_error"}}`)
	other := to("POST", "https://api.stripe.com/other")
	for _, row := range []struct {
		first   []reply // none: there was no earlier call
		options []option
		leaves  onceward.State
		is      error
	}{
		{nil, nil, journal.StateAbsent, onceward.ErrNotSent},
		{[]reply{refused}, nil, onceward.StateCancelled, onceward.ErrNotSent},
		{[]reply{loses()}, nil, onceward.StatePending, onceward.ErrPending},
		{[]reply{loses()}, []option{other}, onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{[]reply{takes(time.Hour, says(200, paid))}, nil, onceward.StateInFlight, onceward.ErrInFlight},
		{[]reply{says(200, paid)}, nil, onceward.StateCompleted, onceward.ErrInFlight},
		{[]reply{says(200, paid)}, []option{carrying("sdk-1")}, onceward.StateCompleted, onceward.ErrInFlight},
	} {
		for when, patience := range map[string]time.Duration{"before it asks": 0, "while it asks": time.Second} {
			virtual(t, fmt.Sprintf("%s, %d options, %s", row.leaves, len(row.options), when), func(t *testing.T) {
				l, j := &line{}, memory.New()
				ref, ctx := onceward.Ref{ID: "invoice-1/charge"}, named(t, "invoice-1/charge")
				if row.options != nil && row.leaves == onceward.StateCompleted {
					ref, ctx = carriedRef("sdk-1"), t.Context()
				}
				first := start(t, l, onceward.Config{Journal: j, Backoff: once, MaxWait: 2 * time.Hour, AttemptTimeout: 2 * time.Hour})
				if row.first != nil {
					l.Then(row.first...)
					go first.Ask(ctx, row.options...)
					pass(time.Minute)
					require.Equal(t, row.leaves, first.Recorded(ref).State)
				}

				late, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				out := start(t, l, onceward.Config{Journal: slowToAsk{j}}).Ask(late, row.options...)
				require.ErrorIs(t, out.Err, row.is)
				require.ErrorIs(t, out.Err, context.DeadlineExceeded)
				if row.is != onceward.ErrNotSent {
					require.NotErrorIs(t, out.Err, onceward.ErrNotSent)
				}
				pass(2 * time.Hour)
			})
		}
	}
}

// An operation that its caller knows as pending is not cancelled when Run or Resume ends, in whatever way.
func TestEndOfRunKeepsPendingOperations(t *testing.T) {
	t.Parallel()
	const callers = 8
	run := func(t *testing.T, p *process, ends func(stop context.CancelFunc)) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		synctest.Wait()
		ends(stop)
		<-done
		stop()
	}
	for _, end := range []struct {
		name string
		end  func(t *testing.T, p *process)
	}{
		{"Run's context is cancelled", func(t *testing.T, p *process) {
			run(t, p, func(stop context.CancelFunc) { pass(time.Second); stop() })
		}},
		{"Resume's time is up", func(t *testing.T, p *process) {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			_, _ = p.Resume(ctx)
		}},
		{"Resume is given no time at all", func(t *testing.T, p *process) {
			_, err := p.Resume(cancelled())
			require.ErrorIs(t, err, context.Canceled)
		}},
		{"the client is shut down", func(t *testing.T, p *process) {
			run(t, p, func(context.CancelFunc) { pass(time.Second); require.NoError(t, p.Shutdown(t.Context())) })
		}},
		{"the client is shut down, and waits for nothing", func(t *testing.T, p *process) {
			run(t, p, func(context.CancelFunc) { pass(time.Second); _ = p.Shutdown(cancelled()) })
		}},
	} {
		for _, outage := range []struct {
			name  string
			reply reply
		}{
			{"they wait for their next attempt", refuses()},
			{"they are connecting", takes(time.Hour, refuses())},
			{"they wait for a Retry-After", says(429, `{}`, "Retry-After", "90")},
		} {
			each(t, end.name+" while "+outage.name, func(t *testing.T, j machine.Store) {
				l := (&line{}).Always(refuses())
				p := start(t, l, onceward.Config{Journal: j})
				for i := range callers {
					require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("invoice-", i))).Err, onceward.ErrPending)
				}
				pass(time.Hour)
				l.Always(outage.reply)
				end.end(t, p)
				for _, op := range p.Everything() {
					assert.Equal(t, journal.StatePending, op.State, op.Cause)
				}

				l.Always(says(200, paid))
				before := len(l.Sent())
				next := start(t, l, onceward.Config{Journal: p.Journal.Store})
				pass(2 * time.Hour)
				report, err := next.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, callers, report.Completed)
				assert.Len(t, distinct(l.Keys()[before:]), callers)
				assert.Len(t, l.Sent(), before+callers, "each of them once")
			})
		}
	}
}

// An operation's cause says whether its caller or Resume ended, and how the attempt ended.
func TestCauseNamesTheCancelledCaller(t *testing.T) {
	virtual(t, "its caller", func(t *testing.T) {
		p := start(t, (&line{}).Then(refuses(), takes(time.Hour, refuses())), onceward.Config{Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(time.Hour)
		ctx, cancel := context.WithCancel(named(t, invoice))
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, p.Ask(ctx).Err, context.Canceled)
		assert.Regexp(t, "^its caller gave up; .+", p.Recorded(onceward.Ref{ID: invoice}).Cause)
	})
	virtual(t, "Resume", func(t *testing.T) {
		p := start(t, (&line{}).Then(refuses(), takes(time.Hour, refuses())), onceward.Config{Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Resume(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Regexp(t, "^Run or Resume ended; .+", p.Recorded(onceward.Ref{ID: invoice}).Cause)
	})
}

// A caller that gives up cancels only an operation that was not pending before.
func TestCancelledCallerKeepsPendingOperations(t *testing.T) {
	t.Parallel()
	errToken := errors.New("no token")
	for _, way := range []struct {
		name string
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		auth error
		told bool // an expired call leaves it pending, whatever its earlier state
	}{
		{"its context ends while it connects", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, nil, false},
		{"its deadline passes while it connects", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, nil, true},
		{"its credential can't be had", func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }, errToken, false},
	} {
		for _, found := range []journal.State{journal.StateAbsent, journal.StateCancelled, journal.StatePending} {
			each(t, way.name+", found "+found.String(), func(t *testing.T, j machine.Store) {
				l := &line{}
				var auth error
				p := start(t, l, onceward.Config{Journal: j, Backoff: once, Authorize: func(*http.Request) error { return auth }})
				switch found {
				case journal.StateCancelled:
					l.Then(invalid)
					require.Equal(t, onceward.StateCancelled, p.Ask(named(t, invoice)).Op.State)
				case journal.StatePending:
					l.Then(refuses())
					require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
				}
				pass(time.Hour)
				before := len(l.Sent())
				l.Then(takes(time.Hour, refuses()))
				auth = way.auth
				ctx, cancel := way.ctx(named(t, invoice))
				defer cancel()
				out := p.Ask(ctx)
				require.Error(t, out.Err)
				assert.Len(t, l.Sent(), before)
				state := p.Recorded(onceward.Ref{ID: invoice}).State
				stays := found == journal.StatePending || way.told
				if stays {
					assert.Equal(t, journal.StatePending, state)
					require.ErrorIs(t, out.Err, onceward.ErrPending)
				} else {
					assert.Equal(t, journal.StateCancelled, state)
					require.ErrorIs(t, out.Err, onceward.ErrNotSent)
				}
				if way.auth != nil {
					require.ErrorIs(t, out.Err, errToken)
				}

				auth = nil
				l.Instead()
				pass(2 * time.Hour)
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, stays, report.Completed == 1)
			})
		}
	}
}

// An intent that is taken back leaves an operation pending that was pending before.
func TestWithdrawnIntentKeepsPendingOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failing{Store: onDisk(t)}
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(time.Hour)
		j.Fails(true, machine.EventBegin)
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrJournal)
		j.Fails(false)
		pass(time.Minute)
		assert.Equal(t, journal.StatePending, p.Recorded(onceward.Ref{ID: invoice}).State)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		assert.Len(t, l.Sent(), 1)
	})
}

// Hundreds of callers who give up at any moment leave nothing in flight.
func TestManyCallersGiveUpAnywhere(t *testing.T) {
	callers, names := sample.Size(300, 1000), sample.Size(100, 300)
	for kind, opened := range journals {
		t.Run(kind, func(t *testing.T) {
			srv, p := inBox(t, providers.Stripe(), onceward.Config{Journal: opened(t)})
			srv.Seed(1, providertest.Mix{DropAfter: 0.05, DelayBefore: 0.2, DelayAfter: 0.2, MaxDelay: 10 * time.Millisecond, Status: 0.05, Statuses: []int{429, 503}})
			url := srv.URL + "/v1/charges"
			random := rand.New(rand.NewPCG(soak.Seed(t, 1), 0))
			var asking sync.WaitGroup
			for i := range callers {
				who := fmt.Sprint("invoice-", i%names)
				patience := time.Duration(random.IntN(1 + random.IntN(1+random.IntN(int(400*time.Millisecond)))))
				cancelled := random.IntN(2) == 0
				asking.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					if cancelled { // a context without a deadline that ends all the same
						undated, end := context.WithCancel(context.Background())
						defer context.AfterFunc(ctx, end)()
						defer end()
						ctx = undated
					}
					out := p.Ask(onceward.WithOperation(ctx, who), to("POST", url), body("name="+who))
					if out.Err == nil && out.Status == 200 {
						assert.Equal(t, paid, out.Body)
					}
				})
			}
			asking.Wait()
			require.NoError(t, p.Shutdown(context.Background()))
			outcomes := map[journal.State]int{}
			for _, op := range p.Everything() {
				outcomes[op.State]++
				assert.NotEqual(t, journal.StateInFlight, op.State, "%s has no live session", op.ID)
				assert.True(t, op.Holder == "" || op.State.Settled(), "%s is held", op.ID)
			}
			t.Log(outcomes)
			atMostOneEffectEach(t, srv)
			srv.Client().CloseIdleConnections()
			leftBehind := func() string {
				stacks := make([]byte, 4<<20)
				for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
					if strings.Contains(stack, "/onceward.(") {
						return stack
					}
				}
				return ""
			}
			if !assert.Eventually(t, func() bool { return leftBehind() == "" }, 10*time.Second, 10*time.Millisecond) {
				t.Log(leftBehind())
			}

			// A caller who asks now gets an answer.
			next := start(t, srv.Client().Transport, onceward.Config{Journal: p.Journal.Store, Providers: []providers.Provider{srv.Provider()}, Backoff: quick})
			srv.Seed(0, providertest.Mix{})
			for i := range names {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				who := fmt.Sprint("invoice-", i)
				out := next.Ask(onceward.WithOperation(ctx, who), to("POST", url), body("name="+who))
				if !errors.Is(out.Err, onceward.ErrPending) {
					assert.NoError(t, out.Err, who)
				}
				cancel()
			}
			atMostOneEffectEach(t, srv)
		})
	}
}
