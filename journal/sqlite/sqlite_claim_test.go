//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// parkMany parks that many operations.
func parkMany(t *testing.T, j *sqlite.Journal, s journal.Session, many int) {
	t.Helper()
	sideBySide(many, func(i int) {
		begun, err := j.Apply(t.Context(), generate(fmt.Sprint("invoice-", i), s))
		if assert.NoError(t, err) {
			park := complete(begun.Operation, s)
			park.Kind, park.Answer = journal.EventPark, nil
			_, err = j.Apply(t.Context(), park)
			assert.NoError(t, err)
		}
	})
}

// claimThese is a claim of those operations alone.
func claimThese(s journal.Session, these func(handle int64) bool) journal.Event {
	ev := claim(s)
	ev.At = ev.At.Add(time.Minute)
	ev.Today = func(op *journal.Operation) (journal.Today, bool) {
		return journal.Today{Terms: terms}, these(op.Handle)
	}
	return ev
}

// A claim takes some operations, passes over more than one commit examines, and takes others. It keeps its limit and
// returns all of them, even if one of the others can't be read.
func TestClaimOfSeveralCommits(t *testing.T) {
	path, j, s := joined(t)
	parkMany(t, j, s, 320)
	ev := claimThese(s, func(handle int64) bool { return handle <= 2 || handle > 300 })
	assert.Equal(t, []int64{1, 2, 301, 302, 303}, claimed(t, j, ev, 5))
	assert.Equal(t, []int64{304, 305, 306, 307, 308}, claimed(t, j, ev, 5))
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "UPDATE onceward_operations SET request_body = x'00' WHERE handle = 10")
	ev = claimThese(s, func(handle int64) bool { return handle <= 4 || handle > 318 })
	assert.Equal(t, []int64{3, 4, 319, 320}, claimed(t, j, ev, 5))
}

// If one of a claim's commits fails, the claim returns the operations of the earlier ones.
func TestClaimOfWhichACommitFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	var taken bool // only the writer uses it
	stop := func() {}
	j, err := sqlite.Open(path, sqlite.Options{Committed: func(int, time.Duration) {
		if taken {
			taken, stop = false, refuse(t, path, "INSERT ON onceward_log")
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	parkMany(t, j, s, 600)
	these := claimThese(s, func(handle int64) bool { taken = taken || handle == 1; return handle <= 2 || handle > 300 })
	assert.Equal(t, []int64{1, 2}, claimed(t, j, these, 5))
	stop()
	assert.Equal(t, []int64{301, 302, 303, 304, 305}, claimed(t, j, these, 5))
}
