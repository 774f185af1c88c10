package catchup_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/listed"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/webhook"
)

// A webhook brought a failed event after the last pass, and the consumer has forgotten the event since.
func TestFeedsDoNoForgottenEventTwice(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := onDisk(t)
		c, err := consume.New(t.Context(), consume.Options{Journal: j, Name: "bank", Keep: 7 * day})
		require.NoError(t, err)
		did, fails := 0, true
		h := c.WebhookHandler(consume.Events("bank"), func(context.Context, journal.Tx, consume.Message, []byte) error {
			if fails {
				return errors.New("not now")
			}
			did++
			return nil
		})
		srv := openBank(t, unlooked, byHeader)
		by := func(f *onceward.Feed) { f.Handler = h }
		l := running(t, srv, j, by)
		e := l.news("evt_1", time.Now())
		l.Runs(2 * time.Hour)
		fails = false
		ctx := context.WithValue(t.Context(), listed.MessageKey{}, webhook.Message{Evidence: true, Events: []string{"evt_1"}})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(e.body)))
		require.Equal(t, 1, did)
		go func() { _ = c.Run(t.Context()) }()
		pass(10 * day)

		next := running(t, srv, j, by)
		next.events = l.events
		next.Runs(3 * time.Hour)
		assert.Equal(t, 1, did)
		b := mark(t, j)
		place := feed.PlaceOf(&b)
		assert.Empty(t, place.Failed)
		assert.False(t, place.Gap[0].After(e.at), "the gap has the event's time")
	})
}

// A consumer that remembers less than a pass may have to go back would have gaps in each quiet week.
func TestFeedsRequireAConsumerThatRemembers(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := onDisk(t)
		table := bank()
		table.Hosts, table.Feed = []string{"api.example.com"}, feedOf("api.example.com")
		table.AccountHeaders = []string{"Bank-Account"}
		for keep, ok := range map[time.Duration]bool{3 * day: false, 3*day + time.Hour: true} {
			h, _ := consumer(t, j, keep)
			_, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{table}, Reconcile: &onceward.Reconcile{Feeds: []onceward.Feed{
				{Provider: "bank", From: time.Now(), Types: []string{"*"}, Handler: h},
			}}})
			if ok {
				require.NoError(t, err)
				continue
			}
			var refused *onceward.ConfigError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, "Reconcile.Feeds[0].Handler", refused.Field)
			assert.Contains(t, err.Error(), "73h0m0s")
		}
	})
}

// A process whose clock was ahead has recorded a pass in the future. No pass waits until then.
func TestFeedsAfterAPassInTheFuture(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := memory.New()
		l := running(t, openBank(t, unlooked, byHeader), j)
		l.Runs(30 * time.Minute)
		b := mark(t, j)
		b.Note = feed.Place{Last: time.Now().Add(5 * day)}.Note()
		_, err := j.SetBookmark(t.Context(), b)
		require.NoError(t, err)
		l.news("evt_1", time.Now())
		l.Runs(3 * time.Hour)
		assert.Equal(t, []string{"evt_1"}, l.got)
	})
}

// A feed that was to begin in the future, such as by a wrong clock, has no bookmark there. Once the clock and From are right,
// it begins at From.
func TestFeedsThatBeginInTheFuture(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		srv := openBank(t, unlooked, byHeader)
		j := memory.New()
		wrong := running(t, srv, j, func(f *onceward.Feed) { f.From = time.Now().Add(300 * day) })
		wrong.Runs(3 * time.Hour)
		assert.Contains(t, wrong.Log.String(), "the clock of this machine")
		require.NoError(t, wrong.Close())
		l := running(t, srv, j)
		l.news("evt_1", time.Now())
		l.Runs(3 * time.Hour)
		assert.Equal(t, []string{"evt_1"}, l.got)
	})
}

// A local clock that is ahead of the provider's neither passes over listed events nor moves a bookmark into the future.
func TestCatchUpWithAClockThatIsAhead(t *testing.T) {
	at := func(l *list, now time.Time) { // the provider's time
		l.refuse = func(r *http.Request) *http.Response {
			resp := answers(http.StatusOK, l.page(r))
			resp.Header.Set("Date", now.UTC().Format(http.TimeFormat))
			return resp
		}
	}
	for _, ahead := range []time.Duration{5 * day, 20 * day} {
		virtual(t, ahead.String(), func(t *testing.T) {
			l := listing(t, onceward.Config{}, func(p *providers.Provider) { p.Feed.Horizon = 5 * day })
			now := time.Now()
			pass(ahead)
			at(l, now)
			l.news("evt_1", now.Add(-2*time.Hour))
			result, got, err := l.catches(now.Add(-3 * time.Hour))
			require.NoError(t, err)
			assert.Equal(t, []string{"evt_1"}, got)
			assert.WithinDuration(t, now.Add(-20*time.Minute), result.Next, 0)
			assert.Zero(t, result.Gap)
		})
	}
	virtual(t, "by more than a consumer remembers", func(t *testing.T) {
		j := onDisk(t)
		h, _ := consumer(t, j, 7*day)
		l := running(t, openBank(t, unlooked, byHeader), j, func(f *onceward.Feed) { f.Handler = h })
		l.Runs(30 * time.Minute)
		before := mark(t, j)
		now := time.Now()
		pass(10 * day)
		at(l, now)
		l.Runs(2 * time.Hour)
		b := mark(t, j)
		assert.Equal(t, before.At, b.At)
		assert.Zero(t, feed.PlaceOf(&b).Gap)
		assert.Contains(t, l.Log.String(), "the clock of this machine")
	})
}

// An event whose list the provider refuses delays no other event that failed.
func TestCatchUpReadsEachFailedEvent(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		at := time.Now()
		l.news("evt_1", at.Add(time.Second))
		pass(2 * day)
		l.refuse = func(r *http.Request) *http.Response {
			if r.URL.Query().Get("types") == "retired" {
				return answers(http.StatusBadRequest, `{}`)
			}
			return nil
		}
		result, got, err := l.catches(time.Now().Add(-time.Hour), again([]onceward.FailedEvent{
			{ID: "evt_0", Type: "retired", At: at, Since: at}, {ID: "evt_1", Type: "payment.succeeded", At: at.Add(time.Second), Since: at},
		}))
		require.Error(t, err)
		assert.Equal(t, []string{"evt_1"}, got)
		require.Len(t, result.Failed, 1)
		assert.Equal(t, "the provider answered 400", result.Failed[0].Err)
	})
}

// An event that a page repeats is handed over once. It keeps its first failure's time.
func TestCatchUpHandsOverARepeatedEventOnce(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		l.news("evt_1", from)
		l.news("evt_1", from)
		pass(time.Hour)
		result, got, err := l.catches(from)
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_1"}, got)
		assert.Equal(t, 1, result.Read)
	})
}

// A gap needs attention for thirty days after a pass found the gap, however old its events are. A later gap hides none.
func TestFeedsNameEachGap(t *testing.T) {
	gaps := func(t *testing.T, j journal.Journal) (all []shown.Missed) {
		for m, err := range shown.MissedEvents(t.Context(), j.(journal.Bookmarks), time.Now()) {
			require.NoError(t, err)
			all = append(all, m)
		}
		return all
	}
	virtual(t, "as old as the provider lists events", func(t *testing.T) {
		j := memory.New()
		from := time.Now()
		l := running(t, openBank(t, unlooked, byHeader), j)
		pass(horizon + day)
		l.Runs(2 * time.Hour)
		found := gaps(t, j)
		require.Len(t, found, 1)
		assert.WithinDuration(t, from, found[0].At, 0)
		assert.WithinDuration(t, from.Add(day), found[0].Until, time.Minute)
		assert.WithinDuration(t, time.Now(), found[0].Since, 3*time.Hour)
		l.Runs(29 * day)
		assert.Len(t, gaps(t, j), 1)
		l.Runs(3 * day)
		assert.Empty(t, gaps(t, j))
	})
	virtual(t, "two", func(t *testing.T) {
		j := onDisk(t)
		h, _ := consumer(t, j, 7*day)
		from := time.Now()
		l := running(t, openBank(t, unlooked, byHeader), j, func(f *onceward.Feed) { f.Handler = h })
		for range 2 {
			pass(10 * day)
			l.Runs(time.Hour)
		}
		found := gaps(t, j)
		require.Len(t, found, 1)
		assert.WithinDuration(t, from, found[0].At, 0)
		assert.WithinDuration(t, from.Add(14*day), found[0].Until, 2*time.Hour)
	})
}

// unwritable is a journal whose bookmarks can be read and not written, as on a full disk.
type unwritable struct{ *memory.Journal }

func (unwritable) SetBookmark(context.Context, journal.Bookmark) (journal.Bookmark, error) {
	return journal.Bookmark{}, errors.New("the disk is full")
}

// A journal that records no bookmark does not make Run read a list more often.
func TestFeedsWhoseBookmarkIsNotRecorded(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := running(t, openBank(t, unlooked, byHeader), unwritable{memory.New()})
		l.Runs(10 * time.Hour)
		assert.InDelta(t, 10, l.passes(), 1)
		assert.Contains(t, l.Log.String(), "the disk is full")
	})
}
