package sqlite_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A claim that passes over thousands lets others write meanwhile.
func TestClaimPastThousandsLetsOthersWrite(t *testing.T) {
	var asked atomic.Int64
	var commits []int64 // the number of requests of each commit meanwhile; only the writer uses it
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Committed: func(int, time.Duration) {
		if n := asked.Load(); n > 0 {
			commits = append(commits, n)
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	const many = 3000
	sideBySide(many, func(i int) {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprintf("op-%04d", i), s))
		if assert.NoError(t, err) {
			park := complete(begun.Operation, s)
			park.Kind, park.Answer, park.Unsent = journal.EventPark, nil, true
			_, err = j.Apply(t.Context(), park)
			assert.NoError(t, err)
		}
	})
	ev := claim(s)
	ev.At = ev.At.Add(time.Hour)
	recorded := make(chan error, 1)
	ev.Today = func(op *journal.Operation) (journal.Today, bool) {
		if asked.Add(1) == 1 {
			go func() {
				_, err := j.Apply(t.Context(), begin("urgent", s))
				recorded <- err
			}()
			for sqlite.Queued(j) == 0 {
				runtime.Gosched()
			}
		}
		return journal.Today{Terms: terms}, op.Handle > many-10
	}
	results, err := j.Claim(t.Context(), ev, 20)
	require.NoError(t, err)
	require.Len(t, results, 10, "what it passes over keeps it from nothing")
	assert.EqualValues(t, many, asked.Load(), "each is looked at once")
	require.NoError(t, <-recorded)
	require.NoError(t, j.Close())
	require.NotEmpty(t, commits)
	assert.Less(t, commits[0], int64(many/2), "operations were passed over until somebody else's was recorded")
}
