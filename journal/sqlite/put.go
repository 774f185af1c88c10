package sqlite

import "github.com/onceward/onceward/journal"

// change is an operation as it is to be stored.
type change struct {
	row
	renewed bool // a generation was begun, or the request forgotten: body and request are new
	body    []byte

	answer, answerBody []byte // nil: there is no new one
	unanswered         bool   // its answer is forgotten
}

// at is the operation as find returns it.
func (k *kept) at(block bool) row {
	r := k.row
	r.kept, r.block = k, block
	return r
}

// put stores what became of r: in the log, as long as the operation is nowhere else,
// or in its row. It leaves what is stored in c.row.
func (b *batch) put(r *row, c *change) error {
	if c.unanswered && r.found() && r.kept != nil && !r.block {
		if err := b.foldAll(); err != nil {
			return err
		}
		r.block = r.kept.closed()
	}
	if r.block {
		if err := b.unpack(r.kept); err != nil {
			return err
		}
		c.answerSum = sumIn(r.kept.answer)
		r.kept = nil
	}
	var err error
	switch {
	case !r.found():
		return b.insert(c)
	case r.kept != nil:
		b.relog(r.kept, c)
		return nil
	case c.renewed:
		if c.unanswered {
			c.answerSum = 0
			err = b.removeAnswer(c.op.Handle)
			if err == nil {
				err = b.write(b.sql.wipe, c.op.Handle)
			}
		}
		if err == nil {
			err = b.updateWhole(c.row, c.body)
		}
	default:
		if c.answer != nil {
			c.answerSum = sumIn(c.answer)
			err = b.write(b.sql.insertAnswer, c.op.Handle, c.answer, c.answerBody)
		}
		if err == nil {
			err = b.update(r, &c.row)
		}
	}
	c.kept, c.block = nil, false
	return err
}

// insert has the log begin an operation.
func (b *batch) insert(c *change) error {
	c.op.Handle = b.newest + 1
	c.identified = c.op.Naming != journal.Generated
	k := &kept{row: c.row, body: c.body}
	k.kept, k.block = nil, false
	b.record(k, withIdentity)
	b.newest++
	b.clock.Margin(k.op.Terms)
	c.kept, c.block = k, false
	return b.addToSegment(&k.op)
}

// relog has the log say what became of an operation that it has.
func (b *batch) relog(before *kept, c *change) {
	k := &kept{row: c.row, body: before.body, answer: before.answer, answerBody: before.answerBody}
	k.kept, k.block = nil, false
	parts := byte(0)
	if c.renewed {
		parts, k.body = withIdentity, c.body
	}
	if c.answer != nil {
		parts |= withAnswer
		k.answer, k.answerBody = c.answer, c.answerBody
	}
	b.record(k, parts)
	b.clock.Margin(k.op.Terms)
	c.kept, c.block = k, false
}

// insertRow gives an operation a row of its own.
func (b *batch) insertRow(k *kept) error {
	op, r := &k.op, k.row
	r.answerSum = sumIn(k.answer)
	err := b.write(b.sql.insert, op.Handle, op.Scope, op.Parent, op.ID, int64(op.Naming), k.identified, op.Provider,
		int64(op.State), nullable(op.Holder), fromTime(op.WakeAt), fromTime(op.SettledAt), op.Delivered, op.Tombstone,
		encodeFacts(r), k.request, k.body)
	if err == nil && k.answer != nil {
		err = b.write(b.sql.insertAnswer, op.Handle, k.answer, k.answerBody)
	}
	if err == nil {
		b.remember(r)
	}
	return err
}

// stored takes note of what was written to a row.
func (b *batch) stored(r row) {
	b.clock.Margin(r.op.Terms)
	b.remember(r)
}

func (b *batch) update(before, after *row) (err error) {
	op := &after.op
	if before.op.Holder == op.Holder {
		err = b.write(b.sql.updateHeld, int64(op.State), fromTime(op.WakeAt), fromTime(op.SettledAt), op.Delivered,
			encodeFacts(*after), op.Handle)
	} else {
		err = b.write(b.sql.update, int64(op.State), fromTime(op.WakeAt), fromTime(op.SettledAt), op.Delivered,
			encodeFacts(*after), nullable(op.Holder), op.Handle)
	}
	if err == nil {
		b.stored(*after)
	}
	return err
}

func (b *batch) updateWhole(r row, body []byte) error {
	op := r.op
	err := b.write(b.sql.updateWhole, int64(op.State), fromTime(op.WakeAt), fromTime(op.SettledAt), op.Delivered,
		encodeFacts(r), nullable(op.Holder), int64(op.Naming), r.identified, op.Provider, op.Tombstone, r.request, body, op.Handle)
	if err == nil {
		b.stored(r)
	}
	return err
}

// remove is for what was reaped, and leaves nothing of it.
func (b *batch) remove(r row) error {
	handle := r.op.Handle
	b.gone = append(b.gone, handle)
	if r.kept != nil && !r.block {
		if err := b.foldAll(); err != nil {
			return err
		}
		r.block = r.kept.closed()
	}
	if r.block {
		_, err := b.rewriteBlock(handle, func(k *kept) (bool, error) { return k.op.Handle != handle, nil })
		return err
	}
	delete(b.cache, handle)
	if err := b.removeAnswer(handle); err != nil {
		return err
	}
	if err := b.write(b.sql.wipe, handle); err != nil {
		return err
	}
	return b.write(b.sql.remove, handle)
}

func (b *batch) removeAnswer(handle int64) error {
	if err := b.write(b.sql.wipeAnswer, handle); err != nil {
		return err
	}
	return b.write(b.sql.removeAnswer, handle)
}
