package catchup_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// Rule 12: time is cut into slices, the oldest first. A slice with too many pages is cut in two.
func TestCatchUpReadsAnyNumberOfEvents(t *testing.T) {
	virtual(t, "many", func(t *testing.T) {
		l := listing(t, onceward.Config{Reconcile: generous()})
		from := time.Now()
		events := sample.Size(3000, 9000) // in a time of three hours, two thirds of them in one hour
		for i := range events {
			at := time.Duration(i) * 3 * time.Hour / time.Duration(events)
			if i >= events*2/3 {
				at = 2*time.Hour + time.Duration(i-events*2/3)*time.Second/3
			}
			l.news(fmt.Sprintf("evt_%05d", i), from.Add(at))
		}
		pass(day)
		result, got, err := l.catches(from)
		require.NoError(t, err)
		assert.Equal(t, events, result.Read)
		assert.True(t, slices.IsSorted(got), "the oldest first, also within a second")
		assert.Len(t, slices.Compact(got), events)
		assert.Less(t, len(l.requests), 3*events/100)
		assert.Contains(t, l.Log.String(), "event=feed.read")
	})
	virtual(t, "few in a month, with many types", func(t *testing.T) {
		l := listing(t, onceward.Config{Reconcile: generous()}, func(p *providers.Provider) { p.Feed.TypesAtOnce = 1 })
		from := time.Now()
		l.news("evt", from.Add(20*day))
		pass(29 * day)
		types := []string{"payment.succeeded"}
		for i := range 24 {
			types = append(types, fmt.Sprint("type.", i))
		}
		_, got, err := l.catches(from, func(o *onceward.CatchUp) { o.Types = types })
		require.NoError(t, err)
		assert.Equal(t, []string{"evt"}, got)
		assert.Len(t, l.requests, 25*9, "slices of 2, 4, 8, … hours")
	})
	virtual(t, "too many in one second", func(t *testing.T) {
		l := listing(t, onceward.Config{Reconcile: generous()})
		from := time.Now()
		l.news("evt", from)
		for i := range 2001 {
			l.news(fmt.Sprint("evt_", i), from.Add(90*time.Second))
		}
		l.news("evt after", from.Add(95*time.Second))
		pass(time.Hour)
		result, got, err := l.catches(from)
		require.NoError(t, err)
		assert.Equal(t, 2002, result.Handled, "the list shows 2000 events of the second")
		assert.Equal(t, []string{"evt", "evt after"}, []string{got[0], got[2001]})
		// A request for a second includes the next one on either side.
		assert.Equal(t, [2]time.Time{from.Add(89 * time.Second), from.Add(92 * time.Second)}, result.Gap)
		assert.Contains(t, l.Log.String(), "event=feed.gap")
		assert.WithinDuration(t, time.Now().Add(-20*time.Minute), result.Next, 0)
	})
	virtual(t, "a list without an end", func(t *testing.T) {
		l := listing(t, onceward.Config{Reconcile: generous()})
		from := time.Now()
		n := 0
		l.refuse = func(*http.Request) *http.Response {
			n++
			return answers(http.StatusOK, fmt.Sprintf(`{"data":[{"id":"evt_%d","type":"a","created":946000000}],"has_more":true}`, n))
		}
		pass(day)
		result, got, err := l.catches(from)
		require.ErrorContains(t, err, "more than 20 pages")
		assert.Empty(t, got)
		assert.Less(t, n, 1000)
		assert.WithinDuration(t, from.Add(20*time.Second), result.Next, 0)
	})
	virtual(t, "large ones", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		for i := range 10 {
			e := l.news(fmt.Sprint("evt_", i), from)
			e.body = `{"pad":"` + strings.Repeat("x", 1<<20) + `",` + e.body[1:]
		}
		pass(time.Hour)
		_, got, err := l.catches(from)
		require.NoError(t, err)
		assert.Len(t, got, 10)
	})
	virtual(t, "one that is too large", func(t *testing.T) {
		l := listing(t, onceward.Config{Reconcile: generous()})
		from := time.Now()
		for i := range 40 {
			l.news(fmt.Sprintf("evt_%02d", i), from.Add(time.Duration(i)*time.Minute))
		}
		large := l.news("evt_large", from.Add(90*time.Second))
		large.body = `{"pad":"` + strings.Repeat("x", 5<<20) + `",` + large.body[1:]
		pass(2 * time.Hour)
		result, got, err := l.catches(from)
		require.NoError(t, err)
		assert.Len(t, got, 40)
		assert.Equal(t, [2]time.Time{from.Add(89 * time.Second), from.Add(92 * time.Second)}, result.Gap)
		assert.WithinDuration(t, time.Now().Add(-20*time.Minute), result.Next, 0)
		assert.Contains(t, l.Log.String(), "event=feed.gap")
		assert.Less(t, len(l.requests), 150)
	})
	virtual(t, "some that can't be read", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		for i := range 3 {
			l.news(fmt.Sprint("evt_", i), from.Add(time.Duration(i)*time.Minute))
		}
		l.events[1].body = `{"id":"evt_1","type":"payment.succeeded"}`
		pass(time.Hour)
		result, got, err := l.catches(from)
		require.ErrorContains(t, err, "not every event was handled")
		assert.Equal(t, []string{"evt_0", "evt_2"}, got)
		require.Len(t, result.Failed, 1)
		assert.Equal(t, "a listed event shows no time at created: evt_1", result.Failed[0].Err)
		assert.WithinDuration(t, from, result.Next, 0, "Next waits, as for an event that fails")

		pass(day)
		since := result.Failed[0].Since
		result, _, err = l.catches(result.Next, again(result.Failed))
		require.Error(t, err)
		assert.WithinDuration(t, time.Now().Add(-20*time.Minute), result.Next, 0)
		result, got, err = l.catches(result.Next, again(result.Failed))
		require.Error(t, err)
		assert.Empty(t, got)
		require.Len(t, result.Failed, 1)
		assert.Equal(t, since, result.Failed[0].Since)
		assert.Contains(t, result.Failed[0].Err, "shows no time")
	})
	virtual(t, "a list of another form", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		for i := range 30 {
			l.news(fmt.Sprint("evt_", i), from.Add(time.Duration(i)*time.Second)).body = fmt.Sprintf(`{"id":"evt_%d","kind":"payment.succeeded"}`, i)
		}
		pass(2 * day)
		result, got, err := l.catches(from)
		require.ErrorContains(t, err, "see that the provider's table fits its list")
		assert.Empty(t, got)
		assert.Len(t, result.Failed, 20)
		assert.WithinDuration(t, from, result.Next, 0)
	})
	virtual(t, "a handler that panics, and one that takes long", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		for i := range 3 {
			l.news(fmt.Sprint("evt_", i), from)
		}
		pass(time.Hour)
		l.handle = func(_ http.ResponseWriter, r *http.Request, id string) {
			switch id {
			case "evt_0":
				panic("no such type")
			case "evt_1":
				<-r.Context().Done()
			}
		}
		began := time.Now()
		result, got, err := l.catches(from)
		require.Error(t, err)
		assert.Equal(t, 30*time.Second, time.Since(began))
		assert.Equal(t, []string{"evt_0", "evt_1", "evt_2"}, got)
		require.Len(t, result.Failed, 2)
		assert.Contains(t, result.Failed[0].Err+result.Failed[1].Err, "panicked")
		assert.Contains(t, result.Failed[0].Err+result.Failed[1].Err, "in time")
	})
}

// generous returns a budget that delays no test.
func generous() *onceward.Reconcile {
	return &onceward.Reconcile{Budget: backoff.Budget{Capacity: 1 << 20}}
}

// Rule 13: a pass ends before the youngest events, by the provider's clock, and the next pass begins before that end.
func TestCatchUpLeavesTheYoungestEvents(t *testing.T) {
	for name, row := range map[string]struct {
		visible, behind, until time.Duration
	}{
		"by default":                       {0, 0, 10 * time.Minute},
		"a slow list":                      {time.Hour, 0, time.Hour},
		"a provider whose clock is behind": {0, 5 * time.Minute, 15 * time.Minute},
	} {
		virtual(t, name, func(t *testing.T) {
			l := listing(t, onceward.Config{}, func(p *providers.Provider) { p.Feed.VisibleAfter = row.visible })
			from := time.Now()
			pass(day)
			l.news("evt_1", time.Now().Add(-row.until-time.Second))
			if row.behind == 0 {
				l.news("evt_2", time.Now().Add(-row.until))
			} else {
				l.refuse = func(r *http.Request) *http.Response {
					resp := answers(http.StatusOK, l.page(r))
					resp.Header.Set("Date", time.Now().Add(-row.behind).UTC().Format(http.TimeFormat))
					return resp
				}
			}
			result, got, err := l.catches(from)
			require.NoError(t, err)
			assert.Equal(t, []string{"evt_1"}, got)
			assert.WithinDuration(t, time.Now().Add(-row.until-10*time.Minute), result.Next, 0)
		})
	}
}

// Rule 14: a list without a filter of time is read until the window's begin.
func TestCatchUpReadsAListWithoutATime(t *testing.T) {
	bound := func(b providers.FeedBound) func(*providers.Provider) {
		return func(p *providers.Provider) { p.Feed.Bound, p.Feed.Query, p.Feed.TimeLayout = b, "", "" }
	}
	virtual(t, "newest first", func(t *testing.T) {
		l := listing(t, onceward.Config{}, bound(providers.ByPages))
		from := time.Now()
		for i := range 500 {
			l.news(fmt.Sprintf("evt_%03d", i), from.Add(time.Duration(i)*time.Minute))
		}
		pass(day)
		_, got, err := l.catches(from.Add(300 * time.Minute))
		require.NoError(t, err)
		assert.Len(t, got, 200)
		assert.True(t, slices.IsSorted(got))
		assert.Len(t, l.requests, 3)
	})
	virtual(t, "by an id", func(t *testing.T) {
		l := listing(t, onceward.Config{}, bound(providers.ByCursor))
		_, _, err := l.catches(time.Now().Add(-day))
		field(t, "From", err)
	})
}

// Rule 18: pages have a budget of their own. A pause that the provider asked for holds for look-ups too.
func TestCatchUpSharesThePauseOfLookups(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{Reconcile: &onceward.Reconcile{Budget: backoff.Budget{Capacity: 2, Refill: 1e-9, PerSuccess: 1e-9, ProbeEvery: time.Hour}}},
			func(p *providers.Provider) { p.Endpoints[0].Lookups = bank().Endpoints[0].Lookups })
		l.Loses("invoice-1", providertest.DropBefore())
		asked := 0
		l.refuse = func(*http.Request) *http.Response {
			if asked++; asked > 1 {
				return nil
			}
			resp := answers(http.StatusTooManyRequests, "")
			resp.Header.Set("Retry-After", "120")
			return resp
		}
		why := func() string {
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			found := l.Stands("invoice-1").Evidence
			return found[len(found)-1].Why
		}
		began := time.Now()
		done := make(chan error)
		go func() {
			_, _, err := l.catches(began.Add(-time.Hour))
			done <- err
		}()
		pass(time.Second)
		assert.Contains(t, why(), "asked for a pause")
		require.NoError(t, <-done)
		assert.Equal(t, 2*time.Minute, time.Since(began))
		assert.Equal(t, 2, asked)
		assert.NotContains(t, why(), "budget")
	})
	virtual(t, "undelivered events alone", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		l.news("evt_1", from).delivered = true
		l.news("evt_2", from)
		pass(time.Hour)
		undelivered := func(o *onceward.CatchUp) { o.Undelivered = true }
		_, got, err := l.catches(from, undelivered)
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_2"}, got)

		l = listing(t, onceward.Config{}, func(p *providers.Provider) { p.Feed.Undelivered = "" })
		_, _, err = l.catches(from, undelivered)
		field(t, "Undelivered", err)
	})
}

// Rule 20: Next never goes back, not even to an event that fails.
func TestCatchUpNeverGoesBack(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		l.news("evt_1", time.Now())
		at := time.Now()
		pass(time.Hour)
		l.fails("evt_1")
		from := at.Add(10 * time.Minute)
		result, got, err := l.catches(from, again([]onceward.FailedEvent{{ID: "evt_1", Type: "payment.succeeded", At: at, Since: time.Now()}}))
		require.Error(t, err)
		assert.Equal(t, []string{"evt_1"}, got)
		assert.False(t, result.Next.Before(from))
	})
}

// A pass that is cut off returns what was done, and the next pass goes on there.
func TestCatchUpThatIsCutOff(t *testing.T) {
	for name, cut := range map[string]func(l *list, cancel func()){
		"by its context":  func(_ *list, cancel func()) { cancel() },
		"by the shutdown": func(l *list, _ func()) { go func() { _ = l.Shutdown(context.Background()) }(); pass(time.Millisecond) },
	} {
		virtual(t, name, func(t *testing.T) {
			srv := openBank(t, unlooked, byHeader)
			j := memory.New()
			l := reading(t, srv, onceward.Config{Journal: j})
			from := time.Now()
			for i := range 4 {
				l.news(fmt.Sprint("evt_", i), from.Add(time.Duration(i)*time.Second))
			}
			pass(time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			l.handle = func(w http.ResponseWriter, _ *http.Request, id string) {
				if id == "evt_1" {
					cut(l, cancel)
				}
				w.WriteHeader(http.StatusNoContent)
			}
			opts := onceward.CatchUp{From: from, Types: []string{"*"}, Handler: l}
			result, err := l.CatchUp(ctx, "bank", opts)
			require.Error(t, err)
			assert.Equal(t, []string{"evt_0", "evt_1"}, l.got)
			assert.Equal(t, 2, result.Handled)
			assert.WithinDuration(t, from.Add(2*time.Second), result.Next, 0)

			next := reading(t, srv, onceward.Config{Journal: j})
			next.events = l.events
			_, got, err := next.catches(result.Next)
			require.NoError(t, err)
			assert.Equal(t, []string{"evt_2", "evt_3"}, got)
		})
	}
}

// A page that can't be read is asked for again, three times in all.
func TestCatchUpOfAPageThatFails(t *testing.T) {
	for failures, ok := range map[int]bool{2: true, 3: false} {
		virtual(t, fmt.Sprint(failures), func(t *testing.T) {
			l := listing(t, onceward.Config{})
			asked := 0
			l.refuse = func(*http.Request) *http.Response {
				if asked++; asked <= failures {
					return answers(http.StatusBadGateway, "")
				}
				return nil
			}
			from := time.Now()
			l.news("evt_1", from)
			pass(time.Hour)
			result, got, err := l.catches(from)
			if ok {
				require.NoError(t, err)
				assert.Equal(t, []string{"evt_1"}, got)
				return
			}
			require.ErrorContains(t, err, "the provider answered 502")
			assert.WithinDuration(t, from, result.Next, 0)
			assert.NotContains(t, err.Error(), "t0ken")
		})
	}
}
