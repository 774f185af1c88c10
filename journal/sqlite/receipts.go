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
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/localdb"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

var _ journal.Receipts = (*logJournal)(nil)

// MakeReceipts makes the tables of receipts, if they are missing. naming says how the keys of requests are made. The first
// that is not empty is recorded, and another one is an error from then on.
func (j *logJournal) MakeReceipts(ctx context.Context, naming string) error {
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
	for _, statement := range strings.SplitAfter(schema.ReceiptTables, ";\n") {
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
func (j *logJournal) madeReceipts(ctx context.Context, naming string) (made bool, err error) {
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
			return j.checkReceipts(v[0].(int64), v[1].(string), naming)
		})
	})
	return made, err
}

func (j *logJournal) checkReceipts(version int64, recorded, naming string) error {
	switch {
	case version > schema.ReceiptsVersion:
		return fmt.Errorf("%w: journal %s: its receipts have version %d, and this release knows version %d: upgrade", journal.ErrVersion, j.file.path, version, schema.ReceiptsVersion)
	case version < schema.ReceiptsVersion:
		return fmt.Errorf("%w: journal %s: an older release has made the tables of its receipts since it was opened: close it and open it again, which migrates them", journal.ErrVersion, j.file.path)
	case naming != "" && recorded != "" && recorded != naming:
		return fmt.Errorf("journal %s: its receipts were made with keys named %q, not %q; give the setting that they were made with", j.file.path, recorded, naming)
	}
	return nil
}

// ReceiveTx applies ev within tx, which is one of BeginTx, or Tx of the application's own on the journal's file. As for
// EnqueueTx, tx needs the file's write lock. No process records anything until tx ends.
func (j *logJournal) ReceiveTx(ctx context.Context, in journal.Tx, ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
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
	var found standingReceipt
	if err == nil {
		found, err = j.standingReceipt(ctx, tx, ev.ReceiptKey)
	}
	if err != nil {
		return journal.ReceiptResult{}, conn.Explain(j.file.path, "receive a request", err)
	}
	seeing(found.clock, &ev)
	result, err := journal.NextReceipt(found.receipt, ev)
	if err != nil || result.Decision != journal.Execute && result.Decision != journal.Recorded {
		return result, err
	}
	// All or nothing: a caller that gives up in this moment gets no error for a receipt that is there.
	whole := context.WithoutCancel(ctx)
	if found.receipt.Handle == 0 {
		result.Receipt.Handle = found.next
		err = j.insertReceipt(whole, tx, &result.Receipt)
	} else {
		err = j.changeReceipt(whole, tx, found.receipt.Handle, &result.Receipt)
	}
	if err == nil && !found.marked && ev.Kind != journal.ReceiptComplete { // else the reservation has left its mark
		err = leaveMark(whole, tx, ev.At)
	}
	if err != nil {
		return journal.ReceiptResult{}, conn.Explain(j.file.path, "receive a request", err)
	}
	j.file.takeInSoon()
	return result, nil
}

const (
	selectStanding = "SELECT version, (SELECT max(seq) FROM onceward_log), EXISTS (SELECT 1 FROM onceward_outbox), " +
		"max((SELECT removed FROM onceward_receipt_schema), (SELECT coalesce(max(handle), 0) FROM onceward_receipts)) + 1, " +
		"(SELECT handle FROM onceward_receipts WHERE scope = ?1 AND key = ?2) FROM onceward_schema"
	selectOne     = sealed.SelectReceipts + " WHERE handle = ?"
	insertReceipt = "INSERT INTO onceward_receipts (" + format.ReceiptColumns + ", body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
	changeReceipt = "UPDATE onceward_receipts SET place = ?, state = ?, ends_at = ?, facts = ?, answer = ?, body = ? WHERE handle = ?"
)

// completeReserved completes the receipt that the caller has reserved in tx, and reports false if its row is not that one: it needs no
// look at the row, the clock or the file, which the reservation has looked at. The facts of a row are its own.
func (j *logJournal) completeReserved(ctx context.Context, tx *sql.Tx, ev journal.ReceiptEvent) (result journal.ReceiptResult, done bool, err error) {
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
	was, _ := sealed.ReceiptArgs(ev.Reserved, -1)
	changed, err := tx.ExecContext(context.WithoutCancel(ctx), changeReceipt+" AND facts = ?", append(j.receiptValues(&result.Receipt)[3:], result.Receipt.Handle, was[5])...)
	var n int64
	if err == nil {
		n, err = changed.RowsAffected()
	}
	if errors.Is(err, sql.ErrTxDone) {
		err = nil
	}
	if err != nil || n == 0 {
		result = journal.ReceiptResult{}
	}
	return result, err == nil && n == 1, err
}

// receiptValues are the values of insertReceipt.
func (j *logJournal) receiptValues(r *journal.Receipt) []any {
	args, body := sealed.ReceiptArgs(r, j.file.writer.compressAbove)
	if len(body) == 0 {
		body = nil
	}
	return append(append([]any{r.Handle}, args...), body)
}

func (j *logJournal) insertReceipt(ctx context.Context, tx *sql.Tx, r *journal.Receipt) error {
	_, err := tx.ExecContext(ctx, insertReceipt, j.receiptValues(r)...)
	return err
}

// changeReceipt writes what became of the receipt with that handle. One that is gone leaves its handle, if it was the last.
func (j *logJournal) changeReceipt(ctx context.Context, tx *sql.Tx, handle int64, next *journal.Receipt) error {
	if next.State != journal.ReceiptAbsent {
		next.Handle = handle
		_, err := tx.ExecContext(ctx, changeReceipt, append(j.receiptValues(next)[3:], handle)...)
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM onceward_receipts WHERE handle = ?", handle)
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE onceward_receipt_schema SET removed = ?1 WHERE removed < ?1 AND NOT EXISTS (SELECT 1 FROM onceward_receipts WHERE handle > ?1)", handle)
	}
	return err
}

// leaveMark gives the outbox a row, so that the journal commits once more. By the number of that commit the sidecar shows that a
// file without the receipt was restored. The commit also tells the journal the asker's clock. An alias of no operation
// changes nothing, in an older release too.
func leaveMark(ctx context.Context, tx *sql.Tx, at time.Time) error {
	return sealed.InsertOutbox(ctx, tx, sealed.Outbox{Kind: sealed.Alias, Record: binary.LittleEndian.AppendUint64(nil, uint64(at.UnixMilli()))})
}

// clock is what the journal has seen of askers' clocks, up to the row of the log with that number. A row never changes, and read
// reads the latest.
func (j *logJournal) clock(seq int64, read func() (format.LogRow, error)) (store.Clock, error) {
	latest := j.file.latest.Load()
	if latest == nil || latest.Seq != seq {
		row, err := read()
		if err != nil {
			return store.Clock{}, err
		}
		latest = &row
		j.file.latest.Store(latest)
	}
	return j.file.writer.clockAt(latest), nil
}

// seeing tells ev what is known of its asker's clock, which may have leapt just now, and returns the time that has passed for
// sure. The journal sees that clock by the next mark.
func seeing(clock store.Clock, ev *journal.ReceiptEvent) (passed time.Time) {
	clock.See(ev.At)
	ev.Last, ev.Unconfirmed = clock.Last, clock.Unconfirmed(ev.At)
	return clock.Passed(ev.At)
}

// standingReceipt is a receipt as a transaction finds it that has the write lock.
type standingReceipt struct {
	receipt journal.Receipt // the zero one where there is none
	clock   store.Clock
	next    int64 // the handle of the next receipt
	marked  bool  // the outbox has a row
}

// standingReceipt makes sure that tx may write, and reads a receipt.
func (j *logJournal) standingReceipt(ctx context.Context, tx *sql.Tx, key journal.ReceiptKey) (s standingReceipt, err error) {
	if err := j.holds(ctx, tx); err != nil {
		return s, err
	}
	var version, seq int64
	var handle driver.Value // nil: there is no receipt
	err = takeRow(tx.QueryRowContext(ctx, selectStanding, key.Scope, key.Key), 5, func(v []driver.Value) error {
		version, seq, s.marked, s.next, handle = v[0].(int64), v[1].(int64), v[2] == int64(1), v[3].(int64), v[4]
		return nil
	})
	if err == nil {
		err = j.mayWrite(version)
	}
	if err == nil && handle != nil {
		if s.receipt, err = receiptIn(ctx, tx, handle); err == nil && s.receipt.ReceiptKey != key {
			err = format.ErrDamaged // an index leads to another receipt
		}
	}
	if err != nil {
		return s, ended(ctx, err)
	}
	s.clock, err = j.clock(seq, func() (latest format.LogRow, err error) {
		return latest, j.file.readers.Read(ctx, func(r *read.Reader) error {
			latest, err = r.Latest()
			return err
		})
	})
	return s, err
}

// receiptIn reads the receipt with that handle, which is there.
func receiptIn(ctx context.Context, tx *sql.Tx, handle driver.Value) (r journal.Receipt, err error) {
	err = takeRow(tx.QueryRowContext(ctx, selectOne, handle), 9, func(v []driver.Value) (err error) {
		r, err = sealed.Receipt(v)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = format.ErrDamaged // an index has it
	}
	return r, err
}

// LookReceipt returns the decision that ReceiveTx would make by the committed receipt, and changes nothing.
func (j *logJournal) LookReceipt(ctx context.Context, ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
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

// readReceipt reads a receipt that is committed, and the clock that judges it. Both are zero if there is no receipt.
func (j *logJournal) readReceipt(ctx context.Context, key journal.ReceiptKey) (r journal.Receipt, clock store.Clock, err error) {
	if err := j.open(ctx); err != nil {
		return r, clock, err
	}
	err = j.file.readers.Read(ctx, func(rd *read.Reader) error {
		r, clock = journal.Receipt{}, store.Clock{}
		var seq int64
		err := rd.Each(sealed.SelectStanding, func(v []driver.Value) (err error) {
			seq = v[0].(int64)
			r, err = sealed.Receipt(v[1:])
			return err
		}, key.Scope, key.Key)
		if err == nil && r.State != journal.ReceiptAbsent {
			clock, err = j.clock(seq, rd.Latest)
		}
		return err
	})
	return r, clock, err
}

// GetReceipt returns a receipt that is committed, or journal.ErrNotFound.
func (j *logJournal) GetReceipt(ctx context.Context, key journal.ReceiptKey) (journal.Receipt, error) {
	r, _, err := j.readReceipt(ctx, key)
	if err == nil && r.State == journal.ReceiptAbsent {
		err = fmt.Errorf("%w: receipt", journal.ErrNotFound)
	}
	return r, err
}

// receiptPage is how many receipts a list reads at once: between two pages nothing is open.
const receiptPage = 500

// ListReceipts yields receipts in the order of their creation, or against it, without the bodies of their answers.
func (j *logJournal) ListReceipts(ctx context.Context, f journal.ReceiptFilter) iter.Seq2[journal.Receipt, error] {
	return func(yield func(journal.Receipt, error) bool) {
		if err := j.open(ctx); err != nil {
			yield(journal.Receipt{}, err)
			return
		}
		order, after, before := store.ReceiptOrder(&f, "?")
		if slices.Equal(f.States, []journal.ReceiptState{journal.ReceiptReserved}) { // by an index
			order = sealed.WhereReserved + " AND" + strings.TrimPrefix(order, " WHERE")
		}
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

var _ journal.ReceiptCounter = (*logJournal)(nil)

// CountReceipts counts the receipts: by an index, which has an entry of each.
func (j *logJournal) CountReceipts(ctx context.Context) (c journal.ReceiptCounts, err error) {
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
		return rd.Each("SELECT count(*), (SELECT count(*) FROM onceward_receipts"+sealed.WhereReserved+"), (SELECT min(ends_at) FROM onceward_receipts WHERE ends_at < ?) FROM onceward_receipts", func(v []driver.Value) error {
			c.Reserved = v[1].(int64)
			c.Completed, c.NextEnd = v[0].(int64)-c.Reserved, format.ToTime(v[2])
			return nil
		}, sealed.Never)
	})
	if err == nil && c.Reserved > 0 {
		c.OldestReserved, err = store.OldestReserved(ctx, j)
	}
	return c, err
}

// ReapReceipts applies ev in a transaction of its own to at most limit receipts, those that ended first coming first. It
// passes over damaged ones, and returns their error too if it reaps fewer. With Options.Archive, it writes each there
// before its answer is removed, and before it has the lock to write.
func (j *logJournal) ReapReceipts(ctx context.Context, ev journal.ReceiptEvent, limit int) (n int, err error) {
	if ev.Kind != journal.ReceiptReap || ev.At.IsZero() {
		return 0, &journal.ReceiptEventError{Kind: ev.Kind, Reason: "ReapReceipts needs a reap and the caller's clock"}
	}
	if err := j.writable(ctx); err != nil {
		return 0, err
	}
	ended, damaged, err := j.endedReceipts(ctx, ev, limit)
	if err == nil && len(ended) > 0 {
		var lines store.ReceiptLines
		for i := range ended {
			lines.Add(j.file.archive, &ended[i])
		}
		if err = j.file.archive.WriteReceipts(lines); err == nil {
			n, err = j.reapReceipts(ctx, ev, ended)
		}
	}
	if err != nil {
		return 0, conn.Explain(j.file.path, "reap receipts", err)
	}
	if len(ended) < limit {
		return n, damaged
	}
	return n, nil
}

// afterEnded selects receipts that have ended, after one of them.
const afterEnded = sealed.SelectReceipts + " WHERE ends_at <= ? AND (ends_at, handle) > (?, ?) ORDER BY ends_at, handle LIMIT ?"

// endedReceipts reads at most limit receipts that may be reaped, and returns the first error of a damaged one.
func (j *logJournal) endedReceipts(ctx context.Context, ev journal.ReceiptEvent, limit int) (ended []journal.Receipt, damaged, err error) {
	var passed time.Time
	err = j.file.readers.Read(ctx, func(rd *read.Reader) error {
		latest, err := rd.Latest()
		if err == nil {
			passed = seeing(j.file.writer.clockAt(&latest), &ev)
		}
		return err
	})
	var last, handle driver.Value = int64(math.MinInt64), int64(0)
	for more := true; err == nil && more && len(ended) < limit; {
		n, page := 0, []journal.Receipt(nil)
		after, afterHandle := last, handle
		err = j.file.readers.Read(ctx, func(rd *read.Reader) error {
			n, page = 0, nil
			return rd.Each(afterEnded, func(v []driver.Value) error {
				n, handle, last = n+1, v[0], v[5]
				r, err := sealed.Receipt(v)
				switch {
				case errors.Is(err, format.ErrDamaged):
					damaged = cmp.Or(damaged, fmt.Errorf("receipt %v is passed over: %w", handle, err))
					return nil
				case err != nil:
					return err
				}
				if result, err := journal.NextReceipt(r, ev); err == nil && result.Decision == journal.Recorded {
					page = append(page, r)
				}
				return nil
			}, passed.UnixMilli(), after, afterHandle, int64(limit))
		})
		ended = append(ended, page[:min(len(page), limit-len(ended))]...)
		more = n == limit
	}
	return ended, damaged, err
}

// reapReceipts reaps receipts that are still as they were read.
func (j *logJournal) reapReceipts(ctx context.Context, ev journal.ReceiptEvent, ended []journal.Receipt) (n int, err error) {
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after Commit it does nothing
	ctx, t, err := j.within(ctx, tx)
	if err != nil {
		return 0, err
	}
	found, err := j.standingReceipt(ctx, t, journal.ReceiptKey{})
	if err != nil {
		return 0, err
	}
	seeing(found.clock, &ev)
	for i := range ended {
		is, err := receiptIn(ctx, t, ended[i].Handle)
		switch {
		case errors.Is(err, format.ErrDamaged): // another process has removed it
			continue
		case err != nil:
			return 0, err
		case !reflect.DeepEqual(is, ended[i]):
			continue
		}
		result, err := journal.NextReceipt(is, ev)
		if err != nil {
			return 0, err
		}
		if result.Decision != journal.Recorded {
			continue
		}
		if err := j.changeReceipt(ctx, t, is.Handle, &result.Receipt); err != nil {
			return 0, err
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return n, tx.Commit(ctx)
}

// AdvanceTx raises the number that is recorded of an entity of a source, within tx.
func (j *logJournal) AdvanceTx(ctx context.Context, in journal.Tx, source, entity string, seq int64) (bool, error) {
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
	return false, conn.Explain(j.file.path, "advance an entity", err)
}
