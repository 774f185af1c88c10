package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// What is damaged keeps no other from being reaped, and its segment is looked at again.
func TestReapBesideADamagedOperation(t *testing.T) {
	for name, tc := range map[string]struct {
		damage string
		least  int
	}{
		"in a row":   {"UPDATE onceward_operations SET facts = zeroblob(length(facts)) WHERE id = 'damaged'", 1000},
		"in a block": {"UPDATE onceward_blocks SET data = zeroblob(length(data)) WHERE first = (SELECT min(first) FROM onceward_blocks)", 500},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			parked(t, path, "damaged")
			j := open(t, path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			others(t, j, s, "many")
			require.NoError(t, s.End(t.Context()))
			require.NoError(t, j.Close())
			alter(t, path, tc.damage)
			j = open(t, path)
			now := time.Now()
			for range 4 {
				now = now.Add(journal.Leap / 2)
				seenAt(t, j, now)
			}
			reap := func() int {
				n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: now, Keep: time.Hour}, 1e6)
				require.ErrorContains(t, err, "which is passed over")
				return n
			}
			assert.GreaterOrEqual(t, reap(), tc.least)
			assert.Zero(t, reap())
		})
	}
}
