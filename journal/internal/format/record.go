package format

import "github.com/onceward/onceward/journal"

// Record is a whole operation as it is in the log or in a block. Its large parts are not decoded. It is never
// changed, only replaced.
type Record struct {
	Row
	Body, Answer, AnswerBody []byte
}

// Closed tells whether nothing is expected to change the operation any more but its
// reaping.
func (k *Record) Closed() bool {
	return k.Op.State == journal.StateCompleted && k.Op.Delivered && !k.Op.Tombstone && k.Op.Attention == ""
}

// Size is how many bytes its request and answer have.
func (k *Record) Size() int {
	return len(k.Request) + len(k.Body) + len(k.Answer) + len(k.AnswerBody)
}

// Operation decodes it. Nothing of the result is shared.
func (k *Record) Operation() (journal.Operation, error) {
	if !k.Op.Tombstone && (Lacks(k.Request, k.Body) || Lacks(k.Answer, k.AnswerBody)) {
		return journal.Operation{}, ErrDamaged
	}
	return k.decode()
}

func (k *Record) decode() (journal.Operation, error) {
	op := Unshared(k.Op)
	var err error
	if op.Request, err = DecodeRequest(k.Request, k.Body); err != nil {
		return journal.Operation{}, err
	}
	if k.Answer != nil {
		if op.Answer, err = DecodeAnswer(k.Answer, k.AnswerBody); err != nil {
			return journal.Operation{}, err
		}
	}
	return op, nil
}

// WithoutBodies is Operation without the bodies.
func (k *Record) WithoutBodies() (journal.Operation, error) {
	op, err := (&Record{Row: k.Row, Answer: k.Answer}).decode()
	// What tells of an empty body is kept beside the bodies.
	op.Request.Body = nil
	if op.Answer != nil {
		op.Answer.Body = nil
		if op.Answer.Replaced != nil {
			op.Answer.Replaced.Body = nil
		}
	}
	for i, e := range op.Evidence {
		if e.Answer != nil {
			answer := *e.Answer
			answer.Body, op.Evidence[i].Answer = nil, &answer
		}
	}
	return op, err
}

// The parts of a record, an operation as bytes. The first of an operation in the log has all of
// its parts, later ones those that changed.
const (
	WithIdentity = 1 << iota // with what never changes within a generation, and the request
	WithAnswer
	WithEverything = WithIdentity | WithAnswer
)

// record appends k.
func (e *encoder) record(k *Record, parts byte) {
	op := &k.Op
	e.int(op.Handle)
	e.byte(parts)
	if parts&WithIdentity != 0 {
		e.byte(byte(op.Naming))
		e.string(op.Scope)
		e.string(op.Parent)
		e.string(op.ID)
		e.string(op.Provider)
	}
	e.byte(byte(op.State))
	e.bools(op.Delivered, op.Tombstone, k.Identified)
	e.string(op.Holder)
	e.time(recordedWake(op))
	e.time(op.SettledAt)
	e.facts(op)
	if parts&WithIdentity != 0 {
		e.bytes(k.Request)
		e.bytes(k.Body)
	}
	if parts&WithAnswer != 0 {
		e.bytes(k.Answer)
		e.bytes(k.AnswerBody)
	}
}

// record reads one. find returns what the operation was before it, nil for none.
func (d *decoder) record(find func(handle int64) *Record) *Record {
	k := new(Record)
	handle := d.int()
	parts := d.byte()
	if parts&WithIdentity == 0 {
		before := find(handle)
		if before == nil {
			d.fail()
			return k
		}
		*k = *before
	}
	op := &k.Op
	op.Handle = handle
	if parts&WithIdentity != 0 {
		op.Naming = journal.Naming(d.byte())
		op.Scope = d.string()
		op.Parent = d.string()
		op.ID = d.string()
		op.Provider = d.string()
	}
	op.State = journal.State(d.byte())
	d.bools(&op.Delivered, &op.Tombstone, &k.Identified)
	op.Holder = d.string()
	SetWake(op, d.time())
	op.SettledAt = d.time()
	d.facts(op)
	if parts&WithIdentity != 0 {
		k.Request = d.bytes()
		k.Body = d.bytes()
	}
	if parts&WithAnswer != 0 {
		k.Answer = d.bytes()
		k.AnswerBody = d.bytes()
	}
	return k
}
