package sqlite

import (
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// change is an operation as it is to be stored.
type change struct {
	row
	renewed bool // a generation was begun, or the request forgotten: body and request are new
	body    []byte

	answer, answerBody []byte // nil: there is no new one
	unanswered         bool   // its answer is forgotten
}

// rowOf is an operation of the log, or of a block, as find returns it.
func rowOf(k *format.Record, block bool) row { return row{Row: k.Row, record: k, block: block} }

// put stores the new state of r: in the log, as long as the operation is only there, or in its row. It leaves
// the stored record in c.row.
func (b *batch) put(r *row, c *change) error {
	if c.unanswered && r.record != nil && !r.block {
		if err := b.foldAll(); err != nil {
			return err
		}
		if r.block = r.record.Closed(); !r.block {
			r.record = nil // it has a row of its own now
		}
	}
	if r.block {
		if err := b.unpack(r.record); err != nil {
			return err
		}
		c.AnswerSum = format.SumIn(r.record.Answer)
		r.record = nil
	}
	if !r.found() {
		return b.insert(c)
	}
	err := b.noteProvider(&r.Op, &c.Op)
	switch {
	case err != nil:
	case r.record != nil:
		b.relog(r.record, c)
		return nil
	case c.renewed:
		if c.unanswered {
			c.AnswerSum = 0
			err = b.removeAnswer(c.Op.Handle)
			if err == nil {
				err = b.write(b.sql.Wipe, c.Op.Handle)
			}
		}
		if err == nil {
			b.inRows += len(c.body)
			err = b.updateWhole(c.Row, c.body)
		}
	default:
		if c.answer != nil {
			c.AnswerSum = format.SumIn(c.answer)
			b.inRows += len(c.answerBody)
			err = b.write(b.sql.InsertAnswer, c.Op.Handle, c.answer, c.answerBody)
		}
		if err == nil {
			err = b.update(r, &c.row)
		}
	}
	if err == nil {
		err = b.remark(&r.Op, &c.Op)
	}
	if err == nil {
		err = b.noteSwept(c.Op.Handle)
	}
	c.record, c.swept = nil, false
	return err
}

// insert has the log begin an operation.
func (b *batch) insert(c *change) error {
	c.Op.Handle = b.newest + 1
	c.Identified = c.Op.Naming != journal.Generated
	k := &format.Record{Row: c.Row, Body: c.body}
	b.record(k, format.WithIdentity)
	b.newest++
	b.clock.Margin(k.Op.Terms)
	c.record = k
	return b.addToSegment(&k.Op)
}

// relog records the new state of an operation in the log.
func (b *batch) relog(before *format.Record, c *change) {
	k := &format.Record{Row: c.Row, Body: before.Body, Answer: before.Answer, AnswerBody: before.AnswerBody}
	parts := byte(0)
	if c.renewed {
		parts, k.Body = format.WithIdentity, c.body
	}
	if c.answer != nil {
		parts |= format.WithAnswer
		k.Answer, k.AnswerBody = c.answer, c.answerBody
	}
	b.record(k, parts)
	b.clock.Margin(k.Op.Terms)
	c.record = k
}

// insertRow gives an operation a row of its own.
func (b *batch) insertRow(k *format.Record) error {
	op, r := &k.Op, k.Row
	r.AnswerSum = format.SumIn(k.Answer)
	err := b.write(b.sql.Insert, op.Handle, op.Scope, op.Parent, op.ID, int64(op.Naming), k.Identified, op.Provider,
		int64(op.State), format.Nullable(op.Holder), format.FromTime(format.Wake(op)), format.FromTime(op.SettledAt), op.Delivered, op.Tombstone,
		format.EncodeFacts(r), k.Request, k.Body)
	if err == nil && k.Answer != nil {
		err = b.write(b.sql.InsertAnswer, op.Handle, k.Answer, k.AnswerBody)
	}
	if err == nil {
		err = b.remark(&unmarked, op)
	}
	return err
}

// unmarked is an operation without marks.
var unmarked = journal.Operation{State: journal.StateCompleted}

// wroteRow records a write to a row.
func (b *batch) wroteRow(r format.Row) {
	b.clock.Margin(r.Op.Terms)
	b.remember(r)
}

func (b *batch) update(before, after *row) (err error) {
	op := &after.Op
	if before.Op.Holder == op.Holder {
		err = b.write(b.sql.UpdateHeld, int64(op.State), format.FromTime(format.Wake(op)), format.FromTime(op.SettledAt), op.Delivered,
			format.EncodeFacts(after.Row), op.Handle)
	} else {
		err = b.write(b.sql.Update, int64(op.State), format.FromTime(format.Wake(op)), format.FromTime(op.SettledAt), op.Delivered,
			format.EncodeFacts(after.Row), format.Nullable(op.Holder), op.Handle)
	}
	if err == nil {
		b.wroteRow(after.Row)
	}
	return err
}

func (b *batch) updateWhole(r format.Row, body []byte) error {
	op := &r.Op
	err := b.write(b.sql.UpdateWhole, int64(op.State), format.FromTime(format.Wake(op)), format.FromTime(op.SettledAt), op.Delivered,
		format.EncodeFacts(r), format.Nullable(op.Holder), int64(op.Naming), r.Identified, op.Provider, op.Tombstone, r.Request, body, op.Handle)
	if err == nil {
		b.wroteRow(r)
	}
	return err
}

// remove removes a reaped operation completely.
func (b *batch) remove(r row) error {
	handle := r.Op.Handle
	b.gone = append(b.gone, handle)
	if r.record != nil && !r.block {
		if err := b.foldAll(); err != nil {
			return err
		}
		r.block = r.record.Closed()
	}
	if err := b.unmark(&r.Op); err != nil {
		return err
	}
	if r.block {
		_, err := b.rewriteBlock(handle, func(k *format.Record) (bool, error) { return k.Op.Handle != handle, nil })
		return err
	}
	if err := b.removeAnswer(handle); err != nil {
		return err
	}
	if err := b.write(b.sql.Wipe, handle); err != nil {
		return err
	}
	return b.write(b.sql.Remove, handle)
}

func (b *batch) removeAnswer(handle int64) error {
	if err := b.write(b.sql.WipeAnswer, handle); err != nil {
		return err
	}
	return b.write(b.sql.RemoveAnswer, handle)
}
