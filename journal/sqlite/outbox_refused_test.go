//go:build unix

package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// wouldEnqueue enqueues in a transaction that is rolled back.
func wouldEnqueue(t *testing.T, j *sqlite.Journal, db *sql.DB, ev journal.Event) (res journal.Result, rows int, err error) {
	t.Helper()
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	res, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
	require.NoError(t, tx.QueryRow("SELECT count(*) FROM onceward_outbox").Scan(&rows))
	return res, rows, err
}

// undelivered is an operation with an undelivered outcome, and the event that marks it as delivered.
func undelivered(t *testing.T, j *sqlite.Journal, s journal.Session, id string) journal.Event {
	t.Helper()
	begun, err := j.Apply(t.Context(), begin(id, s))
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Delivered = false
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	return journal.Event{Kind: journal.EventDeliver, Ref: begun.Operation.Ref, At: time.Now(), Outcome: journal.StateCompleted}
}

// If SQLite has rolled a transaction back, nothing is recorded, though later statements of it succeed.
func TestEnqueueAfterARollbackOfSQLites(t *testing.T) {
	path, j, s := joined(t)
	db := application(t, path)
	order(t, j, db, "order-1", (*sql.Tx).Commit)
	require.Len(t, operationsOf(t, j), 1)
	conflicts := func(tx *sql.Tx) {
		_, err := tx.Exec("INSERT OR ROLLBACK INTO orders VALUES ('order-1', '')")
		require.ErrorContains(t, err, "UNIQUE")
	}
	tx, err := db.Begin()
	require.NoError(t, err)
	conflicts(tx)
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("order-2"))
	require.ErrorContains(t, err, "SQLite rolled the transaction back")
	require.Error(t, tx.Commit())
	assert.Zero(t, left(t, db))
	assert.Len(t, operationsOf(t, j), 1)

	_, err = j.DeliverTx(t.Context(), undelivered(t, j, s, "order-3"), func(_ context.Context, tx journal.Tx) error {
		conflicts(tx.Driver().(*sql.Tx))
		return nil
	})
	require.ErrorContains(t, err, "SQLite rolled the transaction back")
	op, err := j.Get(t.Context(), journal.Ref{ID: "order-3"})
	require.NoError(t, err)
	assert.False(t, op.Delivered)
}

// If a newer release has migrated the file meanwhile, nothing is enqueued.
func TestEnqueueOfANewerRelease(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	alter(t, path, "UPDATE onceward_schema SET version = version + 1")
	_, rows, err := wouldEnqueue(t, j, db, enqueue("order-1"))
	require.ErrorIs(t, err, journal.ErrVersion)
	assert.Zero(t, rows)
}

// A cancelled operation with its asker's key is enqueued again under its own names, which are recorded once.
func TestEnqueueAgainWithItsKey(t *testing.T) {
	path, j, s := joined(t)
	db := application(t, path)
	carried := func(id string) journal.Event {
		ev := enqueue(id)
		ev.Intent.Alias, ev.Intent.KeyCarried = aliasOf(id), true
		return ev
	}
	_, rows, err := wouldEnqueue(t, j, db, enqueue("order-1"))
	require.NoError(t, err)
	assert.Equal(t, 1, rows, "it has one name")
	_, rows, err = wouldEnqueue(t, j, db, carried("order-1"))
	require.NoError(t, err)
	assert.Equal(t, 2, rows, "it has two names")

	ev := begin("order-1", s)
	ev.Intent.Alias, ev.Intent.KeyCarried = aliasOf("order-1"), true
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	cancel := complete(begun.Operation, s)
	cancel.Kind, cancel.Answer, cancel.Unsent = journal.EventCancel, nil, true
	_, err = j.Apply(t.Context(), cancel)
	require.NoError(t, err)
	res, rows, err := wouldEnqueue(t, j, db, carried("order-1"))
	require.NoError(t, err)
	assert.Equal(t, journal.Recorded, res.Decision)
	assert.Equal(t, 1, rows, "it has both names")

	// By either name the transaction sees its own change.
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	for n, ref := range []journal.Ref{begun.Operation.Ref, aliasOf("order-1"), begun.Operation.Ref} {
		ev := carried("order-1")
		ev.Ref = ref
		res, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
		require.NoError(t, err)
		assert.Equal(t, n == 0, res.Decision == journal.Recorded, ref)
		assert.Equal(t, begun.Operation.Handle, res.Operation.Handle)
	}
}

// An enqueue returns the latest time that the journal has seen, though that is not written each time.
func TestEnqueueKnowsTheLatestTime(t *testing.T) {
	path, j, s := joined(t)
	db := application(t, path)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	later := time.Now().Add(time.Minute).Truncate(time.Millisecond).UTC()
	seenAt(t, j, later)
	res, _, err := wouldEnqueue(t, j, db, enqueue("order-1"))
	require.NoError(t, err)
	assert.Equal(t, later, res.Last)
}

// An operation that the file has lost is not enqueued again.
func TestEnqueueOfALostOperation(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "DELETE FROM onceward_blocks; DELETE FROM onceward_operations")
	_, rows, err := wouldEnqueue(t, j, db, enqueue("invoice-1"))
	require.ErrorContains(t, err, "damaged")
	assert.Zero(t, rows)
}

// If a row of the outbox can't be read, or names another operation, an enqueue fails, and does not decide by the other
// rows.
func TestEnqueueBesideADamagedRow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"without a sum":     "record = x'00'",
		"its key":           "record = unhex(replace(hex(record), hex('key-of'), hex('key of')))",
		"a handle":          "handle = handle + 1, record = sealed_outbox(record, kind, handle + 1, scope, parent, id)",
		"a name":            "scope = 'a', record = sealed_outbox(record, kind, handle, 'a', parent, id)",
		"nothing":           "record = sealed_outbox(x'00000000', kind, handle, scope, parent, id)",
		"no record":         "record = sealed_outbox(x'0100000000', kind, handle, scope, parent, id)",
		"another's name":    "id = 'order-2', record = sealed_outbox(record, kind, handle, scope, parent, 'order-2')",
		"no delivery":       "kind = 2, record = sealed_outbox(record, 2, handle, scope, parent, id)",
		"no delivery of it": "kind = 2, record = sealed_outbox(x'00000000', 2, handle, scope, parent, id)",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := open(t, path)
			db := application(t, path)
			op := order(t, j, db, "order-1", (*sql.Tx).Commit)
			_, err := db.Exec("UPDATE onceward_outbox SET " + change)
			require.NoError(t, err)
			var ref journal.Ref
			require.NoError(t, db.QueryRow("SELECT scope, parent, id FROM onceward_outbox").Scan(&ref.Scope, &ref.Parent, &ref.ID))
			ev := enqueue(ref.ID)
			ev.Ref = ref
			_, _, err = wouldEnqueue(t, j, db, ev)
			require.ErrorContains(t, err, "damaged")
			_, err = j.Get(t.Context(), op.Ref)
			require.ErrorContains(t, err, "damaged")
		})
	}
}

// An enqueue learns what another process has begun, though no other call has asked.
func TestEnqueueCatchesUp(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	goOn(t, j, "invoice-1")
	sqlite.Preloaded(j)
	_, in, out := startTalking(t, "begin", path)
	for n := range 2 {
		_, err := io.WriteString(in, "1\n")
		require.NoError(t, err)
		require.True(t, out.Scan())
		_, _, err = wouldEnqueue(t, j, db, enqueue("order-1"))
		require.NoError(t, err)
		until(t, func() bool { return len(sqlite.Candidates(j, journal.Ref{ID: fmt.Sprint("theirs-", n)})) > 0 })
	}
}

// An operation that no process could send later, or find again, is not enqueued.
func TestEnqueueOfAnInvalidIntent(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	for name, change := range map[string]func(ev *journal.Event){
		"none":           func(ev *journal.Event) { ev.Intent = nil },
		"withheld body":  func(ev *journal.Event) { ev.Intent.BodyWithheld = true },
		"without a name": func(ev *journal.Event) { ev.Intent.Naming = journal.Generated },
	} {
		ev := enqueue("order-1")
		change(&ev)
		_, rows, err := wouldEnqueue(t, j, db, ev)
		require.ErrorIs(t, err, journal.ErrInvalidEvent, name)
		assert.Zero(t, rows, name)
	}
}

// An operation that was enqueued under two names and can't be read is not enqueued again under the second.
func TestEnqueueByTheSecondNameOfADamagedRow(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	order(t, j, db, "order-1", func(tx *sql.Tx) error {
		ev := enqueue("order-2")
		ev.Intent.Alias = aliasOf("order-2")
		_, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
		require.NoError(t, err)
		return tx.Commit()
	})
	_, err := db.Exec("UPDATE onceward_outbox SET record = zeroblob(length(record)) WHERE id = 'order-2'")
	require.NoError(t, err)
	ev := enqueue("order-3")
	ev.Ref = aliasOf("order-2")
	_, rows, err := wouldEnqueue(t, j, db, ev)
	require.ErrorContains(t, err, "damaged")
	assert.Equal(t, 3, rows)
}

// If a statement fails while an enqueue catches up with other processes, their operations are not enqueued again.
func TestEnqueueOfAnUnreadableName(t *testing.T) {
	b := newBreaker(t)
	path, j, _ := joined(t)
	db := application(t, path)
	goOn(t, j, "invoice-1")
	sqlite.Preloaded(j)
	_, in, out := startTalking(t, "begin", path)
	for n, broke := 0, "at first"; broke != ""; n++ {
		_, err := io.WriteString(in, "1\n")
		require.NoError(t, err)
		require.True(t, out.Scan())
		ev := enqueue(fmt.Sprint("theirs-", n))
		tx, err := db.Begin()
		require.NoError(t, err)
		b.arm(n, false)
		res, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
		if broke = b.disarm(); broke != "" {
			assert.Error(t, err, broke)
		} else if assert.NoError(t, err) {
			assert.Equal(t, journal.Ignored, res.Decision)
		}
		require.NoError(t, tx.Rollback())
		_, err = j.Get(t.Context(), ev.Ref) // this knows it then
		require.NoError(t, err)
	}
}

// However much a transaction enqueues, it catches up with other processes once.
func TestEnqueueCatchesUpOnce(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	goOn(t, j, "invoice-1")
	sqlite.Preloaded(j)
	_, in, out := startTalking(t, "begin", path)
	_, err := io.WriteString(in, "1\n")
	require.NoError(t, err)
	require.True(t, out.Scan())
	order(t, j, db, "order-1", func(tx *sql.Tx) error {
		for n := range 10 {
			_, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue(fmt.Sprint("order-", n)))
			require.NoError(t, err)
		}
		for range 1000 {
			runtime.Gosched()
			require.LessOrEqual(t, sqlite.Queued(j), 1)
		}
		return tx.Commit()
	})
}

// If an unreadable operation may have the same carried key, an operation with that key is not enqueued.
func TestEnqueueBesideADamagedOperationWithItsKey(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	carried := func(id string) journal.Event {
		ev := enqueue(id)
		ev.Intent.Alias = aliasOf("one")
		return ev
	}
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), carried("order-1"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	_, err = db.Exec("UPDATE onceward_outbox SET record = zeroblob(length(record)) WHERE id = 'order-1'")
	require.NoError(t, err)
	_, rows, err := wouldEnqueue(t, j, db, carried("order-2"))
	require.ErrorContains(t, err, "damaged")
	assert.Equal(t, 2, rows)
}

// If the file has lost a tombstone whose name its reaped segment still knows, that name is not enqueued again.
func TestEnqueueOfALostTombstone(t *testing.T) {
	t.Parallel()
	path, j, _ := joined(t)
	db := application(t, path)
	ripe(t, j, 2*sqlite.SegmentSize)
	for n := 1; n > 0; {
		var err error
		n, err = reap(t, j, 5000)
		require.NoError(t, err)
	}
	require.Equal(t, [][]driver.Value{{int64(2)}}, rowsIn(t, path, "count(*)", "onceward_segments WHERE spent"))
	for _, segment := range []int{0, 1} {
		row := rowsIn(t, path, "handle, id", fmt.Sprintf("onceward_operations WHERE tombstone AND handle / %d = %d LIMIT 1", sqlite.SegmentSize, segment))[0]
		res, _, err := wouldEnqueue(t, j, db, enqueue(row[1].(string)))
		require.NoError(t, err)
		require.Equal(t, journal.Gone, res.Decision)
		alter(t, path, fmt.Sprint("DELETE FROM onceward_operations WHERE handle = ", row[0]))
		_, rows, err := wouldEnqueue(t, j, db, enqueue(row[1].(string)))
		require.ErrorContains(t, err, "damaged", segment)
		assert.Zero(t, rows)
	}
}

// A transaction goes on after a failed enqueue, which leaves no statement of the journal open.
func TestEnqueueThatFailsLeavesNothingOpen(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	order(t, j, db, "order-1", (*sql.Tx).Commit)
	_, err := db.Exec("UPDATE onceward_outbox SET record = zeroblob(length(record))")
	require.NoError(t, err)
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("order-1"))
	require.ErrorContains(t, err, "damaged")
	_, err = tx.Exec("DROP TABLE orders")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
}
