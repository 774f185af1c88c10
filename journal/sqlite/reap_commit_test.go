//go:build unix

package sqlite_test

import (
	"database/sql"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
)

// longAgo is when the operations of these tests were settled.
var longAgo = time.Now().Add(-1000 * time.Hour)

// ended begins an operation long ago, and ends it by an event of that kind.
func ended(t *testing.T, j *sqlite.Journal, s machine.Session, ev machine.Event, kind machine.EventKind) {
	t.Helper()
	ev.At = longAgo
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	end := complete(begun.Operation, s)
	if end.At, end.Kind = longAgo, kind; kind != machine.EventComplete {
		end.Answer, end.Unsent = nil, true
	}
	_, err = j.Apply(t.Context(), end)
	require.NoError(t, err)
}

// No commit of the reaper has more operations than its bound, and none has far fewer.
func TestReapCommitsAFewAtATime(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		many, size, least, most int
	}{
		"small ones": {250, 10, 3, 6},
		"large ones": {6, 600 << 10, 6, 9},
	} {
		for where, kind := range map[string]machine.EventKind{"in blocks": machine.EventComplete, "in rows": machine.EventCancel} {
			t.Run(name+" "+where, func(t *testing.T) {
				_, j, s := joined(t)
				body := noise(row.size)
				for n := range row.many {
					ev := begin(fmt.Sprint("op-", n), s)
					ev.Intent.Request.Body = body
					ended(t, j, s, ev, kind)
				}
				seenAt(t, j, time.Now().Add(-machine.Confirmation))
				before := commitsOf(t, j)
				n, err := reap(t, j, 1000)
				require.NoError(t, err)
				require.Equal(t, row.many, n)
				commits := commitsOf(t, j) - before
				assert.GreaterOrEqual(t, commits, int64(row.least))
				assert.LessOrEqual(t, commits, int64(row.most))
			})
		}
	}
}

// Operations that are not due to be reaped take no place of those that are.
func TestReapSkipsKeptOperations(t *testing.T) {
	_, j, s := joined(t)
	for n := range 6 {
		ev := begin(fmt.Sprint("op-", n), s)
		if n < 3 {
			ev.Intent.Terms.Retention = 5000 * time.Hour
		}
		ended(t, j, s, ev, machine.EventCancel)
	}
	seenAt(t, j, time.Now().Add(-machine.Confirmation))
	n, err := reap(t, j, 3)
	require.NoError(t, err)
	assert.Equal(t, 3, n)
}

func TestReapTakesNothingButAReap(t *testing.T) {
	_, j, _ := joined(t)
	_, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventDeliver, At: time.Now()}, 1)
	var refused *machine.EventError
	require.ErrorAs(t, err, &refused)
}

// A transaction that waits gets its turn before two hundreds of operations are reaped.
func TestReapLetsOthersGoFirst(t *testing.T) {
	synctest.Test(t, reapLetsOthersGoFirst) // which shows that a transaction waits
}

func reapLetsOthersGoFirst(t *testing.T) {
	time.Sleep(time.Until(begun.Add(time.Hour))) // virtual
	const many = 350
	path, j, s := joined(t)
	for n := range many {
		ended(t, j, s, begin(fmt.Sprint("op-", n), s), machine.EventCancel)
	}
	seenAt(t, j, time.Now().Add(-machine.Confirmation))
	seenAt(t, j, time.Now())
	has, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	reaped := make(chan int, 1)
	go func() {
		n, err := reap(t, j, many)
		assert.NoError(t, err)
		reaped <- n
	}()
	waits := func(n int) {
		for synctest.Wait(); sqlite.Turns(j) < n; synctest.Wait() {
			time.Sleep(time.Millisecond) // virtual
		}
	}
	for left := many; left > 100; {
		waits(1)
		began := make(chan *sql.Tx, 1)
		go func() {
			tx, err := j.BeginSQL(t.Context())
			assert.NoError(t, err)
			began <- tx
		}()
		waits(2)
		require.NoError(t, has.Rollback())
		has = <-began
		now := number(t, path, "SELECT count(*) FROM onceward_rows")
		require.LessOrEqual(t, left-now, 100)
		left = now
	}
	require.NoError(t, has.Rollback())
	assert.Equal(t, many, <-reaped)
}
