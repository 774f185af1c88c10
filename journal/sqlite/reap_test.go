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

// A damaged operation keeps no other from being reaped, and its segment is examined again.
func TestReapBesideADamagedOperation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage string
		least  int
	}{
		"in a row": {"UPDATE onceward_rows SET record = zeroblob(length(record)) WHERE instr(record, CAST('key-of-damaged' AS BLOB)) > 0", 1000},
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
				require.NoError(t, err)
				return n
			}
			assert.GreaterOrEqual(t, reap(), tc.least)
			assert.Zero(t, reap())
		})
	}
}

// ripe completes n operations with an old time, so that most are in blocks. It also makes a cancelled and an
// undelivered one.
func ripe(t *testing.T, j *sqlite.Journal, n int) {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	old := time.Now().Add(-1000 * time.Hour)
	apply := func(ev journal.Event) journal.Operation {
		ev.At = old
		result, err := j.Apply(t.Context(), ev)
		assert.NoError(t, err)
		return result.Operation
	}
	sideBySide(n, func(i int) {
		ev := begin(fmt.Sprint("named-", i), s)
		if i%2 == 1 {
			ev = generate(fmt.Sprint("generated-", i), s)
		}
		apply(complete(apply(ev), s))
	})
	cancel := complete(apply(begin("cancelled", s)), s)
	cancel.Kind, cancel.Answer, cancel.Unsent = journal.EventCancel, nil, true
	apply(cancel)
	undelivered := complete(apply(begin("undelivered", s)), s)
	undelivered.Delivered = false
	apply(undelivered)
	seenAt(t, j, time.Now().Add(-journal.Confirmation)) // so that now is no jump
}

func reap(t *testing.T, j *sqlite.Journal, limit int) (int, error) {
	return j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now(), Keep: 100 * time.Hour}, limit)
}

// Reap reads rows alone. If an operation's answer is damaged, it is reaped like any other.
func TestReapTakesAnOperationWithADamagedAnswer(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("a", s))
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_answers SET body = x'00'")
	j = open(t, path)
	_, err = j.Get(t.Context(), begun.Operation.Ref)
	require.Error(t, err)
	at := time.Now().Add(1000 * time.Hour)
	seenAt(t, j, at.Add(-journal.Confirmation))
	n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: at, Keep: time.Hour}, 10)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	op, err := j.Get(t.Context(), begun.Operation.Ref)
	require.NoError(t, err)
	assert.True(t, op.Tombstone)
}
