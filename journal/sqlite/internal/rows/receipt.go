package rows

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

const (
	receiptColumns = "handle, scope, key, place, state, ends_at, facts, answer"
	selectReceipt  = "SELECT " + receiptColumns + ", body FROM onceward_receipts WHERE scope = ? AND key = ?"
	nextReceipt    = "SELECT max((SELECT coalesce(max(handle), 0) FROM onceward_receipts), handle) + 1 FROM onceward_receipts_removed"
	insertReceipt  = "INSERT INTO onceward_receipts (" + receiptColumns + ", body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
	updateReceipt  = "UPDATE onceward_receipts SET place = ?4, state = ?5, ends_at = ?6, facts = ?7, answer = ?8, body = ?9 WHERE handle = ?1 AND scope = ?2 AND key = ?3"
	removeReceipt  = "DELETE FROM onceward_receipts WHERE handle = ?"
	noteRemoved    = "UPDATE onceward_receipts_removed SET handle = max(handle, ?)"
	advance        = "INSERT INTO onceward_entities VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET seq = excluded.seq WHERE excluded.seq > seq"
	countReceipts  = `SELECT count(*), (SELECT count(*) FROM onceward_receipts WHERE ends_at = ?1), (SELECT min(ends_at) FROM onceward_receipts WHERE ends_at < ?1) FROM onceward_receipts`
)

// receiptOf reads receiptColumns. A receipt with another column type has no facts, and so is damaged.
func receiptOf(v []driver.Value) *rowstore.Receipt {
	r := &rowstore.Receipt{Handle: v[0].(int64), Own: true} // the file does not tell which transaction has written it
	r.Ends, _ = v[5].(int64)
	_ = conn.Take(func(v []driver.Value) error {
		r.Key, r.Place, r.State = journal.ReceiptKey{Scope: v[1].(string), Key: v[2].(string)}, v[3].(string), uint8(v[4].(int64))
		r.Facts, r.Answer = format.ToBytes(v[6]), format.ToBytes(v[7])
		return nil
	}, v)
	return r
}

// Receipt implements rowstore.Reader.
func (r *reader) Receipt(ctx context.Context, key journal.ReceiptKey) (found rowstore.FoundReceipt, err error) {
	err = r.each(ctx, selectReceipt, []any{key.Scope, key.Key}, func(v []driver.Value) error {
		found.Receipt = receiptOf(v)
		found.Receipt.Body = format.ToBytes(v[8])
		return nil
	})
	return found, err
}

// Receipt implements rowstore.Tx. The transaction has the file's write lock, so no other transaction works on the
// key.
func (t *tx) Receipt(ctx context.Context, key journal.ReceiptKey) (found rowstore.FoundReceipt, err error) {
	found, err = t.reader.Receipt(ctx, key)
	return found, conn.Explain(t.d.path, "read a receipt", err)
}

// Receipts implements rowstore.Reader.
func (r *reader) Receipts(ctx context.Context, scan rowstore.ReceiptScan) (page []*rowstore.Receipt, err error) {
	where, args, order := "handle > ? AND handle < ?", []any{scan.After.Handle, before(scan.Before)}, "handle"
	if scan.ByEnd {
		where, args, order = "ends_at <= ? AND (ends_at, handle) > (?, ?)", []any{scan.By, scan.After.Key, scan.After.Handle}, "ends_at, handle"
	}
	if scan.Reserved {
		where, args = where+" AND ends_at = ?", append(args, int64(math.MaxInt64))
	}
	if scan.Newest {
		order += " DESC"
	}
	text := fmt.Sprintf("SELECT %s FROM onceward_receipts WHERE %s ORDER BY %s LIMIT ?", receiptColumns, where, order)
	err = r.each(ctx, text, append(args, int64(scan.Limit)), func(v []driver.Value) error {
		page = append(page, receiptOf(v))
		return nil
	})
	if err == nil {
		err = inOrder(page, scan.After, scan.Before, scan.Newest, func(r *rowstore.Receipt) rowstore.Position {
			if scan.ByEnd {
				return rowstore.Position{Key: r.Ends, Handle: r.Handle}
			}
			return rowstore.Position{Handle: r.Handle}
		})
	}
	return page, err
}

// CountReceipts implements rowstore.Reader.
func (r *reader) CountReceipts(ctx context.Context) (n rowstore.ReceiptCount, err error) {
	err = r.each(ctx, countReceipts, []any{int64(math.MaxInt64)}, func(v []driver.Value) error {
		n.All, n.Reserved = v[0].(int64), v[1].(int64)
		n.NextEnd, _ = v[2].(int64)
		return nil
	})
	return n, err
}

// exec runs a statement that is prepared once.
func (t *tx) exec(text string, args ...any) (int64, error) {
	if t.count != nil {
		if err := t.count(); err != nil {
			return 0, conn.Explain(t.d.path, "write the head", err)
		}
	}
	n, err := t.prepared(text).Exec(args...)
	return n, conn.Explain(t.d.path, "write", err)
}

func receiptArgs(r *rowstore.Receipt) []any {
	args := []any{r.Handle, r.Key.Scope, r.Key.Key, r.Place, int64(r.State), r.Ends, r.Facts, nil, nil}
	if r.Answer != nil {
		args[7] = r.Answer
	}
	if len(r.Body) > 0 {
		args[8] = r.Body
	}
	return args
}

// ReserveReceipts implements rowstore.Tx. To read a receipt first costs no round trip here.
func (t *tx) ReserveReceipts(context.Context, int, func(int, int64) *rowstore.Receipt) ([]bool, error) {
	return nil, nil
}

// CompleteReceipt implements rowstore.Tx likewise.
func (t *tx) CompleteReceipt(context.Context, *rowstore.Receipt, *rowstore.Receipt) (bool, error) {
	return false, nil
}

// ReceiptHandle implements rowstore.Tx.
func (t *tx) ReceiptHandle(ctx context.Context) (handle int64, err error) {
	err = t.each(ctx, nextReceipt, nil, func(v []driver.Value) error {
		handle = v[0].(int64)
		return nil
	})
	return handle, conn.Explain(t.d.path, "read a receipt", err)
}

// InsertReceipt implements rowstore.Tx.
func (t *tx) InsertReceipt(_ context.Context, r *rowstore.Receipt) error {
	return one(t.exec(insertReceipt, receiptArgs(r)...))
}

// UpdateReceipt implements rowstore.Tx.
func (t *tx) UpdateReceipt(_ context.Context, r *rowstore.Receipt) error {
	return one(t.exec(updateReceipt, receiptArgs(r)...))
}

// RemoveReceipt implements rowstore.Tx. The receipt's handle is not used again.
func (t *tx) RemoveReceipt(_ context.Context, handle int64) error {
	if err := one(t.exec(removeReceipt, handle)); err != nil {
		return err
	}
	_, err := t.exec(noteRemoved, handle)
	return err
}

// Advance implements rowstore.Tx.
func (t *tx) Advance(_ context.Context, source, entity string, seq int64) (bool, error) {
	n, err := t.exec(advance, source, entity, seq)
	return n == 1, err
}
