//go:build unix

package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite"
)

// putInOutbox writes a row to the outbox as a transaction does.
func putInOutbox(t *testing.T, path string, seq, kind, handle int64, ref journal.Ref, record []byte) {
	t.Helper()
	sum := format.Sum(fmt.Appendf(append([]byte{}, record...), "%d %d %q %q %q", kind, handle, ref.Scope, ref.Parent, ref.ID))
	putRow(t, path, "onceward_outbox", seq, kind, handle, ref.Scope, ref.Parent, ref.ID, binary.LittleEndian.AppendUint32(record, sum))
}

// putUnreadable leaves an operation as it is, except for its request, which becomes unreadable.
func putUnreadable(t *testing.T, path string, op journal.Operation) {
	t.Helper()
	const operation = 1
	op.Request, op.Answer = journal.Request{}, nil
	k := &format.Record{Row: format.Row{Op: op, Request: []byte("?")}}
	putInOutbox(t, path, 1, operation, op.Handle, op.Ref, format.AppendRecord(nil, k, format.WithIdentity))
}

// Verify checks the operations that a transaction has recorded and that are not taken in yet. Implausible ones are not
// taken in.
func TestVerifyLooksAtTheOutbox(t *testing.T) {
	path, j, s := joined(t)
	db := application(t, path)
	before, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	op := order(t, j, db, "order-1", (*sql.Tx).Commit)
	put := func(seq, kind, handle int64, ref journal.Ref, record []byte) {
		t.Helper()
		putInOutbox(t, path, seq, kind, handle, ref, record)
	}
	rows := rowsIn(t, path, "seq, record", "onceward_outbox")
	require.Len(t, rows, 1)
	seq := rows[0][0].(int64)
	record := rows[0][1].([]byte)
	record = record[: len(record)-format.SumSize : len(record)-format.SumSize]
	become := func(change func(k *format.Record)) []byte {
		var k *format.Record
		_, err := format.EachRecord(record, 0, func(int64) *format.Record { return nil }, func(is *format.Record) error {
			k = is
			return nil
		})
		require.NoError(t, err)
		change(k)
		return format.AppendRecord(nil, k, format.WithIdentity)
	}
	delivered := []byte(`{"at":1,"generation":1,"outcome":3}`)
	const operation, delivery, alias, none = 1, 2, 3, 4
	damaged := func(seq int64) []string {
		return []string{fmt.Sprintf("the file: the record of a transaction is as it was written: row %d of onceward_outbox", seq)}
	}
	for name, row := range map[string]struct {
		seq, kind, handle int64
		ref               journal.Ref
		record            []byte
		says              []string
		stays             bool
	}{
		"as it was":                             {seq, operation, op.Handle, op.Ref, record, nil, false},
		"a second name":                         {seq + 1, alias, op.Handle, aliasOf("order-1"), nil, nil, false},
		"a delivery":                            {seq + 1, delivery, op.Handle, op.Ref, delivered, nil, false},
		"a delivery of nothing":                 {seq + 1, delivery, op.Handle, op.Ref, []byte("?"), damaged(seq + 1), true},
		"of no kind":                            {seq + 1, none, op.Handle, op.Ref, nil, damaged(seq + 1), false},
		"nothing":                               {seq, operation, op.Handle, op.Ref, nil, damaged(seq), true},
		"another's":                             {seq, operation, op.Handle + 1, op.Ref, record, damaged(seq), true},
		"another operation's":                   {seq, operation, before.Operation.Handle, op.Ref, become(func(k *format.Record) { k.Op.Handle = before.Operation.Handle }), nil, true},
		"an operation that is held and pending": {seq, operation, op.Handle, op.Ref, become(func(k *format.Record) { k.Op.Holder = "S" }), []string{`operation 2 "order-1": a pending operation has no holder`}, false},
		"a request that can't be read":          {seq, operation, op.Handle, op.Ref, become(func(k *format.Record) { k.Request = []byte("?") }), damaged(seq), false},
	} {
		t.Run(name, func(t *testing.T) {
			put(row.seq, row.kind, row.handle, row.ref, row.record)
			defer func() {
				alter(t, path, fmt.Sprint("DELETE FROM onceward_outbox WHERE seq > ", seq))
				put(seq, operation, op.Handle, op.Ref, record)
			}()
			saysThat(t, verify(t, j), row.says)
			if row.stays {
				require.ErrorContains(t, sqlite.Flush(j), "damaged")
				assert.Positive(t, left(t, db))
			}
		})
	}
	alter(t, path, "UPDATE onceward_outbox SET record = zeroblob(length(record))")
	saysThat(t, verify(t, j), damaged(seq))
}

// The operations of a transaction are taken in with one commit, unless there are many. Then other callers need not wait
// for all of them.
func TestTakingInIsOneCommitOrMore(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ operations, bytes, commits int }{
		"a few":                 {10, 100, 1},
		"a great many":          {1100, 10, 2},
		"a few with large ones": {20, 1 << 20, 2},
	} {
		t.Run(name, func(t *testing.T) {
			path, j, _ := joined(t)
			db := application(t, path)
			random := rand.NewChaCha8([32]byte{})
			tx, err := db.Begin()
			require.NoError(t, err)
			defer tx.Rollback()
			for i := range row.operations {
				ev := enqueue(fmt.Sprint("order-", i))
				ev.Intent.Request.Body = make([]byte, row.bytes)
				_, _ = random.Read(ev.Intent.Request.Body)
				_, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
				require.NoError(t, err)
			}
			require.NoError(t, tx.Commit())
			number := func() int64 { return rowsIn(t, path, "max(number)", "onceward_log")[0][0].(int64) }
			before := number()
			ops := operationsOf(t, j)
			assert.Len(t, ops, row.operations)
			assert.Equal(t, int64(row.commits), number()-before)
			assert.Zero(t, left(t, db))
		})
	}
}

// Writes of the application beside the journal cause no commit of the journal.
func TestNothingToTakeInIsNoCommit(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	before := commitsOf(t, j)
	for n := range 3 {
		_, err := db.Exec("INSERT INTO orders VALUES (?, 'k')", fmt.Sprint(n))
		require.NoError(t, err)
		require.NoError(t, sqlite.Flush(j))
	}
	assert.Zero(t, commitsOf(t, j)-before)
	order(t, j, db, "order-1", (*sql.Tx).Commit)
	require.NoError(t, sqlite.Flush(j))
	assert.EqualValues(t, 1, commitsOf(t, j)-before)
}

// An operation that can't be removed from the outbox is not recorded, since it would be taken in again.
func TestOutboxThatCantBeCleared(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	op := order(t, j, db, "order-1", (*sql.Tx).Commit)
	stop := refuse(t, path, "DELETE ON onceward_outbox")
	require.ErrorContains(t, sqlite.Flush(j), "refused by the test")
	_, err := j.Get(t.Context(), op.Ref)
	require.ErrorContains(t, err, "refused by the test")
	var listed error
	for _, err := range j.List(t.Context(), journal.Filter{}) {
		listed = err
	}
	require.ErrorContains(t, listed, "refused by the test")
	assert.Equal(t, 1, left(t, db))
	stop()
	there, err := j.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.Equal(t, op, there)
	assert.Zero(t, left(t, db))

	const alias = 3 // with nothing else to record
	putInOutbox(t, path, 1, alias, op.Handle, aliasOf("order-1"), nil)
	stop = refuse(t, path, "DELETE ON onceward_outbox")
	require.ErrorContains(t, sqlite.Flush(j), "refused by the test")
	stop()
	require.NoError(t, sqlite.Flush(j))
	assert.Zero(t, left(t, db))
	assert.Empty(t, verify(t, j))
}

// If no other process has written, a begin and a complete read nothing.
func TestNothingToTakeInIsNotRead(t *testing.T) {
	b := newBreaker(t)
	path, j, s := joined(t)
	db := application(t, path)
	sqlite.Preloaded(j)
	both := func(key string) {
		t.Helper()
		begun, err := j.Apply(t.Context(), generate(key, s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
	}
	for _, id := range []string{"order-1", "order-2"} {
		order(t, j, db, id, (*sql.Tx).Commit)
		both("before " + id)
		assert.Zero(t, left(t, db))
		b.arm(0, false)
		both("after " + id)
		assert.Empty(t, b.disarm())
	}
}

// A delivery of an unreadable operation does not count as done. It does once the operation can be read.
func TestOutboxWithADamagedDelivery(t *testing.T) {
	path, j, s := joined(t)
	db := application(t, path)
	deliver := undelivered(t, j, s, "order-1")
	require.NoError(t, sqlite.Fold(j))
	_, err := j.DeliverTx(t.Context(), deliver, func(context.Context, journal.Tx) error { return nil })
	require.NoError(t, err)
	alter(t, path, "UPDATE onceward_operations SET settled_at = settled_at + 1")
	require.ErrorContains(t, sqlite.Flush(j), "damaged")
	assert.Equal(t, 1, left(t, db))
	alter(t, path, "UPDATE onceward_operations SET settled_at = settled_at - 1")
	op, err := j.Get(t.Context(), deliver.Ref)
	require.NoError(t, err)
	assert.True(t, op.Delivered)
	assert.Zero(t, left(t, db))
}

// If there is nothing to take in, a list does not wait for a writer.
func TestListWithAnEmptyOutbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	goOn(t, j, "invoice-1")
	db := application(t, path)
	tx, err := db.Begin()
	require.NoError(t, err)
	assert.Len(t, operationsOf(t, j), 1)
	require.NoError(t, tx.Rollback())
	order(t, j, db, "order-1", (*sql.Tx).Commit)
	tx, err = db.Begin()
	require.NoError(t, err)
	var last error
	for _, err := range j.List(t.Context(), journal.Filter{}) {
		last = err
	}
	require.ErrorContains(t, last, "another process")
	require.NoError(t, tx.Rollback())
	assert.Len(t, operationsOf(t, j), 2)
}
