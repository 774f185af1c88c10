package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/localdb"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// A transaction of the application cannot append to the log, because only writers know the state of the file
// without reading it. It puts its records into a table, and the first batch of any process after its commit
// takes them in before anything else (see takeIn). A record in the table is therefore as good as recorded,
// and all readers look there first.
//
// From its first write until its end, a transaction has the file's write lock. Nothing that it has read can
// change meanwhile. Its records therefore follow the recorded state, and so does the handle that an operation
// gets.

var _ journal.Outbox = (*logJournal)(nil)

// EnqueueTx applies ev, of kind EventEnqueue, within tx: a transaction of BeginTx, or Tx of the application's
// own on the journal's file. It needs the file's write lock, which tx has after a write, or from the
// beginning with BEGIN IMMEDIATE. A transaction that has read before another one's commit cannot get it
// (SQLITE_BUSY_SNAPSHOT) and must begin anew. No other caller records anything until tx ends.
//
// If SQLite rolled back the writes of tx, the error says so, and nothing is recorded. A transaction on a
// connection with synchronous=NORMAL may be lost, as a whole, with the machine's power.
func (j *logJournal) EnqueueTx(ctx context.Context, in journal.Tx, ev journal.Event) (journal.Result, error) {
	if err := j.writable(ctx); err != nil {
		return journal.Result{}, err
	}
	if err := store.CheckEnqueue(ev); err != nil {
		return journal.Result{}, err
	}
	ctx, tx, err := j.within(ctx, in)
	if err == nil {
		err = j.writes(ctx, tx)
	}
	var found standing
	if err == nil {
		// The caller has the write lock, so other goroutines here share its transaction. Two of them at once
		// would give one handle to two operations.
		j.file.enqueuing.Lock()
		defer j.file.enqueuing.Unlock()
		found, err = j.standing(ctx, tx, ev.Ref)
	}
	if err != nil {
		return journal.Result{}, conn.Explain(j.file.path, "enqueue an operation", err)
	}
	if ev.Intent != nil {
		for _, name := range ev.Intent.Rivals(&found.op) {
			holder, err := j.standing(ctx, tx, name)
			if err != nil {
				return journal.Result{}, conn.Explain(j.file.path, "enqueue an operation", err)
			}
			if holder.is && found.op.YieldsTo(&holder.op) {
				return holder.result(holder.op, journal.Misuse, ev), nil
			}
		}
	}
	ev.Last, ev.Unconfirmed = found.clock.Last, found.clock.Unconfirmed(ev.At)
	// A later claim checks whether the session of an operation in flight is alive.
	next, decision, err := journal.Next(found.op, true, ev)
	if err != nil {
		return journal.Result{}, err
	}
	if store.Changes(found.op, next, decision) {
		if !found.is {
			next.Handle = found.newest + 1
		}
		if err := j.file.writer.enqueue(ctx, tx, ev, &next, found.is); err != nil {
			return journal.Result{}, conn.Explain(j.file.path, "enqueue an operation", err)
		}
	}
	return found.result(next, decision, ev), nil
}

// result returns the result of an event for its caller.
func (s *standing) result(op journal.Operation, decision journal.Decision, ev journal.Event) journal.Result {
	return journal.Result{Operation: op, Decision: decision, Last: s.clock.Last, Unconfirmed: s.clock.Unconfirmed(ev.At)}
}

// enqueue writes the new state of an operation into the outbox.
func (w *writer) enqueue(ctx context.Context, tx *sql.Tx, ev journal.Event, op *journal.Operation, was bool) error {
	p := w.prepare(ev)
	k := &format.Record{Row: format.Row{Op: *op, Request: p.request}, Body: p.body}
	k.Op.Request, k.Op.Answer = journal.Request{}, nil
	rows := []sealed.Outbox{{Kind: sealed.Operation, Handle: op.Handle, Ref: op.Ref, Record: format.AppendRecord(nil, k, format.WithIdentity)}}
	if !was && op.Alias != (journal.Ref{}) {
		rows = append(rows, sealed.Outbox{Kind: sealed.Alias, Handle: op.Handle, Ref: op.Alias})
	}
	// All rows or none are written. A caller that gives up meanwhile must not get an error for a written row.
	return sealed.InsertOutbox(context.WithoutCancel(ctx), tx, rows...)
}

// DeliverTx applies ev, of kind EventDeliver, in a transaction of BeginTx, and calls f to write in it. The
// delivery is durable once DeliverTx returns. No other caller records anything meanwhile: f must be short,
// and must not call the journal.
func (j *logJournal) DeliverTx(ctx context.Context, ev journal.Event, f func(context.Context, journal.Tx) error) (journal.Result, error) {
	if err := j.writable(ctx); err != nil {
		return journal.Result{}, err
	}
	if err := store.CheckDeliver(ev); err != nil {
		return journal.Result{}, err
	}
	tx, err := j.BeginSQL(ctx)
	if err != nil {
		return journal.Result{}, err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	explain := func(err error) error { return conn.Explain(j.file.path, "deliver an outcome", err) }
	own := localdb.OnHandle(ctx)
	found, err := standing{}, j.writes(own, tx)
	if err == nil {
		found, err = j.standing(own, tx, ev.Ref)
	}
	if err != nil {
		return journal.Result{}, explain(err)
	}
	ev.Last, ev.Unconfirmed = found.clock.Last, found.clock.Unconfirmed(ev.At)
	next, decision, err := journal.Next(found.op, true, ev)
	if err != nil || decision != journal.Recorded {
		return found.result(found.op, journal.Ignored, ev), err
	}
	record, _ := json.Marshal(sealed.Delivered{At: ev.At.UnixMilli(), Generation: next.Generation, Outcome: next.State, Attention: next.Attention}) // numbers and a text: it can't fail
	row := sealed.Outbox{Kind: sealed.Delivery, Handle: next.Handle, Ref: next.Ref, Record: record}
	if err := sealed.InsertOutbox(own, tx, row); err != nil {
		return journal.Result{}, explain(err)
	}
	local := localTx{tx, j.file.writer.files}
	if err := f(ctx, local); err != nil {
		return journal.Result{}, err
	}
	if err := localdb.IsOpen(ctx, tx); err != nil {
		return journal.Result{}, explain(err)
	}
	if err := local.Commit(ctx); err != nil {
		return journal.Result{}, explain(err)
	}
	return found.result(next, journal.Recorded, ev), nil
}

// writes makes sure that tx has the write lock of the journal's own file, and that the journal
// may be written.
func (j *logJournal) writes(ctx context.Context, tx *sql.Tx) error {
	if err := j.holds(ctx, tx); err != nil {
		return err
	}
	var version int64
	if err := tx.QueryRowContext(ctx, "SELECT version FROM onceward_schema").Scan(&version); err != nil {
		return ended(ctx, err)
	}
	return j.mayWrite(version)
}

// holds makes sure that tx has the write lock of the journal's own file.
func (j *logJournal) holds(ctx context.Context, tx *sql.Tx) error {
	if err := localdb.IsOpen(ctx, tx); err != nil || localdb.IsOnHandle(ctx) != nil {
		return err
	}
	// A statement that may write takes the lock, even if it has nothing to write.
	if _, err := tx.ExecContext(ctx, "DELETE FROM onceward_outbox WHERE seq < 0"); errors.Is(err, sql.ErrTxDone) {
		return ended(ctx, err)
	} else if err != nil {
		return fmt.Errorf("is the transaction one of the journal's file? %w", err)
	}
	var path string
	if err := tx.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE seq = 0").Scan(&path); err != nil {
		return err
	}
	// A database in memory has no file, so it is not the journal's. The same holds if the file was removed.
	theirs, _ := os.Stat(path)
	if mine, _ := os.Stat(j.file.path); !os.SameFile(theirs, mine) {
		return fmt.Errorf("the transaction is of the database %s, and the journal is %s", path, j.file.path)
	}
	return nil
}

// mayWrite makes sure that the journal may be written by a transaction that has its write lock and has read that version
// of the schema.
func (j *logJournal) mayWrite(version int64) error {
	if err := schema.Unchanged(j.file.path, version); err != nil {
		return err
	}
	if err := j.file.writer.files.InPlace(); err != nil {
		return err
	}
	return j.trusted()
}

// ended explains the error of a transaction's statement, if the transaction was ended before.
func ended(ctx context.Context, err error) error {
	if !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	if caller := localdb.IsOnHandle(ctx); caller != nil && caller.Err() != nil {
		return caller.Err()
	}
	return fmt.Errorf("the transaction was ended before; begin another: %w", err)
}

// trusted returns journal.ErrRestored if the journal does not agree with its sidecar.
func (j *logJournal) trusted() error {
	if !j.file.checkpoint.Trusted.Load() {
		j.file.catchUp() // another process may have adopted it
		return fmt.Errorf("%w: %s; nothing is recorded until it is adopted: see Adopt", journal.ErrRestored, j.file.path)
	}
	return nil
}

// logAhead is the part of the log, up to this row, that the writer does not know yet. A transaction with the
// write lock reads it once, for all operations that it enqueues.
type logAhead struct {
	seq    int64
	recent []*format.Record
}

// standing is an operation as a transaction finds it that has the write lock.
type standing struct {
	op     journal.Operation
	is     bool
	newest int64       // the latest handle given out
	clock  store.Clock // the askers' clocks, as the journal has seen them
}

// standing reads an operation without the writer, which may be waiting for tx to end: first from the file,
// which cannot change, and then from the outbox.
func (j *logJournal) standing(ctx context.Context, tx *sql.Tx, ref journal.Ref) (s standing, err error) {
	err = j.file.readers.Read(ctx, func(r *read.Reader) error {
		return r.Snapshot(func() error {
			s, err = j.filed(r, ref)
			return err
		})
	})
	if err == nil {
		err = s.overlay(ctx, tx, ref)
	}
	return s, err
}

// clockAt returns the latest time of askers' clocks at the latest row of the log.
func (w *writer) clockAt(latest *format.LogRow) store.Clock {
	clock := store.Clock{Last: latest.Last, Jumped: latest.Jumped, LeastMargin: latest.LeastMargin}
	if _, seq := w.memtable.Committed(journal.Ref{}); seq == latest.Seq {
		clock.Last = time.UnixMilli(w.seen.Load()).UTC() // which is not always written
	}
	return clock
}

// filed returns an operation's state in the file, without the outbox.
func (j *logJournal) filed(r *read.Reader, ref journal.Ref) (s standing, err error) {
	latest, err := r.Latest()
	if err != nil {
		return s, err
	}
	w := j.file.writer
	s.newest, s.clock = latest.Newest, w.clockAt(&latest)
	k, seq := w.memtable.Committed(ref)
	if seq != latest.Seq {
		j.file.catchUp() // others have written: the writer reads it once the transaction has ended
		ahead := j.file.ahead.Load()
		if ahead == nil || ahead.seq != latest.Seq {
			ahead = &logAhead{seq: latest.Seq}
			if ahead.recent, err = r.Log(latest.Folded); err != nil {
				return s, err
			}
			j.file.ahead.Store(ahead)
		}
		k = nil
		for _, is := range ahead.recent {
			if store.IsNamed(&is.Op, ref) {
				k = is
			}
		}
	}
	if k != nil {
		s.is = true
		s.op, err = k.Operation()
		return s, err
	}
	if s.op, s.is, err = read.Row(r, "identified = 1 AND id = ? AND scope = ? AND parent = ?", ref.ID, ref.Scope, ref.Parent); err != nil || s.is {
		return s, err
	}
	handles, through := w.segments.FindThrough(ref)
	if through < latest.Folded {
		more, err := w.segments.CandidatesAfter(r, ref, through, latest)
		if err != nil {
			return s, err
		}
		handles = append(handles, more...)
	}
	for _, handle := range handles {
		if handle > latest.Folded {
			continue // the log was searched
		}
		var there bool
		if s.op, s.is, there, err = r.Named(handle, ref); err != nil || s.is {
			return s, err
		}
		if !there {
			if err := r.MayLack(handle); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

const (
	newestInOutbox = "SELECT max(?, coalesce(max(handle), 0)) FROM onceward_outbox"
	outboxOf       = "handle = ? AND kind <> ?" // of one operation
)

// overlay applies the outbox to s: the rows of tx itself, and those of other transactions that were not taken
// in yet.
func (s *standing) overlay(ctx context.Context, tx *sql.Tx, ref journal.Ref) error {
	if err := tx.QueryRowContext(ctx, newestInOutbox, s.newest).Scan(&s.newest); err != nil {
		return err
	}
	rows, err := sealed.OutboxWhere(ctx, tx, "id = ? AND scope = ? AND parent = ?", ref.ID, ref.Scope, ref.Parent)
	if err != nil {
		return err
	}
	if len(rows) > 0 && rows[0].Kind == sealed.Alias {
		if rows, err = sealed.OutboxWhere(ctx, tx, outboxOf, rows[0].Handle, sealed.Alias); err != nil {
			return err
		}
	} else if s.is && s.op.Ref != ref { // it was asked for by its second name
		if rows, err = sealed.OutboxWhere(ctx, tx, "id = ? AND scope = ? AND parent = ?", s.op.ID, s.op.Scope, s.op.Parent); err != nil {
			return err
		}
	}
	for _, row := range rows {
		switch row.Kind {
		case sealed.Operation:
			k, err := row.Operation()
			if err == nil {
				s.is = true
				s.op, err = k.Operation()
			}
			if err != nil {
				return err
			}
		case sealed.Delivery:
			ev, err := row.Delivery()
			if err == nil {
				s.op, _, err = journal.Next(s.op, true, ev)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// catchUp makes the writer take over the commits of other processes, as soon as it can.
func (f *file) catchUp() {
	if !f.catching.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer f.catching.Store(false)
		_ = f.writer.do(context.Background(), func(b *batch) error {
			f.ahead.Store(nil)
			_, err := b.candidates(journal.Ref{})
			return err
		})
	}()
}

// takeInSoon has the writer take in the outbox within a few seconds, if no commit comes before. Without it, no commit of
// the journal's may follow a transaction of the application's, and the sidecar would not show it.
func (f *file) takeInSoon() {
	if f.takingIn.CompareAndSwap(false, true) {
		time.AfterFunc(checkpoint.SidecarAfter, func() {
			f.takingIn.Store(false)
			_ = f.writer.do(context.Background(), func(*batch) error { return nil })
		})
	}
}
