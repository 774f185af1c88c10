package format

import "github.com/onceward/onceward/journal"

// Record is a whole operation whose request and answer are encoded.
type Record struct {
	Op                                journal.Operation // without Request and Answer
	Request, Body, Answer, AnswerBody []byte
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
	op, err := (&Record{Op: k.Op, Request: k.Request, Answer: k.Answer}).decode()
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

// AppendOperation appends the operation, all but its request and answer.
func AppendOperation(b []byte, op *journal.Operation) []byte {
	e := encoder{buf: b}
	e.int(op.Handle)
	e.byte(byte(op.Naming))
	e.string(op.Scope)
	e.string(op.Parent)
	e.string(op.ID)
	e.string(op.Provider)
	e.byte(byte(op.State))
	e.bools(op.Delivered, op.Tombstone)
	e.string(op.Holder)
	e.time(recordedWake(op))
	e.time(op.SettledAt)
	e.facts(op)
	return e.buf
}

// ReadOperation reads what AppendOperation has appended. It returns ErrDamaged for any other bytes.
func ReadOperation(b []byte) (op journal.Operation, err error) {
	d := decoder{buf: b}
	op.Handle = d.int()
	op.Naming = journal.Naming(d.byte())
	op.Scope = d.string()
	op.Parent = d.string()
	op.ID = d.string()
	op.Provider = d.string()
	op.State = journal.State(d.byte())
	d.bools(&op.Delivered, &op.Tombstone)
	op.Holder = d.string()
	SetWake(&op, d.time())
	op.SettledAt = d.time()
	d.facts(&op)
	return op, d.end()
}
