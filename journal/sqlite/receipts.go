package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/localdb"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

var _ journal.Receipts = (*Journal)(nil)

// receiptTables have a version of their own: a release that changes them neither stops nor is stopped by an older one that
// keeps operations alone.
const receiptTables = `
-- One row.
CREATE TABLE IF NOT EXISTS onceward_receipt_schema (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	version INTEGER NOT NULL,
	naming  TEXT NOT NULL -- how keys are made of requests
) STRICT;
INSERT INTO onceward_receipt_schema VALUES (1, 1, ?1) ON CONFLICT DO UPDATE SET naming = excluded.naming WHERE naming = '';

-- In the order of creation.
CREATE TABLE IF NOT EXISTS onceward_receipts (
	handle  INTEGER PRIMARY KEY AUTOINCREMENT,
	scope   TEXT NOT NULL,
	key     TEXT NOT NULL,
	place   TEXT NOT NULL,
	state   INTEGER NOT NULL,
	ends_at INTEGER NOT NULL, -- when something of it is to be reaped next
	facts   BLOB NOT NULL,    -- JSON, and the sum of the row
	answer  BLOB
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS onceward_receipts_key ON onceward_receipts (scope, key);
CREATE INDEX IF NOT EXISTS onceward_receipts_ends ON onceward_receipts (ends_at);
CREATE INDEX IF NOT EXISTS onceward_receipts_reserved ON onceward_receipts (state) WHERE state = 1; -- once committed, few

-- Beside the row, so that lists need not read them.
CREATE TABLE IF NOT EXISTS onceward_receipt_bodies (handle INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;

-- The highest number that was done of each entity.
CREATE TABLE IF NOT EXISTS onceward_heads (
	source TEXT NOT NULL,
	entity TEXT NOT NULL,
	seq    INTEGER NOT NULL,
	PRIMARY KEY (source, entity)
) STRICT, WITHOUT ROWID;
`

// receiptVersion is the version of receiptTables.
const receiptVersion = 1

// MakeReceipts makes the tables of receipts, if they are missing. naming says how the keys of requests are made. The first
// that is not empty is recorded, and another one is an error from then on.
func (j *Journal) MakeReceipts(ctx context.Context, naming string) error {
	made, err := j.madeReceipts(ctx, naming)
	if made || err != nil {
		return err
	}
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after Commit it does nothing
	t, err := ours(tx)
	if err == nil {
		err = j.writes(ctx, t)
	}
	for _, statement := range strings.SplitAfter(receiptTables, ";\n") {
		if args := []any{naming}[:strings.Count(statement, "?1")]; err == nil && strings.TrimSpace(statement) != "" {
			_, err = t.ExecContext(ctx, statement, args...)
		}
	}
	var version int64
	var recorded string
	if err == nil {
		err = t.QueryRowContext(ctx, "SELECT version, naming FROM onceward_receipt_schema").Scan(&version, &recorded)
	}
	if err == nil {
		err = j.checkReceipts(version, recorded, naming)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	return conn.Explain(j.file.path, "make the tables of receipts", err)
}

// madeReceipts reports whether the tables are there, so that a restored journal can be opened, which refuses to write.
func (j *Journal) madeReceipts(ctx context.Context, naming string) (made bool, err error) {
	if err := j.writable(ctx); err != nil {
		return false, err
	}
	err = j.file.readers.Read(ctx, func(r *read.Reader) error {
		made = false
		err := r.Each("SELECT 1 FROM sqlite_schema WHERE name = 'onceward_heads'", func([]driver.Value) error { // the last one
			made = true
			return nil
		})
		if err != nil || !made {
			return err
		}
		return r.Each("SELECT version, naming FROM onceward_receipt_schema", func(v []driver.Value) error {
			made = naming == "" || v[1] == naming
			if v[1] == "" {
				return nil
			}
			return j.checkReceipts(v[0].(int64), v[1].(string), naming)
		})
	})
	return made, err
}

func (j *Journal) checkReceipts(version int64, recorded, naming string) error {
	switch {
	case version > receiptVersion:
		return fmt.Errorf("%w: journal %s: its receipts have version %d, and this release knows version %d: upgrade", journal.ErrVersion, j.file.path, version, receiptVersion)
	case naming != "" && recorded != naming:
		return fmt.Errorf("journal %s: its receipts were made with keys named %q, not %q; give the setting that they were made with", j.file.path, recorded, naming)
	}
	return nil
}

// ReceiveTx applies ev within tx, which is one of BeginTx, or Tx of the application's own on the journal's file. As for
// EnqueueTx, tx needs the file's write lock. No process records anything until tx ends.
func (j *Journal) ReceiveTx(ctx context.Context, in journal.Tx, ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
	if err := j.writable(ctx); err != nil {
		return journal.ReceiptResult{}, err
	}
	ctx, tx, err := j.within(ctx, in)
	if err == nil && ev.Reserved != nil {
		result, done, err := j.completeReserved(ctx, tx, ev)
		if done || err != nil {
			return result, conn.Explain(j.file.path, "receive a request", err)
		}
	}
	if err == nil {
		err = j.writes(ctx, tx)
	}
	var clock store.Clock
	if err == nil {
		clock, err = j.clock(ctx)
	}
	var r journal.Receipt
	if err == nil {
		r, err = receiptIn(ctx, tx, ev.ReceiptKey)
	}
	if err != nil {
		return journal.ReceiptResult{}, conn.Explain(j.file.path, "receive a request; is the transaction one of the journal's file?", err)
	}
	seeing(clock, &ev)
	result, err := journal.NextReceipt(r, ev)
	if err != nil || result.Decision != journal.Execute && result.Decision != journal.Recorded {
		return result, err
	}
	// All or nothing: a caller that gives up in this moment gets no error for a receipt that is there.
	whole := context.WithoutCancel(ctx)
	result.Receipt, err = j.putReceipt(whole, tx, r.Handle, result.Receipt)
	if err == nil && ev.Kind != journal.ReceiptComplete { // else the reservation has left its mark
		err = leaveMark(whole, tx, ev.At)
	}
	if err != nil {
		return journal.ReceiptResult{}, conn.Explain(j.file.path, "receive a request", err)
	}
	j.file.takeInSoon()
	return result, nil
}

// completeReserved completes the receipt that the caller has reserved in tx, and reports false if its row is not that one: it needs no
// look at the row, the clock or the file, which the reservation has looked at. The facts of a row are its own.
func (j *Journal) completeReserved(ctx context.Context, tx *sql.Tx, ev journal.ReceiptEvent) (result journal.ReceiptResult, done bool, err error) {
	if ev.Kind != journal.ReceiptComplete {
		return result, false, nil
	}
	if err := cmp.Or(localdb.IsOpen(ctx, tx), j.trusted()); err != nil {
		return result, false, err
	}
	result, err = journal.NextReceipt(*ev.Reserved, ev)
	if err != nil || result.Decision != journal.Recorded {
		return journal.ReceiptResult{}, false, err
	}
	whole := context.WithoutCancel(ctx)
	was, _ := format.ReceiptArgs(ev.Reserved, -1)
	args, body := format.ReceiptArgs(&result.Receipt, j.file.writer.compressAbove)
	changed, err := tx.ExecContext(whole, "UPDATE onceward_receipts SET state = ?, ends_at = ?, facts = ?, answer = ? WHERE handle = ? AND facts = ?", append(args[3:7:7], result.Receipt.Handle, was[5])...)
	var n int64
	if err == nil {
		n, err = changed.RowsAffected()
	}
	if err == nil && n == 1 && len(body) > 0 {
		_, err = tx.ExecContext(whole, "INSERT INTO onceward_receipt_bodies VALUES (?, ?)", result.Receipt.Handle, body)
	}
	if errors.Is(err, sql.ErrTxDone) {
		err = nil
	}
	if err != nil || n == 0 {
		result = journal.ReceiptResult{}
	}
	return result, err == nil && n == 1, err
}

// leaveMark makes sure that the outbox has a row, so that the journal commits once more. By the number of that commit the
// sidecar shows that a file without the receipt was restored. The commit also tells the journal the asker's clock. An alias
// of no operation changes nothing, in an older release too.
func leaveMark(ctx context.Context, tx *sql.Tx, at time.Time) error {
	mark := sealed.Outbox{Kind: sealed.Alias, Record: binary.LittleEndian.AppendUint64(nil, uint64(at.UnixMilli()))}
	_, err := tx.ExecContext(ctx, "INSERT INTO onceward_outbox (kind, handle, scope, parent, id, record) SELECT ?, 0, '', '', '', ? WHERE NOT EXISTS (SELECT 1 FROM onceward_outbox)",
		mark.Kind, binary.LittleEndian.AppendUint32(mark.Record, mark.Sum()))
	return err
}

// clock is what the journal has seen of askers' clocks.
func (j *Journal) clock(ctx context.Context) (clock store.Clock, err error) {
	return clock, j.file.readers.Read(ctx, func(r *read.Reader) error {
		latest, err := r.Latest()
		clock = j.file.writer.clockAt(&latest)
		return err
	})
}

// seeing tells ev what is known of its asker's clock, which may have leapt just now, and returns the time that has passed for
// sure. The journal sees that clock by the next mark.
func seeing(clock store.Clock, ev *journal.ReceiptEvent) (passed time.Time) {
	clock.See(ev.At)
	ev.Last, ev.Unconfirmed = clock.Last, clock.Unconfirmed(ev.At)
	return clock.Passed(ev.At)
}

// receiptIn reads a receipt as tx sees it, the zero one where there is none.
func receiptIn(ctx context.Context, tx *sql.Tx, key journal.ReceiptKey) (r journal.Receipt, err error) {
	v := make([]any, 9)
	into := make([]any, len(v))
	for i := range v {
		into[i] = &v[i]
	}
	if err := tx.QueryRowContext(ctx, sealed.SelectWholeReceipt, key.Scope, key.Key).Scan(into...); errors.Is(err, sql.ErrNoRows) {
		return r, nil
	} else if err != nil {
		return r, err
	}
	values := make([]driver.Value, len(v))
	for i := range v {
		values[i] = v[i]
	}
	err = conn.Take(func(v []driver.Value) (err error) {
		r, err = sealed.Receipt(v)
		return err
	}, values)
	return r, err
}

// putReceipt writes what became of the receipt with that handle: 0, if there was none.
func (j *Journal) putReceipt(ctx context.Context, tx *sql.Tx, was int64, r journal.Receipt) (journal.Receipt, error) {
	if was != 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM onceward_receipt_bodies WHERE handle = ?", was); err != nil {
			return r, err
		}
	}
	if r.State == journal.ReceiptAbsent {
		_, err := tx.ExecContext(ctx, "DELETE FROM onceward_receipts WHERE handle = ?", was)
		return r, err
	}
	if r.Handle = was; was == 0 {
		// The sum is of the handle too. No other transaction writes: this one has the lock.
		if err := tx.QueryRowContext(ctx, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'onceward_receipts'), 0) + 1").Scan(&r.Handle); err != nil {
			return r, err
		}
	}
	args, body := format.ReceiptArgs(&r, j.file.writer.compressAbove)
	_, err := tx.ExecContext(ctx, "INSERT INTO onceward_receipts ("+format.ReceiptColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?) "+
		"ON CONFLICT (handle) DO UPDATE SET place = excluded.place, state = excluded.state, ends_at = excluded.ends_at, facts = excluded.facts, answer = excluded.answer",
		append([]any{r.Handle}, args...)...)
	if err == nil && len(body) > 0 {
		_, err = tx.ExecContext(ctx, "INSERT INTO onceward_receipt_bodies VALUES (?, ?)", r.Handle, body)
	}
	return r, err
}

// LookReceipt returns the decision that ReceiveTx would make by the committed receipt, and changes nothing.
func (j *Journal) LookReceipt(ctx context.Context, ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
	r, clock, err := j.readReceipt(ctx, ev.ReceiptKey)
	if err != nil {
		return journal.ReceiptResult{}, err
	}
	seeing(clock, &ev)
	result, err := journal.NextReceipt(r, ev)
	if err == nil && result.Decision == journal.Execute {
		err = cmp.Or(j.writable(ctx), j.trusted())
	}
	return result, err
}

// readReceipt reads a receipt that is committed, the zero one where there is none.
func (j *Journal) readReceipt(ctx context.Context, key journal.ReceiptKey) (r journal.Receipt, clock store.Clock, err error) {
	if err := j.open(ctx); err != nil {
		return r, clock, err
	}
	err = j.file.readers.Read(ctx, func(rd *read.Reader) error {
		latest, err := rd.Latest()
		if err != nil {
			return err
		}
		clock = j.file.writer.clockAt(&latest)
		return rd.Each(sealed.SelectWholeReceipt, func(v []driver.Value) (err error) {
			r, err = sealed.Receipt(v)
			return err
		}, key.Scope, key.Key)
	})
	return r, clock, err
}

// GetReceipt returns a receipt that is committed, or journal.ErrNotFound.
func (j *Journal) GetReceipt(ctx context.Context, key journal.ReceiptKey) (journal.Receipt, error) {
	r, _, err := j.readReceipt(ctx, key)
	if err == nil && r.State == journal.ReceiptAbsent {
		err = fmt.Errorf("%w: receipt", journal.ErrNotFound)
	}
	return r, err
}

// receiptPage is how many receipts a list reads at once: between two pages nothing is open.
const receiptPage = 500

// ListReceipts yields receipts in the order of their creation, or against it, without the bodies of their answers.
func (j *Journal) ListReceipts(ctx context.Context, f journal.ReceiptFilter) iter.Seq2[journal.Receipt, error] {
	return func(yield func(journal.Receipt, error) bool) {
		if err := j.open(ctx); err != nil {
			yield(journal.Receipt{}, err)
			return
		}
		order, after, before := store.ReceiptOrder(&f, "?")
		for n := 0; ; {
			var page []journal.Receipt
			seen, last := 0, int64(0)
			err := j.file.readers.Read(ctx, func(rd *read.Reader) error {
				return rd.Each(sealed.SelectReceipt+order, func(v []driver.Value) error {
					r, _, err := format.ReadReceipt(v)
					seen, last = seen+1, v[0].(int64)
					if err == nil && store.TakesReceipt(&f, &r) {
						page = append(page, r)
					}
					return err
				}, after, before, int64(receiptPage))
			})
			for _, r := range page {
				if n++; !yield(r, nil) || n == f.Limit {
					return
				}
			}
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(journal.Receipt{}, err)
				return
			}
			if seen < receiptPage {
				return
			}
			if after = last; f.Newest {
				after, before = f.After, last
			}
		}
	}
}

var _ journal.ReceiptCounter = (*Journal)(nil)

// CountReceipts counts the receipts: by an index, which has an entry of each.
func (j *Journal) CountReceipts(ctx context.Context) (c journal.ReceiptCounts, err error) {
	if err := j.open(ctx); err != nil {
		return c, err
	}
	err = j.file.readers.Read(ctx, func(rd *read.Reader) error {
		c = journal.ReceiptCounts{}
		made := false
		err := rd.Each("SELECT 1 FROM sqlite_schema WHERE name = 'onceward_receipts'", func([]driver.Value) error {
			made = true
			return nil
		})
		if err != nil || !made {
			return err
		}
		return rd.Each(`SELECT (SELECT count(*) FROM onceward_receipts), (SELECT count(*) FROM onceward_receipts WHERE state = 1),
			(SELECT ends_at FROM onceward_receipts WHERE state = 2 ORDER BY ends_at LIMIT 1)`, func(v []driver.Value) error {
			c.Reserved = v[1].(int64)
			c.Completed, c.NextEnd = v[0].(int64)-c.Reserved, format.ToTime(v[2])
			return nil
		})
	})
	if err == nil && c.Reserved > 0 {
		c.OldestReserved, err = store.OldestReserved(ctx, j)
	}
	return c, err
}

// ReapReceipts applies ev in a transaction of its own to at most limit receipts, those that ended first coming first. It
// passes over damaged ones, which are its error if it reaps nothing else. With Options.Archive, it writes each there before
// its answer is removed.
func (j *Journal) ReapReceipts(ctx context.Context, ev journal.ReceiptEvent, limit int) (n int, err error) {
	if ev.Kind != journal.ReceiptReap || ev.At.IsZero() {
		return 0, &journal.ReceiptEventError{Kind: ev.Kind, Reason: "ReapReceipts needs a reap and the caller's clock"}
	}
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after Commit it does nothing
	ctx, t, err := j.within(ctx, tx)
	if err == nil {
		err = j.writes(ctx, t)
	}
	var clock store.Clock
	if err == nil {
		clock, err = j.clock(ctx)
	}
	if err == nil {
		passed := seeing(clock, &ev)
		n, err = j.reapReceipts(ctx, t, ev, passed, limit)
	}
	if err == nil && n > 0 {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return 0, conn.Explain(j.file.path, "reap receipts", err)
	}
	return n, nil
}

func (j *Journal) reapReceipts(ctx context.Context, tx *sql.Tx, ev journal.ReceiptEvent, passed time.Time, limit int) (n int, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT scope, key FROM onceward_receipts WHERE ends_at <= ? AND state = ? ORDER BY ends_at LIMIT ?",
		passed.UnixMilli(), int64(journal.ReceiptCompleted), limit)
	if err != nil {
		return 0, err
	}
	var keys []journal.ReceiptKey
	for rows.Next() {
		var key journal.ReceiptKey
		if err := rows.Scan(&key.Scope, &key.Key); err != nil {
			return 0, errors.Join(err, rows.Close())
		}
		keys = append(keys, key)
	}
	if err := cmp.Or(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	var archived store.ReceiptLines
	var damaged error
	for _, key := range keys {
		r, err := receiptIn(ctx, tx, key)
		if errors.Is(err, format.ErrDamaged) {
			damaged = err
			continue
		}
		if err != nil {
			return 0, err
		}
		result, err := journal.NextReceipt(r, ev)
		if err != nil || result.Decision != journal.Recorded {
			return 0, err
		}
		if _, err := j.putReceipt(ctx, tx, r.Handle, result.Receipt); err != nil {
			return 0, err
		}
		archived.Add(j.file.archive, &r)
		n++
	}
	if n == 0 {
		return 0, damaged
	}
	return n, j.file.archive.WriteReceipts(archived)
}

// AdvanceTx raises the number that is recorded of an entity of a source, within tx.
func (j *Journal) AdvanceTx(ctx context.Context, in journal.Tx, source, entity string, seq int64) (bool, error) {
	if err := j.writable(ctx); err != nil {
		return false, err
	}
	ctx, tx, err := j.within(ctx, in)
	if err == nil {
		err = j.writes(ctx, tx)
	}
	if err == nil {
		var done sql.Result
		if done, err = tx.ExecContext(ctx, "INSERT INTO onceward_heads VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET seq = excluded.seq WHERE excluded.seq > seq", source, entity, seq); err == nil {
			n, err := done.RowsAffected()
			return n > 0, err
		}
	}
	return false, conn.Explain(j.file.path, "advance an entity; is the transaction one of the journal's file?", err)
}
