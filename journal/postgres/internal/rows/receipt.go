package rows

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/server"
)

const (
	// The lock is a separate statement, so the next statement sees the last holder's commits. It ends with the
	// transaction. Without the lock, a transaction would wait for the end of another that works on the key.
	lockReceipt    = "SELECT pg_catalog.pg_try_advisory_xact_lock($1)"
	receiptColumns = "handle, scope, key, place, state, ends_at, facts, answer"
	selectReceipt  = "SELECT " + receiptColumns + ", body, (written_in = pg_catalog.pg_current_xact_id_if_assigned()) IS TRUE FROM {{s}}.receipts WHERE identity = $1"
	// lookReceipt has a row without a receipt, too, which has the handle 0.
	lookReceipt = "SELECT coalesce(r.handle, 0), r.scope, r.key, r.place, coalesce(r.state, 0)::smallint, coalesce(r.ends_at, 0), r.facts, r.answer, r.body, j.restored, j.promoted " +
		"FROM {{s}}.journal j LEFT JOIN {{s}}.receipts r ON r.identity = $1"
	insertInto    = "INSERT INTO {{s}}.receipts (handle, scope, key, place, state, ends_at, facts, answer, body, identity, written_in) "
	insertReceipt = insertInto + "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, pg_catalog.pg_current_xact_id()) ON CONFLICT (identity) DO NOTHING"
	updateReceipt = `UPDATE {{s}}.receipts SET scope = $2, key = $3, place = $4, state = $5, ends_at = $6, facts = $7, answer = $8, body = $9,
		written_in = pg_catalog.pg_current_xact_id() WHERE handle = $1 AND identity = $10`
	// The next two are one round trip each. The first writes only in a transaction of the journal's database, which has
	// not gone back, and if it can lock the key.
	reserveReceipt = insertInto + `SELECT $1::bigint, $2::bytea, $3::bytea, $4::bytea, $5::smallint, $6::bigint, $7::bytea, $8::bytea, $9::bytea, $10::bytea, pg_catalog.pg_current_xact_id()
		FROM {{s}}.journal WHERE id = $11 AND restored IS NULL AND promoted IS NULL AND $13 = ` + server.StartSQL + ` AND pg_catalog.pg_try_advisory_xact_lock($12) ON CONFLICT (identity) DO NOTHING RETURNING 1`
	// The commit of an answer waits for the disk, even if the application's other commits do not.
	completeReceipt = `UPDATE {{s}}.receipts SET state = $2, ends_at = $3, facts = $4, answer = $5, body = $6, written_in = pg_catalog.pg_current_xact_id()
		WHERE handle = $1 AND facts = $7 AND written_in = pg_catalog.pg_current_xact_id_if_assigned() RETURNING CASE WHEN pg_catalog.current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) END`
	// orFail divides by zero unless the statement completes a receipt, so the server skips the statements behind.
	orFail        = "WITH w AS (" + completeReceipt + ") SELECT 1 / count(*) FROM w"
	removeReceipt = "DELETE FROM {{s}}.receipts WHERE handle = $1"
	advance       = `INSERT INTO {{s}}.heads AS e VALUES ($1, $2, $3, $4)
		ON CONFLICT (identity) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > e.seq`
)

// receiptLock is the advisory lock of a key. Two keys that share one only wait for each other.
func (d *Driver) receiptLock(identity []byte) int64 {
	sum := sha256.Sum256(append([]byte("receipt "+d.schema+" "), identity...))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// Receipt implements rowstore.Reader. It also reads the value that Restored returns: a caller without a receipt asks
// for it next.
func (r *reader) Receipt(ctx context.Context, key journal.ReceiptKey) (found rowstore.FoundReceipt, err error) {
	var body []byte
	var restored, promoted *string
	receipt, err := columns.ReceiptAnd(r.c.QueryRow(ctx, r.d.in(lookReceipt), format.IdentityOf(key.Scope, key.Key)), &body, &restored, &promoted)
	if err != nil {
		return found, meaning(err)
	}
	if receipt.Body = body; receipt.Handle != 0 {
		found.Receipt = receipt
	}
	why := r.d.why(restored, promoted)
	r.restored = &why
	return found, nil
}

// Receipt implements rowstore.Tx. It waits for neither the key nor the row.
func (t *tx) Receipt(ctx context.Context, key journal.ReceiptKey) (rowstore.FoundReceipt, error) {
	p, locked := t.pipeline(), false
	p.queue(func(columns.Row) error { locked = true; return nil }, "SELECT 1 FROM {{s}}.receipts WHERE identity = $1 FOR UPDATE SKIP LOCKED", format.IdentityOf(key.Scope, key.Key))
	found, err := t.receipt(ctx, p, key)
	found.Held = found.Held || found.Receipt != nil && !locked
	return found, err
}

// receipt locks a key and reads its receipt, behind what the pipeline has.
func (t *tx) receipt(ctx context.Context, p *pipeline, key journal.ReceiptKey) (found rowstore.FoundReceipt, err error) {
	identity := format.IdentityOf(key.Scope, key.Key)
	p.queue(func(rows columns.Row) error {
		var locked bool
		err := rows.Scan(&locked)
		found.Held = !locked
		return err
	}, lockReceipt, t.d.receiptLock(identity))
	p.queue(func(rows columns.Row) (err error) {
		var body []byte
		var own bool
		found.Receipt, err = columns.ReceiptAnd(rows, &body, &own)
		found.Receipt.Body, found.Receipt.Own = body, own
		return err
	}, selectReceipt, identity)
	_, err = p.send(ctx, t.c)
	return found, meaning(err)
}

// Receipts implements rowstore.Reader.
func (r *reader) Receipts(ctx context.Context, scan rowstore.ReceiptScan) (page []*rowstore.Receipt, err error) {
	var args params
	before, order := scan.Before, "handle"
	if before == 0 {
		before = math.MaxInt64
	}
	where := "handle > " + args.add(scan.After.Handle) + " AND handle < " + args.add(before)
	if scan.ByEnd {
		args, order = nil, "ends_at, handle"
		where = "ends_at <= " + args.add(scan.By) + " AND (ends_at, handle) > (" + args.add(scan.After.Key) + ", " + args.add(scan.After.Handle) + ")"
	}
	if scan.Reserved {
		where += " AND ends_at = " + args.add(int64(math.MaxInt64))
	}
	if scan.Newest {
		order += " DESC"
	}
	p := r.pipeline()
	p.queue(columns.Into(&page, columns.Receipt), fmt.Sprintf("SELECT %s FROM {{s}}.receipts WHERE %s ORDER BY %s LIMIT %s", receiptColumns, where, order, args.add(int64(scan.Limit))), args...)
	_, err = p.send(ctx, r.c)
	return page, meaning(err)
}

// CountReceipts implements rowstore.Reader.
func (r *reader) CountReceipts(ctx context.Context) (n rowstore.ReceiptCount, err error) {
	text := "SELECT count(*), count(*) FILTER (WHERE ends_at = $1), coalesce(min(ends_at) FILTER (WHERE ends_at < $1), 0) FROM {{s}}.receipts"
	err = r.c.QueryRow(ctx, r.d.in(text), int64(math.MaxInt64)).Scan(&n.All, &n.Reserved, &n.NextEnd)
	return n, meaning(err)
}

// write runs a statement for one row, and reports whether the row changed.
func (t *tx) write(ctx context.Context, text string, args ...any) (bool, error) {
	p := t.pipeline()
	p.queue(nil, text, args...)
	_, err := p.send(ctx, t.c)
	return p.tag.RowsAffected() == 1, meaning(err)
}

// sendLater leaves writes to the next read, or to COMMIT. In an application's transaction it sends the statements.
func (t *tx) sendLater(ctx context.Context, p *pipeline) error {
	if t.lane != nil {
		t.later = p
		return nil
	}
	_, err := p.send(ctx, t.c)
	return meaning(err)
}

func (t *tx) writeOne(ctx context.Context, text string, args ...any) error {
	if t.lane != nil {
		p := t.pipeline()
		p.queue(nil, "WITH w AS ("+text+" RETURNING 1) SELECT 1 / count(*) FROM w", args...)
		return t.sendLater(ctx, p)
	}
	written, err := t.write(ctx, text, args...)
	if err == nil && !written {
		err = rowstore.ErrMissed
	}
	return err
}

func receiptArgs(r *rowstore.Receipt) []any {
	return []any{r.Handle, []byte(r.Key.Scope), []byte(r.Key.Key), []byte(r.Place), int16(r.State), r.Ends, r.Facts, r.Answer, r.Body, format.IdentityOf(r.Key.Scope, r.Key.Key)}
}

// ReserveReceipts implements rowstore.Tx.
func (t *tx) ReserveReceipts(ctx context.Context, n int, made func(int, int64) *rowstore.Receipt) ([]bool, error) {
	written, p := make([]bool, n), t.pipeline()
	for i := range n {
		handle, err := t.ReceiptHandle(ctx)
		if err != nil {
			return written, err
		}
		args := receiptArgs(made(i, handle))
		args = append(args, t.d.Identity, t.d.receiptLock(args[len(args)-1].([]byte)), t.d.Started())
		p.queue(func(columns.Row) error { written[i] = true; return nil }, reserveReceipt, args...)
	}
	_, err := p.send(ctx, t.c)
	return written, meaning(err)
}

// CompleteReceipt implements rowstore.Tx.
func (t *tx) CompleteReceipt(ctx context.Context, was, is *rowstore.Receipt) (bool, error) {
	args := []any{is.Handle, int16(is.State), is.Ends, is.Facts, is.Answer, is.Body, was.Facts}
	if later, deferred := t.c.(*apptx.Pooled); deferred && later.Defers(t.d.in(orFail), args) {
		return true, nil
	}
	return t.write(ctx, completeReceipt, args...)
}

// ReceiptHandle implements rowstore.Tx.
func (t *tx) ReceiptHandle(ctx context.Context) (int64, error) {
	return t.d.receipts.take(ctx, t.d, t.sequences())
}

// InsertReceipt implements rowstore.Tx.
func (t *tx) InsertReceipt(ctx context.Context, r *rowstore.Receipt) error {
	return t.writeOne(ctx, insertReceipt, receiptArgs(r)...)
}

// UpdateReceipt implements rowstore.Tx.
func (t *tx) UpdateReceipt(ctx context.Context, r *rowstore.Receipt) error {
	return t.writeOne(ctx, updateReceipt, receiptArgs(r)...)
}

// RemoveReceipt implements rowstore.Tx.
func (t *tx) RemoveReceipt(ctx context.Context, handle int64) error {
	return t.writeOne(ctx, removeReceipt, handle)
}

// Advance implements rowstore.Tx.
func (t *tx) Advance(ctx context.Context, source, entity string, seq int64) (bool, error) {
	return t.write(ctx, advance, format.IdentityOf(source, entity), []byte(source), []byte(entity), seq)
}
