package rows

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
)

const (
	receiptColumns = "handle, scope, key_text, place, state, ends_at, facts, answer"
	selectReceipt  = "SELECT " + receiptColumns + ", body, written FROM {{s}}.receipts WHERE identity = ?"
	insertReceipts = "INSERT INTO {{s}}.receipts (handle, scope, key_text, place, state, ends_at, facts, answer, body, identity, written) VALUES "
	updateReceipt  = "UPDATE {{s}}.receipts SET scope = ?, key_text = ?, place = ?, state = ?, ends_at = ?, facts = ?, answer = ?, body = ?, written = ? WHERE handle = ? AND identity = ?"
)

// seen is a receipt as one connection sees it, and the number of its latest write.
type seen struct {
	receipt *rowstore.Receipt // nil means none
	written int64
}

func (s *seen) read(rows columns.Row) (err error) {
	var body []byte
	s.receipt, err = columns.ReceiptAnd(rows, &body, &s.written)
	s.receipt.Body = body
	return err
}

// Receipt implements rowstore.Reader.
func (r *reader) Receipt(ctx context.Context, key journal.ReceiptKey) (rowstore.FoundReceipt, error) {
	var s seen
	err := r.query(ctx, s.read, selectReceipt, format.IdentityOf(key.Scope, key.Key))
	return rowstore.FoundReceipt{Receipt: s.receipt}, err
}

// probe reads a key's committed receipt on a connection beside the transaction, and reports whether a transaction, maybe this
// one, holds the key. A locking read in the application's transaction would lock a gap under REPEATABLE READ, and so delay other
// keys.
func (d *Driver) probe(ctx context.Context, identity []byte) (committed seen, held bool, err error) {
	p := d.primary()
	p.queue(committed.read, selectReceipt, identity)
	p.queue(ignored, "SELECT 1 FROM {{s}}.receipts WHERE identity = ? FOR UPDATE NOWAIT", identity)
	err = d.beside(ctx, p)
	if err != nil && myerr.FateOf(err) == myerr.Locked {
		return committed, true, nil
	}
	return committed, false, meaning(err)
}

// Receipt implements rowstore.Tx. It waits for neither the key nor the row.
func (t *tx) Receipt(ctx context.Context, key journal.ReceiptKey) (found rowstore.FoundReceipt, err error) {
	if err := t.flush(ctx); err != nil {
		return found, err
	}
	identity := format.IdentityOf(key.Scope, key.Key)
	committed, held, err := t.d.probe(ctx, identity)
	if err != nil || committed.receipt == nil && !held {
		return found, err
	}
	var mine seen
	if err := t.query(ctx, mine.read, selectReceipt+" FOR UPDATE SKIP LOCKED", identity); err != nil {
		return found, err
	}
	if mine.receipt == nil {
		return rowstore.FoundReceipt{Receipt: committed.receipt, Held: true}, nil
	}
	if held { // by this transaction, or by another one until just now
		if committed, _, err = t.d.probe(ctx, identity); err != nil {
			return found, err
		}
		mine.receipt.Own = committed.receipt == nil || committed.written != mine.written
	}
	return rowstore.FoundReceipt{Receipt: mine.receipt}, nil
}

// Receipts implements rowstore.Reader.
func (r *reader) Receipts(ctx context.Context, scan rowstore.ReceiptScan) (page []*rowstore.Receipt, err error) {
	before, order := scan.Before, "handle"
	if before == 0 {
		before = math.MaxInt64
	}
	index, where, args := "PRIMARY", "handle > ? AND handle < ?", []any{scan.After.Handle, before}
	if scan.ByEnd {
		index, order = "ends", "ends_at, handle"
		where, args = "ends_at <= ? AND (ends_at > ? OR ends_at = ? AND handle > ?)", []any{scan.By, scan.After.Key, scan.After.Key, scan.After.Handle}
	}
	if scan.Reserved {
		where, args = where+" AND ends_at = ?", append(args, int64(math.MaxInt64))
	}
	if scan.Newest {
		order += " DESC"
	}
	err = r.query(ctx, columns.Into(&page, columns.Receipt), "SELECT "+receiptColumns+" FROM {{s}}.receipts FORCE INDEX ("+index+") WHERE "+where+" ORDER BY "+order+" LIMIT ?", append(args, scan.Limit)...)
	return page, err
}

// CountReceipts implements rowstore.Reader.
func (r *reader) CountReceipts(ctx context.Context) (n rowstore.ReceiptCount, err error) {
	most := int64(math.MaxInt64)
	err = r.query(ctx, columns.One(&n.All, &n.Reserved, &n.NextEnd),
		"SELECT count(*), coalesce(sum(ends_at = ?), 0), coalesce(min(CASE WHEN ends_at < ? THEN ends_at END), 0) FROM {{s}}.receipts", most, most)
	return n, err
}

func receiptArgs(r *rowstore.Receipt) []any {
	return []any{r.Handle, r.Key.Scope, r.Key.Key, r.Place, r.State, r.Ends, r.Facts, r.Answer, r.Body, format.IdentityOf(r.Key.Scope, r.Key.Key), rand.Int64()}
}

// ReserveReceipts implements rowstore.Tx. It leaves the receipts to Receipt and InsertReceipt unless all keys are free.
func (t *tx) ReserveReceipts(ctx context.Context, n int, made func(int, int64) *rowstore.Receipt) ([]bool, error) {
	written := make([]bool, n)
	var args []any
	p := t.d.primary()
	var restored sql.NullString
	p.queue(columns.One(&restored), "SELECT restored FROM {{s}}.journal")
	taken := false
	for i := range n {
		handle, err := t.ReceiptHandle(ctx)
		if err != nil {
			return written, err
		}
		row := receiptArgs(made(i, handle))
		args = append(args, row...)
		p.queue(func(columns.Row) error { taken = true; return nil }, "SELECT 1 FROM {{s}}.receipts WHERE identity = ? FOR UPDATE NOWAIT", row[9])
	}
	err := t.d.beside(ctx, p)
	switch {
	case err != nil && myerr.FateOf(err) == myerr.Locked, err == nil && (taken || t.d.whyOf(restored) != ""):
		return written, nil
	case err != nil:
		return written, meaning(err)
	}
	_, err = t.write(ctx, insertReceipts+strings.TrimSuffix(strings.Repeat(places(11)+",", n), ","), args...)
	if errors.Is(err, rowstore.ErrMissed) { // another transaction took a key just now
		return written, nil
	}
	for i := range written {
		written[i] = err == nil
	}
	return written, err
}

// CompleteReceipt implements rowstore.Tx. A reservation that is committed already is not this transaction's.
func (t *tx) CompleteReceipt(ctx context.Context, was, is *rowstore.Receipt) (bool, error) {
	committed := false
	if err := t.d.ask(ctx, func(columns.Row) error { committed = true; return nil }, "SELECT 1 FROM {{s}}.receipts WHERE handle = ? AND facts = ?", is.Handle, was.Facts); err != nil || committed {
		return false, meaning(err)
	}
	return t.write(ctx, "UPDATE {{s}}.receipts SET state = ?, ends_at = ?, facts = ?, answer = ?, body = ?, written = ? WHERE handle = ? AND facts = ?",
		is.State, is.Ends, is.Facts, is.Answer, is.Body, rand.Int64(), is.Handle, was.Facts)
}

// ReceiptHandle implements rowstore.Tx.
func (t *tx) ReceiptHandle(ctx context.Context) (int64, error) { return t.d.receipts.take(ctx, t.d) }

// InsertReceipt implements rowstore.Tx.
func (t *tx) InsertReceipt(ctx context.Context, r *rowstore.Receipt) error {
	_, err := t.write(ctx, insertReceipts+places(11), receiptArgs(r)...)
	return err
}

// UpdateReceipt implements rowstore.Tx.
func (t *tx) UpdateReceipt(ctx context.Context, r *rowstore.Receipt) error {
	a := receiptArgs(r)
	written, err := t.write(ctx, updateReceipt, append(append([]any{}, a[1:9]...), a[10], a[0], a[9])...)
	if err == nil && !written {
		err = rowstore.ErrMissed
	}
	return err
}

// RemoveReceipt implements rowstore.Tx.
func (t *tx) RemoveReceipt(ctx context.Context, handle int64) error {
	written, err := t.write(ctx, "DELETE FROM {{s}}.receipts WHERE handle = ?", handle)
	if err == nil && !written {
		err = rowstore.ErrMissed
	}
	return err
}

// Advance implements rowstore.Tx. The statement keeps the former number, since the count of changed rows depends on the
// application's settings. Assignments run from left to right.
func (t *tx) Advance(ctx context.Context, source, entity string, seq int64) (bool, error) {
	identity := format.IdentityOf(source, entity)
	_, err := t.write(ctx, "INSERT INTO {{s}}.heads (identity, source, entity, seq) VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE was = seq, seq = greatest(seq, VALUES(seq))", identity, source, entity, seq)
	if err != nil {
		return false, err
	}
	var was sql.NullInt64
	err = t.query(ctx, columns.One(&was), "SELECT was FROM {{s}}.heads WHERE identity = ? FOR UPDATE", identity)
	return !was.Valid || was.Int64 < seq, err
}
