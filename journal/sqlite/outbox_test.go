package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// enqueue is an event that records an operation to be sent later.
func enqueue(id string) machine.Event {
	ev := begin(id, noSession{})
	ev.Kind, ev.Session, ev.Asker = machine.EventEnqueue, "", 0
	ev.Intent.Request.Body = []byte("body of " + id)
	return ev
}

type noSession struct{ machine.Session }

func (noSession) ID() string { return "" }

// application is the application's own database on the journal's file, with a table of orders.
func application(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_txlock=immediate&_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.Exec("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, key TEXT) STRICT")
	require.NoError(t, err)
	return db
}

// order records an order and enqueues its operation, in one transaction that end ends.
func order(t *testing.T, j *sqlite.Journal, db *sql.DB, id string, end func(*sql.Tx) error) journal.Operation {
	t.Helper()
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	res, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue(id))
	require.NoError(t, err)
	require.Equal(t, machine.Recorded, res.Decision)
	_, err = tx.Exec("INSERT INTO orders VALUES (?, ?)", id, res.Operation.Key)
	require.NoError(t, err)
	require.NoError(t, end(tx))
	return res.Operation
}

func TestEnqueuedOperationIsCommittedWithItsOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	db := application(t, path)
	lost := order(t, j, db, "order-0", (*sql.Tx).Rollback)
	_, err := j.Get(t.Context(), lost.Ref)
	require.ErrorIs(t, err, journal.ErrNotFound)
	op := order(t, j, db, "order-1", (*sql.Tx).Commit)
	assert.Equal(t, lost.Handle, op.Handle)
	second := order(t, open(t, path), db, "order-2", (*sql.Tx).Commit)
	assert.Equal(t, op.Handle+1, second.Handle)

	there, err := j.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.Equal(t, op, there)
	assert.Equal(t, journal.StatePending, there.State)
	assert.Equal(t, "body of order-1", string(there.Request.Body))
	assert.Len(t, operationsOf(t, j), 2)

	s, err := j.Join(t.Context())
	require.NoError(t, err)
	claimed, err := j.Claim(t.Context(), claim(s), 10)
	require.NoError(t, err)
	require.Len(t, claimed, 2)
	_, err = j.Apply(t.Context(), complete(claimed[0].Operation, s))
	require.NoError(t, err)
	require.Empty(t, verify(t, j))
}

func operationsOf(t *testing.T, j *sqlite.Journal) (ops []journal.Operation) {
	t.Helper()
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		ops = append(ops, op)
	}
	return ops
}

// A rollback to a savepoint undoes the enqueues since then, and frees their names.
func TestEnqueueWithinASavepoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payments.db")
	j := open(t, path)
	db := application(t, path)
	order(t, j, db, "invoice", func(tx *sql.Tx) error {
		for _, as := range []string{"first", "second"} {
			_, err := tx.Exec("SAVEPOINT a")
			require.NoError(t, err)
			ev := enqueue("charge")
			ev.Intent.Fingerprint, ev.Intent.Key = "v1:"+as, as
			res, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
			require.NoError(t, err)
			require.Equal(t, machine.Recorded, res.Decision)
			require.Equal(t, as, res.Operation.Key)
			if as == "first" {
				_, err = tx.Exec("ROLLBACK TO SAVEPOINT a")
				require.NoError(t, err)
			}
		}
		_, err := tx.Exec("RELEASE SAVEPOINT a")
		require.NoError(t, err)
		return tx.Commit()
	})
	var keys []string
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		keys = append(keys, op.ID+" "+op.Key)
	}
	assert.Equal(t, []string{"invoice key-of-invoice", "charge second"}, keys)
}

func TestEnqueueRefusesOtherTransactions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	another := filepath.Join(t.TempDir(), "another.db")
	open(t, another)
	for name, row := range map[string]struct {
		path string
		says string
	}{
		"another journal's": {another, "the transaction is of the database"},
		"no journal's":      {filepath.Join(t.TempDir(), "application.db"), "onceward_sessions"},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := application(t, row.path).Begin()
			require.NoError(t, err)
			defer tx.Rollback()
			_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("order-1"))
			require.ErrorContains(t, err, row.says)
		})
	}
	tx, err := application(t, path).Begin()
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("order-1"))
	require.ErrorIs(t, err, sql.ErrTxDone)
	require.ErrorContains(t, err, "begin another")
	for _, none := range []journal.Tx{nil, sqlite.Tx(nil)} {
		_, err = j.EnqueueTx(t.Context(), none, enqueue("order-1"))
		require.ErrorContains(t, err, "not one of BeginTx or sqlite.Tx")
	}
	_, err = j.EnqueueTx(t.Context(), nil, machine.Event{Kind: machine.EventBegin, At: time.Now()})
	require.ErrorIs(t, err, journal.ErrInvalidEvent)
	_, err = j.DeliverTx(t.Context(), enqueue("order-1"), nil)
	require.ErrorIs(t, err, journal.ErrInvalidEvent)
}

// A transaction that read before others wrote can't go on to write, and its error says so.
func TestEnqueueAfterAnOldRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	db := application(t, path)
	deferred, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(60000)") // the journal may be writing
	require.NoError(t, err)
	defer deferred.Close()
	tx, err := deferred.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	var n int
	require.NoError(t, tx.QueryRow("SELECT count(*) FROM orders").Scan(&n))
	order(t, j, db, "order-1", (*sql.Tx).Commit)
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("order-2"))
	require.Error(t, err)
	require.NoError(t, tx.Rollback())
	tx, err = deferred.Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("order-2"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	assert.Len(t, operationsOf(t, j), 2)
}

func TestARestoredJournalEnqueuesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db := application(t, path)
	j := open(t, path)
	waiting := order(t, j, db, "order-1", (*sql.Tx).Commit)
	require.NoError(t, j.Close())
	leave(t, path)
	require.NoError(t, db.Close())
	copied := filepath.Join(t.TempDir(), "journal.db")
	copyFile(t, path, copied)
	j = open(t, copied)
	db = application(t, copied)
	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("order-2"))
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, tx.Rollback())
	require.NoError(t, j.Adopt(t.Context()))
	order(t, j, db, "order-2", (*sql.Tx).Commit)
	op, err := j.Get(t.Context(), waiting.Ref)
	require.NoError(t, err)
	assert.True(t, op.MayHaveRun, "what was enqueued before may have been sent since")
}

// The handler's writes and the delivery are one commit, and each outcome has them once.
func TestDeliverWithTheHandlersWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	db := application(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun, err := j.Apply(t.Context(), begin("order-1", s))
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Delivered = false
	res, err := j.Apply(t.Context(), done)
	require.NoError(t, err)
	deliver := machine.Event{
		Kind: machine.EventDeliver, Ref: res.Operation.Ref, Handle: res.Operation.Handle, At: time.Now(),
		Generation: res.Operation.Generation, Outcome: journal.StateCompleted,
	}
	book := func(fails error) func(context.Context, journal.Tx) error {
		return func(ctx context.Context, tx journal.Tx) error {
			_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO orders VALUES ('booked', '')")
			return errors.Join(err, fails)
		}
	}
	booked := func() (n int) {
		require.NoError(t, db.QueryRow("SELECT count(*) FROM orders").Scan(&n))
		return n
	}
	refused := errors.New("refused")
	_, err = j.DeliverTx(t.Context(), deliver, book(refused))
	require.ErrorIs(t, err, refused)
	assert.Zero(t, booked())
	other := deliver
	other.Outcome = journal.StateUnknown
	was, err := j.DeliverTx(t.Context(), other, book(nil))
	require.NoError(t, err)
	assert.Equal(t, machine.Ignored, was.Decision)
	was, err = j.DeliverTx(t.Context(), deliver, book(nil))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, was.Decision)
	assert.Equal(t, 1, booked())
	was, err = j.DeliverTx(t.Context(), deliver, book(nil)) // the first delivery is not taken in yet
	require.NoError(t, err)
	assert.Equal(t, machine.Ignored, was.Decision)
	op, err := open(t, path).Get(t.Context(), res.Operation.Ref)
	require.NoError(t, err)
	assert.True(t, op.Delivered)
	was, err = j.DeliverTx(t.Context(), deliver, book(nil))
	require.NoError(t, err)
	assert.Equal(t, machine.Ignored, was.Decision)
	require.Empty(t, verify(t, j))
}

// A transaction that wrote to a file which is no longer in its place is not reported as recorded.
func TestTransactionOfAFileThatWasReplaced(t *testing.T) {
	replace := func(t *testing.T, path string) { require.NoError(t, os.Rename(path+"-shm", path+"-shm.old")) }
	for name, does := range map[string]func(t *testing.T, path string, j *sqlite.Journal, s machine.Session) error{
		"delivered": func(t *testing.T, path string, j *sqlite.Journal, s machine.Session) error {
			begun, err := j.Apply(t.Context(), begin("order-1", s))
			require.NoError(t, err)
			done := complete(begun.Operation, s)
			done.Delivered = false
			res, err := j.Apply(t.Context(), done)
			require.NoError(t, err)
			_, err = j.DeliverTx(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: res.Operation.Ref, Handle: res.Operation.Handle,
				At: time.Now(), Generation: res.Operation.Generation, Outcome: journal.StateCompleted},
				func(context.Context, journal.Tx) error { replace(t, path); return nil })
			return err
		},
		"a step": func(t *testing.T, path string, j *sqlite.Journal, s machine.Session) error {
			f := beginFlow(t, j, s, "order-1")
			tx, err := j.BeginTx(t.Context())
			require.NoError(t, err)
			record := machine.FlowEvent{Kind: machine.FlowEventRecord, Handle: f.Handle, Session: s.ID(), Claim: f.Claim, At: time.Now(),
				Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepLocal, Name: "book", At: time.Now()}}}
			_, err = j.ApplyFlowTx(t.Context(), tx, record)
			require.NoError(t, err)
			replace(t, path)
			record.Steps[0].Seq = 2
			_, err = j.ApplyFlowTx(t.Context(), tx, record)
			require.ErrorIs(t, err, journal.ErrRestored)
			return tx.Commit(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := open(t, path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			require.ErrorContains(t, does(t, path, j, s), "it may have been recorded or not")
		})
	}
}

// If several goroutines enqueue in a transaction, each operation has its own handle.
func TestGoroutinesShareATransaction(t *testing.T) {
	begins := map[string]func(*testing.T, *sqlite.Journal, string) journal.Tx{
		"the application's": func(t *testing.T, _ *sqlite.Journal, path string) journal.Tx {
			tx, err := application(t, path).Begin()
			require.NoError(t, err)
			return sqlite.Tx(tx)
		},
		"the journal's": func(t *testing.T, j *sqlite.Journal, _ string) journal.Tx {
			tx, err := j.BeginTx(t.Context())
			require.NoError(t, err)
			return tx
		},
	}
	for name, begin := range begins {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := open(t, path)
			tx := begin(t, j, path)
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					_, err := j.EnqueueTx(t.Context(), tx, enqueue(fmt.Sprint("op-", i/2)))
					assert.NoError(t, err)
				})
			}
			all.Wait()
			require.NoError(t, tx.Commit(t.Context()))
			assert.Len(t, operationsOf(t, j), 10)
			require.Empty(t, verify(t, j))
		})
	}
}

// An error means that nothing was recorded, whenever the context has ended, and the transaction goes on. If the context
// ends as the statement is done, there is no error.
func TestEnqueueGivenUpIsNotRecorded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	db, random := application(t, path), seeded(t)
	for n := range soak.Times(100, 800) {
		tx, err := db.Begin()
		require.NoError(t, err)
		told := map[string]bool{}
		for i := range 4 {
			id := fmt.Sprint("op-", n, "-", i)
			soon, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(1000))*time.Microsecond)
			_, err := j.EnqueueTx(soon, sqlite.Tx(tx), enqueue(id))
			cancel()
			told[id] = err == nil
		}
		committed := tx.Commit() == nil // otherwise SQLite has rolled it back
		for id, ok := range told {
			_, err := j.Get(t.Context(), journal.Ref{ID: id})
			require.Equal(t, ok && committed, err == nil, id)
		}
	}
	require.Empty(t, verify(t, j))
}

// Two enqueues with one carried key do not make two operations, within one transaction and before the first is taken
// in.
func TestEnqueueOfOneKeyTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	db := application(t, path)
	carried := func(id string) machine.Event {
		ev := enqueue(id)
		ev.Intent.Alias = aliasOf("one")
		return ev
	}
	asks := func(tx *sql.Tx) {
		t.Helper()
		res, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), carried("order-2"))
		require.NoError(t, err)
		assert.Equal(t, machine.Misuse, res.Decision)
		assert.Equal(t, "order-1", res.Operation.ID)
	}
	tx, err := db.Begin()
	require.NoError(t, err)
	res, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), carried("order-1"))
	require.NoError(t, err)
	require.Equal(t, machine.Recorded, res.Decision)
	asks(tx)
	require.NoError(t, tx.Commit())
	for range 2 {
		tx, err = db.Begin()
		require.NoError(t, err)
		asks(tx)
		require.NoError(t, tx.Rollback())
		require.Len(t, operationsOf(t, j), 1) // takes it in
	}
}

// Nothing is enqueued or delivered while the file is not in its place, or while another process has it locked.
func TestEnqueueWhereTheFileIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		begun, err := j.Apply(t.Context(), begin("order-1", s))
		require.NoError(t, err)
		done := complete(begun.Operation, s)
		done.Delivered = false
		_, err = j.Apply(t.Context(), done)
		require.NoError(t, err)
		db := application(t, path)
		delivers := func() error {
			_, err := j.DeliverTx(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: journal.Ref{ID: "order-1"}, At: time.Now(), Outcome: journal.StateCompleted},
				func(context.Context, journal.Tx) error { return nil })
			return err
		}
		require.NoError(t, os.Rename(path+"-shm", path+"-shm.old"))
		tx, err := db.Begin()
		require.NoError(t, err)
		_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("order-2"))
		require.ErrorIs(t, err, journal.ErrRestored)
		require.NoError(t, tx.Rollback())
		require.ErrorIs(t, delivers(), journal.ErrRestored)
		require.NoError(t, os.Rename(path+"-shm.old", path+"-shm"))

		tx, err = db.Begin()
		require.NoError(t, err)
		require.ErrorContains(t, delivers(), "another process has kept the file locked")
		require.NoError(t, tx.Rollback())
		require.NoError(t, delivers())
	})
}
