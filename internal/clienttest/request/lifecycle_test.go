package request_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

func TestShutdownWaitsForAttemptsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		caller := make(chan outcome, 1)
		go func() { caller <- p.Ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Equal(t, 10*time.Second, time.Since(began))
		require.NoError(t, (<-caller).Err)
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
	})
}

func TestShutdownInterruptsSlowAttempts(t *testing.T) {
	for _, row := range []struct {
		name  string
		first reply
		call  option
		kind  error
		then  journal.State
	}{
		{"and it is parked where the rule allows another", hangs(), with("X-Nothing", "1"), onceward.ErrPending, journal.StatePending},
		{"and it is parked within its answer too", stalls(), with("X-Nothing", "1"), onceward.ErrPending, journal.StatePending},
		{"and it is unknown where it does not", hangs(), to("POST", "https://elsewhere.example/"), onceward.ErrOutcomeUnknown, journal.StateUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.first)
			p := start(t, l, onceward.Config{})
			caller := make(chan outcome, 1)
			go func() { caller <- p.Ask(named(t, "invoice-1/charge"), row.call) }()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
			assert.Equal(t, 3*time.Second, time.Since(began))
			out := <-caller
			require.ErrorIs(t, out.Err, row.kind)
			require.ErrorIs(t, out.Err, onceward.ErrShutdown)
			assert.Equal(t, row.then, p.Recorded(out.Op.Ref).State)
		})
	}
}

// Shutdown parks an operation that waits for its next attempt.
func TestShutdownParksWaitingOperations(t *testing.T) {
	for _, row := range []struct {
		name     string
		first    reply
		answered bool // the caller gets its last answer
		own      bool // the provider asked for no pause
	}{
		{"after a refusal", says(429, "", "Retry-After", "60"), true, false},
		{"after an answer over the limit, which is given up", says(503, strings.Repeat("x", 100)), false, true},
		{"after a lost answer", loses(), false, true},
		{"that never left", refuses(), false, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.first)
			waiting := make(chan struct{}, 1)
			p := start(t, l, onceward.Config{MaxResponseBody: 10, Trace: &onceward.Trace{
				Delayed: func(context.Context, onceward.Operation, time.Duration) { waiting <- struct{}{} },
			}})
			caller := make(chan outcome, 1)
			go func() { caller <- p.Ask(named(t, "invoice-1/charge")) }()
			<-waiting
			began := time.Now()
			require.NoError(t, p.Shutdown(t.Context()))
			assert.Zero(t, time.Since(began))
			out := <-caller
			if !row.answered {
				require.ErrorIs(t, out.Err, onceward.ErrPending)
				require.ErrorIs(t, out.Err, onceward.ErrShutdown)
			}
			assert.Equal(t, onceward.StatePending, out.Op.State)
			assert.Equal(t, journal.StatePending, p.Recorded(out.Op.Ref).State)
			assert.Equal(t, row.own, p.Recorded(out.Op.Ref).DueOwn)
		})
	}
}

// Shutdown returns when its context ends, whatever is still running.
func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	for name, busy := range map[string]func(t *testing.T) *process{
		"a caller waits for another process": func(t *testing.T) *process {
			l := (&line{}).Then(takes(time.Minute, says(200, paid)))
			other := start(t, l, onceward.Config{})
			go other.Ask(named(t, "invoice-1/charge"))
			synctest.Wait()
			p := start(t, l, onceward.Config{Journal: other.Journal.Store})
			go p.Ask(named(t, "invoice-1/charge"))
			return p
		},
		"Outcomes.Handle takes its time": func(t *testing.T) *process {
			l := &line{}
			dead := start(t, l, onceward.Config{Outcomes: &onceward.Outcomes{Handle: (&settler{}).Settle}})
			dead.Leaves(named(t, "invoice-1/charge"))
			dead.Crash()
			p := start(t, l, onceward.Config{Journal: dead.Journal.Store, Outcomes: &onceward.Outcomes{Handle: func(ctx context.Context, _ onceward.Operation) error {
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
				return ctx.Err()
			}}})
			go func() { _ = p.Run(context.Background()) }()
			return p
		},
		"Authorize takes its time": func(t *testing.T) *process {
			p := start(t, &line{}, onceward.Config{Authorize: func(r *http.Request) error {
				select {
				case <-r.Context().Done():
				case <-time.After(time.Minute):
				}
				return r.Context().Err()
			}})
			go p.Ask(named(t, "invoice-1/charge"))
			return p
		},
	} {
		virtual(t, name, func(t *testing.T) {
			p := busy(t)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			_ = p.Shutdown(ctx)
			assert.LessOrEqual(t, time.Since(began), 3*time.Second)
			pass(2 * time.Minute)
		})
	}
}

func TestNothingIsDoneAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, p.Shutdown(t.Context()), "twice is harmless")

		require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge")).Err, onceward.ErrShutdown)
		require.ErrorIs(t, p.Ask(named(t, "invoice-2/charge")).Err, onceward.ErrShutdown)
		require.ErrorIs(t, p.Ask(named(t, "invoice-3/charge"), func(r *http.Request) {
			r.Body, r.GetBody = io.NopCloser(brokenBody), nil
		}).Err, onceward.ErrShutdown, "no body is read for that")
		_, err := p.Resume(t.Context())
		require.ErrorIs(t, err, onceward.ErrShutdown)
		require.NoError(t, p.Run(t.Context()))
		assert.Len(t, l.Sent(), 1)
		assert.Len(t, p.Everything(), 1)

		next := start(t, l, onceward.Config{Journal: p.Journal.Store})
		require.NoError(t, next.Ask(named(t, "invoice-1/charge")).Err, "the journal is the caller's, and still open")
	})
}

func TestShutdownEndsAResumeUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		leavesInFlight(t, dead, l,
			func() { dead.Ask(named(t, "invoice-1/charge")) },
			func() { dead.Ask(named(t, "invoice-2/charge")) },
		)
		l.Always(takes(time.Second, says(200, paid)))
		next := start(t, l, onceward.Config{Journal: dead.Journal.Store, Concurrency: 1})
		resumed := make(chan error, 1)
		go func() {
			_, err := next.Resume(t.Context())
			resumed <- err
		}()
		synctest.Wait()
		require.NoError(t, next.Shutdown(t.Context()))
		require.ErrorIs(t, <-resumed, onceward.ErrShutdown)
		for _, op := range next.Everything() {
			if op.State == journal.StateInFlight {
				assert.Equal(t, dead.Journal.Sessions()[0].ID(), op.Holder, "nothing is left in this process's hands")
			}
		}
	})
}

// A client whose journal was closed, or that was shut down, fails every call at once. No call waits for the end of its
// context.
func TestClosedJournalFailsCallsAtOnce(t *testing.T) {
	t.Parallel()
	ref := onceward.Ref{ID: "invoice-1/charge"}
	stores := map[string]func(*testing.T) machine.Store{
		"memory": func(*testing.T) machine.Store { return memory.New() },
		"sqlite": func(t *testing.T) machine.Store {
			j, err := sqlite.Open(filepath.Join(t.TempDir(), "payments.db"), sqlite.Options{Volatile: true})
			require.NoError(t, err)
			return j
		},
	}
	orders := []struct {
		name           string
		shutdown, then bool  // Shutdown comes before Close, and after it
		told           error // the error of later calls
	}{
		{"Close", false, false, journal.ErrClosed},
		{"Close before Shutdown", false, true, onceward.ErrShutdown},
		{"Shutdown before Close", true, false, onceward.ErrShutdown},
	}
	// Each of these is running, or finished, when the client is closed.
	left := []struct {
		name    string
		begin   func(ctx context.Context, p *process, l *line, order *flow.Func[string, string]) error
		missing bool // it can't be recorded once the journal is closed
	}{
		{"nothing", func(context.Context, *process, *line, *flow.Func[string, string]) error { return nil }, false},
		{"an operation", func(ctx context.Context, p *process, _ *line, _ *flow.Func[string, string]) error {
			return p.Ask(onceward.WithOperation(ctx, "invoice-2/charge")).Err
		}, false},
		{"an attempt", func(ctx context.Context, p *process, l *line, _ *flow.Func[string, string]) error {
			l.Then(takes(time.Second, says(200, paid)))
			go p.Ask(onceward.WithOperation(ctx, "invoice-2/charge"))
			return nil
		}, true},
		{"a step", func(ctx context.Context, p *process, _ *line, order *flow.Func[string, string]) error {
			go func() { _, _ = order.Run(ctx, p.Flows, "order-2", "takes its time") }()
			return nil
		}, false},
		{"Run", func(ctx context.Context, p *process, _ *line, _ *flow.Func[string, string]) error {
			go func() { _ = p.Run(ctx) }()
			return nil
		}, false},
	}
	for store, open := range stores {
		for _, order := range orders {
			for _, what := range left {
				virtual(t, store+", "+order.name+", after "+what.name, func(t *testing.T) {
					j, l := open(t), &line{}
					ride := flow.Define("order", 1, func(ctx context.Context, in string) (string, error) {
						return flow.Step(ctx, "pack", func(context.Context) (string, error) {
							<-time.After(time.Second)
							return in, nil
						})
					})
					c, err := onceward.New(onceward.Config{
						Journal: j, Providers: []providers.Provider{providers.Stripe()},
						HTTPClient: &http.Client{Transport: l},
					})
					require.NoError(t, err)
					flows, err := flow.New(c, flow.Config{Definitions: []flow.Definition{ride}})
					require.NoError(t, err)
					p := oncetest.Of(t, c, flows)
					ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
					defer cancel()
					require.NoError(t, what.begin(ctx, p, l, ride))
					synctest.Wait()

					if order.shutdown {
						require.NoError(t, p.Shutdown(ctx))
					}
					require.NoError(t, j.Close())
					require.ErrorIs(t, j.Close(), journal.ErrClosed)
					pass(2 * time.Second) // running work ends
					unrecorded := what.missing && !order.shutdown
					shutDown := func() {
						err := p.Shutdown(ctx)
						if unrecorded {
							require.ErrorIs(t, err, journal.ErrClosed)
						} else {
							require.NoError(t, err)
						}
					}
					if order.then {
						shutDown()
					}

					require.ErrorIs(t, p.Ask(onceward.WithOperation(ctx, ref.ID)).Err, order.told)
					_, err = ride.Run(ctx, p.Flows, "order-1", "")
					require.ErrorIs(t, err, order.told)
					_, err = p.Resume(ctx)
					require.ErrorIs(t, err, order.told)
					err = p.Run(ctx)
					if order.told == onceward.ErrShutdown {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, order.told)
					}
					_, err = p.Wait(ctx, ref)
					require.ErrorIs(t, err, journal.ErrClosed)
					_, err = p.Operation(ctx, ref)
					require.ErrorIs(t, err, journal.ErrClosed)
					_, err = p.Resolve(ctx, onceward.Seen{Ref: ref}, onceward.Executed, onceward.ResolveOptions{})
					require.ErrorIs(t, err, journal.ErrClosed)
					shutDown()
					shutDown()
					require.NoError(t, ctx.Err(), "something waited for its context")
				})
			}
		}
	}
}

func TestShutdownUnderAContextThatHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range 20 { // which of two channels is ready is drawn
		synctest.Test(t, func(t *testing.T) {
			p := start(t, &line{}, onceward.Config{})
			require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
			require.NoError(t, p.Shutdown(ended), "there is nothing to break off: %d", i)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := start(t, (&line{}).Then(hangs()), onceward.Config{})
		caller := make(chan outcome, 1)
		go func() { caller <- p.Ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		require.ErrorIs(t, p.Shutdown(ended), context.Canceled)
		require.ErrorIs(t, (<-caller).Err, onceward.ErrShutdown)
		assert.Equal(t, journal.StatePending, p.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
		require.NoError(t, p.Shutdown(ended), "the second time there is nothing to break off")
	})
}

func TestACallLeavesNothingBehind(t *testing.T) {
	p := start(t, &line{}, onceward.Config{Providers: []providers.Provider{providers.Stripe(), own()}})
	const calls = 20
	freed := make(chan struct{}, calls)
	for range calls {
		func() {
			type weight [1 << 10]byte
			w := &weight{}
			runtime.AddCleanup(w, func(freed chan struct{}) { freed <- struct{}{} }, freed)
			ctx := context.WithValue(t.Context(), w, w)
			require.NoError(t, p.Ask(ctx).Err)
		}()
	}
	free := 0
	for again := 0; free < calls-1 && again < 1000; { // a register may hold the last one
		runtime.GC()
		select {
		case <-freed:
			free++
		case <-time.After(10 * time.Millisecond): // cleanups run when they like
			again++
		}
	}
	assert.GreaterOrEqual(t, free, calls-1, "what calls were made with is held")
}

// Close waits for an attempt, and breaks it off after ten seconds, even if every context of the program has ended.
func TestCloseEndsWithinTenSeconds(t *testing.T) {
	for _, row := range []struct {
		name  string
		reply reply
		takes time.Duration
		state journal.State
	}{
		{"an attempt of eight seconds", takes(8*time.Second, says(200, paid)), 8 * time.Second, journal.StateCompleted},
		{"an attempt that hangs", hangs(), 10 * time.Second, journal.StatePending},
	} {
		virtual(t, row.name, func(t *testing.T) {
			p := start(t, (&line{}).Then(row.reply), onceward.Config{})
			caller := make(chan outcome, 1)
			go func() { caller <- p.Ask(named(t, "invoice-1/charge"), with("X-Nothing", "1")) }()
			synctest.Wait()
			began := time.Now()
			err := p.Close()
			assert.Equal(t, row.takes, time.Since(began))
			if row.state == journal.StateCompleted {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			<-caller
			assert.Equal(t, row.state, p.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
			_, err = p.Resume(t.Context())
			require.ErrorIs(t, err, onceward.ErrShutdown)
		})
	}
}

// Do names the request's operation: a second Do by the name gets the recorded answer.
func TestDoNamesTheOperation(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := start(t, (&line{}).Then(says(200, paid)), onceward.Config{})
		for _, replayed := range []bool{false, true} {
			resp, err := p.Do(keyed(t.Context()), "invoice-1/charge")
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			op, recorded := onceward.OperationOf(resp)
			require.True(t, recorded)
			assert.Equal(t, onceward.Ref{ID: "invoice-1/charge"}, op.Ref)
			assert.Equal(t, replayed, op.Replayed)
		}
	})
}
