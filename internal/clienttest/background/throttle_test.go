package background_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// A site that never answers delays no other site.
func TestSlotsBesideABlackHole(t *testing.T) {
	t.Parallel()
	const many = 24
	hosts := map[string]string{"a provider": ownURL, "a host that none serves": "https://hole.example/x"}
	for kind, hole := range hosts {
		for _, how := range []string{"Run", "Resume"} {
			each(t, kind+", "+how, func(t *testing.T, j machine.Store) {
				l := (&line{}).Always(refuses())
				p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.Stripe(), own()}})
				for i := range many {
					p.Ask(named(t, fmt.Sprint("hole-", i)), to("POST", hole)) // the oldest come first
				}
				for i := range many {
					p.Ask(named(t, fmt.Sprint("charge-", i)))
					p.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", "https://fine.example/x"))
				}
				pass(time.Hour)
				var mu sync.Mutex
				in, most := 0, 0
				began := time.Now()
				var last time.Time
				next := start(t, roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.URL.String() == hole {
						mu.Lock()
						in++
						most = max(most, in)
						mu.Unlock()
						defer func() { mu.Lock(); in--; mu.Unlock() }()
						return hangs().Answer(r)
					}
					mu.Lock()
					last = time.Now()
					mu.Unlock()
					return takes(100*time.Millisecond, says(200, paid)).Answer(r)
				}), onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe(), own()}, Concurrency: 4})
				if how == "Run" {
					ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
					defer stop()
					require.ErrorIs(t, next.Run(ctx), context.DeadlineExceeded)
				} else {
					report, err := next.Resume(t.Context())
					require.NoError(t, err)
					assert.Positive(t, report.PassedOver)
					most := 65 * time.Second
					if hole != ownURL {
						most = 245 * time.Second // another attempt is not allowed: each has MaxWait
					}
					assert.Less(t, report.Elapsed, most, "a provider that hangs is passed over")
				}
				for i := range many {
					assert.Equal(t, journal.StateCompleted, next.Recorded(onceward.Ref{ID: fmt.Sprint("charge-", i)}).State)
					assert.Equal(t, journal.StateCompleted, next.Recorded(onceward.Ref{ID: fmt.Sprint("hook-", i)}).State)
				}
				assert.Less(t, last.Sub(began), 2*time.Second)
				assert.LessOrEqual(t, most, 4)
			})
		}
	}
}

// A provider has a slot, however many hosts hang.
func TestSlotOfAProviderWhileHostsHang(t *testing.T) {
	t.Parallel()
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		for i := range 40 {
			p.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", fmt.Sprintf("https://host-%d.example/x", i)))
		}
		pass(time.Hour)
		next := start(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "api.stripe.com" {
				return hangs().Answer(r)
			}
			return says(200, paid).Answer(r)
		}), onceward.Config{Journal: j, Concurrency: 3})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- next.Run(ctx) }()
		pass(time.Second)
		p.Ask(named(t, "charge"))
		pass(time.Minute)
		held := 0
		for _, op := range next.Everything() {
			if op.State == journal.StateInFlight {
				held++
			}
		}
		assert.Equal(t, 8*3, held)
		assert.Equal(t, journal.StateCompleted, next.Recorded(onceward.Ref{ID: "charge"}).State)
		stop()
		<-done
	})
}

// An operation is claimed only if it has a slot. A claimed operation counts as sent if its process is killed.
func TestSlotsBoundClaims(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ charges, hosts, most int }{
		{40, 40, 8 * 3},
		{1, 40, 8*3 - 1}, // together they have as many, however many are claimed at a time
		{40, 1, 3},
	} {
		each(t, fmt.Sprintf("%d charges, and %d hosts that none serves", row.charges, row.hosts), func(t *testing.T, j machine.Store) {
			l := (&line{}).Always(refuses())
			p := start(t, l, onceward.Config{Journal: j, Backoff: once})
			for i := range 40 {
				if i < row.charges {
					p.Ask(named(t, fmt.Sprint("charge-", i)))
				}
				p.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", fmt.Sprintf("https://host-%d.example/x", i%row.hosts)))
			}
			pass(time.Hour)
			l.Always(hangs())
			next := start(t, l, onceward.Config{Journal: j, Concurrency: 3})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() { done <- next.Run(ctx) }()
			pass(time.Second)
			held := map[bool]int{}
			for _, op := range next.Everything() {
				if op.State == journal.StateInFlight {
					held[op.Provider == ""]++
				}
			}
			assert.Equal(t, l.Now(), held[true]+held[false], "what is in flight is on the wire")
			assert.Equal(t, min(row.charges, 3), held[false])
			assert.LessOrEqual(t, held[true], row.most)
			assert.GreaterOrEqual(t, held[true], min(row.most, 4))
			stop()
			<-done
		})
	}
}

// All sites together have eight times as many slots as one. That limit holds even if a claim gets several operations
// for the last slot.
func TestSlotsOfAllSitesTogether(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		other := start(t, (&line{}).Always(refuses()), onceward.Config{Backoff: once})
		for i := range 40 {
			other.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", fmt.Sprintf("https://host-%d.example/x", i)))
		}
		pass(time.Hour)
		l := (&line{}).Then(takes(time.Second, says(200, paid))).Always(hangs())
		p := start(t, l, onceward.Config{Journal: other.Journal.Store, Concurrency: 2, AttemptTimeout: time.Hour, MaxWait: time.Hour})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Len(t, l.Sent(), 8*2+1)
		assert.Equal(t, 8*2, l.Most())
	})
}

// A provider whose last attempt failed also has a slot beside hosts that hang.
func TestSlotOfAProviderThatFailedOnce(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Always(refuses())
		other := start(t, l, onceward.Config{Backoff: once})
		require.ErrorIs(t, other.Ask(named(t, "failed")).Err, onceward.ErrPending)
		pass(time.Hour)
		failed := false
		p := start(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host != "api.stripe.com":
				return hangs().Answer(r)
			case !failed:
				failed = true
				return says(503, "", "Retry-After", "72000").Answer(r)
			}
			return says(200, paid).Answer(r)
		}), onceward.Config{Journal: other.Journal.Store, Concurrency: 1, AttemptTimeout: 10 * time.Hour, MaxWait: 10 * time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		pass(time.Second)
		for i := range 12 {
			other.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", fmt.Sprintf("https://host-%d.example/x", i)))
		}
		pass(time.Hour)
		require.ErrorIs(t, other.Ask(named(t, "charge")).Err, onceward.ErrPending)
		pass(time.Hour)
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: "charge"}).State)
		assert.Equal(t, journal.StatePending, p.Recorded(onceward.Ref{ID: "failed"}).State)
		stop()
		<-done
	})
}

// No state is kept for sites that only callers send to.
func TestSitesOfCallersAreNotKept(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := start(t, &line{}, onceward.Config{Backoff: once})
		for i := range 10 {
			require.NoError(t, p.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", fmt.Sprintf("https://host-%d.example/x", i))).Err)
		}
		inside := oncetest.Core(p.Client)
		assert.Zero(t, inside.Throttle.Known(inside.Now()))
	})
}
