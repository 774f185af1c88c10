package throttle_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/throttle"
)

var (
	noon     = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)
	stripe   = throttle.Target{Site: throttle.Site{Provider: "stripe"}}
	hook     = throttle.Target{Site: throttle.Site{Host: "hooks.example"}}
	errCause = errors.New("it was refused")
)

// world is a throttle with its own time.
type world struct {
	*throttle.Throttle
	t   *testing.T
	now time.Time
}

// start makes one with four slots to a site. Its breakers open after three failures, for ten seconds.
func start(t *testing.T, change ...func(*throttle.Settings)) *world {
	s := throttle.Settings{
		Backoff:   backoff.Policy{Initial: 10 * time.Second, Max: 10 * time.Second, MaxAttempts: 3},
		Providers: []string{"adyen", "stripe"}, Concurrency: 4,
		Rank: func() (int, int) { return 0, 1 },
	}
	for _, f := range change {
		f(&s)
	}
	return &world{throttle.New(s), t, noon}
}

func (w *world) after(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) enter(to throttle.Target) *throttle.Permit {
	w.t.Helper()
	p, refusal := w.Enter(to, w.now)
	require.NotNil(w.t, p, "%v", refusal)
	return p
}

func (w *world) verdict(to throttle.Target) throttle.Verdict {
	p, refusal := w.Enter(to, w.now)
	p.Cancel()
	return refusal.Verdict
}

// one sends an operation, and a millisecond later reports its result by tell.
func (w *world) one(to throttle.Target, tell func(p *throttle.Permit, started time.Time)) {
	w.t.Helper()
	p := w.enter(to)
	defer p.Free()
	began := w.now
	w.after(time.Millisecond)
	tell(p, began)
}

func (w *world) works(p *throttle.Permit, _ time.Time)         { p.Works(w.now) }
func (w *world) fails(p *throttle.Permit, started time.Time)   { p.Fails(started, w.now) }
func (w *world) refused(p *throttle.Permit, started time.Time) { p.Refused(started, w.now, errCause) }

// The results of attempts open the breaker of the site or of the scope, and no other.
func TestBreakerOpensBy(t *testing.T) {
	for _, row := range []struct {
		name        string
		tell        func(w *world, p *throttle.Permit, started time.Time)
		times       int
		site, scope throttle.Verdict // for another scope, and for the same one
	}{
		{"success", func(w *world, p *throttle.Permit, s time.Time) { p.Works(w.now) }, 5, throttle.Admitted, throttle.Admitted},
		{"two failures", func(w *world, p *throttle.Permit, s time.Time) { p.Fails(s, w.now) }, 2, throttle.Admitted, throttle.Admitted},
		{"three failures", func(w *world, p *throttle.Permit, s time.Time) { p.Fails(s, w.now) }, 3, throttle.Open, throttle.Open},
		{"a refusal", func(w *world, p *throttle.Permit, s time.Time) { p.Refused(s, w.now, errCause) }, 1, throttle.Admitted, throttle.Open},
		{"two limits", func(w *world, p *throttle.Permit, s time.Time) { p.Limited(s, w.now, w.now, errCause) }, 2, throttle.Admitted, throttle.Admitted},
		{"three limits", func(w *world, p *throttle.Permit, s time.Time) { p.Limited(s, w.now, w.now, errCause) }, 3, throttle.Admitted, throttle.Open},
		{"a limit for a while", func(w *world, p *throttle.Permit, s time.Time) {
			p.Limited(s, w.now, w.now.Add(5*time.Second), errCause)
		}, 1, throttle.Admitted, throttle.Paced},
		{"a limit for long", func(w *world, p *throttle.Permit, s time.Time) { p.Limited(s, w.now, w.now.Add(time.Hour), errCause) }, 1, throttle.Admitted, throttle.Open},
		{"a credential that is missing", func(w *world, p *throttle.Permit, s time.Time) { p.Lacks("header A", s, w.now) }, 1, throttle.Admitted, throttle.Admitted},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := start(t)
			for range row.times {
				w.one(stripe, func(p *throttle.Permit, started time.Time) { row.tell(w, p, started) })
			}
			other := stripe
			other.Scope = "tenant-2"
			assert.Equal(t, row.site, w.verdict(other))
			assert.Equal(t, row.scope, w.verdict(stripe))
			assert.Equal(t, throttle.Admitted, w.verdict(hook))
			cause, open := w.Opened(stripe)
			assert.Equal(t, row.scope == throttle.Open, open)
			if open && row.site != throttle.Open {
				assert.Equal(t, errCause, cause)
			}
		})
	}
}

// An open breaker lets one probe through once its cooldown is over. The probe frees its place however it ends.
func TestBreakerHalfOpen(t *testing.T) {
	for name, row := range map[string]struct {
		tell func(w *world, p *throttle.Permit, started time.Time)
		next time.Duration // from the probe's start
		then throttle.Verdict
	}{
		"works":         {func(w *world, p *throttle.Permit, s time.Time) { assert.True(t, p.Works(w.now)) }, time.Second + time.Millisecond, throttle.Paced},
		"fails":         {func(w *world, p *throttle.Permit, s time.Time) { p.Fails(s, w.now) }, 10*time.Second + time.Millisecond, throttle.Open},
		"tells nothing": {func(*world, *throttle.Permit, time.Time) {}, 10 * time.Second, throttle.Open},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			for range 3 {
				w.one(stripe, w.fails)
			}
			w.after(10*time.Second - time.Nanosecond)
			assert.Equal(t, throttle.Open, w.verdict(stripe))
			w.after(time.Nanosecond)
			assert.Equal(t, throttle.Admitted, w.verdict(stripe), "and what is cancelled is no probe")
			probe, began := w.enter(stripe), w.now
			assert.Equal(t, throttle.Open, w.verdict(stripe), "one at a time")
			w.after(time.Millisecond)
			row.tell(w, probe, began)
			probe.Free()
			probe.Free()
			w.now = began.Add(row.next - time.Nanosecond)
			assert.Equal(t, row.then, w.verdict(stripe))
			w.after(time.Nanosecond)
			assert.Equal(t, throttle.Admitted, w.verdict(stripe))
		})
	}
}

// The cooldown of a refused credential grows to ten minutes.
func TestBreakerCooldownGrows(t *testing.T) {
	w := start(t)
	var gaps []time.Duration
	for range 10 {
		began := w.now
		for w.verdict(stripe) != throttle.Admitted {
			w.after(time.Second)
		}
		gaps = append(gaps, w.now.Sub(began))
		w.one(stripe, w.refused)
	}
	assert.Zero(t, gaps[0])
	for i, gap := range gaps[1:] {
		longest := min(10*time.Second<<i, 10*time.Minute)
		assert.InDelta(t, 0.75*longest.Seconds(), gap.Seconds(), 0.25*longest.Seconds()+1, i)
	}
	w.one(hook, w.works)
	assert.Equal(t, throttle.Open, w.verdict(stripe))
}

// Failures that were under way together are one.
func TestBreakerCountsOneOutageOnce(t *testing.T) {
	w := start(t, func(s *throttle.Settings) { s.Backoff.Max = time.Hour; s.Backoff.Multiplier = 10 })
	var permits []*throttle.Permit
	for range 4 {
		permits = append(permits, w.enter(stripe))
	}
	began := w.now
	w.after(time.Second)
	for _, p := range permits {
		p.Refused(began, w.now, errCause)
		p.Free()
	}
	w.after(time.Hour)
	assert.Equal(t, throttle.Admitted, w.verdict(stripe))
}

// Operations that are due take turns as probes, in the order in which they were created.
func TestBreakerProbesInTurn(t *testing.T) {
	w := start(t)
	of := func(handle int64) throttle.Target {
		to := stripe
		to.Handle = handle
		return to
	}
	w.one(of(1), w.refused)
	for _, turn := range []int64{2, 3, 1} {
		w.after(20 * time.Minute)
		sweep := func() (probe int64) {
			w.Openings(w.now)
			for handle := range int64(3) {
				p, _ := w.Enter(of(handle+1), w.now)
				if p != nil {
					began := w.now
					w.after(time.Millisecond)
					p.Refused(began, w.now, errCause)
					p.Free()
					return handle + 1
				}
			}
			return 0
		}
		probe := sweep()
		if probe == 0 { // there was no later one
			probe = sweep()
		}
		assert.Equal(t, turn, probe)
	}
}

// A refused caller gets a time after the next probe, at most two minutes later. The times of callers are spread.
func TestBeyondIsSpread(t *testing.T) {
	w := start(t)
	for range 3 {
		w.one(stripe, w.fails)
	}
	next := w.now.Add(10 * time.Second)
	drawn := map[time.Duration]bool{}
	for range 100 {
		_, refusal := w.Enter(stripe, w.now)
		assert.Equal(t, next, refusal.Next)
		assert.True(t, refusal.Beyond.After(next))
		assert.False(t, refusal.Beyond.After(next.Add(2*time.Minute)))
		drawn[refusal.Beyond.Sub(next).Truncate(time.Second)] = true
	}
	assert.Greater(t, len(drawn), 20)
}

// A missing credential holds back the operations of its scope that need it, until it is supplied.
func TestMissingCredential(t *testing.T) {
	w := start(t)
	needs, others := stripe, stripe
	needs.Needs = []string{"header A", "header B"}
	others.Scope, others.Needs = "tenant-2", needs.Needs
	w.one(needs, func(p *throttle.Permit, started time.Time) {
		p.Lacks("header B", started, w.now)
		assert.True(t, p.Beyond(w.now).After(w.now), "it does not try again first")
	})
	assert.Equal(t, "header B", w.Missing(needs))
	assert.Empty(t, w.Missing(stripe))
	assert.Empty(t, w.Missing(others))
	assert.Equal(t, throttle.Open, w.verdict(needs))
	assert.Equal(t, throttle.Admitted, w.verdict(stripe))
	assert.Equal(t, throttle.Admitted, w.verdict(others))
	w.after(10 * time.Second)
	w.one(needs, func(p *throttle.Permit, _ time.Time) { p.Supplied() })
	assert.Empty(t, w.Missing(needs))
	assert.Equal(t, throttle.Admitted, w.verdict(needs))
}

// Slots limit the operations of a site and of a provider in the fleet. All sites together have the slots of eight.
func TestSlots(t *testing.T) {
	fleet := func(n, rank, of int) func(*throttle.Settings) {
		return func(s *throttle.Settings) { s.Fleet, s.Rank = n, func() (int, int) { return rank, of } }
	}
	for _, row := range []struct {
		name string
		to   throttle.Target
		set  func(*throttle.Settings)
		want int
	}{
		{"of a provider", stripe, func(*throttle.Settings) {}, 4},
		{"of a host", hook, func(*throttle.Settings) {}, 4},
		{"the first one's part of the fleet's", stripe, fleet(5, 0, 2), 3},
		{"the second one's", stripe, fleet(5, 1, 2), 2},
		{"no more than its own", stripe, fleet(50, 1, 2), 4},
		{"none", stripe, fleet(1, 1, 2), 0},
		{"by a rank that is not known", stripe, fleet(5, 0, 0), 0},
		{"of a host in a fleet", hook, fleet(1, 1, 2), 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := start(t, row.set)
			var permits []*throttle.Permit
			for w.verdict(row.to) == throttle.Admitted {
				permits = append(permits, w.enter(row.to))
			}
			assert.Len(t, permits, row.want)
			if row.want == 0 {
				assert.Equal(t, throttle.Open, w.verdict(row.to))
				return
			}
			assert.Equal(t, throttle.Full, w.verdict(row.to))
			assert.True(t, w.Openings(w.now).Full)
			freed := w.Freed()
			permits[0].Free()
			<-freed
			assert.Equal(t, throttle.Admitted, w.verdict(row.to))
		})
	}
	t.Run("of all sites", func(t *testing.T) {
		w := start(t)
		for i := range 8 * 4 {
			to := hook
			to.Host = fmt.Sprint(i)
			w.enter(to)
		}
		assert.Equal(t, throttle.Full, w.verdict(hook))
		w.enter(stripe)
		assert.Equal(t, throttle.Full, w.verdict(stripe), "a provider has one all the same")
	})
}

// Openings lists the providers and hosts whose operations may be claimed, and when the next may be.
func TestOpenings(t *testing.T) {
	w := start(t)
	assert.Equal(t, throttle.Openings{Idle: []string{"adyen", "stripe"}, Some: map[string]int{}, Most: 4, Host: true, Hosts: 4}, w.Openings(w.now))
	p := w.enter(stripe)
	o := w.Openings(w.now)
	assert.Equal(t, []string{"adyen"}, o.Idle)
	assert.Equal(t, map[string]int{"stripe": 3}, o.Some)
	p.Free()
	w.one(stripe, func(p *throttle.Permit, s time.Time) { p.Limited(s, w.now, w.now.Add(5*time.Second), errCause) })
	o = w.Openings(w.now)
	assert.Equal(t, w.now.Add(5*time.Second), o.Next)
	assert.Equal(t, o.Next, o.Soon)
	w.after(5 * time.Second)
	for range 3 {
		w.one(stripe, w.fails)
	}
	o = w.Openings(w.now)
	assert.Empty(t, o.Some)
	assert.Equal(t, w.now.Add(10*time.Second), o.Next)
	assert.Zero(t, o.Soon, "nobody waits for a breaker that is open")
}

// A caller's own success closes a site's breaker. Its own calls ask for no permit, and its failures say nothing.
func TestCallersPermit(t *testing.T) {
	w := start(t)
	assert.False(t, w.Answered(stripe.Site, w.now))
	assert.Zero(t, w.Known(w.now))
	for range 3 {
		w.one(stripe, w.fails)
	}
	assert.True(t, w.Answered(stripe.Site, w.now))
	assert.Equal(t, throttle.Paced, w.verdict(stripe))
	var none *throttle.Permit
	none.Fails(noon, w.now)
	none.Refused(noon, w.now, errCause)
	none.Limited(noon, w.now, w.now, errCause)
	none.Lacks("", noon, w.now)
	none.Supplied()
	none.Free()
	none.Cancel()
	assert.False(t, none.Works(w.now))
	assert.True(t, none.Stays(w.now))
	assert.Zero(t, none.Beyond(w.now))
}

// If the clock is set back, a target that did not have to wait is still admitted.
func TestClockSetBack(t *testing.T) {
	w := start(t)
	for range 3 {
		w.one(stripe, w.fails)
	}
	w.after(10 * time.Second)
	w.one(stripe, w.works)
	for range 6000 { // until no gap is left
		w.after(time.Second)
		w.one(stripe, w.works)
	}
	w.after(-time.Hour)
	assert.Equal(t, throttle.Admitted, w.verdict(stripe))
}

// A site that works is not remembered. A refusal is forgotten after a day.
func TestForgotten(t *testing.T) {
	w := start(t)
	w.one(hook, w.works)
	assert.Zero(t, w.Known(w.now))
	w.one(stripe, w.refused)
	assert.Equal(t, 1, w.Known(w.now))
	w.after(25 * time.Hour)
	assert.Zero(t, w.Known(w.now))
}
