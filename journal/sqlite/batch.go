package sqlite

import (
	"database/sql/driver"
	"errors"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// batch is one transaction of the writer's. It runs in the writer only.
type batch struct {
	*writer
	riders   []journal.Event  // deliveries that it carries
	liveness map[string]error // of sessions looked at: nil, errDead or ErrRestored
	wrote    bool
	numberIt bool  // it gets a commit number in any case
	numbered bool  // it has got one
	others   bool  // somebody else wrote since the last one
	broken   error // it can't be committed

	committed, abandoned []func()
}

func newBatch(w *writer) *batch {
	return &batch{writer: w, liveness: make(map[string]error)}
}

// settle is for after the commit.
func (b *batch) settle() {
	if b.wrote {
		b.durable = b.clock
		b.unnumbered++
	}
	if b.numbered {
		b.number, b.unnumbered = b.number+1, 0
	}
	for _, f := range b.committed {
		f()
	}
}

// abandon is for after a rollback.
func (b *batch) abandon() {
	for _, f := range b.abandoned {
		f()
	}
}

// fail gives the batch up if err is one of SQLite's that leaves it in doubt, and
// explains what is not for the asker to understand.
func (b *batch) fail(err error) error {
	if code(err) == 0 && !errors.Is(err, errFormat) {
		return err
	}
	if code(err) != 0 && !ofOneStatement(err) && b.broken == nil {
		b.broken = err
	}
	return explain(b.path, "apply an event", err)
}

// write runs a statement that changes something. After a failure it runs no more:
// SQLite may have rolled back, and what is written outside a transaction is
// committed at once.
func (b *batch) write(s *stmt, args ...any) error {
	if b.broken != nil {
		return explain(b.path, "apply an event", b.broken)
	}
	b.wrote = true
	_, err := s.exec(args...)
	return b.fail(err)
}

// read calls f for every row of a statement.
func (b *batch) read(s *stmt, f func([]driver.Value) error, args ...any) error {
	return b.fail(s.each(f, args...))
}

// prepared is an event with what the journal keeps of it encoded by the asker, so
// that the writer need not.
type prepared struct {
	journal.Event
	request, answer []byte
}

func prepare(ev journal.Event) prepared {
	p := prepared{Event: ev}
	if ev.Intent != nil {
		p.request = encodeRequest(ev.Intent.Request)
	}
	if ev.Answer != nil && ev.Kind == journal.EventComplete {
		answer := *ev.Answer
		answer.Generation = ev.Generation
		p.answer = encodeAnswer(&answer)
	}
	return p
}

// outcome is a journal.Result, some of it still encoded.
type outcome struct {
	row
	decision journal.Decision
	last     time.Time

	asked       *journal.Request // the asker's own, instead of what is stored
	requestBody []byte
	answered    *journal.Answer // likewise
	answer      []byte
	answerBody  []byte
}

// result decodes an outcome, outside the writer.
func (o outcome) result(path string) (journal.Result, error) {
	result := journal.Result{Operation: o.op, Decision: o.decision, Last: o.last}
	var err error
	if o.asked != nil {
		result.Operation.Request = *o.asked
	} else if result.Operation.Request, err = decodeRequest(o.request); err != nil {
		return journal.Result{}, explain(path, "read an operation", err)
	}
	if o.requestBody != nil {
		result.Operation.Request.Body = o.requestBody
	}
	switch {
	case o.answered != nil:
		result.Operation.Answer = o.answered
	case o.answer != nil:
		answer, err := decodeAnswer(o.answer)
		if err != nil {
			return journal.Result{}, explain(path, "read an answer", err)
		}
		if o.answerBody != nil {
			answer.Body = o.answerBody
		}
		result.Operation.Answer = answer
	}
	return result, nil
}

// apply runs Next on the operation that the event names.
func (b *batch) apply(p prepared) (outcome, error) {
	if err := b.refuses(p.Kind); err != nil {
		return outcome{}, err
	}
	if p.Kind == journal.EventBegin || p.Kind == journal.EventClaim {
		if err := b.mine(p.Session); err != nil {
			return outcome{}, err
		}
	}
	if err := b.see(p.At); err != nil {
		return outcome{}, err
	}
	r, err := b.find(p.Event)
	if err != nil {
		return outcome{}, err
	}
	return b.next(r, p)
}

// find returns the operation that the event names, or a row that is not stored.
func (b *batch) find(ev journal.Event) (row, error) {
	if ev.Handle != 0 {
		r, err := b.byHandle(ev.Handle)
		if err != nil || r.found() && (ev.Ref == journal.Ref{} || ev.Ref == r.op.Ref) {
			return r, err
		}
	}
	if ev.New || ev.Ref == (journal.Ref{}) && ev.Kind != journal.EventBegin {
		return row{}, nil
	}
	return b.byRef(ev.Ref)
}

func (b *batch) byHandle(handle int64) (row, error) {
	if r, ok := b.cache[handle]; ok {
		return r, nil
	}
	return b.one(b.sql.byHandle, handle)
}

func (b *batch) byRef(ref journal.Ref) (row, error) {
	r, err := b.one(b.sql.byRef, ref.ID, ref.Scope, ref.Parent)
	if err != nil || r.found() {
		return r, err
	}
	handles, err := b.generated(ref.ID)
	if err != nil {
		return row{}, err
	}
	for _, handle := range handles {
		if r, err := b.byHandle(handle); err != nil || r.op.Ref == ref {
			return r, err
		}
	}
	return row{}, nil
}

func (b *batch) one(s *stmt, args ...any) (r row, err error) {
	_, err = s.first(func(v []driver.Value) error {
		r, err = readRow(v)
		return err
	}, args...)
	return r, b.fail(err)
}

// next runs Next on r and writes what comes of it.
func (b *batch) next(r row, p prepared) (outcome, error) {
	live, err := b.holds(r.op, p.Kind)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{last: b.clock.Last}
	if p.Kind == journal.EventComplete {
		// Whether it is the answer that is recorded already is a matter of its
		// generation.
		if r.op.Answer, err = b.readAnswer(r.op, &out); err != nil {
			return outcome{}, err
		}
	}
	ev := p.Event
	ev.Last = b.clock.Last
	next, decision, refused := journal.Next(r.op, live, ev)
	if next.Answer != r.op.Answer {
		out.answered = next.Answer
	}
	now := row{op: next, request: r.request, identified: r.identified}
	now.op.Request, now.op.Answer, r.op.Answer = journal.Request{}, nil, nil

	begun := ev.Kind == journal.EventBegin && decision == journal.Execute && (!r.found() || next.Generation != r.op.Generation)
	if begun {
		now.request = p.request
	}
	switch {
	case next.State == journal.Absent && !r.found():
	case next.State == journal.Absent:
		err = b.remove(r)
	case !r.found():
		now, err = b.insert(now, ev.Intent.Request.Body)
	case begun:
		now.identified = now.identified || next.Naming != journal.Generated
		err = b.updateWhole(now, ev.Intent.Request.Body)
	case next.Tombstone && !r.op.Tombstone:
		now.request = nil
		if err = b.write(b.sql.removeAnswer, next.Handle); err == nil {
			err = b.updateWhole(now, nil)
		}
	case store.Changes(r.op, now.op, decision):
		if a := out.answered; a != nil {
			encoded := p.answer
			if encoded == nil {
				encoded = encodeAnswer(a)
			}
			err = b.write(b.sql.insertAnswer, next.Handle, encoded, a.Body)
		}
		if err == nil {
			err = b.update(r, now)
		}
	default:
		now.op.UpdatedAt = r.op.UpdatedAt
	}
	if err != nil {
		return outcome{}, err
	}
	if refused != nil {
		return outcome{}, refused
	}
	out.row, out.decision = now, decision
	if begun {
		out.asked = &ev.Intent.Request
		return out, nil
	}
	return out, b.load(&out)
}

// load reads the bodies that the decision needs, and the answer.
func (b *batch) load(out *outcome) error {
	if !out.found() {
		return nil
	}
	switch out.decision {
	case journal.Execute, journal.Replay, journal.Offer, journal.Stop:
		err := b.read(b.sql.requestBody, func(v []driver.Value) error {
			out.requestBody, _ = v[0].([]byte)
			return nil
		}, out.op.Handle)
		if err != nil {
			return err
		}
	}
	if out.answered != nil || out.answer != nil {
		return nil
	}
	_, err := b.readAnswer(out.op, out)
	return err
}

// readAnswer reads the operation's answer, if there is one, into out, and decodes
// it without its body.
func (b *batch) readAnswer(op journal.Operation, out *outcome) (answer *journal.Answer, err error) {
	if op.State != journal.Completed || op.Tombstone {
		return nil, nil
	}
	err = b.read(b.sql.answer, func(v []driver.Value) error {
		out.answer, _ = v[0].([]byte)
		out.answerBody, _ = v[1].([]byte)
		answer, err = decodeAnswer(out.answer)
		return err
	}, op.Handle)
	return answer, err
}

func (b *batch) insert(r row, body []byte) (row, error) {
	handle := b.newest + 1
	r.op.Handle = handle
	r.identified = r.op.Naming != journal.Generated
	op := r.op
	err := b.write(b.sql.insert, handle, op.Scope, op.Parent, op.ID, int64(op.Naming), r.identified, op.Provider,
		int64(op.State), nullable(op.Holder), encodeFacts(op), r.request, body)
	if err != nil {
		return row{}, err
	}
	b.newest = handle
	b.stored(r)
	return r, b.addToSegment(r)
}

// stored takes note of what was written.
func (b *batch) stored(r row) {
	b.clock.Margin(r.op.Terms)
	b.remember(r)
}

func (b *batch) update(before, after row) (err error) {
	op := after.op
	if before.op.Holder == op.Holder {
		err = b.write(b.sql.updateHeld, int64(op.State), fromTime(op.WakeAt), fromTime(op.SettledAt), op.Delivered,
			encodeFacts(op), op.Handle)
	} else {
		err = b.write(b.sql.update, int64(op.State), fromTime(op.WakeAt), fromTime(op.SettledAt), op.Delivered,
			encodeFacts(op), nullable(op.Holder), op.Handle)
	}
	if err == nil {
		b.stored(after)
	}
	return err
}

func (b *batch) updateWhole(r row, body []byte) error {
	op := r.op
	err := b.write(b.sql.updateWhole, int64(op.State), fromTime(op.WakeAt), fromTime(op.SettledAt), op.Delivered,
		encodeFacts(op), nullable(op.Holder), int64(op.Naming), r.identified, op.Provider, op.Tombstone, r.request, body, op.Handle)
	if err == nil {
		b.stored(r)
	}
	return err
}

func (b *batch) remove(r row) error {
	handle := r.op.Handle
	delete(b.cache, handle)
	if handle == b.newest {
		if err := b.write(b.sql.raiseFloor, handle); err != nil {
			return err
		}
	}
	if err := b.write(b.sql.removeAnswer, handle); err != nil {
		return err
	}
	return b.write(b.sql.remove, handle)
}
