package onceward_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// The date of the first request is part of what a provider knows a key by: whatever
// came of the attempts, and whoever makes them, it stays what it was once it has left.
func TestTheDateThatTravelsNeverChangesWithinAGeneration(t *testing.T) {
	repeatable := func() []providers.Provider {
		return []providers.Provider{providers.Repeatable(7*24*time.Hour, "own.example")}
	}
	for _, row := range []struct {
		name   string
		script []reply
	}{
		{"after a refusal for now", []reply{says(429, ""), says(429, "")}},
		{"after a refused credential", []reply{says(401, "")}},
		{"after an answer that was lost", []reply{loses()}},
		{"after one that never left, and one that did", []reply{refuses(), says(503, ""), refuses()}},
	} {
		each(t, row.name, func(t *testing.T, j journal.Journal) {
			l := (&line{}).then(row.script...)
			var first *process
			for range len(row.script) + 1 {
				p := start(t, l, onceward.Config{Journal: j, Providers: repeatable(), Backoff: once})
				if first == nil {
					first = p
				}
				p.ask(named(t, "order-1"), to(http.MethodPost, ownURL))
				pass(2 * time.Hour)
				_, err := p.Resume(t.Context())
				require.NoError(t, err)
				pass(2 * time.Hour)
			}
			dates := map[string]bool{}
			keys := map[string]bool{}
			for _, s := range l.sent() {
				dates[s.Header.Get("Repeatability-First-Sent")] = true
				keys[s.Header.Get("Repeatability-Request-Id")] = true
			}
			require.NotEmpty(t, l.sent())
			assert.Len(t, keys, 1)
			assert.Len(t, dates, 1)
			assert.NotContains(t, dates, "")
		})
	}
}
