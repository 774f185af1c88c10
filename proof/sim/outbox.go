package sim

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
)

// booking is a transaction as one process sees the transaction, with the bookings beside the journal's records. They
// stand once the transaction is committed.
type booking struct {
	journal.Tx
	book     *book
	wrote    []string
	enqueued []journal.Operation
}

func (b *book) outbox() machine.Outbox { return b.Journal.Store.(machine.Outbox) }

// opens notes a transaction, which ends with its process.
func (b *book) opens(tx journal.Tx) *booking {
	t := &booking{Tx: tx, book: b}
	b.open.Store(t, true)
	return t
}

// rollsBack rolls back the open transactions of a killed process, as the database does.
func (b *book) rollsBack() {
	b.open.Range(func(t, _ any) bool {
		_ = t.(*booking).Tx.Rollback(context.Background())
		return true
	})
}

func (b *book) BeginTx(ctx context.Context) (journal.Tx, error) {
	b.still.pass("a transaction", "")
	if err := b.Alive(); err != nil {
		return nil, err
	}
	if b.ails() {
		return nil, errAiling
	}
	tx, err := b.outbox().BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	t := b.opens(tx)
	if err := b.Alive(); err != nil {
		_ = tx.Rollback(context.Background())
		return nil, err
	}
	return t, nil
}

func (t *booking) Commit(ctx context.Context) error {
	b := t.book
	defer b.open.Delete(t)
	fatal, ails := b.fatal(), b.ails()
	if fatal && !b.after {
		b.process.die()
	}
	if err := b.Alive(); err != nil {
		return err
	}
	if ails && b.drawn.of(2) {
		_ = t.Tx.Rollback(ctx)
		return errAiling
	}
	err := t.Tx.Commit(ctx)
	if err == nil {
		for i := range t.enqueued {
			b.life.isUnknownToBackup(&t.enqueued[i], true)
		}
	}
	if fatal && b.after {
		b.process.die()
		return severed.Err
	}
	if ails && err == nil {
		return errAiling
	}
	return err
}

func (t *booking) Rollback(ctx context.Context) error {
	t.book.open.Delete(t)
	return t.Tx.Rollback(ctx)
}

func (b *book) EnqueueTx(ctx context.Context, tx journal.Tx, ev machine.Event) (machine.Result, error) {
	if err := b.Alive(); err != nil {
		return machine.Result{}, err
	}
	if b.ails() {
		return machine.Result{}, errAiling
	}
	off := b.clock.off()
	t := tx.(*booking)
	b.first(ev.At)
	res, err := b.outbox().EnqueueTx(ctx, t.Tx, b.reads(ev.At).event(ev))
	if err == nil {
		if res.Decision == machine.Recorded {
			t.enqueued = append(t.enqueued, res.Operation)
		}
		b.tell(ev.Kind, res)
	}
	return off.result(res), err
}

func (b *book) DeliverTx(ctx context.Context, ev machine.Event, f func(context.Context, journal.Tx) error) (machine.Result, error) {
	defer b.still.gates(ev.Kind, ev.Ref.ID)()
	fatal, ails := b.fatal(), b.ails()
	if fatal && !b.after {
		b.process.die()
	}
	if err := b.Alive(); err != nil {
		return machine.Result{}, err
	}
	if ails && b.drawn.of(2) {
		return machine.Result{}, errAiling
	}
	off := b.clock.off()
	var wrote []string
	res, err := b.outbox().DeliverTx(ctx, b.reads(ev.At).event(ev), func(ctx context.Context, tx journal.Tx) error {
		t := b.opens(tx)
		defer b.open.Delete(t)
		err := f(ctx, t)
		wrote = t.wrote
		return err
	})
	if err == nil {
		b.tell(ev.Kind, res)
		if res.Decision == machine.Recorded {
			b.life.books(wrote)
		}
	}
	if fatal && b.after {
		b.process.die()
	}
	if cut := b.Alive(); cut != nil {
		return machine.Result{}, cut
	}
	if ails && err == nil {
		return machine.Result{}, errAiling
	}
	return off.result(res), err
}

func (b *book) ApplyFlowTx(ctx context.Context, tx journal.Tx, ev machine.FlowEvent) (machine.FlowResult, error) {
	if err := b.Alive(); err != nil {
		return machine.FlowResult{}, err
	}
	off := b.clock.off()
	res, err := b.flows.(machine.LocalFlows).ApplyFlowTx(ctx, tx.(*booking).Tx, b.reads(ev.At).flowEvent(ev))
	f := &res.Flow
	b.life.tell("journal", b.process.name, "%v of flow %s: %v, so it is %v (claim %d), with what is local: %v", ev.Kind, f.ID, res.Decision, f.State, f.Claim, err)
	res.Flow = off.flow(res.Flow)
	return res, err
}

// books notes the bookings of Outcomes.HandleTx that were committed.
func (l *life) books(wrote []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, what := range wrote {
		l.booked[what]++
	}
}

// seenTo marks an outcome that needs attention.
const seenTo = ", and somebody has to see to it"

func outcomeOf(parent, id string, generation int, state journal.State) string {
	return fmt.Sprintf("%s %s %d %v", parent, id, generation, state)
}

// handleTx returns an Outcomes.HandleTx that books outcomes, also in the database if the journal lies in one.
func (l *life) handleTx(p *process, drawn *chance) func(context.Context, journal.Tx, onceward.Operation) error {
	return func(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
		t := tx.(*booking)
		what := outcomeOf(op.Parent, op.ID, op.Generation, op.State)
		if op.Attention != "" && op.State == journal.StateCompleted {
			what += seenTo // once more
		}
		l.tell("caller", p.name, "Outcomes.HandleTx: %s", what)
		l.visit("an outcome in a transaction")
		t.wrote = append(t.wrote, what)
		l.tellsRegret(op)
		l.endsPromise(op)
		if own, ok := t.Driver().(*sql.Tx); ok {
			if _, err := own.ExecContext(ctx, "INSERT INTO booked (what) VALUES (?)", what); err != nil {
				return err
			}
		}
		if !l.isOver() && drawn.of(6) {
			return errors.New("the booking failed")
		}
		return nil
	}
}

// tablesOfOwn makes the business's own tables, beside the journal's.
func (l *life) tablesOfOwn() error {
	return l.inDatabase(func(tx *sql.Tx) error {
		_, err := tx.Exec("CREATE TABLE booked (what TEXT NOT NULL); CREATE TABLE entered (flow TEXT NOT NULL)")
		return err
	})
}

// inDatabase calls do in a transaction of the journal's database, if it lies in one.
func (l *life) inDatabase(do func(*sql.Tx) error) error {
	tx, err := l.current().(machine.Outbox).BeginTx(context.Background())
	if err != nil {
		return err
	}
	if own, ok := tx.Driver().(*sql.Tx); ok {
		err = do(own)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback(context.Background()))
	}
	return tx.Commit(context.Background())
}

// counts returns the number of rows of one of these tables, by their text.
func (l *life) counts(table string) map[string]int {
	all := map[string]int{}
	err := l.inDatabase(func(tx *sql.Tx) error {
		rows, err := tx.Query("SELECT * FROM " + table)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var what string
			if err := rows.Scan(&what); err != nil {
				return err
			}
			all[what]++
		}
		return rows.Err()
	})
	if err != nil {
		l.fault("the rows of %s: %v", table, err)
	}
	return all
}

// enters makes a flow's local step, on a journal in a database.
func (l *life) enters(ctx context.Context, name string, drawn *chance) error {
	if !l.onDisk {
		return nil
	}
	_, err := flow.LocalStep(ctx, "enter", func(ctx context.Context, tx *sql.Tx) (string, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO entered (flow) VALUES (?)", name); err != nil {
			return "", err
		}
		if !l.isOver() && drawn.of(8) {
			return "", errors.New("the entry failed")
		}
		return name, nil
	})
	return err
}

// enqueue enqueues an errand's operation in a transaction, and commits or rolls back. It reports whether the commit
// succeeded. If that is not known, the caller enqueues again.
func (l *life) enqueue(ctx context.Context, p *process, e *errand, req *http.Request, random dice) (committed bool) {
	ctx = onceward.WithDue(onceward.WithNotAfter(onceward.WithOperation(ctx, e.name), e.notAfter), e.due)
	tx, err := p.book.BeginTx(ctx)
	if err != nil {
		return false
	}
	op, err := p.client.Enqueue(ctx, tx, req.WithContext(ctx))
	if random.of(4) {
		time.Sleep(random.within(2 * time.Second)) // the transaction is open
	}
	rolledBack := err != nil || e.gives || random.of(4)
	switch {
	case rolledBack:
		rolled := tx.Rollback(context.Background())
		l.tell("caller", p.name, "%s is enqueued (%v: %v), and that is rolled back: %v", e.name, op.State, err, rolled)
		l.visit("enqueued and rolled back")
		return false
	default:
		err = tx.Commit(ctx)
		l.tell("caller", p.name, "%s is enqueued, due %v, not after %v: %v", e.name, e.due.Sub(l.began), e.notAfter.Sub(l.began), err)
		l.visit("enqueued")
		if random.of(2) {
			p.client.Wake()
		}
		l.mu.Lock()
		e.queued = e.queued || err == nil
		e.misdated = e.misdated || time.Duration(p.book.clock.off()) > machine.Leap
		l.mu.Unlock()
		return err == nil
	}
}

// decides forgets when an errand may be sent, since an operator's decision overrides that.
func (w *world) decides(errand string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.spans, errand)
}

// heedsTimes reports a fault if an operation is sent before the due time, or for the first time after NotAfter. Only an
// errand's first request counts, since a later caller of the name begins anew.
func (w *world) heedsTimes(errand string) {
	if span, there := w.span(errand); there && time.Now().Before(span.from.Add(-time.Millisecond)) {
		w.fault("%s is sent %v before it is due", errand, time.Until(span.from))
	}
	if late := w.isLate(errand); late > 0 {
		w.fault("%s is sent for the first time, %v after it was not to be", errand, late)
	}
}

// isLate returns how late an operation would be sent for the first time, or 0.
func (w *world) isLate(errand string) time.Duration {
	span, there := w.span(errand)
	if late := time.Since(span.to); there && !span.to.IsZero() && late > time.Second {
		return late
	}
	return 0
}

// span returns when an operation may be sent, if it is sent for the first time.
func (w *world) span(errand string) (between, bool) {
	w.mu.Lock()
	span, there := w.spans[errand]
	first := w.asked[errand] == 1
	w.mu.Unlock()
	return span, there && first && !w.has(clocks) && !w.restored() // an operation in a copy may have been sent
}

// between is the span in which an operation may be sent for the first time.
type between struct{ from, to time.Time }

// judgeOutbox compares the operations enqueued and the outcomes booked with the journal and the ledger.
func (l *life) judgeOutbox(states map[string]journal.Operation) {
	if l.wasRestored() {
		return
	}
	for _, e := range l.wants {
		made, _ := l.world.count(e.name)
		op, there := states[e.name]
		switch {
		case !e.outbox:
		case e.gives && (made > 0 || there):
			l.fault("%s was enqueued and rolled back each time, and is %v, with %d effects", e.name, op.State, made)
		case e.queued && !there && (made > 0 && e.other == 0 || !l.has(shortKeep)): // a cancelled operation is reaped, and asked for by another name
			l.fault("%s was enqueued, and is lost", e.name)
		case e.queued && op.State == journal.StateCompleted:
			l.visit("enqueued and completed")
		}
	}
	if !l.has(settledTx) {
		return
	}
	if l.onDisk {
		rows := l.counts("booked")
		for what, n := range l.booked {
			if rows[what] != n {
				l.fault("%s was booked %d times, and there are %d rows", what, n, rows[what])
			}
		}
	}
	for what, n := range l.booked {
		if n > 1 && strings.HasSuffix(what, " "+journal.StateCompleted.String()) {
			// Two have one name in two scopes, and a carried key is forgotten that leaves no tombstone.
			if forgotten := l.has(shortKeep) && strings.HasPrefix(what, "key at "); !forgotten && !l.has(scopes) {
				l.fault("%s: booked %d times", what, n)
			}
		}
	}
	for _, op := range states {
		if op.State != journal.StateCompleted || !op.Delivered || op.Tombstone {
			continue
		}
		if what := outcomeOf("", op.ID, op.Generation, op.State); l.booked[what]+l.booked[what+seenTo] == 0 {
			l.fault("%s: never booked", what)
		}
	}
}

// judgeEntries compares the local steps of flows with the flows' ends.
func (l *life) judgeEntries(finished map[string]bool) {
	if !l.onDisk || l.wasRestored() {
		return
	}
	rows := l.counts("entered")
	for name, n := range rows {
		if n > 1 {
			l.fault("%s was entered %d times", name, n)
		}
	}
	for name := range finished {
		if rows[name] == 0 {
			l.fault("%s is finished, and was not entered", name)
		}
	}
}
