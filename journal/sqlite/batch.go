package sqlite

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// batch is one transaction of the writer's. It runs in the writer only.
type batch struct {
	*writer
	deferrals []*prepared      // deliveries that it carries
	liveness  map[string]error // of sessions looked at: nil, errDead or ErrRestored
	wrote     bool
	inRows    int      // bytes of bodies that it wrote to rows of their own
	highest   int64    // handle in records
	numbered  int64    // its commit number
	others    bool     // another process wrote since the last one
	broken    error    // it can't be committed
	changed   bool     // the request that is being done has written something
	gone      []int64  // handles that it removed
	marksHeld bool     // the checkpointer's marking is locked
	missing   []string // sessions without a file; nil: not checked yet

	committed, abandoned []func()
}

func newBatch(w *writer) *batch {
	w.records = w.records[:0]
	return &batch{writer: w, liveness: make(map[string]error)}
}

// settle is for after the commit.
func (b *batch) settle() {
	if b.wrote {
		b.durable, b.begun = b.clock, b.newest
		b.seq, b.number = b.seq+1, b.numbered
		b.log = append(b.log, logged{b.seq, b.highest, b.rowBytes})
		b.memtable.Commit(b.seq, b.folded)
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

// fail gives the batch up after an SQLite error that leaves it in doubt, and explains errors that the caller
// cannot understand.
func (b *batch) fail(err error) error {
	if conn.Code(err) == 0 && !errors.Is(err, format.ErrDamaged) {
		return err
	}
	gone := b.files.InPlace()
	if (gone != nil || conn.Code(err) != 0 && !conn.OfOneStatement(err)) && b.broken == nil {
		b.broken = cmp.Or(gone, err)
	}
	return conn.Explain(b.path, "apply an event", cmp.Or(gone, err))
}

// write runs a statement that changes something. After a failure it runs no more: SQLite may have rolled
// back, and a write outside a transaction is committed at once.
func (b *batch) write(s *conn.Stmt, args ...any) error {
	if b.broken != nil {
		return conn.Explain(b.path, "apply an event", b.broken)
	}
	b.wrote = true
	_, err := s.Exec(args...)
	if conn.OfOneStatement(err) && b.changed && b.broken == nil {
		b.broken = err // otherwise a part of the request would be committed
	}
	b.changed = b.changed || err == nil
	return b.fail(err)
}

// read calls f for every row of a statement.
func (b *batch) read(s *conn.Stmt, f func([]driver.Value) error, args ...any) error {
	return b.fail(s.Each(f, args...))
}

// prepared is an event with its records already encoded by the caller, so that the writer need not encode
// them.
type prepared struct {
	journal.Event
	request, answer  []byte
	body, answerBody []byte // copies: they are kept for a while
	compressed       bool   // answerBody
}

func (w *writer) prepare(ev journal.Event) *prepared {
	p := new(prepared)
	w.prepareIn(p, ev)
	return p
}

// prepareIn is prepare for a caller with memory for it.
func (w *writer) prepareIn(p *prepared, ev journal.Event) {
	p.Event = ev
	if ev.Evidence != nil && ev.Answer != nil {
		p.Event.Answer = ownAnswer(ev.Answer)
	}
	if ev.Intent != nil {
		var compressed bool
		p.body, compressed = format.Compress(ev.Intent.Request.Body, w.compressAbove)
		p.request = format.EncodeRequest(ev.Intent.Request, compressed)
	}
	if ev.Answer != nil {
		p.answerBody, p.compressed = format.Compress(ev.Answer.Body, w.compressAbove)
	}
	if ev.Answer != nil && ev.Kind == journal.EventComplete {
		answer := *ev.Answer
		answer.Generation = ev.Generation
		p.answer = format.EncodeAnswer(&answer, p.compressed)
	}
}

// ownAnswer is a copy: it may be kept with evidence.
func ownAnswer(a *journal.Answer) *journal.Answer {
	own := *a
	own.Header, own.Trailer, own.Body = a.Header.Clone(), a.Trailer.Clone(), bytes.Clone(a.Body)
	return &own
}

// outcome is a journal.Result, some of it still encoded.
type outcome struct {
	row
	decision journal.Decision
	last     time.Time

	unconfirmed time.Time

	asked       *journal.Request // the caller's own, instead of the stored one
	requestBody []byte
	answered    *journal.Answer // likewise
	answer      []byte
	answerBody  []byte
}

// result decodes an outcome, outside the writer.
func (o *outcome) result(path string) (journal.Result, error) {
	result := journal.Result{Operation: format.Unshared(o.Op), Decision: o.decision, Last: o.last, Unconfirmed: o.unconfirmed}
	var err error
	switch {
	case o.asked != nil:
		result.Operation.Request = *o.asked
	case o.decision == journal.Recorded: // the asker has it
	default:
		if result.Operation.Request, err = format.DecodeRequest(o.Request, o.requestBody); err != nil {
			return journal.Result{}, conn.Explain(path, "read an operation", err)
		}
	}
	switch {
	case o.answered != nil:
		result.Operation.Answer = o.answered
	case o.answer != nil:
		answer, err := format.DecodeAnswer(o.answer, o.answerBody)
		if err != nil {
			return journal.Result{}, conn.Explain(path, "read an answer", err)
		}
		result.Operation.Answer = answer
	}
	return result, nil
}

// apply runs Next on the operation that the event names. Without an error, out is the result.
func (b *batch) apply(p *prepared, out *outcome) error {
	if err := b.refuses(p.Kind); err != nil {
		return err
	}
	if store.NeedsSession(p.Kind) {
		if err := b.requireSession(p.Session); err != nil {
			return err
		}
	}
	if err := b.observeClock(p.At); err != nil {
		return err
	}
	r, err := b.find(p.Event)
	if err != nil {
		return err
	}
	if p.Intent != nil {
		for _, name := range p.Intent.Rivals(&r.Op) {
			holder, err := b.byRef(name)
			if err != nil {
				return err
			}
			if holder.found() && r.Op.YieldsTo(&holder.Op) {
				*out = outcome{row: holder, decision: journal.Misuse, last: b.clock.Last, unconfirmed: b.clock.Unconfirmed(p.At)}
				return b.load(out)
			}
		}
	}
	return b.next(r, p, out)
}

// find returns the operation that the event names, or a row that is not stored.
func (b *batch) find(ev journal.Event) (row, error) {
	if ev.Handle != 0 {
		r, err := b.byHandle(ev.Handle)
		if err != nil || r.found() && (ev.Ref == journal.Ref{} || store.IsNamed(&r.Op, ev.Ref)) {
			return r, err
		}
	}
	if ev.New || ev.Ref == (journal.Ref{}) && ev.Kind != journal.EventBegin {
		return row{}, nil
	}
	return b.byRef(ev.Ref)
}

func (b *batch) byHandle(handle int64) (row, error) {
	if handle > b.folded {
		if k := b.memtable.At(handle); k != nil {
			return rowOf(k, false), nil
		}
		return row{}, nil
	}
	if r, ok := b.cache[handle]; ok {
		return b.afterSweeps(row{Row: r}, nil)
	}
	r, err := b.afterSweeps(b.one(b.sql.ByHandle, handle))
	if err != nil || r.found() {
		return r, err
	}
	k, err := b.inBlock(handle)
	if k == nil {
		return row{}, err
	}
	return rowOf(k, true), nil
}

func (b *batch) byRef(ref journal.Ref) (row, error) {
	if k := b.memtable.Named(ref); k != nil && k.Op.Handle > b.folded {
		return rowOf(k, false), nil
	}
	if b.segments.IsFree(ref, b.newest) {
		return row{}, nil
	}
	r, err := b.afterSweeps(b.one(b.sql.ByRef, ref.ID, ref.Scope, ref.Parent))
	if err != nil || r.found() {
		return r, err
	}
	handles, err := b.candidates(ref)
	if err != nil {
		return row{}, err
	}
	for _, handle := range handles {
		r, err := b.byHandle(handle)
		if err != nil || store.IsNamed(&r.Op, ref) {
			return r, err
		}
		if !r.found() {
			if err := b.mayLack(handle); err != nil {
				return row{}, err
			}
		}
	}
	return row{}, nil
}

func (b *batch) one(s *conn.Stmt, args ...any) (r row, err error) {
	_, err = s.First(func(v []driver.Value) error {
		r.Row, err = format.ReadRow(v)
		return err
	}, args...)
	return r, b.fail(err)
}

// next runs Next on r and writes the result. Without an error, out is the result.
func (b *batch) next(r row, p *prepared, out *outcome) error {
	live, err := b.holds(&r.Op, p.Kind)
	if err != nil {
		return err
	}
	*out = outcome{last: b.clock.Last, unconfirmed: b.clock.Unconfirmed(p.At)}
	if p.Kind == journal.EventComplete || p.Kind == journal.EventResolve || p.Kind == journal.EventEvidence || p.Kind == journal.EventLook && p.Asked {
		// The recorded answer's generation shows whether the event brings the same answer. Its missing parts
		// decide whether another answer replaces it, or is looked up.
		out.record, out.AnswerSum = r.record, r.AnswerSum
		if r.Op.Answer, err = b.readAnswer(&r.Op, out); err != nil {
			return err
		}
		if (p.Kind == journal.EventResolve || p.Kind != journal.EventLook && r.Op.AnswerMissing()) && r.Op.Answer != nil { // which may be kept within another
			if r.Op.Answer, err = format.DecodeAnswer(out.answer, out.answerBody); err != nil {
				return b.fail(err)
			}
		}
	}
	if p.Kind == journal.EventClaim && p.mayTake(&r.Op) { // whole, for Today, and before a session holds it
		if r.Op.Request, err = b.wholeRequest(r); err != nil {
			return err
		}
		if err = b.wholeAnswer(r); err != nil {
			return err
		}
	}
	ev := p.Event
	ev.Last, ev.Unconfirmed, ev.Ahead = out.last, out.unconfirmed, b.clock.Ahead
	if ev.Taken, err = b.takes(&r.Op, ev); err != nil {
		return err
	}
	if ev.Sole, err = b.sole(&r.Op, ev); err != nil {
		return err
	}
	next, decision, refused := journal.Next(r.Op, live, ev)
	if next.Answer != r.Op.Answer {
		out.answered = next.Answer
	}
	next.Request, next.Answer, r.Op.Request, r.Op.Answer = journal.Request{}, nil, journal.Request{}, nil

	asked := store.TakesRequest(ev.Kind, decision, &next)
	if p.Kind == journal.EventBegin && decision == journal.Execute && r.found() && !asked { // as by a claim
		if _, err := b.wholeRequest(r); err != nil {
			return err
		}
	}
	c := change{row: r}
	c.Op = next
	switch {
	case next.State == journal.StateAbsent && !r.found():
	case next.State == journal.StateAbsent:
		err = b.remove(r)
	case asked:
		c.renewed, c.Request, c.body = true, p.request, p.body
		err = b.put(&r, &c)
	case next.Tombstone && !r.Op.Tombstone:
		c.renewed, c.Request, c.unanswered = true, nil, true
		err = b.put(&r, &c)
	case store.Changes(r.Op, next, decision):
		if a := out.answered; a != nil {
			c.answer, c.answerBody = p.answer, p.answerBody
			switch {
			case a.Found, a.Replaced != nil: // perhaps found a while ago, and not by this asker
				var compressed bool
				c.answerBody, compressed = format.Compress(a.Body, b.compressAbove)
				c.answer = format.EncodeAnswer(a, compressed)
			case c.answer == nil:
				c.answer = format.EncodeAnswer(a, p.compressed)
			}
		}
		err = b.put(&r, &c)
	default:
		c.Op.UpdatedAt = r.Op.UpdatedAt
	}
	if err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	out.row, out.decision = c.row, decision
	if asked {
		out.asked = &ev.Intent.Request
		return nil
	}
	return b.load(out)
}

// mayTake reports whether a claim concerns the operation, by its provider.
func (p *prepared) mayTake(op *journal.Operation) bool {
	switch op.State {
	case journal.StateAbsent:
		return false
	case journal.StatePending, journal.StateInFlight:
		return p.From == nil || slices.Contains(p.From, op.Provider)
	}
	return true
}

// wholeAnswer reads the operation's answer, if there is one, its body included.
func (b *batch) wholeAnswer(r row) error {
	out := outcome{row: r}
	if answer, err := b.readAnswer(&r.Op, &out); answer == nil || err != nil {
		return err
	}
	_, err := format.DecodeAnswer(out.answer, out.answerBody)
	return b.fail(err)
}

// wholeRequest reads the operation's request, its body included.
func (b *batch) wholeRequest(r row) (journal.Request, error) {
	var body []byte
	if r.record != nil {
		body = r.record.Body
	} else if err := b.read(b.sql.RequestBody, func(v []driver.Value) error {
		if body = format.ToBytes(v[0]); format.Lacks(r.Request, body) {
			return format.ErrDamaged
		}
		return nil
	}, r.Op.Handle); err != nil {
		return journal.Request{}, err
	}
	request, err := format.DecodeRequest(r.Request, body)
	return request, b.fail(err)
}

// load reads the bodies that the decision needs, and the answer.
func (b *batch) load(out *outcome) error {
	if !out.found() {
		return nil
	}
	switch out.decision {
	case journal.Execute, journal.Replay, journal.Offer, journal.Stop, journal.Look, journal.Weighed:
		if k := out.record; k != nil {
			out.requestBody = k.Body
			break
		}
		err := b.read(b.sql.RequestBody, func(v []driver.Value) error {
			if out.requestBody = format.ToBytes(v[0]); format.Lacks(out.Request, out.requestBody) {
				return format.ErrDamaged
			}
			return nil
		}, out.Op.Handle)
		if err != nil {
			return err
		}
	}
	if out.answered != nil || out.answer != nil {
		return nil
	}
	_, err := b.readAnswer(&out.Op, out)
	return err
}

// readAnswer reads the operation's answer, if there is one, into out, and decodes
// it without its body.
func (b *batch) readAnswer(op *journal.Operation, out *outcome) (answer *journal.Answer, err error) {
	if op.State != journal.StateCompleted || op.Tombstone {
		return nil, nil
	}
	if k := out.record; k != nil {
		out.answer, out.answerBody = k.Answer, k.AnswerBody
		return format.DecodeAnswer(k.Answer, nil)
	}
	err = b.read(b.sql.Answer, func(v []driver.Value) error {
		out.answer, out.answerBody = format.ToBytes(v[0]), format.ToBytes(v[1])
		if format.SumIn(out.answer) != out.AnswerSum || format.Lacks(out.answer, out.answerBody) {
			return format.ErrDamaged
		}
		answer, err = format.DecodeAnswer(out.answer, nil)
		return err
	}, op.Handle)
	if err == nil && answer == nil {
		err = b.fail(format.ErrDamaged) // it is completed
	}
	return answer, err
}
