package background_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
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
	"github.com/onceward/onceward/providers"
)

// These tests check when Run sends to a provider that fails and comes back. The times are exact to the millisecond,
// because a policy whose delays all have their maximum leaves nothing to chance.

// seconds returns the requests' times from the nth on, relative to that one.
func seconds(l *line, n int) (at []float64) {
	sent := l.Sent()[n:]
	for _, s := range sent {
		at = append(at, s.At.Sub(sent[0].At).Seconds())
	}
	return at
}

func completedOf(p *process) (n int) {
	for _, op := range p.Everything() {
		if op.State == journal.StateCompleted {
			n++
		}
	}
	return n
}

// A failing provider is probed, and is used faster and faster once it is back.
func TestSlotsOfAProviderThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const operations = 60
		l := (&line{}).Always(loses())
		p, stop := waitingFor(t, l, operations, onceward.Config{Backoff: tenSeconds, Concurrency: 1})
		pass(3 * time.Minute)
		at := seconds(l, 2) // one call's attempts have failed: it rests
		require.Greater(t, len(at), 10)
		for i, second := range at {
			assert.InDelta(t, 10*i, second, 0.02, "probe %d", i)
		}
		l.Always(says(200, paid))
		pass(time.Minute)
		back := seconds(l, 2+len(at))
		gap, next := 1.0, 0.0
		for i, second := range back[:40] {
			assert.InDelta(t, next, second, 0.02, "request %d of the recovery", i)
			next += gap
			if i > 0 { // the first is the probe
				gap /= 1 + gap*gap
			}
		}
		pass(3 * time.Hour)
		assert.Equal(t, operations, completedOf(p))
		stop()
	})
}

// The gaps between probes grow to the policy's longest delay.
func TestSlotsGapsBetweenProbesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(loses())
		_, stop := waitingFor(t, l, 20, onceward.Config{Backoff: backoff.Policy{Initial: 10 * time.Second, Max: 80 * time.Second, MaxAttempts: 3}, Concurrency: 1})
		pass(10 * time.Minute)
		at := seconds(l, 2)
		for i := 1; i < len(at); i++ {
			gap, longest := at[i]-at[i-1], 10*float64(int(1)<<min(i-1, 3))
			assert.LessOrEqual(t, gap, longest+0.02)
			if i > 3 {
				assert.InDelta(t, 80, gap, 0.02, "none is drawn any more")
			} else {
				assert.GreaterOrEqual(t, gap, longest/2)
			}
		}
		stop()
	})
}

func TestASlowProbeHasNoOtherBesideIt(t *testing.T) {
	for where, at := range map[string]option{"a provider": to("POST", chargeURL), "a host that none serves": to("POST", "https://elsewhere.example/")} {
		virtual(t, where, func(t *testing.T) {
			l := (&line{}).Always(takes(25*time.Second, loses()))
			_, stop := waitingFor(t, l, 20, onceward.Config{Backoff: tenSeconds, Concurrency: 3}, at)
			pass(70 * time.Second)
			n := len(l.Sent()) // attempts under the claims of the beginning
			pass(5 * time.Minute)
			at := seconds(l, n)
			require.Greater(t, len(at), 3)
			for i, second := range at {
				assert.InDelta(t, 35*i, second, 0.02)
			}
			stop()
		})
	}
}

// A policy may have the shortest possible delays.
func TestShortestDelayBetweenProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(says(503, "", "Retry-After", "7200"))
		p, stop := waitingFor(t, l, 20, onceward.Config{Backoff: backoff.Policy{Initial: 1, Max: time.Second, MaxAttempts: 1}, Concurrency: 1})
		pass(time.Minute)
		stop()
		assert.Greater(t, len(l.Sent()), 5)
		for _, op := range p.Everything() {
			assert.NotContains(t, op.Cause, "panicked")
		}
	})
}

// Slow answers from a recovering provider fill its slots.
func TestSlotsFilledBySlowAnswers(t *testing.T) {
	want := []float64{0, 6, 7, 8, 11, 12, 13, 16, 17, 18, 21, 22, 23}
	policy := backoff.Policy{Initial: 10 * time.Second, Max: 10 * time.Second, MaxAttempts: 1}
	for where, at := range map[string]option{"a provider": to("POST", chargeURL), "a host that none serves": to("POST", "https://elsewhere.example/")} {
		for name, byResume := range map[string]bool{"by Run": false, "by Resume": true} {
			virtual(t, where+", "+name, func(t *testing.T) {
				l := (&line{}).Then(refuses(), refuses(), refuses()).Always(takes(5*time.Second, says(200, paid)))
				p, stop := waitingFor(t, l, 40, onceward.Config{Backoff: policy, Concurrency: 3}, at)
				if byResume {
					pass(15*time.Second + time.Second/2) // the probe is answered
					stop()
					report, err := p.Resume(t.Context())
					require.NoError(t, err)
					assert.Equal(t, 36, report.Completed)
					assert.Zero(t, report.PassedOver)
				} else {
					pass(10 * time.Minute)
					stop()
				}
				came := seconds(l, 0)
				for i, second := range want {
					assert.InDelta(t, second, came[i], 0.02, "request %d", i)
				}
			})
		}
	}
}

func TestConsecutiveFailuresOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		for range 10 {
			l.Then(loses(), loses(), says(200, paid))
		}
		p, stop := waitingFor(t, l, 10, onceward.Config{Backoff: tenSeconds, Concurrency: 1})
		pass(10 * time.Minute)
		stop()
		at := seconds(l, 0)
		require.Len(t, at, 30)
		for i := 3; i < 30; i += 3 {
			assert.InDelta(t, at[i-1], at[i], 0.02, "the next one begins as soon as one is done")
		}
		assert.Equal(t, 10, completedOf(p))
	})
}

func TestASlotThatIsFreedIsTakenAtOnce(t *testing.T) {
	for where, at := range map[string]option{"a provider": to("POST", chargeURL), "a host that none serves": to("POST", "https://elsewhere.example/")} {
		virtual(t, where, func(t *testing.T) {
			l := (&line{}).Then(takes(time.Hour, says(200, paid)), takes(time.Hour, says(200, paid)), takes(3*time.Minute, says(200, paid))).Always(takes(time.Second, says(200, paid)))
			p, stop := waitingFor(t, l, 3, onceward.Config{Concurrency: 3, AttemptTimeout: 2 * time.Hour, MaxWait: 2 * time.Hour}, at)
			pass(time.Minute)
			other := start(t, (&line{}).Always(refuses()), onceward.Config{Journal: p.Journal.Store, Backoff: once})
			for i := range 4 {
				require.ErrorIs(t, other.Ask(named(t, fmt.Sprint("later-", i)), at).Err, onceward.ErrPending)
			}
			pass(30 * time.Minute)
			stop()
			came := seconds(l, 0)
			require.Len(t, came, 7)
			for i, second := range came[3:] {
				assert.InDelta(t, 180+float64(i), second, 0.1, "one after another, in the slot that is free")
			}
		})
	}
}

// A claim that settles an operation without a request needs no slot.
func TestSettledClaimNeedsNoSlot(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		dead := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(noKey)}})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "unknown"), to("POST", ownURL)) })
		dead = start(t, l.Then(refuses()), onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own(noKey)}})
		require.ErrorIs(t, dead.Ask(named(t, "not sent"), to("POST", ownURL)).Err, onceward.ErrPending)
		pass(time.Hour)
		p := start(t, l, onceward.Config{Journal: j, Concurrency: 1, Providers: []providers.Provider{own(noKey)}})
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Unknown)
		assert.Equal(t, 1, report.Completed)
	})
}

// A dead process's unnamed operations get no additional slots.
func TestSlotsOfADeadProcesssUnnamedOperations(t *testing.T) {
	t.Parallel()
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		dead := start(t, l, onceward.Config{Journal: j})
		var calls []func()
		for range 8 {
			calls = append(calls, func() { dead.Ask(t.Context()) })
		}
		leavesInFlight(t, dead, l, calls...)
		for _, answer := range []reply{loses(), says(200, paid)} {
			l := (&line{}).Always(takes(time.Second, answer))
			p := start(t, l, onceward.Config{Journal: j, Concurrency: 2, Backoff: backoff.Policy{MaxAttempts: 100}})
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
			_, _ = p.Resume(ctx)
			stop()
			assert.Equal(t, 2, l.Most())
			require.NoError(t, p.Shutdown(t.Context()))
			pass(2 * time.Hour)
		}
	})
}

func TestRunReportsEachHostThatItCannotSendTo(t *testing.T) {
	t.Parallel()
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		secretly := with("Authorization", "Bearer s3cr3t")
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		for i := range 6 {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", fmt.Sprintf("https://host-%d.example/x", i%2)), secretly).Err, onceward.ErrPending)
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("charge-", i)), secretly).Err, onceward.ErrPending)
		}
		pass(2 * time.Hour)
		var logged bytes.Buffer
		var last onceward.Report
		p = start(t, l, onceward.Config{Journal: j, Logger: slog.New(slog.NewTextHandler(&logged, nil)), Trace: &onceward.Trace{Progress: func(r onceward.Report) { last = r }}})
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 3, strings.Count(logged.String(), "not claimed"), "once a provider, and once a host that none serves")
		require.Len(t, last.Problems, 3)
		assert.Zero(t, last.PassedOver, "that is for Resume to count")
	})
}

// Consecutive failures open the breaker, even if each is of another operation.
func TestFailuresOfSeveralOpenTheBreaker(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Always(says(503, "", "Retry-After", "7200"))
		_, stop := waitingFor(t, l, 20, onceward.Config{Backoff: tenSeconds, Concurrency: 1})
		pass(5 * time.Second)
		assert.Len(t, l.Sent(), 3)
		pass(10 * time.Second)
		assert.Len(t, l.Sent(), 4, "a probe")
		stop()
	})
}

// A provider that limits one scope's rate gets no requests of it for the Retry-After, and for no longer than ten
// minutes.
func TestRateLimitOfOneScope(t *testing.T) {
	for _, row := range []struct {
		retryAfter string
		after      time.Duration
	}{{"20", 20 * time.Second}, {"60", time.Minute}, {"7200", 10 * time.Minute}} {
		virtual(t, row.retryAfter, func(t *testing.T) {
			var mended atomic.Bool
			l := (&line{}).Always(reply{Answer: func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("X-Tenant") == "a" && !mended.Load() {
					return says(429, "", "Retry-After", row.retryAfter).Answer(r)
				}
				return says(200, paid).Answer(r)
			}})
			parked := start(t, (&line{}).Always(refuses()), onceward.Config{Backoff: once})
			for i := range 20 {
				tenant := []string{"a", "b"}[i%2]
				require.ErrorIs(t, parked.Ask(onceward.WithScope(named(t, fmt.Sprint(i)), tenant), with("X-Tenant", tenant)).Err, onceward.ErrPending)
			}
			pass(3 * time.Hour)
			p := start(t, l, onceward.Config{Journal: parked.Journal.Store, Concurrency: 1})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			pass(row.after - time.Second)
			assert.Equal(t, 10, completedOf(p), "those of the other scope")
			assert.Len(t, l.Sent(), 11)
			mended.Store(true)
			pass(2 * time.Second)
			assert.Greater(t, len(l.Sent()), 11, "it is asked again")
			pass(3 * time.Hour)
			assert.Equal(t, 20, completedOf(p))
			stop()
			<-done
		})
	}
}

// An operation that fails each time at a working provider is not the only one that is tried.
func TestABadOperationIsNotTheOnlyProbe(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Always(reply{Answer: func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("X-Bad") != "" {
				return says(503, "").Answer(r)
			}
			return says(200, paid).Answer(r)
		}})
		parked := start(t, (&line{}).Always(refuses()), onceward.Config{Backoff: once})
		for i := range 10 {
			var options []option
			if i == 0 {
				options = append(options, with("X-Bad", "yes"))
			}
			require.ErrorIs(t, parked.Ask(named(t, fmt.Sprint(i)), options...).Err, onceward.ErrPending)
		}
		pass(3 * time.Hour)
		p := start(t, l, onceward.Config{Journal: parked.Journal.Store, Backoff: once, Concurrency: 1})
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 9, completedOf(p))
	})
}

// An interrupted answer is a failure, whatever its status.
func TestCutAnswersOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(cuts(200, paid, "Retry-After", "7200"))
		_, stop := waitingFor(t, l, 20, onceward.Config{Backoff: tenSeconds, Concurrency: 1})
		pass(5 * time.Second)
		assert.Len(t, l.Sent(), 3)
		stop()
	})
}

// A provider that gives a final answer, or rejects one request for its own reasons, counts as working.
func TestAnswersThatKeepTheBreakerClosed(t *testing.T) {
	for _, row := range []struct {
		status  int
		verdict providers.Verdict
		want    journal.State
	}{
		{500, providers.Final, journal.StateCompleted},
		{428, providers.NotExecuted, journal.StatePending},
	} {
		virtual(t, fmt.Sprint(row.status), func(t *testing.T) {
			api := own(func(e *providers.Endpoint) {
				e.Rules = append([]providers.Rule{{Status: row.status, Verdict: row.verdict}}, e.Rules...)
			})
			l := (&line{}).Always(says(row.status, "{}", "Retry-After", "7200"))
			p, stop := waitingFor(t, l, 20, onceward.Config{Backoff: tenSeconds, Concurrency: 1, Providers: []providers.Provider{api}}, to("POST", ownURL))
			pass(5 * time.Second)
			assert.Len(t, l.Sent(), 20)
			stop()
			for _, op := range p.Everything() {
				assert.Equal(t, row.want, op.State)
			}
		})
	}
}

// An attempt that Run cancels as it ends does not count as the provider's failure. An attempt that exceeds its deadline
// does.
func TestEndOfRunKeepsTheBreakerClosed(t *testing.T) {
	for _, row := range []struct {
		name  string
		reply reply
		ends  error
		rests bool
	}{
		{"without an answer", hangs(), context.Canceled, false},
		{"within an answer", stalls(), context.Canceled, false},
		{"without an answer, at its deadline", hangs(), context.DeadlineExceeded, true},
		{"within an answer, at its deadline", stalls(), context.DeadlineExceeded, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			parked := start(t, (&line{}).Always(refuses()), onceward.Config{Backoff: once})
			for i := range 10 {
				require.ErrorIs(t, parked.Ask(named(t, fmt.Sprint("invoice-", i))).Err, onceward.ErrPending)
			}
			pass(3 * time.Hour)
			l := (&line{}).Always(row.reply)
			p := start(t, l, onceward.Config{Journal: parked.Journal.Store, Concurrency: 5})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			if row.ends == context.Canceled {
				time.AfterFunc(time.Second, stop)
			} else {
				ctx, stop = context.WithTimeout(ctx, time.Second)
			}
			defer stop()
			require.ErrorIs(t, p.Run(ctx), row.ends)
			l.Always(says(200, paid))
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.rests, report.PassedOver > 0)
			assert.Equal(t, !row.rests, report.Completed > 1)
		})
	}
	virtual(t, "an operation that fails as Run ends", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := (&line{}).Always(doing(stop, unavailable))
		p, ended := waitingFor(t, l, 10, onceward.Config{Backoff: once, Concurrency: 1})
		ended()
		_, err := p.Resume(ctx)
		require.ErrorIs(t, err, context.Canceled)
		l.Always(says(200, paid))
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Positive(t, report.PassedOver)
	})
}

// Resume does not wait for a slot that no operation will take.
func TestResumeEndsBesideAFailure(t *testing.T) {
	for name, fails := range map[string]func(*ranks, *atomic.Int64){
		"though the clock is set back":                  func(_ *ranks, ahead *atomic.Int64) { ahead.Store(-int64(time.Hour)) },
		"though its part of the fleet is another's now": func(r *ranks, _ *atomic.Int64) { r.rank.Store(1) },
	} {
		virtual(t, name, func(t *testing.T) {
			parked := start(t, (&line{}).Then(refuses()), onceward.Config{Backoff: once})
			require.ErrorIs(t, parked.Ask(named(t, invoice)).Err, onceward.ErrPending)
			pass(2 * time.Hour)
			j := &ranks{Journal: parked.Journal.Store.(*memory.Journal)}
			var ahead atomic.Int64
			l := (&line{}).Then(doing(func() { fails(j, &ahead) }, says(503, "", "Retry-After", "7200")))
			c, err := onceward.New(onceward.Config{
				Journal: j, Providers: []providers.Provider{providers.Stripe()}, HTTPClient: &http.Client{Transport: l}, FleetConcurrency: 1,
			})
			require.NoError(t, err)
			defer c.Shutdown(t.Context())
			setClock(c, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			defer stop()
			report, err := c.Resume(ctx)
			require.NoError(t, err)
			assert.Equal(t, 1, report.Parked)
		})
	}
}

// ranks is a journal whose sessions belong to a fleet, and may change their rank.
type ranks struct {
	*memory.Journal
	rank atomic.Int32 // of two, once it is not 0
}

func (j *ranks) Join(ctx context.Context) (machine.Session, error) {
	s, err := j.Journal.Join(ctx)
	return changingRank{s, j}, err
}

type changingRank struct {
	machine.Session
	fleet *ranks
}

func (s changingRank) Rank() (int, int) { rank := int(s.fleet.rank.Load()); return rank, rank + 1 }

// A clock that is set back blocks no operation.
func TestSlotsAfterTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parked := start(t, (&line{}).Always(refuses()), onceward.Config{Backoff: once})
		for i := range 20 {
			require.ErrorIs(t, parked.Ask(named(t, fmt.Sprint("invoice-", i))).Err, onceward.ErrPending)
		}
		pass(3 * time.Hour)
		l := (&line{}).Then(takes(2*time.Minute, says(200, paid))).Always(takes(time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{Journal: parked.Journal.Store, Concurrency: 2, AttemptTimeout: time.Hour, MaxWait: time.Hour})
		back := time.Now().Add(4*time.Second + time.Second/4)
		setClock(p.Client, func() time.Time {
			if now := time.Now(); now.Before(back) {
				return now
			}
			return time.Now().Add(-30 * time.Minute)
		})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 19, completedOf(p), "all but the one that takes longer")
	})
}

// Failures of calls do not open the background's breaker.
func TestCallersFailuresKeepTheBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(takes(time.Hour, says(200, paid)))
		p, stop := waitingFor(t, l, 1, onceward.Config{Backoff: tenSeconds, AttemptTimeout: 2 * time.Hour, MaxWait: 2 * time.Hour})
		pass(time.Minute)
		l.Then(loses(), loses(), loses(), loses(), loses(), loses())
		for i := range 2 {
			// An unnamed operation is not sent in the background. Each call makes three of the six attempts.
			require.ErrorIs(t, p.Ask(t.Context(), carrying(fmt.Sprint("asked-", i))).Err, onceward.ErrPending)
		}
		other := start(t, (&line{}).Always(refuses()), onceward.Config{Journal: p.Journal.Store, Backoff: once})
		require.ErrorIs(t, other.Ask(named(t, "later")).Err, onceward.ErrPending)
		pass(70 * time.Second)
		assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: "later"}).State)
		stop()
	})
}

// A caller's success makes Run go on before its next probe.
func TestCallersAnswerClosesTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minute := backoff.Policy{Initial: time.Minute, Max: time.Minute, MaxAttempts: 3}
		l := (&line{}).Always(loses())
		p, stop := waitingFor(t, l, 20, onceward.Config{Backoff: minute, Concurrency: 1})
		pass(10 * time.Minute)
		for n := len(l.Sent()); len(l.Sent()) == n; { // until a probe
			pass(time.Second)
		}
		l.Always(says(200, paid))
		n := len(l.Sent())
		pass(10 * time.Second)
		require.Len(t, l.Sent(), n, "the next probe is not due")
		require.NoError(t, p.Ask(named(t, "now")).Err)
		pass(10 * time.Second)
		assert.Greater(t, len(l.Sent()), n+1)
		stop()
	})
}
