package request_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

func TestPanickingHooksReleaseWaiters(t *testing.T) {
	t.Parallel()
	each(t, "one after another", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		bad := true
		hook := func() {
			if bad {
				panic("a hook's")
			}
		}
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}, Trace: &onceward.Trace{
			AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) { hook() },
			Ended:        func(context.Context, onceward.Operation, error) { hook() },
		}})
		assert.Panics(t, func() { p.Ask(named(t, "order-1"), to("POST", ownURL)) })
		bad = false
		pass(time.Hour)
		assert.NoError(t, p.Ask(named(t, "order-1"), to("POST", ownURL)).Err)
	})
	each(t, "on a failing journal", func(t *testing.T, j machine.Store) {
		l := &line{}
		failing := &failsOnce{Store: j, kind: machine.EventComplete}
		p := start(t, l, onceward.Config{Journal: failing, Providers: []providers.Provider{own()}, Trace: &onceward.Trace{
			JournalFailed: func(context.Context, onceward.Operation, string, error) { panic("a hook's") },
		}})
		assert.Panics(t, func() { p.Ask(named(t, "order-1"), to("POST", ownURL)) })
		pass(time.Minute)
		assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: "order-1"}).State, "the answer is kept until it is written")
		assert.NoError(t, p.Ask(named(t, "order-1"), to("POST", ownURL)).Err)
		assert.Len(t, l.Sent(), 1)
	})
	each(t, "of an intent that may have landed", func(t *testing.T, j machine.Store) {
		l := &line{}
		failing := &failsOnce{Store: j, kind: machine.EventBegin, alsoCancel: true}
		p := start(t, l, onceward.Config{Journal: failing, Providers: []providers.Provider{own()}, Trace: &onceward.Trace{
			JournalFailed: func(context.Context, onceward.Operation, string, error) { panic("a hook's") },
		}})
		assert.Panics(t, func() { p.Ask(named(t, "order-1"), to("POST", ownURL)) })
		pass(time.Minute)
		assert.NoError(t, p.Ask(named(t, "order-1"), to("POST", ownURL)).Err)
		assert.Len(t, l.Sent(), 1)
	})
}

func TestAHookThatPanicsForgetsNoRetryAfter(t *testing.T) {
	each(t, "of a 503", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(says(503, "", "Retry-After", "600"))
		bad := true
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}, Trace: &onceward.Trace{
			AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) {
				if bad {
					panic("a hook's")
				}
			},
		}})
		assert.Panics(t, func() { p.Ask(named(t, "order-1"), to("POST", ownURL)) })
		bad = false
		assert.ErrorIs(t, p.Ask(named(t, "order-1"), to("POST", ownURL)).Err, onceward.ErrPending)
		assert.Len(t, l.Sent(), 1, "before the time that the provider named")
		pass(11 * time.Minute)
		assert.NoError(t, p.Ask(named(t, "order-1"), to("POST", ownURL)).Err)
	})
}

// An operation whose attempt was running during a panic may have run.
func TestAPanicDuringAnAttemptIsInDoubt(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(doing(func() { panic("a transport's") }, loses()))
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(noKey)}})
		assert.Panics(t, func() { p.Ask(named(t, "order-1"), to("POST", ownURL)) })
		assert.ErrorIs(t, p.Ask(named(t, "order-1"), to("POST", ownURL)).Err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.Sent(), 1)
	})
}

func TestRunSurvivesHooksThatPanic(t *testing.T) {
	t.Parallel()
	each(t, "on an operation that a claim settles, and on progress", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses(), loses())
		short := own(func(e *providers.Endpoint) { e.Retention = time.Hour })
		was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{short}})
		was.Ask(named(t, "order-1"), to("POST", ownURL))
		pass(2 * time.Hour)
		was.Ask(named(t, "order-2"), to("POST", ownURL))
		pass(2 * time.Minute)
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{short}, Trace: &onceward.Trace{
			Ended:    func(context.Context, onceward.Operation, error) { panic("a hook's") },
			Progress: func(onceward.Report) { panic("a hook's") },
		}})
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			_ = p.Run(ctx)
		}()
		pass(10 * time.Minute)
		stop()
		<-ran
		assert.Equal(t, onceward.StateUnknown, p.Recorded(onceward.Ref{ID: "order-1"}).State)
		assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: "order-2"}).State)
	})
}

// failsOnce is a journal that fails to record the first event of a kind.
type failsOnce struct {
	machine.Store
	kind       machine.EventKind
	alsoCancel bool
	failed     int
}

func (j *failsOnce) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if j.failed == 0 && ev.Kind == j.kind || j.failed == 1 && j.alsoCancel && ev.Kind == machine.EventCancel {
		j.failed++
		return machine.Result{}, errors.New("the disk is full")
	}
	return j.Store.Apply(ctx, ev)
}

func TestAPanicInTheCallersCodeLeavesNoClaim(t *testing.T) {
	type hooks struct {
		trace     onceward.Trace
		authorize func(*http.Request) error
	}
	boom := func() { panic("boom") }
	for _, row := range []struct {
		name   string
		hooks  hooks
		script []reply
		before bool // a first call that parks, without hooks
		key    string
		sent   int
	}{
		{"Started", hooks{trace: onceward.Trace{Started: func(ctx context.Context, _ onceward.Operation, _ onceward.Why) context.Context { boom(); return ctx }}}, nil, false, "", 0},
		{"Authorize", hooks{authorize: func(*http.Request) error { boom(); return nil }}, nil, false, "", 0},
		{"AttemptEnded", hooks{trace: onceward.Trace{AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) { boom() }}}, nil, false, "", 1},
		{"AttemptStarted", hooks{trace: onceward.Trace{AttemptStarted: func(context.Context, onceward.Operation, int) context.Context { boom(); return nil }}}, nil, false, "", 0},
		{"Asked", hooks{trace: onceward.Trace{Asked: func(context.Context, onceward.Operation, onceward.CallResult, error, time.Duration) { boom() }}}, nil, false, "", 1},
		{"Delayed", hooks{trace: onceward.Trace{Delayed: func(context.Context, onceward.Operation, time.Duration) { boom() }}}, []reply{loses()}, false, "", 1},
		{"Ended", hooks{trace: onceward.Trace{Ended: func(context.Context, onceward.Operation, error) { boom() }}}, nil, false, "", 1},
		{"KeyReplaced", hooks{trace: onceward.Trace{KeyReplaced: func(context.Context, onceward.Operation) { boom() }}}, []reply{loses()}, true, "sdk-2", 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j := memory.New()
			l := (&line{}).Then(row.script...)
			ctx := named(t, "invoice-1/charge")
			if row.before {
				first := start(t, l, onceward.Config{Journal: j, Backoff: once}).Ask(ctx, carrying("sdk-1"))
				require.ErrorIs(t, first.Err, onceward.ErrPending)
				pass(time.Until(first.Op.DueAt))
			}
			p := start(t, l, onceward.Config{Journal: j, Trace: &row.hooks.trace, Authorize: row.hooks.authorize})
			var options []option
			if row.key != "" {
				options = append(options, carrying(row.key))
			}
			require.PanicsWithValue(t, "boom", func() { p.Ask(ctx, options...) })
			require.Len(t, l.Sent(), row.sent)
			if row.hooks.authorize == nil { // which is asked for the credential's mode before anything is begun
				assert.NotEqual(t, journal.StateInFlight, p.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
			}

			calm := start(t, l, onceward.Config{Journal: j})
			require.NoError(t, calm.Ask(ctx, options...).Err)
			ended := make(chan struct{})
			go func() { // no other call in the process waits for the one that panicked
				defer close(ended)
				defer func() { _ = recover() }()
				p.Ask(ctx, options...)
			}()
			<-ended
			require.NoError(t, p.Shutdown(t.Context()), "nothing is waited for")
		})
	}
}

// If a hook panics while an attempt is judged, it is open what the attempt did.
func TestPanicOverALostAnswerLeavesItOpen(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		provider providers.Provider
		first    reply
		state    onceward.State
		sent     int
	}{
		"where no key is taken":               {own(noKey), loses(), onceward.StateUnknown, 1},
		"where failures are not remembered":   {own(remembers(providers.SuccessesLostAnswers)), says(503, ""), onceward.StateUnknown, 1},
		"where the key is known all the same": {own(), loses(), onceward.StateCompleted, 2},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(row.first)
			bad := true
			p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{row.provider}, Trace: &onceward.Trace{
				AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) {
					if bad {
						panic("a hook's")
					}
				},
			}})
			assert.Panics(t, func() { p.Ask(named(t, invoice), to("POST", ownURL)) })
			bad = false
			pass(time.Hour)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.state, p.Recorded(onceward.Ref{ID: invoice}).State)
			assert.Len(t, l.Sent(), row.sent)
		})
	}
}

// An attempt that panics has ended at that time, and not when the attempt before it did.
func TestAPanicEndsTheAttempt(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var at time.Time
		l := (&line{}).Then(loses(), takes(10*time.Second, doing(func() { at = time.Now(); panic("a transport's") }, loses())))
		p := start(t, l, onceward.Config{})
		assert.Panics(t, func() { p.Ask(named(t, invoice)) })
		require.Len(t, l.Sent(), 2)
		assert.WithinDuration(t, at, p.Recorded(onceward.Ref{ID: invoice}).LastEndedAt, time.Millisecond)
	})
}
