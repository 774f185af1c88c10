package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/journal"
)

// A listed event that fails for a day is listed, with its reason, and counted.
func TestAttentionListsAnEventThatFails(t *testing.T) {
	path, j := journalWith(t)
	before := runs(t, "stats", "--journal", path, "--fail-if", "needs-attention>100")
	require.Zero(t, before.code, before.err)
	assert.NotContains(t, runs(t, "attention", "--journal", path).out, "LIST OF")

	now := time.Now()
	place := feed.Place{Last: now, Failed: []feed.FailedEvent{{ID: "evt_1", Type: "payout.failed", At: now.Add(-48 * time.Hour), Since: now.Add(-47 * time.Hour), Err: "the handler answered 500"}}}
	_, err := j.SetBookmark(t.Context(), journal.Bookmark{Name: feed.BookmarkOf("stripe", "", "acct_1"), At: now, Note: place.Note()})
	require.NoError(t, err)
	said := runs(t, "attention", "--journal", path)
	for _, text := range []string{"stripe, account acct_1", "evt_1", "payout.failed", "an event fails in its handler", "to do: mend the handler", "reason: the handler answered 500"} {
		assert.Contains(t, said.out, text)
	}
	assert.Contains(t, runs(t, "attention", "--journal", path, "--output", "json").out, `"reason": "the handler answered 500"`)
	assert.NotEqual(t, before.out, runs(t, "stats", "--journal", path).out)
}

// An operator closes an event and a gap by the names that attention shows.
func TestCloseDropsWhatWasDealtWith(t *testing.T) {
	path, j := journalWith(t)
	now := time.Now().UTC().Truncate(time.Second)
	ago := func(hours time.Duration) time.Time { return now.Add(-hours * time.Hour) }
	for i, account := range []string{"acct_1", "acct_2"} {
		place := feed.Place{Last: now, Failed: []feed.FailedEvent{{ID: "evt_1", Type: "payout.failed", At: ago(48), Since: ago(47), Err: "the handler answered 500"}}}
		if i == 0 {
			place.Gap, place.Noticed = [2]time.Time{ago(72), ago(60)}, ago(60)
		}
		_, err := j.SetBookmark(t.Context(), journal.Bookmark{Name: feed.BookmarkOf("stripe", "", account), At: now, Note: place.Note()})
		require.NoError(t, err)
	}
	gap := "gap-" + ago(60).Format(time.RFC3339)
	assert.Contains(t, runs(t, "attention", "--journal", path).out, gap)
	for _, refused := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"close", "evt_1", "--yes"}, exitUsage, "add --list"},
		{[]string{"close", "evt_2", "--yes"}, exitNotFound, "no listed event or gap evt_2"},
		{[]string{"close", "evt_1"}, exitUsage, "add --yes"},
	} {
		said := runs(t, append(refused.args, "--journal", path)...)
		assert.Equal(t, refused.code, said.code, said.err)
		assert.Contains(t, said.err, refused.says)
	}
	for _, args := range [][]string{{"evt_1", "--list", "stripe, account acct_1"}, {gap}, {"evt_1"}} {
		said := runs(t, append([]string{"close", "--yes", "--journal", path}, args...)...)
		assert.Zero(t, said.code, said.err)
		assert.Contains(t, said.out, "closed: "+args[0]+" of stripe")
	}
	assert.NotContains(t, runs(t, "attention", "--journal", path).out, "LIST OF")
	for b, err := range j.ListBookmarks(t.Context()) {
		require.NoError(t, err)
		place := feed.PlaceOf(&b)
		assert.Equal(t, map[string]time.Time{"evt_1": ago(48)}, place.Closed)
	}
}
