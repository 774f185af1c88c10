package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

var _ journal.Receipts = (*laneJournal)(nil)

// The application's transaction writes a receipt, so its isolation level and its connection are the application's. If two
// transactions reserve one key at once, the unique index lets one of them commit. An advisory lock, which ends with the
// transaction, lets the other one decide Wait at once: without it, it would wait for the end of the first.

const (
	// A statement of its own, so that the next one sees what the lock's last holder has committed.
	lockReceipt = `SELECT pg_catalog.pg_try_advisory_xact_lock($1)`
	// A column behind a row that is written. The commit waits for the disk, even if the application's other commits do not.
	soundly = `, CASE WHEN pg_catalog.current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN pg_catalog.set_config('synchronous_commit', 'on', true) END AS sound`

	receiptHere = `SELECT ` + format.ReceiptColumns + `, body, (written_in = pg_catalog.pg_current_xact_id_if_assigned()) IS TRUE FROM {{schema}}.receipts WHERE identity = $1`

	// newReceipt is one statement, and so one round trip. It writes the receipt if the transaction is one of the
	// journal's database, that has not gone back, the key can be locked, and it has no committed receipt.
	newReceipt = `INSERT INTO {{schema}}.receipts (identity, written_in, scope, key, place, state, ends_at, facts, answer, body)
		SELECT $1::bytea, pg_catalog.pg_current_xact_id(), $2::bytea, $3::bytea, $4::bytea, $5::smallint, $6::bigint, $7::bytea, $8::bytea, $9::bytea
		FROM {{schema}}.journal WHERE id = $10 AND restored IS NULL AND promoted IS NULL AND $11::timestamptz IS NOT DISTINCT FROM {{start}} AND pg_catalog.pg_try_advisory_xact_lock($12)
		ON CONFLICT (identity) DO NOTHING`
	setReceipt = `UPDATE {{schema}}.receipts SET written_in = pg_catalog.pg_current_xact_id(), place = $3, state = $4, ends_at = $5, facts = $6, answer = $7, body = $8
		WHERE facts = $2`
	updateReceipt = setReceipt + ` AND handle = $1`
	// The transaction that has reserved the key need not know the handle.
	completeReceipt = setReceipt + ` AND identity = $1 AND written_in = pg_catalog.pg_current_xact_id_if_assigned()`
	returning       = ` RETURNING handle` + soundly
	deleteReceipt   = `DELETE FROM {{schema}}.receipts WHERE handle = $1 AND facts = $2`
	endedReceipts   = record.WholeReceipt + `WHERE ends_at <= $1 AND state = 2 AND handle <> ALL($3) ORDER BY ends_at LIMIT $2 FOR UPDATE SKIP LOCKED`

	advance = `INSERT INTO {{schema}}.heads AS h (identity, source, entity, seq) VALUES ($1, $2, $3, $4)
		ON CONFLICT (identity) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > h.seq RETURNING seq`
)

// receiptStatements holds the SQL texts for a schema, since they are long and each request needs several.
type receiptStatements struct {
	insert, insertAnywhere   string // the latter if no server tells when it was started
	update, complete, remove string
	// The statements of a batch divide by zero unless they write a receipt, so that the server skips those behind them.
	insertAtBegin, insertAtBeginAnywhere, completeAtCommit string
}

func newReceiptStatements(in func(string) string) receiptStatements {
	insert := in(strings.Replace(newReceipt, "{{start}}", check.StartSQL, 1) + returning)
	anywhere := in(strings.Replace(newReceipt, "{{start}}", noStart, 1) + returning)
	complete := in(completeReceipt + returning)
	must := func(write string) string {
		return "WITH done AS (" + write + ") SELECT 1 / count(*), max(sound) FROM done"
	}
	return receiptStatements{
		insert: insert, insertAtBegin: must(insert),
		insertAnywhere: anywhere, insertAtBeginAnywhere: must(anywhere),
		complete: complete, completeAtCommit: must(complete),
		update: in(updateReceipt + returning),
		remove: in(deleteReceipt + returning),
	}
}

// errEndedBefore means that the transaction was committed between the reservation and the answer.
var errEndedBefore = errors.New("postgres: receive a request: the handler committed the transaction that reserved the key, so its writes are not in one commit with the answer; the key stays reserved until an operator resolves it")

// errNotReserved is the error of a statement whose transaction has not reserved the key.
var errNotReserved = errors.New("postgres: receive a request: another transaction has reserved the key meanwhile: roll this one back")

// receiptLock is the advisory lock of a key. Two keys that share one only wait for each other.
func (j *laneJournal) receiptLock(id []byte) int64 {
	b := append(make([]byte, 0, 128), "receipt "...)
	b = append(append(append(b, j.schema...), ' '), id...)
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// MakeReceipts checks that Migrate has made the tables of receipts, and that the role may use them. naming identifies
// how the keys of requests are made. The first non-empty one is recorded. A later, different one is an error.
func (j *laneJournal) MakeReceipts(ctx context.Context, naming string) error {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var recorded string
	err = j.tx(ctx, ask{doing: "prepare receipts"}, func(t *tx) error {
		var there bool
		if err := t.one("SELECT pg_catalog.to_regclass($1) IS NOT NULL", j.schema+".receipts").Scan(&there); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%w: its tables of receipts are missing: run postgres.Migrate, or set Options.Migrate", journal.ErrVersion)
		}
		var g check.Grants
		g.Need(j.schema+".receipts", "SELECT", "INSERT", "UPDATE", "DELETE")
		g.Need(j.schema+".heads", "SELECT", "INSERT", "UPDATE")
		g.Need(j.schema+".receipt_naming", "SELECT", "UPDATE")
		if lacks, err := g.Lacking(ctx, t.conn); err != nil {
			return err
		} else if lacks != "" {
			return lacksGrant("prepare receipts", lacks)
		}
		return t.one("UPDATE {{schema}}.receipt_naming SET naming = CASE naming WHEN '' THEN $1 ELSE naming END RETURNING naming", naming).Scan(&recorded)
	})
	if err == nil && naming != "" && recorded != naming {
		err = fmt.Errorf("postgres: the receipts of this journal were made with keys named %q, not %q; give the setting that they were made with", recorded, naming)
	}
	return err
}

// ReceiveTx applies ev within tx, a transaction of the journal's database: by Pgx, SQL or BeginTx. Its decision is Wait while
// another open transaction works on the key. It is Wait, too, if tx reads by a snapshot (REPEATABLE READ or SERIALIZABLE) that was taken
// before the key was settled. The commit of tx waits for the disk, even if the application's other commits do not. In a transaction
// of Begin, a receipt is completed with Commit, which returns an error if the reservation is gone. With ev.Decided, a key is reserved
// there with the first statement.
func (j *laneJournal) ReceiveTx(ctx context.Context, tx journal.Tx, ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return journal.ReceiptResult{}, err
	}
	defer leave()
	return j.receiveTx(ctx, tx, ev)
}

func (j *laneJournal) receiveTx(ctx context.Context, tx journal.Tx, ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
	if err := j.fleet.Refusal(); err != nil {
		return journal.ReceiptResult{}, err
	}
	t, err := j.theirs(ctx, tx, journal.Event{At: ev.At})
	if err != nil {
		return journal.ReceiptResult{}, err
	}
	ev.Last, ev.Unconfirmed = t.clock.Last, t.clock.Unconfirmed(ev.At)
	for started := j.fleet.Started(); ; started = j.fleet.Started() {
		result, done, err := t.receive(ev)
		if err == nil && !done {
			result, err = t.receiveAnew(ev)
		}
		if err != nil || result.Decision != journal.Wait || check.SameStart(started, j.fleet.Started()) {
			return result, err
		} // else the server was restarted, and is as it was
	}
}

// notReceived returns the result of an error of the database.
func (t *tx) notReceived(ev *journal.ReceiptEvent, err error) (journal.ReceiptResult, error) {
	if pgerr.Code(err) == pgerr.SerializationFailure && ev.Kind != journal.ReceiptComplete {
		return journal.ReceiptResult{Decision: journal.Wait}, nil
	}
	return journal.ReceiptResult{}, explainTheirs(t.ctx, "receive a request", err)
}

// receive applies ev as if the key were new, or reserved as the caller says. It reports false if that is not so, and has
// then written nothing.
func (t *tx) receive(ev journal.ReceiptEvent) (result journal.ReceiptResult, done bool, err error) {
	var was journal.Receipt
	pooled, _ := t.conn.(*apptx.Pooled)
	switch {
	case ev.Kind == journal.ReceiptComplete && ev.Reserved != nil:
		was = *ev.Reserved
	case ev.Kind == journal.ReceiptComplete, ev.Kind == journal.ReceiptResolve:
		return result, false, nil
	}
	result, err = journal.NextReceipt(was, ev)
	if err != nil || result.Decision != journal.Execute && result.Decision != journal.Recorded {
		return result, false, err
	}
	if ev.Kind == journal.ReceiptComplete {
		row := record.ReceiptRow{Receipt: was, Facts: record.FactsOf(was)}
		change := receiptChange(record.ReceiptID(ev.ReceiptKey), row, &result.Receipt)
		if pooled != nil && pooled.Defers(t.j.sql.receipts.completeAtCommit, change) {
			return result, true, nil
		}
		done, err = t.putReceipt(t.j.sql.receipts.complete, change)
	} else {
		if pooled != nil && ev.Decided != nil && t.reservesLater(pooled, &ev, &result.Receipt) {
			return result, true, nil
		}
		done, err = t.newReceipt(&ev, &result.Receipt)
	}
	if err != nil {
		result, err = t.notReceived(&ev, err)
	}
	return result, done || err == nil && result.Decision == journal.Wait, err
}

// newReceipt writes a receipt. It reports false if the key has one or is locked by another transaction, or if the
// journal's database is not what it was.
func (t *tx) newReceipt(ev *journal.ReceiptEvent, r *journal.Receipt) (written bool, err error) {
	var sound *string
	sql := &t.j.sql.receipts
	insert, args := t.insertion(ev, r, sql.insert, sql.insertAnywhere)
	err = t.conn.QueryRow(t.ctx, insert, args...).Scan(&r.Handle, &sound)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// insertion returns the one of two statements that suits the server, with its arguments.
func (t *tx) insertion(ev *journal.ReceiptEvent, r *journal.Receipt, insert, anywhere string) (sql string, args []any) {
	names, values := record.ReceiptArgs(*r)
	id := record.ReceiptID(ev.ReceiptKey)
	started := t.j.fleet.Started()
	if started == nil {
		insert = anywhere
	}
	args = append(append([]any{id}, names...), values...)
	return insert, append(args, t.j.fleet.ID(), started, t.j.receiptLock(id))
}

// reservesLater reports whether the reservation is written with the first statement of the transaction. If it can't be, the
// transaction begins anew, and ev is applied as if it had come then.
func (t *tx) reservesLater(pooled *apptx.Pooled, ev *journal.ReceiptEvent, r *journal.Receipt) bool {
	sql := &t.j.sql.receipts
	first := new(apptx.First)
	first.SQL, first.Args = t.insertion(ev, r, sql.insertAtBegin, sql.insertAtBeginAnywhere)
	decided, anew := ev.Decided, *ev
	anew.Decided = nil
	first.Failed = func(ctx context.Context, err error) error {
		var result journal.ReceiptResult
		if pgerr.Code(err) == pgerr.DivisionByZero {
			result, err = t.j.receiveTx(ctx, pooled, anew)
		} else {
			result, err = t.notReceived(&anew, err)
		}
		switch told := decided(result, err); {
		case told != nil:
			return decidedError{told}
		case result.Decision != journal.Execute:
			return errNotReserved
		}
		return nil
	}
	return pooled.BeginsWith(first)
}

// receiveAnew applies ev to the receipt as it is. Its decision is Wait if there is none: another transaction works on the
// key, or did so a moment ago.
func (t *tx) receiveAnew(ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
	wait := journal.ReceiptResult{Decision: journal.Wait}
	r, locked, err := t.receipt(&ev)
	if err != nil {
		return t.notReceived(&ev, err)
	}
	result, err := journal.NextReceipt(r.Receipt, ev)
	switch {
	case err != nil, result.Decision != journal.Execute && result.Decision != journal.Recorded:
		return result, err
	case ev.Kind == journal.ReceiptComplete && !r.WrittenHere:
		return journal.ReceiptResult{}, errEndedBefore
	case !locked, r.Handle == 0:
		return wait, nil
	}
	change := t.j.sql.receipts.update
	if result.Receipt.State == journal.ReceiptAbsent {
		change = t.j.sql.receipts.remove
	}
	switch written, err := t.putReceipt(change, receiptChange(r.Handle, r, &result.Receipt)); {
	case err != nil:
		return t.notReceived(&ev, err)
	case !written:
		return wait, nil
	}
	return result, nil
}

// receipt reads the receipt that ev names, the zero one if there is none, and tries to lock its key. The transaction that completes a
// receipt has locked the key when it reserved it, and was shown to be one of the journal's database then.
func (t *tx) receipt(ev *journal.ReceiptEvent) (r record.ReceiptRow, locked bool, err error) {
	id := record.ReceiptID(ev.ReceiptKey)
	completes := ev.Kind == journal.ReceiptComplete
	b := new(pgx.Batch)
	if !completes {
		ours, args := t.ours()
		b.Queue(ours, args...)
		b.Queue(lockReceipt, t.j.receiptLock(id))
	}
	b.Queue(t.j.in(receiptHere), id)
	results := t.conn.SendBatch(t.ctx, b)
	defer func() {
		if closing := results.Close(); err == nil {
			err = closing
		}
	}()
	if locked = completes; !completes {
		if err := t.isOursBy(results.QueryRow()); err != nil {
			return r, false, err
		}
		if err := results.QueryRow().Scan(&locked); err != nil {
			return r, false, err
		}
	}
	here := false
	r, err = record.ScanWholeReceipt(results.QueryRow(), &here)
	if errors.Is(err, pgx.ErrNoRows) {
		return record.ReceiptRow{}, locked, nil
	}
	r.WrittenHere = here
	return r, locked, err
}

// putReceipt writes the change of a receipt, and reports false if the row is not as it was read any more.
func (t *tx) putReceipt(change string, args []any) (written bool, err error) {
	var handle int64
	var sound *string
	if err = t.conn.QueryRow(t.ctx, change, args...).Scan(&handle, &sound); errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// receiptChange returns the arguments of updateReceipt, completeReceipt and deleteReceipt. of is the handle, or the identity for
// completeReceipt.
func receiptChange(of any, was record.ReceiptRow, next *journal.Receipt) []any {
	args := []any{of, was.Facts}
	if next.State != journal.ReceiptAbsent {
		_, values := record.ReceiptArgs(*next)
		args = append(args, values...)
	}
	return args
}

// LookReceipt returns the decision that ReceiveTx would make by the committed receipt, and changes nothing.
func (j *laneJournal) LookReceipt(ctx context.Context, ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
	if err := j.checkTime(ev.At); err != nil {
		return journal.ReceiptResult{}, err
	}
	r, err := j.reader().Receipt(ctx, ev.ReceiptKey)
	if err != nil {
		return journal.ReceiptResult{}, err
	}
	clock := j.seen(ev.At)
	ev.Last, ev.Unconfirmed = clock.Last, clock.Unconfirmed(ev.At)
	result, err := journal.NextReceipt(r, ev)
	if err == nil && result.Decision == journal.Execute {
		if err = j.fleet.Refusal(); j.opts.ReadOnly {
			err = ErrReadOnly
		}
	}
	return result, err
}

// ReapReceipts applies ev in a transaction of its own to at most limit receipts, those that ended first coming first. It
// passes over those that another transaction holds, and over damaged ones. Their error is returned too if it reaps fewer.
func (j *laneJournal) ReapReceipts(ctx context.Context, ev journal.ReceiptEvent, limit int) (n int, err error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	if ev.Kind != journal.ReceiptReap || ev.At.IsZero() {
		return 0, &journal.ReceiptEventError{Kind: ev.Kind, Reason: "ReapReceipts needs a reap and the caller's clock"}
	}
	var damaged error
	err = j.tx(ctx, ask{doing: "reap receipts", at: ev.At, decides: true}, func(t *tx) error {
		n, damaged = 0, nil
		of := ev
		of.Last, of.Unconfirmed = t.clock.Last, t.unconfirmed(ev.At)
		b := new(pgx.Batch)
		seen := []int64{}
		for more := true; more && n < limit; {
			size, passedOver := 0, false
			err := t.each(func(row record.Scanner) error {
				r, err := record.ScanWholeReceipt(row)
				size++
				if record.IsDamaged(err) {
					damaged, passedOver = cmp.Or(damaged, fmt.Errorf("%w: it is passed over", err)), true
					seen = append(seen, r.Handle)
					return nil
				}
				if err != nil {
					return err
				}
				seen = append(seen, r.Handle)
				result, err := journal.NextReceipt(r.Receipt, of)
				switch {
				case err != nil || result.Decision != journal.Recorded:
					return err
				case result.Receipt.State == journal.ReceiptAbsent:
					b.Queue(j.in(deleteReceipt), r.Handle, r.Facts)
				default:
					_, values := record.ReceiptArgs(result.Receipt)
					b.Queue(j.in(updateReceipt), append([]any{r.Handle, r.Facts}, values...)...)
				}
				n++
				return nil
			}, endedReceipts, t.passed(ev.At).UnixMilli(), limit-n, seen)
			if err != nil {
				return err
			}
			more = passedOver && size > 0
		}
		if n == 0 {
			return nil
		}
		return t.conn.SendBatch(t.ctx, b).Close()
	})
	switch {
	case err != nil:
		return 0, err
	case n < limit:
		return n, damaged
	}
	return n, nil
}

// AdvanceTx raises the recorded number of an entity of a source, within tx. It waits for another open transaction that
// raises the number of that entity.
func (j *laneJournal) AdvanceTx(ctx context.Context, tx journal.Tx, source, entity string, seq int64) (bool, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	if err := j.fleet.Refusal(); err != nil {
		return false, err
	}
	c, err := apptx.RunnerOf(tx)
	if err != nil {
		return false, err
	}
	id := record.Digest(journal.Ref{Scope: source, ID: entity})
	err = c.QueryRow(ctx, j.in(advance), id, []byte(source), []byte(entity), seq).Scan(&seq)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, explainTheirs(ctx, "advance an entity", err)
}
