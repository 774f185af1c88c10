package format

import (
	"cmp"

	"github.com/onceward/onceward/journal"
)

// Record is a whole operation whose request and answer are encoded by the codec.
type Record struct {
	Codec
	Op                                journal.Operation // without Request and Answer
	Request, Body, Answer, AnswerBody []byte
}

// Operation decodes it. Nothing of the result is shared. If the codec lacks a key, Operation.SealedBy has the key's ID.
func (k *Record) Operation() (journal.Operation, error) {
	if !k.Op.Tombstone && (k.Request == nil || Lacks(k.Request, k.Body) || Lacks(k.Answer, k.AnswerBody)) {
		return journal.Operation{}, ErrDamaged
	}
	return k.decode()
}

func (k *Record) decode() (journal.Operation, error) {
	op := Unshared(k.Op)
	var request, answer string
	var err error
	if op.Request, request, err = k.DecodeRequest(op.Ref, k.Request, k.Body); err != nil {
		return journal.Operation{}, err
	}
	if k.Answer != nil {
		if op.Answer, answer, err = k.DecodeAnswer(op.Ref, k.Answer, k.AnswerBody); err != nil {
			return journal.Operation{}, err
		}
	}
	op.SealedBy = cmp.Or(op.SealedBy, request, answer)
	return op, nil
}

// WithoutBodies is Operation without the bodies.
func (k *Record) WithoutBodies() (journal.Operation, error) {
	op, err := (&Record{Codec: k.Codec, Op: k.Op, Request: k.Request, Answer: k.Answer}).decode()
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

// AppendOperation appends the operation, all but its request and answer. box, if not nil, has the private fields as they
// are stored. It stays, also without its key.
func (c Codec) AppendOperation(b []byte, op *journal.Operation, box []byte) []byte {
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
	if box == nil && (c.Ring == nil || op.Tombstone && !hasPrivate(op)) {
		e.facts(op, version)
		return e.buf
	}
	public := withoutPrivate(op)
	e.facts(&public, sealedVersion)
	if box != nil {
		return append(e.buf, box...)
	}
	private := encoder{buf: make([]byte, 0, 256)}
	private.private(op)
	return c.seal(e.buf, private.buf, ofOperation("operation", op.Ref, 0), nil)
}

// ReadOperation reads what AppendOperation has appended, and returns the box of the private fields, which is nil if they
// are in clear. If the codec lacks the box's key, op.SealedBy has the key's ID. It returns ErrDamaged for any other bytes.
func (c Codec) ReadOperation(b []byte) (op journal.Operation, box []byte, err error) {
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
	switch sealed := d.facts(&op); {
	case d.failed:
		return op, nil, ErrDamaged
	case !sealed && !c.readsClear() && !op.Tombstone:
		return op, nil, ErrClear
	case !sealed:
		return op, nil, d.end()
	}
	if hasPrivate(&op) { // it was put beside the box
		return op, nil, ErrDamaged
	}
	private, by, err := c.open(d.buf, ofOperation("operation", op.Ref, 0), nil)
	if op.SealedBy = by; err != nil || by != "" {
		return op, d.buf, err
	}
	own := decoder{buf: private}
	own.private(&op)
	return op, d.buf, own.end()
}
