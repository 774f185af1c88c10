package sqlite

import "github.com/onceward/onceward/journal"

// kept is an operation as it stands in the log or in a block: whole, what is large
// of it undecoded. It is never changed, only replaced.
type kept struct {
	row
	body, answer, answerBody []byte
}

// closed tells whether nothing is expected to change the operation any more but its
// reaping.
func (k *kept) closed() bool {
	return k.op.State == journal.Completed && k.op.Delivered && !k.op.Tombstone
}

func (k *kept) size() int {
	return len(k.request) + len(k.body) + len(k.answer) + len(k.answerBody)
}

// operation decodes it. Nothing of the result is shared.
func (k *kept) operation() (journal.Operation, error) {
	if !k.op.Tombstone && (lacks(k.request, k.body) || lacks(k.answer, k.answerBody)) {
		return journal.Operation{}, errFormat
	}
	return k.decode()
}

func (k *kept) decode() (journal.Operation, error) {
	op := k.op
	var err error
	if op.Request, err = decodeRequest(k.request, k.body); err != nil {
		return journal.Operation{}, err
	}
	if k.answer != nil {
		if op.Answer, err = decodeAnswer(k.answer, k.answerBody); err != nil {
			return journal.Operation{}, err
		}
	}
	return op, nil
}

// withoutBodies is operation for who does not want the bodies.
func (k *kept) withoutBodies() (journal.Operation, error) {
	op, err := (&kept{row: k.row, answer: k.answer}).decode()
	// What tells of an empty body is kept beside the bodies.
	op.Request.Body = nil
	if op.Answer != nil {
		op.Answer.Body = nil
		if op.Answer.Replaced != nil {
			op.Answer.Replaced.Body = nil
		}
	}
	return op, err
}

// A record is an operation as bytes. The first of an operation in the log has all of
// its parts, later ones those that changed.
const (
	withIdentity = 1 << iota // with what never changes within a generation, and the request
	withAnswer
	withEverything = withIdentity | withAnswer
)

// record appends k.
func (e *encoder) record(k *kept, parts byte) {
	op := &k.op
	e.int(op.Handle)
	e.byte(parts)
	if parts&withIdentity != 0 {
		e.byte(byte(op.Naming))
		e.string(op.Scope)
		e.string(op.Parent)
		e.string(op.ID)
		e.string(op.Provider)
	}
	e.byte(byte(op.State))
	e.bools(op.Delivered, op.Tombstone, k.identified)
	e.string(op.Holder)
	e.time(op.WakeAt)
	e.time(op.SettledAt)
	e.facts(op)
	if parts&withIdentity != 0 {
		e.bytes(k.request)
		e.bytes(k.body)
	}
	if parts&withAnswer != 0 {
		e.bytes(k.answer)
		e.bytes(k.answerBody)
	}
}

// record reads one. find returns what the operation was before it, nil for none.
func (d *decoder) record(find func(handle int64) *kept) *kept {
	k := new(kept)
	handle := d.int()
	parts := d.byte()
	if parts&withIdentity == 0 {
		before := find(handle)
		if before == nil {
			d.fail()
			return k
		}
		*k = *before
	}
	op := &k.op
	op.Handle = handle
	if parts&withIdentity != 0 {
		op.Naming = journal.Naming(d.byte())
		op.Scope = d.string()
		op.Parent = d.string()
		op.ID = d.string()
		op.Provider = d.string()
	}
	op.State = journal.State(d.byte())
	d.bools(&op.Delivered, &op.Tombstone, &k.identified)
	op.Holder = d.string()
	op.WakeAt = d.time()
	op.SettledAt = d.time()
	d.facts(op)
	if parts&withIdentity != 0 {
		k.request = d.bytes()
		k.body = d.bytes()
	}
	if parts&withAnswer != 0 {
		k.answer = d.bytes()
		k.answerBody = d.bytes()
	}
	return k
}
