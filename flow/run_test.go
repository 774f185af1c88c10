package flow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// Stopping Run, as a deploy does, leaves each flow as it was. No flow counts a failure, finishes or gives up because
// of it.
func TestStoppingRunDoesNotFailFlows(t *testing.T) {
	t.Parallel()
	cases := 0
	for _, row := range []struct {
		name    string
		stopped func(ctx context.Context) error // the function's error after the stop
	}{
		{"in a call of a step", nil},
		{"between two steps", func(ctx context.Context) error { return context.Cause(ctx) }},
		{"between two steps, in words of its own", func(context.Context) error { return errors.New("too late") }},
		{"between two steps, and the function says that it is done", func(context.Context) error { return nil }},
		{"between two steps, and the function gives up for it", func(ctx context.Context) error { return flow.GiveUp(ctx.Err()) }},
		{"between two steps, and the function gives up for its cause", func(ctx context.Context) error { return flow.GiveUp(context.Cause(ctx)) }},
	} {
		for _, way := range []string{"forward", "undoing"} {
			for _, by := range []string{"Run's context", "Resume's deadline", "Shutdown"} {
				cases++
				sampled(t, cases, 7, row.name+", "+way+", by "+by, func(t *testing.T, j machine.Store) {
					l := &line{}
					var p *process
					waiting := false // the function's next run waits for its context to end
					ride := flow.Define("ride", 1, func(ctx context.Context, _ int) (int, error) {
						if waiting && row.stopped != nil {
							waiting = false
							<-ctx.Done()
							return 0, row.stopped(ctx)
						}
						if err := p.undoable(ctx, "create"); err != nil {
							return 0, err
						}
						return 1, p.undoable(ctx, "charge")
					})
					open := func() {
						p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once}, flow.Config{Definitions: []flow.Definition{ride}, Backoff: backoff.Policy{MaxAttempts: 1}})
					}
					open()
					l.Then(says(200, paid), refuses())
					require.ErrorIs(t, errOf(ride.Run(t.Context(), p.Flows, "order-991", 1)), onceward.ErrPending)
					if way == "undoing" {
						_, err := p.Resolve(t.Context(), p.seen("charge"), onceward.NotExecuted, byHand)
						require.NoError(t, err)
						_, err = p.Flows.GiveUp(t.Context(), order991, "the customer left")
						require.NoError(t, err)
					}
					pass(time.Hour)

					waiting = row.stopped != nil
					if !waiting {
						l.Then(hangs())
					}
					ctx, stop := context.WithCancelCause(t.Context())
					done := make(chan error, 1)
					switch by {
					case "Resume's deadline":
						ended, cancel := context.WithTimeout(ctx, 2*time.Second)
						defer cancel()
						go func() { _, err := p.Resume(ended); done <- err }()
					default:
						go func() { done <- p.Run(ctx) }()
					}
					pass(time.Second)
					switch by {
					case "Run's context":
						stop(errors.New("a deploy"))
					case "Shutdown":
						ended, cancel := context.WithTimeout(ctx, time.Second)
						_ = p.Shutdown(ended)
						cancel()
					}
					<-done
					stop(nil)
					f, err := p.Flows.Flow(t.Context(), order991)
					require.NoError(t, err)
					assert.Zero(t, f.Failures, f.Cause)
					assert.Equal(t, flow.StateWaiting, f.State)
					assert.Equal(t, way == "undoing", f.Undoing)

					waiting = false
					_ = p.Shutdown(t.Context())
					open()
					pass(time.Hour)
					for range 3 { // a request that may have run is sent again first
						_, err = p.Resume(t.Context())
						require.NoError(t, err)
						pass(time.Hour)
					}
					f, err = p.Flows.Flow(t.Context(), order991)
					require.NoError(t, err)
					want := "started → create → charge → finished"
					if way == "undoing" {
						want = "started → create → undone create → given up"
					}
					assert.Equal(t, want, f.String())
				})
			}
		}
	}
}

// seen is how far an operation of order-991 has come.
func (p *process) seen(step string) onceward.Seen {
	p.T.Helper()
	op, err := p.Operation(p.T.Context(), p.flow("order-991").Operation(step))
	require.NoError(p.T, err)
	return op.Seen
}

// A caller that goes away keeps the provider's Retry-After. Its waiting operation is cancelled, so only the flow can be
// due then.
func TestCancelledCallerKeepsTheRetryAfter(t *testing.T) {
	busy := says(429, `{"error":{"message":"busy"}}`, "Retry-After", "60")
	for _, row := range []struct {
		name    string
		replies []reply
		own     time.Duration // the time that the function gives each step; 0 means any
		gives   bool          // it gives up after the first step
		want    string
	}{
		{"from a step", []reply{says(200, paid), busy}, 0, false, "started → create → charge → finished"},
		{"from a step, by the function's own wish", []reply{says(200, paid), busy}, time.Second, false, "started → create → charge → finished"},
		{"from an undo", []reply{says(200, paid), busy}, 0, true, "started → create → undone create → given up"},
	} {
		for _, by := range []string{"caller", "Run"} {
			each(t, row.name+", by "+by, func(t *testing.T, j machine.Store) {
				l := (&line{}).Then(row.replies...)
				var p *process
				fails := by == "Run" // Run takes over the flow that a caller has begun
				ride := flow.Define("ride", 1, func(ctx context.Context, _ int) (int, error) {
					if fails {
						fails = false
						return 0, errors.New("sorry")
					}
					if row.own > 0 {
						var leave context.CancelFunc
						ctx, leave = context.WithCancel(ctx)
						time.AfterFunc(row.own, leave)
					}
					if err := p.undoable(ctx, "create"); err != nil {
						return 0, err
					}
					if row.gives {
						return 0, flow.GiveUp(errSoldOut)
					}
					return 1, p.undoable(ctx, "charge")
				})
				open := func() {
					p = startFlows(t, l, onceward.Config{Journal: j}, flow.Config{Definitions: []flow.Definition{ride}})
				}
				open()
				ctx, leave := context.WithCancel(t.Context()) // a context without a deadline
				time.AfterFunc(5*time.Second, leave)
				require.Error(t, errOf(ride.Run(ctx, p.Flows, "order-991", 1)))
				if by == "Run" {
					require.ErrorIs(t, p.Run(ctx), context.Canceled)
				}
				require.Len(t, l.Sent(), 2, "it was told to wait")
				_ = p.Shutdown(t.Context())

				open()
				go func() { _ = p.Run(t.Context()) }()
				pass(5 * time.Minute)
				require.Len(t, l.Sent(), 3)
				assert.GreaterOrEqual(t, l.Sent()[2].At.Sub(l.Sent()[1].At), time.Minute)
				f, err := p.Flows.Flow(t.Context(), order991)
				require.NoError(t, err)
				assert.Equal(t, row.want, f.String())
			})
		}
	}
}

// A caller keeps the provider's Retry-After, too, if a hook panics as the caller leaves, so that the call returns
// nothing.
func TestPanicOfAHookKeepsTheRetryAfter(t *testing.T) {
	for _, row := range []struct {
		of      string
		replies []reply
		err     error // of the function
		state   flow.State
	}{
		{"a step", nil, nil, flow.StateFinished},
		{"an undo", []reply{says(200, paid)}, flow.GiveUp(errSoldOut), flow.StateGivenUp},
	} {
		each(t, row.of, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(append(row.replies, says(429, `{"error":{"message":"busy"}}`, "Retry-After", "60"))...)
			at := len(row.replies)
			calls := 0
			trace := &onceward.Trace{Ended: func(context.Context, onceward.Operation, error) {
				if calls++; calls == at+1 {
					panic("a hook's")
				}
			}}
			var p *process
			ride := flow.Define("ride", 1, func(ctx context.Context, _ int) (int, error) {
				if err := p.undoable(ctx, "create"); err != nil {
					return 0, err
				}
				return 1, row.err
			})
			p = startFlows(t, l, onceward.Config{Journal: j, Trace: trace}, flow.Config{Definitions: []flow.Definition{ride}})
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, leave)
			require.Panics(t, func() { _, _ = ride.Run(ctx, p.Flows, "order-991", 1) })
			require.Len(t, l.Sent(), at+1, "it was told to wait")

			go func() { _ = p.Run(t.Context()) }()
			pass(5 * time.Minute)
			require.Len(t, l.Sent(), at+2)
			assert.GreaterOrEqual(t, l.Sent()[at+1].At.Sub(l.Sent()[at].At), time.Minute)
			f, err := p.Flows.Flow(t.Context(), order991)
			require.NoError(t, err)
			assert.Equal(t, row.state, f.State)
		})
	}
}

// A flow waits for a Retry-After and for another operation's outcome. That outcome does not let it ask before
// the Retry-After is over.
func TestRetryAfterBesideAnOutcome(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(hangs(), says(429, `{"error":{"message":"busy"}}`, "Retry-After", "60"))
		var p *process
		ride := flow.Define("ride", 1, func(ctx context.Context, _ int) (int, error) {
			ctx = flow.Parallel(ctx, "note", "letter")
			asks := func(name string) error {
				_, err := flow.Step(ctx, name, func(ctx context.Context) (int, error) {
					out := p.Ask(ctx)
					if out.Err == nil && out.Status == http.StatusTooManyRequests {
						return 0, assert.AnError
					}
					return 1, out.Err
				})
				return err
			}
			note := make(chan error, 1)
			go func() { note <- asks("note") }()
			pass(time.Second) // so that the letter comes after it
			return 1, errors.Join(asks("letter"), <-note)
		})
		p = startFlows(t, l, onceward.Config{Journal: j}, flow.Config{Definitions: []flow.Definition{ride}})
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, leave)
		_, err := ride.Run(ctx, p.Flows, "order-991", 1)
		require.Error(t, err)
		require.Len(t, l.Sent(), 2, "it was told to wait")
		busy := l.Sent()[1]

		go func() { _ = p.Run(t.Context()) }()
		pass(5 * time.Minute)
		require.Len(t, l.Sent(), 4)
		for _, s := range l.Sent()[2:] {
			if s.Key == busy.Key {
				assert.GreaterOrEqual(t, s.At.Sub(busy.At), time.Minute)
			} else {
				assert.Less(t, s.At.Sub(busy.At), time.Minute, "the other one goes on")
			}
		}
		f, err := p.Flows.Flow(t.Context(), order991)
		require.NoError(t, err)
		assert.Equal(t, flow.StateFinished, f.State)
	})
}

// A flow with a refused credential waits, and is not undone.
func TestRefusedCredentialHasAFlowWait(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), wrongKey)
		p := startFlows(t, l, onceward.Config{Backoff: once})
		do := func(ctx context.Context) error {
			for _, name := range []string{"first", "second"} {
				_, err := flow.Step(ctx, name, func(ctx context.Context) (int, error) {
					out := p.Ask(ctx)
					if out.Err == nil && out.Status == 401 {
						return 0, assert.AnError
					}
					return 1, out.Err
				})
				if err != nil {
					return flow.GiveUp(err)
				}
			}
			return nil
		}
		err := p.Flow(t.Context(), "order-991", nil, do)
		require.ErrorIs(t, err, onceward.ErrPending)
		require.ErrorIs(t, err, onceward.ErrCredentialRefused)
		var e *flow.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, flow.StateWaiting, e.Flow.State)
		assert.False(t, e.Flow.Undoing)
		assert.Zero(t, e.Flow.Failures)
		pass(2 * time.Hour)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, do), "the credential is taken again")
		assert.Len(t, l.Sent(), 3)
		assert.Len(t, distinct(l.Keys()), 2)
	})
}

// vault is where Authorize has its credential from, as long as it is not sealed.
type vault struct{ sealed bool }

func (v *vault) authorize(req *http.Request) error {
	if v.sealed {
		return errors.New("the vault is sealed")
	}
	req.Header.Set("Authorization", "Bearer secret-1")
	return nil
}

func scoped() providers.Provider {
	p := own()
	p.CredentialScoped = true
	return p
}

// A flow is not given up for want of a credential.
func TestMissingCredentialDoesNotGiveUpAFlow(t *testing.T) {
	for name, c := range map[string]struct {
		provider providers.Provider
	}{
		"Authorize fails": {own()},
		"Authorize fails, and keys are scoped to a credential": {scoped()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, in := range []string{"a step", "an undo"} {
				virtual(t, in, func(t *testing.T) {
					l, v, opened := &line{}, &vault{}, false
					p := startFlows(t, l, onceward.Config{Backoff: once, Authorize: v.authorize, Providers: []providers.Provider{c.provider}})
					ask := func(ctx context.Context) (int, error) {
						return 1, p.Ask(ctx, to(http.MethodPost, ownURL)).Err
					}
					do := func(ctx context.Context) error {
						undo := flow.WithUndo(func(ctx context.Context, _ int) error { _, err := ask(ctx); return err })
						_, err := flow.Step(ctx, "first", ask, undo)
						if err == nil {
							v.sealed = in == "a step" && !opened
							_, err = flow.Step(ctx, "second", ask, undo)
						}
						if err == nil && in == "an undo" {
							v.sealed = !opened
							err = assert.AnError
						}
						if err != nil {
							return flow.GiveUp(err)
						}
						return nil
					}
					var e *flow.Error
					for range 20 {
						err := p.Flow(t.Context(), "order-991", nil, do)
						require.ErrorIs(t, err, onceward.ErrPending)
						require.ErrorAs(t, err, &e)
						assert.Equal(t, flow.StateWaiting, e.Flow.State)
						assert.Equal(t, in == "an undo", e.Flow.Undoing)
						assert.Zero(t, e.Flow.Failures)
						if asked, ok := errors.AsType[*onceward.Error](err); ok && !c.provider.CredentialScoped {
							assert.Equal(t, onceward.StatePending, asked.Operation.State, "it was begun")
						}
						pass(time.Hour)
					}
					sent := map[string]int{"a step": 1, "an undo": 2}[in]
					require.Len(t, l.Sent(), sent)
					v.sealed, opened = false, true
					err := p.Flow(t.Context(), "order-991", nil, do)
					if in == "a step" {
						require.NoError(t, err)
						assert.Len(t, l.Sent(), 2)
					} else {
						require.ErrorIs(t, err, flow.ErrGivenUp)
						assert.Len(t, l.Sent(), 4)
					}
					assert.Len(t, distinct(l.Keys()), len(l.Sent()))
				})
			}
		})
	}
}

// A flow is not given up by a caller that has lost the credential.
func TestLostCredentialDoesNotGiveUpAFlow(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		token := with("Authorization", "Bearer secret-1")
		options := []option{token}
		do := func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (int, error) { return 1, p.Ask(ctx, options...).Err })
			if err != nil && options == nil {
				return flow.GiveUp(err)
			}
			return err
		}
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, do), onceward.ErrPending)
		for range 3 {
			pass(time.Hour)
			options = nil
			err := p.Flow(t.Context(), "order-991", nil, do)
			require.ErrorIs(t, err, onceward.ErrPending)
			require.ErrorIs(t, err, onceward.ErrCredentialMissing)
			var e *flow.Error
			require.ErrorAs(t, err, &e)
			assert.False(t, e.Flow.Undoing)
		}
		pass(time.Hour)
		options = []option{token}
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, do))
		assert.Len(t, distinct(l.Keys()), 1)
	})
}

// A flow waits for an operation without an outcome.
func TestRunWaitsForAnOperation(t *testing.T) {
	virtual(t, "pending: until it is due", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := p.Sequence("create", "charge", "send")
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, onceward.ErrPending)
		told, ok := errors.AsType[*flow.Error](err)
		require.True(t, ok)
		assert.Equal(t, "charge", told.Step)
		op, err := p.Operation(t.Context(), told.Flow.WaitsFor)
		require.NoError(t, err)
		assert.Equal(t, op.DueAt, told.Flow.DueAt)
		assert.ErrorContains(t, told, "flow order-991: step charge: no outcome yet; due ")
		if op.DueAt.After(time.Now()) {
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		}
		pass(time.Minute)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
		assert.Equal(t, []string{"create", "charge", "send"}, l.Descriptions())
	})
	virtual(t, "unknown: until it is resolved", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), frozen)
		p := startFlows(t, l, onceward.Config{})
		run := p.Sequence("create", "charge", "send")
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		ref := p.flow("order-991").WaitsFor
		assert.Equal(t, "charge", ref.ID)
		_, err = p.ResolveAs(ref, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(paid)})
		require.NoError(t, err)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run), "at once")
		assert.Equal(t, []string{"create", "charge", "send"}, l.Descriptions())
	})
	virtual(t, "and Run goes on at once when it is", func(t *testing.T) {
		l := (&line{}).Then(frozen)
		s := newShop(t, l, 1, onceward.Config{})
		require.ErrorIs(t, errOf(s.flow.Run(t.Context(), s.Flows, "order-991", order{[]string{"create", "charge"}})), onceward.ErrOutcomeUnknown)
		go func() { _ = s.Run(t.Context()) }()
		pass(30 * time.Minute)
		f := s.process.flow("order-991")
		assert.Equal(t, flow.StateWaiting, f.State)
		assert.Zero(t, f.Failures, "to wait is no failure")
		_, err := s.ResolveAs(f.WaitsFor, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(paid)})
		require.NoError(t, err)
		pass(time.Second)
		assert.Equal(t, flow.StateFinished, s.process.flow("order-991").State)
		assert.Len(t, l.Sent(), 2)
	})
	virtual(t, "and Run asks less and less for an operation that it can't send", func(t *testing.T) {
		l, j := (&line{}).Then(refuses()), memory.New()
		knew := newShop(t, l, 1, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, errOf(knew.flow.Run(t.Context(), knew.Flows, "order-991", order{[]string{"charge"}})), onceward.ErrPending)
		knew.Crash()
		s := newShop(t, l, 1, onceward.Config{Journal: j, Providers: []providers.Provider{providers.Mollie()}})
		go func() { _ = s.Run(t.Context()) }()
		pass(time.Hour)
		assert.Equal(t, flow.StateWaiting, s.process.flow("order-991").State)
		assert.Less(t, len(s.ran), 100)
		assert.Greater(t, len(s.ran), 10)
	})
	virtual(t, "regardless of its own step's error", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
				_, _ = p.Post(ctx, "charge")
				return 0, nil
			})
			return err
		}
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		assert.Equal(t, "started → waiting", p.flow("order-991").String())
		pass(time.Hour)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
		assert.Equal(t, []string{"charge"}, l.Descriptions())
	})
	virtual(t, "regardless of the function's error", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_ = p.Step(ctx, "create")
			_ = p.Step(ctx, "charge")
			return nil
		})
		require.ErrorIs(t, err, onceward.ErrPending)
		assert.Empty(t, l.Sent(), "no further step is made")
	})
}

// A flow that keeps failing is set aside.
func TestRunThatKeepsFailingIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sorry := errors.New("no driver: https://api.example.com")
		p := startFlows(t, &line{}, onceward.Config{}, flow.Config{Backoff: backoff.Policy{MaxAttempts: 3}})
		runs := 0
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if err := p.Step(ctx, "create"); err != nil {
					return err
				}
				runs++
				_, err := flow.Step(ctx, "find", func(context.Context) (int, error) { return 0, sorry })
				return err
			})
		}
		for i := range 3 {
			err := run()
			require.ErrorIs(t, err, sorry)
			require.ErrorIs(t, err, flow.ErrFailed)
			assert.Equal(t, i == 2, errors.Is(err, flow.ErrSetAside))
			if i < 2 {
				require.ErrorIs(t, run(), onceward.ErrPending, "it backs off")
				pass(time.Minute)
			}
		}
		assert.Equal(t, 3, runs)
		require.ErrorIs(t, run(), flow.ErrSetAside)
		f := p.flow("order-991")
		assert.Equal(t, flow.StateSetAside, f.State)
		require.Len(t, f.History, 3)
		assert.Equal(t, sorry.Error(), f.History[0].Error)
		assert.Equal(t, "started → create → set aside", f.String())

		f, err := p.Flows.Retry(t.Context(), f.Ref)
		require.NoError(t, err)
		assert.Equal(t, flow.StateWaiting, f.State)
		require.ErrorIs(t, run(), sorry)
		assert.Equal(t, 1, p.flow("order-991").Failures)
	})
}

// A query is not recorded with a flow's error.
func TestQueryIsNotRecordedWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startFlows(t, (&line{}).Then(says(500, "")), onceward.Config{})
		require.Error(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "look up", func(ctx context.Context) (int, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/x?token=hidden", nil)
				require.NoError(t, err)
				_, err = (&http.Client{Transport: failingTransport{}}).Do(req)
				return 0, fmt.Errorf("look up: %w", errors.Join(errors.New("twice"), err, &url.Error{Op: "Get", URL: "https://[x?token=hidden", Err: err}))
			})
			return err
		}))
		assert.Contains(t, p.flow("order-991").History[0].Error, "look up: ")
		assert.NotContains(t, p.flow("order-991").History[0].Error, "hidden")
	})
}

type failingTransport struct{}

func (failingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, io.ErrUnexpectedEOF
}
