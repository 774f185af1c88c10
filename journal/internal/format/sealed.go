package format

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/seal"
)

// Codec encodes and decodes records. Its ring seals their private fields. Without a ring these are in clear. A Codec is
// safe for concurrent use.
//
// A box's additional data binds the box to the journal, and to the record's use and names. It opens for no other
// record. The fields that a store finds, selects and orders records by stay in clear beside the box.
type Codec struct {
	Ring    *seal.Ring
	Journal HashKey
}

// ErrClear is for a payload that is in clear although the codec has a ring.
var ErrClear = fmt.Errorf("%w: %w", ErrDamaged, seal.ErrClear)

// Sealed returns the error for a record whose key a process lacks. It returns nil for an empty ID.
func Sealed(by string) error {
	if by == "" {
		return nil
	}
	return fmt.Errorf("%w: it needs the key %q in Options.Seal; nothing was decided, and nothing is lost", journal.ErrSealed, by)
}

// Mark returns the sealing key's ID, and an empty box that distinguishes the key from another with the ID. A mark has
// no space.
func (c Codec) Mark() string {
	return c.Ring.IDs()[0] + ":" + base64.RawStdEncoding.EncodeToString(c.seal(nil, nil, subject{of: "mark"}, nil))
}

// MarkedKey returns the ID in what Mark returned.
func MarkedKey(mark string) (id string) {
	id, _, _ = strings.Cut(mark, ":")
	return id
}

// CheckMark returns ErrSealed if the ring has another key under the mark's ID, and ErrDamaged if there is no ID.
func (c Codec) CheckMark(mark string) error {
	id, box, _ := strings.Cut(mark, ":")
	if id == "" {
		return fmt.Errorf("%w: a mark of the keys that sealed this journal", ErrDamaged)
	}
	if !slices.Contains(c.Ring.IDs(), id) {
		return nil
	}
	decoded, err := base64.RawStdEncoding.DecodeString(box)
	if err == nil {
		_, _, err = c.open(decoded, subject{of: "mark"}, nil)
	}
	if err != nil {
		return fmt.Errorf("%w: the key %q in Options.Seal is not the key of that name that sealed this journal; nothing was decided, and nothing is lost", journal.ErrSealed, id)
	}
	return nil
}

// subject is the record that a box belongs to.
type subject struct {
	of                string // the kind of record
	scope, parent, id string
	number            int64
}

func ofOperation(of string, ref journal.Ref, generation int) subject {
	return subject{of, ref.Scope, ref.Parent, ref.ID, int64(generation)}
}

// body is the subject of the box with a record's body.
func (s subject) body() subject {
	s.of += " body"
	return s
}

// bound returns the additional data of a box. clear is what is beside the box, and has to stay as it is.
func (c Codec) bound(s subject, clear []byte) []byte {
	b := append(make([]byte, 0, 64+len(c.Journal)+len(s.of)+len(s.scope)+len(s.parent)+len(s.id)+len(clear)), c.Journal[:]...)
	for _, part := range [...]string{s.of, s.scope, s.parent, s.id} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	return append(binary.AppendVarint(b, s.number), clear...)
}

func (c Codec) version() byte {
	if c.Ring == nil {
		return version
	}
	return sealedVersion
}

// readsClear reports whether the codec takes a payload in clear.
func (c Codec) readsClear() bool { return c.Ring == nil || c.Ring.ReadsClear() }

// seal appends a box.
func (c Codec) seal(to, plain []byte, s subject, clear []byte) []byte {
	return c.Ring.Seal(to, plain, c.bound(s, clear))
}

// sealBody returns a body's box. An empty body needs none.
func (c Codec) sealBody(body []byte, s subject) []byte {
	if len(body) == 0 {
		return body
	}
	return c.seal(make([]byte, 0, len(body)+seal.Overhead), body, s.body(), nil)
}

// open returns a box's content, or the ID of a key that the codec lacks.
func (c Codec) open(box []byte, s subject, clear []byte) (plain []byte, by string, err error) {
	plain, err = c.Ring.Open(box, c.bound(s, clear))
	if missing, is := errors.AsType[*seal.MissingKeyError](err); is {
		return nil, missing.ID, nil
	}
	if err != nil {
		return nil, "", ErrDamaged
	}
	return plain, "", nil
}

// private opens the box that is the rest of b, if b is sealed. The decoder then goes on with the box's content. by is the
// ID of a key that is known to be missing.
func (c Codec) private(d *decoder, b []byte, sealed bool, s subject, by string) (string, error) {
	if d.failed {
		return "", ErrDamaged
	}
	if !sealed {
		return by, nil
	}
	plain, missing, err := c.open(d.buf, s, b[:len(b)-len(d.buf)])
	*d = decoder{buf: plain}
	if by == "" {
		by = missing
	}
	return by, err
}

// mark makes JSON with a box begin with sealedVersion. A release without seals then takes the JSON for damaged.
// Otherwise the release would compare an empty fingerprint.
func mark(text, box []byte) []byte {
	if box == nil {
		return text
	}
	return append([]byte{sealedVersion}, text...)
}

// unmarshal reads what mark returned. box is the field with the box.
func unmarshal(text []byte, into any, box *[]byte) error {
	sealed := len(text) > 0 && text[0] == sealedVersion
	if sealed {
		text = text[1:]
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errors.Join(ErrDamaged, err)
	}
	if sealed != (*box != nil) {
		return ErrDamaged
	}
	return nil
}

// HasPayload reports whether anything of a clear answer would be private. The body may be left out (see DecodeAnswer).
func HasPayload(a *journal.Answer) bool {
	return a.Pointer != "" || a.Header != nil || a.Trailer != nil || a.Body != nil || a.Replaced != nil
}

// private appends an operation's private fields, beside its request and answer.
func (e *encoder) private(op *journal.Operation) {
	e.byte(version)
	e.string(op.Fingerprint)
	e.fields(op.Compare)
	e.bools(op.LastAnswer != nil)
	if op.LastAnswer != nil {
		e.nested(op.LastAnswer)
	}
	for i := range op.Evidence {
		v := &op.Evidence[i]
		e.string(v.Digest)
		e.bools(v.Answer != nil)
		if v.Answer != nil {
			e.nested(v.Answer)
		}
	}
}

// private reads what encoder.private wrote. A process without the key may have recorded an outcome meanwhile, and could not
// remove what no operation with an outcome has.
func (d *decoder) private(op *journal.Operation) {
	if d.format() {
		d.fail()
	}
	op.Fingerprint = d.string()
	op.Compare = d.fields()
	var answer bool
	d.bools(&answer)
	if answer {
		op.LastAnswer = d.nested()
	}
	for i := range op.Evidence {
		v := &op.Evidence[i]
		v.Digest = d.string()
		d.bools(&answer)
		if answer {
			v.Answer = d.nested()
		}
		if op.State != journal.StateInFlight {
			v.Answer = nil
		}
	}
	if op.State.Settled() {
		op.LastAnswer = nil
	}
}

// withoutPrivate returns the operation without its private fields.
func withoutPrivate(op *journal.Operation) journal.Operation {
	public := *op
	public.Fingerprint, public.Compare, public.LastAnswer = "", nil, nil
	public.Evidence = slices.Clone(op.Evidence)
	for i := range public.Evidence {
		public.Evidence[i].Digest, public.Evidence[i].Answer = "", nil
	}
	return public
}

func hasPrivate(op *journal.Operation) bool {
	none := withoutPrivate(op)
	return !SamePrivate(op, &none)
}

// SamePrivate reports whether two states of an operation have the same private fields, beside request and answer.
func SamePrivate(a, b *journal.Operation) bool {
	return a.Fingerprint == b.Fingerprint && slices.Equal(a.Compare, b.Compare) && a.LastAnswer == b.LastAnswer &&
		slices.EqualFunc(a.Evidence, b.Evidence, func(a, b journal.Evidence) bool { return a.Digest == b.Digest && a.Answer == b.Answer })
}
