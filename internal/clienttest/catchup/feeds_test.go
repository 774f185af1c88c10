package catchup_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// handler lets a list be read before it is known.
type handler struct{ to *list }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.to.ServeHTTP(w, r) }

// running returns a process at a bank whose list Run reads.
func running(t *testing.T, srv *providertest.Server, j journal.Journal, adjust ...func(*onceward.Feed)) *list {
	t.Helper()
	h := &handler{}
	f := onceward.Feed{Provider: "bank", From: time.Now(), Types: []string{"*"}, Handler: h}
	for _, a := range adjust {
		a(&f)
	}
	l := reading(t, srv, onceward.Config{Journal: j, Reconcile: &onceward.Reconcile{Feeds: []onceward.Feed{f}}})
	h.to = l
	return l
}

// mark returns a journal's only bookmark.
func mark(t *testing.T, j journal.Journal) (b journal.Bookmark) {
	t.Helper()
	for is, err := range j.(journal.Bookmarks).ListBookmarks(t.Context()) {
		require.NoError(t, err)
		require.Zero(t, b)
		b = is
	}
	return b
}

// Run reads a list each hour, and a later process goes on where the one before ended.
func TestFeedsGoOnAtTheirBookmark(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		srv := openBank(t, unlooked, byHeader)
		j := memory.New()
		l := running(t, srv, j)
		began := time.Now()
		l.Loses("invoice-1", providertest.DropAfter())
		l.happens("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now())
		l.Runs(90 * time.Minute)
		assert.Equal(t, []string{"evt_1"}, l.got)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		b := mark(t, j)
		assert.Equal(t, "events bank  ", b.Name)
		assert.WithinDuration(t, began.Add(40*time.Minute), b.At, time.Second)
		require.NoError(t, l.Close())

		pass(5 * time.Hour)
		next := running(t, srv, j)
		next.events = l.events
		next.news("evt_2", time.Now().Add(-3*time.Hour))
		next.fails("evt_2")
		next.Runs(30 * time.Minute)
		assert.Equal(t, []string{"evt_2"}, next.got, "it reads at once, since a pass is overdue")
		b = mark(t, j)
		assert.WithinDuration(t, next.events[1].at, b.At, 0, "it waits for the event that failed")
		require.Len(t, feed.PlaceOf(&b).Failed, 1)
		next.handle = nil
		next.Runs(time.Hour)
		assert.Equal(t, []string{"evt_2", "evt_2"}, next.got)
		b = mark(t, j)
		assert.Empty(t, feed.PlaceOf(&b).Failed)
	})
}

// Rule 18: a source without events is read less often, but once a day at least. An event ends that.
func TestFeedsOfAQuietAccount(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := running(t, openBank(t, unlooked, byHeader), memory.New())
		passes := func(d time.Duration) (n int) {
			before := l.passes()
			l.Runs(d)
			return l.passes() - before
		}
		assert.InDelta(t, 10, passes(10*time.Hour), 1)
		assert.InDelta(t, 10, passes(20*time.Hour), 1)
		assert.InDelta(t, 10, passes(40*time.Hour), 1)
		passes(20 * day)
		assert.Equal(t, 7, passes(7*day))
		l.news("evt_1", time.Now())
		passes(day)
		assert.InDelta(t, 10, passes(10*time.Hour), 1)
	})
}

// passes returns how many passes there were so far, by the requests that begin at another time.
func (l *list) passes() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last time.Time
	for i, at := range l.asked {
		if i == 0 || at.Sub(last) > time.Minute {
			n++
		}
		last = at
	}
	return n
}

// Rule 20: of two processes, one makes each pass. If both do, the bookmark only moves forward, and keeps what failed.
func TestFeedsOfTwoProcesses(t *testing.T) {
	virtual(t, "in turn", func(t *testing.T) {
		srv := openBank(t, unlooked, byHeader)
		j := memory.New()
		a, b := running(t, srv, j), running(t, srv, j)
		a.news("evt_1", time.Now())
		b.events = a.events
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		done := make(chan error)
		pass(10 * time.Second)
		go func() { done <- a.Run(ctx) }()
		pass(10 * time.Second)
		go func() { done <- b.Run(ctx) }()
		<-done
		<-done
		assert.Equal(t, 9, a.passes()+b.passes(), "the first pass has nothing to read yet")
		assert.Len(t, append(a.got, b.got...), 1)
	})
	virtual(t, "at once", func(t *testing.T) {
		j := memory.New()
		l := running(t, openBank(t, unlooked, byHeader), j)
		at := time.Now()
		l.news("evt_1", at)
		l.Runs(30 * time.Minute)
		ahead := at.Add(2 * time.Hour)
		l.handle = func(w http.ResponseWriter, _ *http.Request, _ string) { // another process has read on meanwhile
			b := mark(t, j)
			b.At, b.Note = ahead, feed.Place{Last: time.Now(), Failed: []feed.FailedEvent{{ID: "evt_9", Since: time.Now(), At: at}}}.Note()
			_, err := j.SetBookmark(t.Context(), b)
			require.NoError(t, err)
			w.WriteHeader(http.StatusBadRequest)
		}
		l.news("evt_2", at.Add(45*time.Minute))
		l.Runs(45 * time.Minute)
		b := mark(t, j)
		assert.WithinDuration(t, ahead, b.At, 0)
		var ids []string
		for _, e := range feed.PlaceOf(&b).Failed {
			ids = append(ids, e.ID)
		}
		assert.Equal(t, []string{"evt_1", "evt_2", "evt_9"}, ids)
	})
}

// A release that reads more types runs beside the one before, which moves the bookmark over no event of the new types. Once
// the new release is gone, the bookmark waits for two days.
func TestFeedsOfTwoReleases(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		srv := openBank(t, unlooked, byHeader)
		j := memory.New()
		types := func(names ...string) func(*onceward.Feed) { return func(f *onceward.Feed) { f.Types = names } }
		before := running(t, srv, j, types("payment.succeeded"))
		release := running(t, srv, j, types("payment.succeeded", "payment.refunded"))
		began := time.Now()
		for i := range 40 {
			kind := []string{"payment.succeeded", "payment.refunded"}[i%2]
			before.happens(fmt.Sprint("evt_", i), kind, onceward.Key(fmt.Sprint("none ", i)), "none", began.Add(2*time.Hour+time.Duration(i)*10*time.Minute))
		}
		release.events = before.events
		for _, ends := range []time.Duration{4 * time.Hour, time.Hour} { // the new release is started and stopped twice
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
			done := make(chan error)
			go func() { done <- before.Run(ctx) }()
			pass(90 * time.Minute)
			newer, stop := context.WithTimeout(t.Context(), ends)
			go func() { done <- release.Run(newer) }()
			<-done
			<-done
			stop()
			cancel()
		}
		release.Runs(time.Hour)
		got := map[string]int{}
		for _, id := range append(before.got, release.got...) {
			got[id]++
		}
		assert.Len(t, got, 40)
		at := mark(t, j).At
		before.Runs(47 * time.Hour)
		assert.Equal(t, at, mark(t, j).At)
		before.Runs(2 * day) // a quiet list is read daily
		assert.WithinDuration(t, time.Now(), mark(t, j).At, 25*time.Hour)
	})
}

// An event that always fails is read again for sixty days, and is named for as long.
func TestFeedsGiveUpAnEvent(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := memory.New()
		l := running(t, openBank(t, unlooked, byHeader), j, func(f *onceward.Feed) { f.Every = day })
		l.news("evt_1", time.Now())
		l.fails("evt_1")
		l.Runs(59 * day)
		b := mark(t, j)
		require.Len(t, feed.PlaceOf(&b).Failed, 1)
		assert.Contains(t, feed.PlaceOf(&b).Failed[0].Err, "does not list the event any more")
		l.Runs(4 * day)
		b = mark(t, j)
		assert.Empty(t, feed.PlaceOf(&b).Failed)
		assert.WithinDuration(t, time.Now(), b.At, 2*day)
	})
}

// A list that can't be read is logged, and read again. A consumer's marks are never older than the place.
func TestFeedsThatAreBehind(t *testing.T) {
	virtual(t, "a list that can't be read", func(t *testing.T) {
		l := running(t, openBank(t, unlooked, byHeader), memory.New())
		l.refuse = func(*http.Request) *http.Response { return answers(http.StatusForbidden, "") }
		l.Runs(30 * time.Hour)
		assert.Contains(t, l.Log.String(), "level=WARN")
		assert.Contains(t, l.Log.String(), "event=feed.failed")
		assert.Contains(t, l.Log.String(), "level=ERROR")
		l.news("evt_1", time.Now().Add(-29*time.Hour))
		l.refuse = nil
		l.Runs(2 * time.Hour)
		assert.Equal(t, []string{"evt_1"}, l.got)
	})
	virtual(t, "longer than the consumer remembers", func(t *testing.T) {
		j := onDisk(t)
		h, did := consumer(t, j, 7*day)
		l := running(t, openBank(t, unlooked, byHeader), j, func(f *onceward.Feed) { f.Handler = h })
		l.news("evt_1", time.Now())
		pass(10 * day)
		l.news("evt_2", time.Now().Add(-5*day))
		l.Runs(time.Hour)
		assert.Equal(t, 1, *did)
		assert.Contains(t, l.Log.String(), "event=feed.gap")
		b := mark(t, j)
		assert.NotZero(t, feed.PlaceOf(&b).Gap)
	})
}

// A source that can't be read is refused.
func TestFeedsThatAreRefused(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		at := time.Now()
		table := bank()
		table.Hosts, table.Feed = []string{"api.example.com"}, feedOf("api.example.com")
		table.AccountHeaders = []string{"Bank-Account"}
		good := onceward.Feed{Provider: "bank", From: at, Types: []string{"*"}}
		with := func(f func(*onceward.Feed)) []onceward.Feed { other := good; f(&other); return []onceward.Feed{other} }
		for name, feeds := range map[string][]onceward.Feed{
			"[0].Provider": with(func(f *onceward.Feed) { f.Provider = "other" }),
			"[0].From":     with(func(f *onceward.Feed) { f.From = time.Time{} }),
			"[0].Types":    with(func(f *onceward.Feed) { f.Types = nil }),
			"[0].Every":    with(func(f *onceward.Feed) { f.Every = time.Second }),
			"[1].Account":  {good, good},
			"":             {good},
		} {
			var j journal.Journal = memory.New()
			if name == "" {
				j = struct{ machine.Store }{memory.New()}
			}
			_, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{table}, Reconcile: &onceward.Reconcile{Feeds: feeds}})
			if name == "" { // it keeps no findings either
				require.Error(t, err)
				continue
			}
			var refused *onceward.ConfigError
			require.ErrorAs(t, err, &refused, name)
			assert.Equal(t, "Reconcile.Feeds"+name, refused.Field)
		}
	})
}

// Rule 18: many sources begin one after another, and two at once read the same provider.
func TestFeedsAreSpread(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		srv := openBank(t, unlooked, byHeader)
		var feeds []onceward.Feed
		for i := range 100 {
			feeds = append(feeds, onceward.Feed{Provider: "bank", From: time.Now().Add(-time.Hour), Types: []string{"*"}, Account: fmt.Sprint("acct_", i)})
		}
		r := generous()
		r.Feeds = feeds
		l := reading(t, srv, onceward.Config{Reconcile: r})
		began := time.Now()
		l.Runs(50 * time.Second)
		early := len(l.asked)
		l.Runs(100 * time.Second)
		seen := map[string]bool{}
		for _, r := range l.requests {
			seen[r.Header.Get("Bank-Account")] = true
		}
		assert.Len(t, seen, 100)
		assert.InDelta(t, 50, early, 25)
		assert.Less(t, time.Since(began), time.Hour)
		assert.Zero(t, strings.Count(l.Log.String(), "feed.failed"))
	})
}

// A person closes an event that fails, while a pass is under way or not. The handler never gets the event again, though its
// time is read once more.
func TestFeedsHandNoClosedEventOver(t *testing.T) {
	for name, within := range map[string]bool{"between passes": false, "within a pass": true} {
		virtual(t, name, func(t *testing.T) {
			j := memory.New()
			l := running(t, openBank(t, unlooked, byHeader), j)
			l.news("evt_0", time.Now())
			l.news("evt_1", time.Now().Add(time.Second))
			l.fails("evt_0", "evt_1")
			l.Runs(90 * time.Minute)
			pass(25 * time.Hour)
			closes := func() {
				_, err := shown.CloseMissed(t.Context(), j, "bank", "evt_1", time.Now())
				require.NoError(t, err)
			}
			if !within {
				closes()
				l.got = nil
			}
			before, closed := len(l.got), false
			l.handle = func(w http.ResponseWriter, _ *http.Request, id string) {
				if within && !closed {
					require.Equal(t, "evt_0", id)
					closes()
					closed = true
				}
				w.WriteHeader(http.StatusBadRequest)
			}
			l.Runs(90 * time.Minute)
			if within {
				assert.Equal(t, "evt_1", l.got[before+1], "the pass had read the entry before")
				l.got = l.got[before+2:]
			}
			l.Runs(5 * time.Hour)
			assert.Contains(t, l.got, "evt_0")
			assert.NotContains(t, l.got, "evt_1")
			b := mark(t, j)
			place := feed.PlaceOf(&b)
			require.Len(t, place.Failed, 1)
			assert.Equal(t, "evt_0", place.Failed[0].ID)
		})
	}
}

// Feeds that ask for more than the budget allows are all read in the end, though the process is restarted again and again.
func TestFeedsBeyondTheBudgetAreAllRead(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		srv := openBank(t, unlooked, byHeader)
		j := memory.New()
		r := &onceward.Reconcile{Budget: backoff.Budget{Capacity: 1, Refill: 1e-9, PerSuccess: 1e-9, ProbeEvery: time.Second}}
		for i := range 60 {
			r.Feeds = append(r.Feeds, onceward.Feed{Provider: "bank", From: time.Now(), Every: time.Minute, Types: []string{"*"}, Account: fmt.Sprint("acct_", i)})
		}
		pass(time.Hour)
		seen := map[string]bool{}
		for range 15 {
			l := reading(t, srv, onceward.Config{Journal: j, Reconcile: r})
			l.Runs(time.Minute)
			require.NoError(t, l.Close())
			for _, r := range l.requests {
				seen[r.Header.Get("Bank-Account")] = true
			}
			assert.Less(t, len(l.requests), 60)
			pass(time.Minute)
		}
		assert.Len(t, seen, 60)
	})
}
