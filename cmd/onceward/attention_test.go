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
