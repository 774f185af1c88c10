package background_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func TestResumeFinishesOperationsOfADeadProcess(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		namedOnly bool
	}{{"all of it", false}, {"named operations only", true}} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := &line{}
			dead := start(t, l, onceward.Config{Journal: j})
			leavesInFlight(t, dead, l,
				func() { dead.Ask(named(t, "invoice-1/charge"), with("X-Request-Id", "r1")) },
				func() { dead.Ask(t.Context()) },
				func() { dead.Ask(t.Context(), carrying("sdk-1")) },
			)
			left := l.Keys()
			require.Len(t, left, 3)
			requireUUID(t, 4, left[1])

			next := start(t, l, onceward.Config{Journal: dead.Journal.Store, NamedOnly: row.namedOnly})
			report, err := next.Resume(t.Context())
			require.NoError(t, err)
			resumed := l.Sent()[3:]
			assert.Equal(t, 3, report.Claimed)
			if row.namedOnly {
				require.Len(t, resumed, 1)
				assert.Equal(t, 1, report.Completed)
				assert.Equal(t, 2, report.Unknown)
				require.Len(t, report.Problems, 2)
				for _, problem := range report.Problems {
					require.ErrorIs(t, problem, onceward.ErrOutcomeUnknown)
				}
			} else {
				require.Len(t, resumed, 3)
				assert.Equal(t, 3, report.Completed)
				assert.Empty(t, report.Problems)
			}
			for _, s := range resumed {
				assert.Contains(t, left, s.Key)
				if s.Key == left[0] {
					assert.Equal(t, chargeForm, s.Body)
					assert.Equal(t, "r1", s.Header.Get("X-Request-Id"), "recorded headers are sent again")
				}
			}
			again := next.Ask(named(t, "invoice-1/charge"))
			require.NoError(t, again.Err)
			assert.True(t, again.Op.Replayed)

			report, err = next.Resume(t.Context())
			require.NoError(t, err)
			assert.Zero(t, report.Claimed)
		})
	}
}

// Resume sends the oldest operations first, and as many at a time as there are slots.
func TestResumeSendsTheOldestFirst(t *testing.T) {
	for _, concurrency := range []int{1, 3} {
		virtual(t, fmt.Sprint(concurrency), func(t *testing.T) {
			l := &line{}
			dead := start(t, l, onceward.Config{})
			var calls []func()
			for i := range 10 {
				calls = append(calls, func() { dead.Ask(named(t, fmt.Sprint("invoice-", i)), with("X-Number", fmt.Sprint(i))) })
			}
			leavesInFlight(t, dead, l, calls...)
			l = (&line{}).Always(takes(time.Second, says(200, paid)))
			next := start(t, l, onceward.Config{Journal: dead.Journal.Store, Concurrency: concurrency})
			report, err := next.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 10, report.Completed)
			assert.Equal(t, concurrency, l.Most())
			for i, s := range l.Sent() {
				if concurrency == 1 {
					assert.Equal(t, fmt.Sprint(i), s.Header.Get("X-Number"))
				}
			}
		})
	}
}

// Resume does not send an unnamed operation once its caller has an outcome.
func TestResumeLeavesUnnamedOperations(t *testing.T) {
	t.Parallel()
	virtual(t, "with a key of ours it is unknown, for good", func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Backoff: once})
		out := p.Ask(t.Context())
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		pass(48 * time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Claimed)
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "with a key of ours, and nothing left, it is cancelled", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Backoff: once})
		out := p.Ask(t.Context())
		require.ErrorIs(t, out.Err, onceward.ErrNotSent)
		assert.Equal(t, onceward.StateCancelled, out.Op.State)
	})
	for _, row := range []struct {
		name  string
		first reply
		after time.Duration
		end   onceward.State
	}{
		{"with a carried key it waits for its caller", loses(), time.Hour, onceward.StateCompleted},
		{"with a carried key it is unknown at the end of its window", loses(), 24 * time.Hour, onceward.StateUnknown},
		{"with a carried key that never left it is cancelled at the end", refuses(), 24 * time.Hour, onceward.StateCancelled},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.first)
			p := start(t, l, onceward.Config{Backoff: once})
			require.ErrorIs(t, p.Ask(t.Context(), carrying("sdk-1")).Err, onceward.ErrPending)
			before := len(l.Sent())
			running, stop := context.WithCancel(seam.Seldom(t.Context(), time.Minute))
			done := make(chan error, 1)
			go func() { done <- p.Run(running) }()
			pass(row.after)
			stop()
			require.ErrorIs(t, <-done, context.Canceled)
			require.Len(t, l.Sent(), before, "nothing in the background")
			if row.end == onceward.StateCompleted {
				require.NoError(t, p.Ask(t.Context(), carrying("sdk-1")).Err)
				assert.Equal(t, []string{"sdk-1", "sdk-1"}, l.Keys())
			}
			assert.Equal(t, row.end, p.Recorded(carriedRef("sdk-1")).State)
		})
	}
}

// A withheld credential is missing until Authorize adds it.
func TestResumeWithoutTheCredential(t *testing.T) {
	for _, row := range []struct {
		name      string
		call      option
		authorize func(*http.Request) error
		header    string
		url       string
	}{
		{"a header", with("Authorization", "Bearer s3cr3t"), func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer s3cr3t")
			return nil
		}, "Bearer s3cr3t", chargeURL},
		{"a query parameter", to(http.MethodPost, chargeURL+"?expand=all&api_key=s3cr3t"), func(r *http.Request) error {
			query := r.URL.Query()
			query.Set("api_key", "s3cr3t")
			r.URL.RawQuery = query.Encode()
			return nil
		}, "", chargeURL + "?api_key=s3cr3t&expand=all"},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := &line{}
			dead := start(t, l, onceward.Config{})
			leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "invoice-1/charge"), row.call) })

			poor := start(t, l, onceward.Config{Journal: dead.Journal.Store})
			report, err := poor.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Parked)
			require.Len(t, report.Problems, 1)
			require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
			require.ErrorIs(t, report.Problems[0], onceward.ErrPending)
			assert.NotContains(t, report.Problems[0].Error(), "s3cr3t")
			assert.Equal(t, journal.StatePending, poor.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
			require.Len(t, l.Sent(), 1)

			rich := start(t, l, onceward.Config{Journal: dead.Journal.Store, Authorize: row.authorize})
			pass(time.Hour)
			report, err = rich.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
			require.Len(t, l.Sent(), 2)
			assert.Equal(t, l.Keys()[0], l.Keys()[1])
			assert.Equal(t, row.header, l.Sent()[1].Header.Get("Authorization"))
			assert.Equal(t, row.url, l.Sent()[1].URL)
		})
	}
}

// An operation waits for its provider to come back.
func TestResumeWaitsForTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "invoice-1/charge")) })

		other := providers.Raw(24 * time.Hour).WithStoredFailures() // serves that host too, under another contract
		gone := start(t, l, onceward.Config{Journal: dead.Journal.Store, Providers: []providers.Provider{other}})
		report, err := gone.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Claimed)
		assert.Equal(t, 1, report.PassedOver)
		require.Len(t, report.Problems, 1)
		require.ErrorIs(t, report.Problems[0], onceward.ErrPending)
		assert.Len(t, l.Sent(), 1)

		back := start(t, l, onceward.Config{Journal: dead.Journal.Store})
		pass(time.Hour)
		report, err = back.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
	})
}

// Two processes on one journal split what is pending.
func TestResumeInTwoProcesses(t *testing.T) {
	t.Parallel()
	const many = 200
	eachJournal(t, func(t *testing.T, open func() machine.Store) {
		l := (&line{}).Always(says(429, "", "Retry-After-Ms", "1"))
		first := start(t, l, onceward.Config{Journal: open(), Backoff: once})
		var callers sync.WaitGroup
		for i := range many {
			callers.Go(func() {
				ctx, cancel := context.WithCancel(named(t, fmt.Sprint("invoice-", i)))
				defer cancel()
				first.Ask(ctx)
			})
		}
		callers.Wait()
		first.Crash()
		for _, op := range first.Everything() {
			require.Equal(t, journal.StatePending, op.State)
		}
		before := len(l.Sent())
		l.Always(says(200, paid))

		// The clocks of these processes are past the due times.
		late := func() time.Time { return time.Now().Add(time.Hour) }
		var both sync.WaitGroup
		reports := make([]onceward.Report, 2)
		for i := range reports {
			p := start(t, l, onceward.Config{Journal: open()})
			setClock(p.Client, late)
			both.Go(func() {
				var err error
				reports[i], err = p.Resume(t.Context())
				assert.NoError(t, err)
			})
		}
		both.Wait()
		assert.Equal(t, many, reports[0].Completed+reports[1].Completed)
		seen := map[string]int{}
		for _, s := range l.Sent()[before:] {
			seen[s.Key]++
		}
		assert.Len(t, seen, many)
		assert.Len(t, l.Sent(), before+many, "each was sent once")
	})
}

func TestProgressIsReportedOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		var calls []func()
		for i := range 100 {
			calls = append(calls, func() { dead.Ask(named(t, fmt.Sprint("invoice-", i))) })
		}
		leavesInFlight(t, dead, l, calls...)
		l.Always(takes(100*time.Millisecond, says(200, paid)))
		var at []time.Time
		var reports []onceward.Report
		next := start(t, l, onceward.Config{Journal: dead.Journal.Store, Concurrency: 1, Trace: &onceward.Trace{
			Progress: func(r onceward.Report) { at, reports = append(at, time.Now()), append(reports, r) },
		}})
		began := time.Now()
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		require.Greater(t, len(at), 5)
		for i := 1; i < len(at)-1; i++ {
			assert.Equal(t, time.Second, at[i].Sub(at[i-1]))
			assert.GreaterOrEqual(t, reports[i].Completed, reports[i-1].Completed)
		}
		for i := range at {
			assert.Equal(t, at[i].Sub(began), reports[i].Elapsed)
		}
		assert.Equal(t, 100, reports[len(reports)-1].Completed)
		assert.Equal(t, 10*time.Second, report.Elapsed)
	})
}

// Resume reports flows' results, beside operations.
func TestResumeReportsFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := true
		tries := flow.Define("tries", 1, func(context.Context, string) (string, error) {
			if fails {
				return "", errors.New("not yet")
			}
			return "done", nil
		})
		p := startFlows(t, &line{}, onceward.Config{}, flow.Config{Definitions: []flow.Definition{tries}})
		_, err := tries.Run(t.Context(), p.Flows, "order-1", "x")
		require.Error(t, err)
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.FlowReport{Claimed: 1, Waiting: 1, Problems: report.Flows.Problems}, report.Flows)
		assert.Len(t, report.Flows.Problems, 1)
		fails = false
		pass(time.Hour)
		report, err = p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.FlowReport{Claimed: 1, Finished: 1}, report.Flows)
	})
}

// Run reports at each pass's end, however short the pause between two.
func TestRunReportsItsPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		var calls []func()
		for i := range 5 {
			calls = append(calls, func() { dead.Ask(named(t, fmt.Sprint("invoice-", i))) })
		}
		leavesInFlight(t, dead, l, calls...)
		l.Always(takes(100*time.Millisecond, says(200, paid)))
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		var last onceward.Report
		soon, began := 0, time.Now() // how many reports came within a second
		next := start(t, l, onceward.Config{Journal: dead.Journal.Store, Concurrency: 1, Trace: &onceward.Trace{
			Progress: func(r onceward.Report) {
				if last = r; time.Since(began) < time.Second {
					soon++
				}
				if r.Completed == 5 {
					stop()
				}
			},
		}})
		require.ErrorIs(t, next.Run(ctx), context.Canceled)
		assert.Equal(t, 5, last.Claimed)
		assert.Greater(t, soon, 2)
	})
}

func TestRunSendsParkedOperationsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(429, "", "Retry-After", "3600"), says(429, "", "Retry-After", "600"))
		p := start(t, l, onceward.Config{Backoff: once})
		done := make(chan error, 1)
		go func() { done <- p.Run(context.Background()) }()
		pass(time.Hour) // Run has nothing to do for long
		began := time.Now()
		require.Equal(t, 429, p.Ask(named(t, "invoice-1/charge")).Status)
		pass(2 * time.Hour)
		sent := l.Sent()
		require.Len(t, sent, 3)
		for i, waited := range []time.Duration{0, time.Hour, time.Hour + 10*time.Minute} {
			late := time.Second
			if i == 2 { // an operation that Run has sent in vain leaves the next probe to others
				late = 15 * time.Second
			}
			assert.WithinRange(t, sent[i].At, began.Add(waited), began.Add(waited+late))
			assert.Equal(t, sent[0].Key, sent[i].Key)
		}
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

// Run sends a cancelled caller's operation at once, and not in its next pass.
func TestRunSendsAbandonedCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(hangs())
		p := start(t, l, onceward.Config{})
		done := make(chan error, 1)
		go func() { done <- p.Run(context.Background()) }()
		pass(time.Hour + time.Second)
		ctx, giveUp := context.WithCancel(named(t, invoice))
		asked := make(chan error, 1)
		go func() { asked <- p.Ask(ctx).Err }()
		pass(20 * time.Second)
		giveUp()
		require.ErrorIs(t, <-asked, context.Canceled)
		pass(100 * time.Millisecond)
		assert.Len(t, l.Sent(), 2)
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: invoice}).State)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

func TestRunNoticesAnotherProcesssDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		next := start(t, l, onceward.Config{Journal: dead.Journal.Store})
		done := make(chan error, 1)
		running, stop := context.WithCancel(t.Context())
		go func() { done <- next.Run(running) }()
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "invoice-1/charge")) })
		pass(10 * time.Second)
		assert.Equal(t, journal.StateCompleted, next.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestRunReapsExpiredOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Keep: 30 * time.Hour})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		unnamed := p.Ask(t.Context())
		require.NoError(t, unnamed.Err)
		done := make(chan error, 1)
		go func() { done <- p.Run(seam.Seldom(context.Background(), time.Minute)) }()
		pass(29 * time.Hour)
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		pass(2 * time.Hour)
		require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge")).Err, onceward.ErrAnswerGone)
		_, err := p.Operation(t.Context(), unnamed.Op.Ref)
		require.ErrorIs(t, err, journal.ErrNotFound)
		assert.Len(t, l.Sent(), 2)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

func TestResumeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		var calls []func()
		for i := range 10 {
			calls = append(calls, func() { dead.Ask(named(t, fmt.Sprint("invoice-", i))) })
		}
		leavesInFlight(t, dead, l, calls...)
		l.Always(takes(time.Second, says(200, paid)))
		next := start(t, l, onceward.Config{Journal: dead.Journal.Store, Concurrency: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		report, err := next.Resume(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2, report.Completed)
		for _, op := range next.Everything() {
			if op.State == journal.StateInFlight {
				assert.Equal(t, dead.Journal.Sessions()[0].ID(), op.Holder, "nothing is claimed and forgotten")
			}
		}
		report, err = next.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Unknown)
	})
}

// A panic in the background parks the operation, and does not end the program.
func TestPanicInTheBackgroundParks(t *testing.T) {
	virtual(t, "Authorize", func(t *testing.T) {
		l := &line{}
		j := memory.New()
		dead := start(t, l, onceward.Config{Journal: j})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "a")) })
		var broken atomic.Bool
		broken.Store(true)
		p := start(t, l, onceward.Config{Journal: j, Authorize: func(*http.Request) error {
			if broken.Load() {
				panic("a bug")
			}
			return nil
		}})
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StatePending, p.Recorded(onceward.Ref{ID: "a"}).State)
		broken.Store(false)
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
	})
}

// A panic in a flow's function does not end the program, and the flow runs again.
func TestPanicOfAFlowInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		broken := true
		buggy := flow.Define("buggy", 1, func(context.Context, string) (string, error) {
			if broken {
				panic("a bug")
			}
			return "done", nil
		})
		p := startFlows(t, &line{}, onceward.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, flow.Config{Definitions: []flow.Definition{buggy}})
		require.Panics(t, func() { _, _ = buggy.Run(t.Context(), p.Flows, "order-1", "x") })
		pass(time.Hour)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Contains(t, logged.String(), "a bug")
		broken = false
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Flows.Finished)
	})
}

// counts counts the calls that a pass makes to the journal.
type counts struct {
	machine.Store
	mu           sync.Mutex
	looks, reaps int
	claimFails   bool
	reapFails    bool
	reapTakes    time.Duration
}

func (j *counts) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	j.mu.Lock()
	defer j.mu.Unlock()
	if slices.Contains(f.States, journal.StateInFlight) {
		j.looks++
	}
	return j.Store.List(ctx, f)
}

func (j *counts) Reap(ctx context.Context, ev machine.Event, limit int) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reaps++
	if j.reapFails {
		return 0, errNoDisk
	}
	<-time.After(j.reapTakes)
	return j.Store.Reap(ctx, ev, limit)
}

func (j *counts) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if j.claimFails {
		return nil, errNoDisk
	}
	return j.Store.Claim(ctx, ev, limit)
}

var errNoDisk = errors.New("there is no disk")

// A Run that has nothing to do reads the whole journal every ten minutes.
func TestRunWithNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &counts{Store: memory.New()}
		var told int
		var logged bytes.Buffer
		p := start(t, &line{}, onceward.Config{Journal: j, Logger: slog.New(slog.NewTextHandler(&logged, nil)), Trace: &onceward.Trace{Progress: func(onceward.Report) { told++ }}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		pass(time.Hour - time.Minute)
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
		assert.Equal(t, 6, j.looks)
		assert.Equal(t, 6, j.reaps)
		assert.Zero(t, told, "nothing was done")
		assert.Empty(t, logged.String())
	})
}

func TestRunGoesOnThoughThePassesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &counts{Store: memory.New(), claimFails: true}
		var logged bytes.Buffer
		var failed int
		p := start(t, &line{}, onceward.Config{Journal: j, Logger: slog.New(slog.NewTextHandler(&logged, nil)), Trace: &onceward.Trace{PassFailed: func(context.Context, error) { failed++ }}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		pass(time.Minute - time.Second/2)
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
		assert.Equal(t, 60, failed, "once a second")
		assert.Equal(t, 1, strings.Count(logged.String(), errNoDisk.Error()), "once a minute")
		assert.Zero(t, j.looks)
		assert.Zero(t, j.reaps)
	})
}

func TestRunReportsFailedReaping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &counts{Store: memory.New(), reapFails: true}
		var logged bytes.Buffer
		p := start(t, &line{}, onceward.Config{Journal: j, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 1, strings.Count(logged.String(), errNoDisk.Error()))
	})
}

// An operation that can't be reaped, such as a damaged one, does not keep flows from being reaped. Operations that were
// reaped beside it are counted.
func TestRunReapsFlowsBesideAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &reapsSome{Journal: memory.New()}
		reaped := 0
		c, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{providers.Raw(24 * time.Hour).WithStoredFailures()}, Trace: &onceward.Trace{Reaped: func(_ context.Context, n int) { reaped += n }}})
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, c.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 3+2, reaped)
	})
}

// reapsSome is a journal that reaps three operations and two flows, and then no more.
type reapsSome struct {
	*memory.Journal
	operations, flows atomic.Int64
}

func (j *reapsSome) Reap(context.Context, machine.Event, int) (int, error) {
	return max(0, 6-3*int(j.operations.Add(1))), errNoDisk
}

func (j *reapsSome) ReapFlows(context.Context, machine.FlowEvent, int) (int, error) {
	return max(0, 4-2*int(j.flows.Add(1))), nil
}

// Due operations are sent between two batches of reaping, each of which takes a second at most.
func TestRunReapsEveryExpiredOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 300
		l := &line{}
		was := start(t, l, onceward.Config{})
		for i := range many {
			require.NoError(t, was.Ask(named(t, fmt.Sprint("invoice-", i))).Err)
		}
		was.PassInUse(3 * 24 * time.Hour)
		require.ErrorIs(t, start(t, (&line{}).Always(refuses()), onceward.Config{Journal: was.Journal.Store, Backoff: once}).Ask(named(t, "due")).Err, onceward.ErrPending)
		pass(time.Minute)
		j := &counts{Store: was.Journal.Store, reapTakes: 2 * time.Second}
		var last onceward.Report
		p := start(t, l, onceward.Config{Journal: j, Keep: time.Hour, Trace: &onceward.Trace{Progress: func(r onceward.Report) { last = r }}})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		began := time.Now()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, many+3, last.Reaped, "with those that saw the time pass")
		assert.Equal(t, 1, last.Completed)
		assert.Equal(t, 4, j.reaps)
		sent := l.Sent()
		assert.Equal(t, began, sent[len(sent)-1].At)
	})
}

func TestPassReportsItsResult(t *testing.T) {
	for name, byRun := range map[string]bool{"Resume": false, "Run": true} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Backoff: once})
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			pass(time.Hour)
			var told []onceward.Report
			p = start(t, l, onceward.Config{Journal: p.Journal.Store, Trace: &onceward.Trace{Progress: func(r onceward.Report) { told = append(told, r) }}})
			if byRun {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
			} else {
				_, err := p.Resume(t.Context())
				require.NoError(t, err)
				require.Len(t, told, 1)
			}
			last := told[len(told)-1]
			assert.Equal(t, 1, last.Claimed)
			assert.Equal(t, 1, last.Completed)
		})
	}
}

func TestProblemsNameUpToAHundredOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Backoff: once})
		for i := range 120 {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("invoice-", i))).Err, onceward.ErrPending)
		}
		pass(2 * time.Hour)
		report, err := start(t, l, onceward.Config{Journal: p.Journal.Store, Backoff: backoff.Policy{MaxAttempts: 1000}, RetryBudget: backoff.Budget{Capacity: 1}}).Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 120, report.Parked+report.PassedOver)
		require.Len(t, report.Problems, 100)
		for _, e := range report.Problems {
			require.ErrorIs(t, e, onceward.ErrPending)
			require.ErrorContains(t, e, "POST "+chargeURL)
			require.True(t, e.InBackground)
		}
	})
}

// Run knows when the next operation is due, however many are due later.
func TestRunWakesForTheNextDueOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(says(429, "", "Retry-After", "3600"))
		p := start(t, l, onceward.Config{Backoff: once})
		for i := range 150 {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("invoice-", i))).Err, onceward.ErrPending)
		}
		l.Always(says(200, paid))
		began := time.Now()
		l.Then(says(429, "", "Retry-After", "63"))
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		wake := p.Recorded(onceward.Ref{ID: invoice}).WakeAt
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		sent := l.Sent()
		require.Len(t, sent, 152)
		assert.WithinDuration(t, wake, sent[151].At, 20*time.Millisecond, "since %v", began)
	})
}

// A failed pass is reported to Trace, and repeated whatever the hook does.
func TestPassThatFailsIsMadeAgain(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &claimsNot{Journal: memory.New()}
		var mu sync.Mutex
		failed := map[error]int{}
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Reconcile: &onceward.Reconcile{}, Trace: &onceward.Trace{
			PassFailed: func(_ context.Context, err error) {
				mu.Lock()
				defer mu.Unlock()
				failed[err]++
				panic("a bug")
			},
		}})
		require.ErrorIs(t, p.Ask(named(t, "invoice-1")).Err, onceward.ErrPending)
		l.Always(says(200, paid))
		j.Fails.Store(2)
		j.FailsLooks.Store(3)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, map[error]int{errDiskFull: 2, errLooks: 3}, failed)
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: "invoice-1"}).State)
	})
}

// An operation that becomes unknown because its process died is logged, and reported to Trace.
func TestResumeReportsUnknownOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, invoice), to(http.MethodPost, "https://elsewhere.example/")) })
		var told []error
		next := start(t, l, onceward.Config{Journal: dead.Journal.Store, Trace: &onceward.Trace{Ended: func(_ context.Context, op onceward.Operation, err error) {
			told = append(told, err)
		}}})
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Unknown)
		assert.Equal(t, []error{onceward.ErrOutcomeUnknown}, told)
	})
}

// A Run whose context ends waits for a look-up that ignores its context.
func TestRunWaitsForItsLookups(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var begun, over bool
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			begun = true
			<-time.After(time.Minute)
			over = true
			return onceward.Finding{}, nil
		}}}, unlooked)
		l.Loses("invoice-1", providertest.DropAfter())
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		require.ErrorIs(t, l.Run(ctx), context.DeadlineExceeded)
		assert.True(t, begun)
		assert.True(t, over)
	})
}

// A Shutdown whose context has ended stops Resume's work.
func TestShutdownEndsResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(time.Hour)
		l.Always(hangs())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = p.Resume(context.Background())
		}()
		pass(time.Second)
		require.Equal(t, 1, l.Now())
		require.Error(t, p.Shutdown(cancelled()))
		pass(time.Second)
		select {
		case <-ended:
		default:
			t.Error("Resume goes on")
		}
		assert.Zero(t, l.Now())
	})
}
