package shown_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// An event that fails for a day, a gap, and a list that is not read need attention, as long as the list is read at all.
func TestMissedEvents(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const hour, day = time.Hour, 24 * time.Hour
	fresh := feed.Place{Last: now.Add(-hour)}
	failed := func(ago time.Duration) feed.Place {
		return feed.Place{Last: now.Add(-hour), Failed: []feed.FailedEvent{{ID: "evt_1", Type: "payout.failed", At: now.Add(-ago), Since: now.Add(-ago), Err: "the handler answered 500"}}}
	}
	gap := func(ago time.Duration) feed.Place {
		return feed.Place{Last: now.Add(-hour), Gap: [2]time.Time{now.Add(-ago - day), now.Add(-ago)}, Noticed: now.Add(-hour)}
	}
	for name, row := range map[string]struct {
		bookmark string
		at       time.Duration // ago
		place    feed.Place
		want     string
	}{
		"read":                  {feed.BookmarkOf("stripe", "", ""), hour, fresh, ""},
		"quiet":                 {feed.BookmarkOf("stripe", "", ""), 47 * hour, fresh, ""},
		"behind":                {feed.BookmarkOf("stripe", "a b", "acct_1"), 49 * hour, fresh, "the list was not read"},
		"given up":              {feed.BookmarkOf("stripe", "", ""), 40 * day, feed.Place{Last: now.Add(-31 * day), Failed: failed(33 * day).Failed}, ""},
		"fails since an hour":   {feed.BookmarkOf("stripe", "", ""), hour, failed(hour), ""},
		"fails since a day":     {feed.BookmarkOf("stripe", "", ""), hour, failed(day), "an event fails in its handler"},
		"a gap":                 {feed.BookmarkOf("stripe", "", ""), hour, gap(31 * day), "events are too old to be read"},
		"of another kind":       {"compare stripe", 49 * hour, failed(day), ""},
		"a note from elsewhere": {feed.BookmarkOf("stripe", "", ""), 49 * hour, feed.Place{}, ""},
	} {
		j := memory.New()
		_, err := j.SetBookmark(t.Context(), journal.Bookmark{Name: row.bookmark, At: now.Add(-row.at), Note: row.place.Note()})
		require.NoError(t, err)
		var got []shown.Missed
		for m, err := range shown.MissedEvents(t.Context(), j, now) {
			require.NoError(t, err)
			got = append(got, m)
		}
		if row.want == "" {
			assert.Empty(t, got, name)
			continue
		}
		require.Len(t, got, 1, name)
		assert.Equal(t, row.want, got[0].What, name)
		switch name {
		case "a gap":
			assert.Equal(t, "gap-2026-11-29T11:00:00Z", got[0].ID)
		case "behind":
			assert.Empty(t, got[0].ID)
			assert.Equal(t, "stripe, scope a b, account acct_1", got[0].Source)
		case "fails since a day":
			assert.Equal(t, []string{"stripe", "evt_1", "payout.failed", "the handler answered 500"}, []string{got[0].Source, got[0].ID, got[0].Type, got[0].Reason})
		}
	}
}
