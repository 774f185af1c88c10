//go:build unix

package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// wouldEnqueue enqueues in a transaction that is rolled back.
func wouldEnqueue(t *testing.T, j *sqlite.Journal, db *sql.DB, ev machine.Event) (res machine.Result, rows int, err error) {
	t.Helper()
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	var before int
	require.NoError(t, tx.QueryRow("SELECT count(*) FROM onceward_rows").Scan(&before))
	res, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
	require.NoError(t, tx.QueryRow("SELECT count(*) FROM onceward_rows").Scan(&rows))
	return res, rows - before, err
}

// undelivered is an operation with an undelivered outcome, and the event that marks it as delivered.
func undelivered(t *testing.T, j *sqlite.Journal, s machine.Session, id string) machine.Event {
	t.Helper()
	begun, err := j.Apply(t.Context(), begin(id, s))
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Delivered = false
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	return machine.Event{Kind: machine.EventDeliver, Ref: begun.Operation.Ref, At: time.Now(), Outcome: journal.StateCompleted}
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
	alter(t, path, "UPDATE onceward_head SET version = version + 10")
	_, rows, err := wouldEnqueue(t, j, db, enqueue("order-1"))
	require.ErrorIs(t, err, journal.ErrVersion)
	assert.Zero(t, rows)
}

// A cancelled operation with its asker's key is enqueued again under its own names, which are recorded once.
func TestEnqueueAgainWithItsKey(t *testing.T) {
	path, j, s := joined(t)
	db := application(t, path)
	carried := func(id string) machine.Event {
		ev := enqueue(id)
		ev.Intent.Alias, ev.Intent.KeyCarried = aliasOf(id), true
		return ev
	}
	_, rows, err := wouldEnqueue(t, j, db, enqueue("order-1"))
	require.NoError(t, err)
	assert.Equal(t, 1, rows, "it has one name")
	_, rows, err = wouldEnqueue(t, j, db, carried("order-1"))
	require.NoError(t, err)
	assert.Equal(t, 1, rows, "it has two names")

	ev := begin("order-1", s)
	ev.Intent.Alias, ev.Intent.KeyCarried = aliasOf("order-1"), true
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	cancel := complete(begun.Operation, s)
	cancel.Kind, cancel.Answer, cancel.Unsent = machine.EventCancel, nil, true
	_, err = j.Apply(t.Context(), cancel)
	require.NoError(t, err)
	res, rows, err := wouldEnqueue(t, j, db, carried("order-1"))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, res.Decision)
	assert.Zero(t, rows, "it has both names")

	// By either name the transaction sees its own change.
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	for n, ref := range []journal.Ref{begun.Operation.Ref, aliasOf("order-1"), begun.Operation.Ref} {
		ev := carried("order-1")
		ev.Ref = ref
		res, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
		require.NoError(t, err)
		assert.Equal(t, n == 0, res.Decision == machine.Recorded, ref)
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

// An operation that no process could send later, or find again, is not enqueued.
func TestEnqueueOfAnInvalidIntent(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	for name, change := range map[string]func(ev *machine.Event){
		"none":           func(ev *machine.Event) { ev.Intent = nil },
		"withheld body":  func(ev *machine.Event) { ev.Intent.BodyWithheld = true },
		"without a name": func(ev *machine.Event) { ev.Intent.Naming = journal.Generated },
	} {
		ev := enqueue("order-1")
		change(&ev)
		_, rows, err := wouldEnqueue(t, j, db, ev)
		require.ErrorIs(t, err, journal.ErrInvalidEvent, name)
		assert.Zero(t, rows, name)
	}
}

// If an unreadable operation may have the same carried key, an operation with that key is not enqueued.
func TestEnqueueBesideADamagedOperationWithItsKey(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	carried := func(id string) machine.Event {
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
	_, err = db.Exec("UPDATE onceward_rows SET record = zeroblob(length(record))")
	require.NoError(t, err)
	_, rows, err := wouldEnqueue(t, j, db, carried("order-2"))
	require.ErrorContains(t, err, "damaged")
	assert.Zero(t, rows)
}

// A transaction goes on after a failed enqueue, which leaves no statement of the journal open.
func TestEnqueueThatFailsLeavesNothingOpen(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	order(t, j, db, "order-1", (*sql.Tx).Commit)
	_, err := db.Exec("UPDATE onceward_rows SET record = zeroblob(length(record))")
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
