package onceward_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// leavesInFlight makes calls at the same time and crashes while all of them are at
// the provider.
func leavesInFlight(t *testing.T, p *process, l *line, calls ...func()) {
	t.Helper()
	var under sync.WaitGroup
	l.always(hangs())
	for _, call := range calls {
		under.Go(call)
		pass(time.Millisecond) // so that they are created in this order
	}
	p.crash()
	_ = p.Shutdown(cancelled())
	under.Wait()
	l.always(says(200, paid))
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestResumeFinishesWhatADeadProcessHeld(t *testing.T) {
	for _, row := range []struct {
		name      string
		namedOnly bool
	}{{"all of it", false}, {"named operations only", true}} {
		each(t, row.name, func(t *testing.T, j journal.Journal) {
			l := &line{}
			dead := start(t, l, onceward.Config{Journal: j})
			leavesInFlight(t, dead, l,
				func() { dead.ask(named(t, "invoice-1/charge"), with("X-Request-Id", "r1")) },
				func() { dead.ask(t.Context()) },
				func() { dead.ask(t.Context(), carrying("sdk-1")) },
			)
			left := l.keys()
			require.Len(t, left, 3)
			requireUUID(t, 4, left[1])

			next := start(t, l, onceward.Config{Journal: dead.journal.Journal, NamedOnly: row.namedOnly})
			report, err := next.Resume(t.Context())
			require.NoError(t, err)
			resumed := l.sent()[3:]
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
			again := next.ask(named(t, "invoice-1/charge"))
			require.NoError(t, again.err)
			assert.True(t, again.op.Replayed)

			report, err = next.Resume(t.Context())
			require.NoError(t, err)
			assert.Zero(t, report.Claimed)
		})
	}
}

func TestResumeSendsTheOldestFirstAndSoManyAtATime(t *testing.T) {
	for _, concurrency := range []int{1, 3} {
		virtual(t, fmt.Sprint(concurrency), func(t *testing.T) {
			l := &line{}
			dead := start(t, l, onceward.Config{})
			var calls []func()
			for i := range 10 {
				calls = append(calls, func() { dead.ask(named(t, fmt.Sprint("invoice-", i)), with("X-Number", fmt.Sprint(i))) })
			}
			leavesInFlight(t, dead, l, calls...)
			l.most = 0
			l.always(takes(time.Second, says(200, paid)))
			next := start(t, l, onceward.Config{Journal: dead.journal.Journal, Concurrency: concurrency})
			report, err := next.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 10, report.Completed)
			assert.Equal(t, concurrency, l.most)
			for i, s := range l.sent()[10:] {
				if concurrency == 1 {
					assert.Equal(t, fmt.Sprint(i), s.Header.Get("X-Number"))
				}
			}
		})
	}
}

func TestAnUnnamedOperationIsNotSentOnceItsCallerWasTold(t *testing.T) {
	virtual(t, "with a key of ours it is unknown, for good", func(t *testing.T) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Backoff: once})
		out := p.ask(t.Context())
		require.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
		pass(48 * time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Claimed)
		assert.Len(t, l.sent(), 1)
	})
	virtual(t, "with a key of ours, and nothing left, it is cancelled", func(t *testing.T) {
		l := (&line{}).then(refuses())
		p := start(t, l, onceward.Config{Backoff: once})
		out := p.ask(t.Context())
		require.ErrorIs(t, out.err, onceward.ErrNotSent)
		assert.Equal(t, onceward.Cancelled, out.op.State)
	})
	for _, row := range []struct {
		name  string
		first reply
		after time.Duration
		end   onceward.State
	}{
		{"with a carried key it waits for its caller", loses(), time.Hour, onceward.Completed},
		{"with a carried key it is unknown at the end of its window", loses(), 24 * time.Hour, onceward.Unknown},
		{"with a carried key that never left it is cancelled at the end", refuses(), 24 * time.Hour, onceward.Cancelled},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(row.first)
			p := start(t, l, onceward.Config{Backoff: once})
			require.ErrorIs(t, p.ask(t.Context(), carrying("sdk-1")).err, onceward.ErrPending)
			before := len(l.sent())
			running, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(running) }()
			pass(row.after)
			stop()
			require.ErrorIs(t, <-done, context.Canceled)
			require.Len(t, l.sent(), before, "nothing in the background")
			if row.end == onceward.Completed {
				require.NoError(t, p.ask(t.Context(), carrying("sdk-1")).err)
				assert.Equal(t, []string{"sdk-1", "sdk-1"}, l.keys())
			}
			assert.Equal(t, row.end, p.recorded(carriedRef("sdk-1")).State)
		})
	}
}

func TestAWithheldCredentialIsMissingUntilAuthorizeAddsIt(t *testing.T) {
	for _, row := range []struct {
		name      string
		call      option
		authorize func(*http.Request) error
		header    string
		url       string
	}{
		{"a header", with("Authorization", "Bearer s3cr3t"), func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer fresh")
			return nil
		}, "Bearer fresh", chargeURL},
		{"a query parameter", to(http.MethodPost, chargeURL+"?expand=all&api_key=s3cr3t"), func(r *http.Request) error {
			query := r.URL.Query()
			query.Set("api_key", "fresh")
			r.URL.RawQuery = query.Encode()
			return nil
		}, "", chargeURL + "?api_key=fresh&expand=all"},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := &line{}
			dead := start(t, l, onceward.Config{})
			leavesInFlight(t, dead, l, func() { dead.ask(named(t, "invoice-1/charge"), row.call) })

			poor := start(t, l, onceward.Config{Journal: dead.journal.Journal})
			report, err := poor.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Parked)
			require.Len(t, report.Problems, 1)
			require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
			require.ErrorIs(t, report.Problems[0], onceward.ErrPending)
			assert.NotContains(t, report.Problems[0].Error(), "s3cr3t")
			assert.Equal(t, journal.Pending, poor.recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
			require.Len(t, l.sent(), 1)

			rich := start(t, l, onceward.Config{Journal: dead.journal.Journal, Authorize: row.authorize})
			pass(time.Hour)
			report, err = rich.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
			require.Len(t, l.sent(), 2)
			assert.Equal(t, l.keys()[0], l.keys()[1])
			assert.Equal(t, row.header, l.sent()[1].Header.Get("Authorization"))
			assert.Equal(t, row.url, l.sent()[1].URL)
		})
	}
}

func TestAnOperationWaitsForItsProviderToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		leavesInFlight(t, dead, l, func() { dead.ask(named(t, "invoice-1/charge")) })

		other := providers.Raw(24 * time.Hour) // serves that host too, under another contract
		gone := start(t, l, onceward.Config{Journal: dead.journal.Journal, Providers: []providers.Provider{other}})
		report, err := gone.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Claimed)
		assert.Equal(t, 1, report.PassedOver)
		require.Len(t, report.Problems, 1)
		require.ErrorIs(t, report.Problems[0], onceward.ErrPending)
		assert.Len(t, l.sent(), 1)

		back := start(t, l, onceward.Config{Journal: dead.journal.Journal})
		pass(time.Hour)
		report, err = back.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
	})
}

func TestTwoProcessesOnOneJournalSplitWhatIsPending(t *testing.T) {
	const many = 200
	eachJournal(t, func(t *testing.T, open func() journal.Journal) {
		l := (&line{}).always(says(429, "", "Retry-After-Ms", "1"))
		first := start(t, l, onceward.Config{Journal: open(), Backoff: once})
		var callers sync.WaitGroup
		for i := range many {
			callers.Go(func() {
				ctx, cancel := context.WithCancel(named(t, fmt.Sprint("invoice-", i)))
				defer cancel()
				first.ask(ctx)
			})
		}
		callers.Wait()
		first.crash()
		for _, op := range first.everything() {
			require.Equal(t, journal.Pending, op.State)
		}
		before := len(l.sent())
		l.always(says(200, paid))

		// Their clocks are past the due times.
		late := func() time.Time { return time.Now().Add(time.Hour) }
		var both sync.WaitGroup
		reports := make([]onceward.Report, 2)
		for i := range reports {
			p := start(t, l, onceward.Config{Journal: open()})
			onceward.SetClock(p.Client, late)
			both.Go(func() {
				var err error
				reports[i], err = p.Resume(t.Context())
				assert.NoError(t, err)
			})
		}
		both.Wait()
		assert.Equal(t, many, reports[0].Completed+reports[1].Completed)
		seen := map[string]int{}
		for _, s := range l.sent()[before:] {
			seen[s.Key]++
		}
		assert.Len(t, seen, many)
		assert.Len(t, l.sent(), before+many, "each was sent once")
	})
}

func TestProgressIsToldAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		var calls []func()
		for i := range 100 {
			calls = append(calls, func() { dead.ask(named(t, fmt.Sprint("invoice-", i))) })
		}
		leavesInFlight(t, dead, l, calls...)
		l.always(takes(100*time.Millisecond, says(200, paid)))
		var at []time.Time
		var reports []onceward.Report
		next := start(t, l, onceward.Config{Journal: dead.journal.Journal, Concurrency: 1, Trace: &onceward.Trace{
			Progress: func(r onceward.Report) { at, reports = append(at, time.Now()), append(reports, r) },
		}})
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		require.Greater(t, len(at), 5)
		for i := 1; i < len(at)-1; i++ {
			assert.GreaterOrEqual(t, at[i].Sub(at[i-1]), time.Second)
			assert.GreaterOrEqual(t, reports[i].Completed, reports[i-1].Completed)
		}
		assert.Equal(t, 100, reports[len(reports)-1].Completed)
		assert.Equal(t, 10*time.Second, report.Elapsed)
	})
}

func TestRunPicksUpWhatIsParkedAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(says(429, "", "Retry-After", "3600"), says(429, "", "Retry-After", "600"))
		p := start(t, l, onceward.Config{Backoff: once})
		done := make(chan error, 1)
		go func() { done <- p.Run(context.Background()) }()
		pass(time.Hour) // Run has nothing to do for long
		began := time.Now()
		require.Equal(t, 429, p.ask(named(t, "invoice-1/charge")).status)
		pass(2 * time.Hour)
		sent := l.sent()
		require.Len(t, sent, 3)
		for i, waited := range []time.Duration{0, time.Hour, time.Hour + 10*time.Minute} {
			assert.WithinRange(t, sent[i].At, began.Add(waited), began.Add(waited+time.Second))
			assert.Equal(t, sent[0].Key, sent[i].Key)
		}
		assert.Equal(t, journal.Completed, p.recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

func TestRunNoticesAnotherProcesssDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		next := start(t, l, onceward.Config{Journal: dead.journal.Journal})
		done := make(chan error, 1)
		running, stop := context.WithCancel(t.Context())
		go func() { done <- next.Run(running) }()
		leavesInFlight(t, dead, l, func() { dead.ask(named(t, "invoice-1/charge")) })
		pass(10 * time.Second)
		assert.Equal(t, journal.Completed, next.recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestRunReapsWhatIsPastItsKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Keep: 30 * time.Hour})
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		unnamed := p.ask(t.Context())
		require.NoError(t, unnamed.err)
		done := make(chan error, 1)
		go func() { done <- p.Run(context.Background()) }()
		pass(29 * time.Hour)
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		pass(2 * time.Hour)
		require.ErrorIs(t, p.ask(named(t, "invoice-1/charge")).err, onceward.ErrAnswerGone)
		_, err := p.Lookup(t.Context(), unnamed.op.Ref)
		require.ErrorIs(t, err, journal.ErrNotFound)
		assert.Len(t, l.sent(), 2)
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
			calls = append(calls, func() { dead.ask(named(t, fmt.Sprint("invoice-", i))) })
		}
		leavesInFlight(t, dead, l, calls...)
		l.always(takes(time.Second, says(200, paid)))
		next := start(t, l, onceward.Config{Journal: dead.journal.Journal, Concurrency: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		report, err := next.Resume(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2, report.Completed)
		for _, op := range next.everything() {
			if op.State == journal.InFlight {
				assert.Equal(t, dead.journal.Sessions()[0].ID(), op.Holder, "nothing is claimed and forgotten")
			}
		}
		report, err = next.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Unknown)
	})
}
