package console_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/journal"
)

// A listed event that fails for a day stands on the page of attention, escaped, and is counted.
func TestListedEventNeedsAttention(t *testing.T) {
	s := open(t, "/", nil)
	assert.NotContains(t, s.get("attention").text, "Listed events")
	now := time.Now()
	place := feed.Place{Last: now, Failed: []feed.FailedEvent{{ID: "evt_1", Type: "<b>payout</b>", At: now.Add(-49 * time.Hour), Since: now.Add(-48 * time.Hour), Err: "the handler answered 500"}}}
	_, err := s.journal.SetBookmark(t.Context(), journal.Bookmark{Name: feed.BookmarkOf("stripe", "", "acct_1"), At: now, Note: place.Note()})
	require.NoError(t, err)
	text := s.get("attention").text
	for _, part := range []string{"Listed events", "stripe, account acct_1", "evt_1", "&lt;b&gt;payout", "an event fails in its handler", "the handler answered 500"} {
		assert.Contains(t, text, part)
	}
	assert.Contains(t, s.get("").text, "5 operations and flows need attention")
}
