package format

import (
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/seal"
)

// The parts of an operation that SQL does not select by are kept in three BLOBs: facts, request and answer. Each begins
// with the number of its format. JSON would not do, because JSON replaces the bytes of a header value that are not
// UTF-8.
const (
	version = 1
	// sealedVersion is of values whose private fields are in a box behind the others.
	sealedVersion = 2
)

// ErrDamaged is returned for a stored value from another writer than this package.
var ErrDamaged = errors.New("a stored value is damaged, or of a newer format")

// facts appends the fields that no index needs, but for the request and the answer.
func (e *encoder) facts(op *journal.Operation, format byte) {
	e.byte(format)
	e.bools(op.MayHaveRun, op.Found.MayHaveRun, op.WindowClosed, op.Told, op.ByHand, op.Terms.Guard, op.KeyCarried, op.Key == op.ID)
	e.bools(op.Failed, op.Found.Failed, op.DueOwn, op.BodyWithheld, op.Alias != (journal.Ref{}), op.Resolved != nil, hasSeen(op), hasExtras(op))
	if op.Key != op.ID {
		e.string(op.Key)
	}
	e.string(op.Endpoint)
	e.string(op.Fingerprint)
	e.string(op.Cause)
	e.string(op.Credential)
	e.string(op.Mode)
	e.string(op.Form)
	if op.Alias != (journal.Ref{}) {
		e.string(op.Alias.Scope)
		e.string(op.Alias.Parent)
		e.string(op.Alias.ID)
	}
	if op.Resolved != nil {
		e.resolved(op.Resolved)
	}
	e.byte(byte(op.Found.State))
	e.int(int64(op.Generation))
	e.int(op.Claim)
	e.int(op.Asker)
	e.int(int64(op.Attempts))
	e.int(int64(op.SecondEffects))
	e.byte(byte(op.Terms.Remembers))
	e.int(int64(op.Terms.Retention))
	e.int(int64(op.Terms.Handling))
	for _, t := range [...]time.Time{op.FirstSentAt, op.SentSince, op.Found.FirstSentAt, op.LastEndedAt, op.BusySince, op.CreatedAt, op.UpdatedAt, op.DueAt} {
		e.time(t)
	}
	if hasSeen(op) {
		e.seen(op)
	}
	if hasExtras(op) {
		e.extras(op)
	}
}

func (d *decoder) facts(op *journal.Operation) (sealed bool) {
	sealed = d.format()
	var sameKey, alias, resolved, seen, extras bool
	d.bools(&op.MayHaveRun, &op.Found.MayHaveRun, &op.WindowClosed, &op.Told, &op.ByHand, &op.Terms.Guard, &op.KeyCarried, &sameKey)
	d.bools(&op.Failed, &op.Found.Failed, &op.DueOwn, &op.BodyWithheld, &alias, &resolved, &seen, &extras)
	op.Key = op.ID
	if !sameKey {
		op.Key = d.string()
	}
	op.Endpoint = d.string()
	op.Fingerprint = d.string()
	op.Cause = d.string()
	op.Credential = d.string()
	op.Mode = d.string()
	op.Form = d.string()
	if alias {
		op.Alias = journal.Ref{Scope: d.string(), Parent: d.string(), ID: d.string()}
	}
	if resolved {
		op.Resolved = d.resolved()
	}
	op.Found.State = journal.State(d.byte())
	op.Generation = d.count()
	op.Claim = d.int()
	op.Asker = d.int()
	op.Attempts = d.count()
	op.SecondEffects = d.count()
	op.Terms.Remembers = memory.Memory(d.byte())
	op.Terms.Retention = time.Duration(d.int())
	op.Terms.Handling = time.Duration(d.int())
	for _, t := range [...]*time.Time{&op.FirstSentAt, &op.SentSince, &op.Found.FirstSentAt, &op.LastEndedAt, &op.BusySince, &op.CreatedAt, &op.UpdatedAt, &op.DueAt} {
		*t = d.time()
	}
	d.seen(op, seen)
	d.extras(op, extras)
	settleWake(op)
	return sealed
}

// EncodeRequest returns an operation's request without the body, and the body in the stored form. The head encodes
// whether there is a body, since SQLite reads an empty BLOB back as NULL. The head also encodes whether the body is
// compressed, and its checksum. The checksum of a sealed body is its box's.
func (c Codec) EncodeRequest(of journal.Ref, r *journal.Request) (head, body []byte) {
	stored, compressed := Compress(r.Body)
	e := encoder{buf: make([]byte, 0, 256+seal.Overhead)}
	e.byte(c.version())
	e.bools(r.Body != nil, compressed)
	if c.Ring == nil {
		e.sum(r.Body)
		e.request(r)
		return withSum(e.buf), stored
	}
	s := ofOperation("request", of, 0)
	stored = c.sealBody(stored, s)
	e.sum(stored)
	private := encoder{buf: make([]byte, 0, 256)}
	private.request(r)
	return withSum(c.seal(e.buf, private.buf, s, e.buf)), stored
}

func (e *encoder) request(r *journal.Request) {
	e.string(r.Method)
	e.string(r.URL)
	e.string(r.Host)
	e.header(r.Header)
	e.strings(r.WithheldHeaders)
	e.strings(r.WithheldQuery)
}

// DecodeRequest adds the stored body to the request of that operation. If stored is nil, the request has an empty body
// or none. A nil b is the request of a tombstone, which has none any more. If the codec lacks a key, by is the key's ID,
// and what it seals is zero.
func (c Codec) DecodeRequest(of journal.Ref, b, stored []byte) (r journal.Request, by string, err error) {
	if b, err = withoutSum(b); b == nil {
		return r, "", err
	}
	s := ofOperation("request", of, 0)
	d := decoder{buf: b}
	sealed := d.format()
	var body, compressed bool
	d.bools(&body, &compressed)
	if r.Body, by, err = c.decodeBody(body, stored, compressed, d.sum(), sealed, s); err != nil {
		return journal.Request{}, "", err
	}
	if by, err = c.private(&d, b, sealed, s, by); by == "" && err == nil {
		r.Method = d.string()
		r.URL = d.string()
		r.Host = d.string()
		r.Header = d.header()
		r.WithheldHeaders = d.strings()
		r.WithheldQuery = d.strings()
		err = d.end()
	}
	if err == nil && !sealed && !c.readsClear() {
		err = ErrClear
	}
	return r, by, err
}

// decodeBody returns a body. want is the checksum in the head.
func (c Codec) decodeBody(there bool, stored []byte, compressed bool, want uint32, sealed bool, s subject) (body []byte, by string, err error) {
	switch {
	case len(stored) > 0 && sealed && Sum(stored) != want:
		return nil, "", ErrDamaged
	case len(stored) > 0 && sealed:
		if stored, by, err = c.open(stored, s.body(), nil); by == "" && err == nil {
			body, err = expand(stored, compressed)
		}
		return body, by, err
	case len(stored) > 0:
		body, err := expand(stored, compressed)
		if err == nil && Sum(body) != want {
			return nil, "", ErrDamaged
		}
		return body, "", err
	case there:
		return []byte{}, "", nil
	}
	return nil, "", nil
}

// EncodeAnswer returns the answer to that operation as EncodeRequest does.
func (c Codec) EncodeAnswer(of journal.Ref, a *journal.Answer) (head, body []byte) {
	return c.encodeAnswer(ofOperation("answer", of, a.Generation), a)
}

func (c Codec) encodeAnswer(s subject, a *journal.Answer) (head, body []byte) {
	stored, compressed := Compress(a.Body)
	if c.Ring == nil {
		return encodeAnswer(a, compressed), stored
	}
	stored = c.sealBody(stored, s)
	e := encoder{buf: make([]byte, 0, 256+seal.Overhead)}
	e.answer(sealedVersion, a, compressed, stored)
	private := encoder{buf: make([]byte, 0, 256)}
	private.answerPrivate(a)
	return withSum(c.seal(e.buf, private.buf, s, e.buf)), stored
}

// encodeAnswer returns a clear answer without its body.
func encodeAnswer(a *journal.Answer, compressed bool) []byte {
	e := encoder{buf: make([]byte, 0, 256)}
	e.answer(version, a, compressed, a.Body)
	e.answerPrivate(a)
	return withSum(e.buf)
}

// answer appends what is never sealed. summed is what the body's checksum is of.
func (e *encoder) answer(format byte, a *journal.Answer, compressed bool, summed []byte) {
	e.byte(format)
	e.bools(a.Body != nil, a.Omitted, a.Cut, a.Refused, a.ByHand, compressed, a.Replaced != nil, a.Found)
	e.sum(summed)
	e.int(int64(a.Generation))
	e.int(int64(a.Status))
}

func (e *encoder) answerPrivate(a *journal.Answer) {
	e.string(a.Pointer)
	e.header(a.Header)
	e.header(a.Trailer)
	if a.Replaced != nil {
		replaced := *a.Replaced
		replaced.Replaced = nil
		e.nested(&replaced)
	}
}

// nested appends an answer with its body, neither compressed nor sealed by itself.
func (e *encoder) nested(a *journal.Answer) {
	e.bytes(encodeAnswer(a, false))
	e.bytes(a.Body)
}

// DecodeAnswer gives the answer to that operation a body as DecodeRequest does.
func (c Codec) DecodeAnswer(of journal.Ref, b, stored []byte) (a *journal.Answer, by string, err error) {
	return c.decodeAnswer(ofOperation("answer", of, 0), b, stored)
}

func (c Codec) decodeAnswer(s subject, b, stored []byte) (a *journal.Answer, by string, err error) {
	a = new(journal.Answer)
	if b, err = withoutSum(b); err != nil {
		return nil, "", err
	}
	d := decoder{buf: b}
	sealed := d.format()
	var body, compressed, replaced bool
	d.bools(&body, &a.Omitted, &a.Cut, &a.Refused, &a.ByHand, &compressed, &replaced, &a.Found)
	sum := d.sum()
	a.Generation = d.count()
	a.Status = d.count()
	if s.of == "answer" {
		s.number = int64(a.Generation)
	}
	if a.Body, by, err = c.decodeBody(body, stored, compressed, sum, sealed, s); err != nil {
		return nil, "", err
	}
	if by, err = c.private(&d, b, sealed, s, by); err != nil || by != "" {
		return a, by, err
	}
	a.Pointer = d.string()
	a.Header = d.header()
	a.Trailer = d.header()
	if replaced {
		a.Replaced = d.nested()
	}
	if err = d.end(); err == nil && !sealed && !c.readsClear() && HasPayload(a) {
		err = ErrClear
	}
	if err != nil {
		return nil, "", err
	}
	return a, "", nil
}

// nested reads what encoder.nested wrote.
func (d *decoder) nested() *journal.Answer {
	a, by, err := Codec{}.decodeAnswer(subject{}, d.bytes(), d.bytes())
	if err != nil || by != "" {
		d.fail()
	}
	return a
}

// encoder appends varints and strings that carry their length. Lists begin with
// their length plus one, 0 for nil.
type encoder struct{ buf []byte }

func (e *encoder) byte(b byte)     { e.buf = append(e.buf, b) }
func (e *encoder) int(i int64)     { e.buf = binary.AppendVarint(e.buf, i) }
func (e *encoder) string(s string) { e.buf = append(binary.AppendUvarint(e.buf, uint64(len(s))), s...) }

func (e *encoder) bytes(b []byte) { e.buf = append(binary.AppendUvarint(e.buf, uint64(len(b))), b...) }

// sum appends that of a body.
func (e *encoder) sum(body []byte) { e.buf = binary.LittleEndian.AppendUint32(e.buf, Sum(body)) }

// bools packs up to eight of them.
func (e *encoder) bools(bits ...bool) {
	var b byte
	for i, bit := range bits {
		if bit {
			b |= 1 << i
		}
	}
	e.byte(b)
}

// time is 0 for the zero time, which leaves milliseconds from 1970 on one higher.
func (e *encoder) time(t time.Time) {
	ms := t.UnixMilli()
	switch {
	case t.IsZero():
		ms = 0
	case ms >= 0:
		ms++
	}
	e.int(ms)
}

// length begins a list.
func (e *encoder) length(n int, isNil bool) {
	if isNil {
		n = -1
	}
	e.int(int64(n) + 1)
}

func (e *encoder) strings(list []string) {
	e.length(len(list), list == nil)
	for _, s := range list {
		e.string(s)
	}
}

// header sorts the names, so that the same header makes the same bytes.
func (e *encoder) header(h http.Header) {
	if h == nil {
		e.int(0)
		return
	}
	e.int(int64(len(h)) + 1)
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e.string(name)
		e.strings(h[name])
	}
}

// decoder reads what encoder wrote. After the first failure it returns zero values
// and end tells.
type decoder struct {
	buf    []byte
	text   string // ends as buf does, and has the strings of a short one; "" means that there is none yet
	failed bool
}

// shortText is the length of a buffer whose strings share one allocation. In a longer one, most is no string.
const shortText = 2 << 10

func (d *decoder) fail() { d.buf, d.failed = nil, true }

func (d *decoder) end() error {
	if d.failed || len(d.buf) > 0 {
		return ErrDamaged
	}
	return nil
}

// format reports whether what follows is sealed.
func (d *decoder) format() (sealed bool) {
	switch d.byte() {
	case version:
	case sealedVersion:
		return true
	default:
		d.fail()
	}
	return false
}

func (d *decoder) byte() byte {
	if len(d.buf) == 0 {
		d.fail()
		return 0
	}
	b := d.buf[0]
	d.buf = d.buf[1:]
	return b
}

func (d *decoder) sum() uint32 {
	if len(d.buf) < SumSize {
		d.fail()
		return 0
	}
	s := binary.LittleEndian.Uint32(d.buf)
	d.buf = d.buf[SumSize:]
	return s
}

func (d *decoder) bools(bits ...*bool) {
	b := d.byte()
	for i, bit := range bits {
		*bit = b&(1<<i) != 0
	}
	if b>>len(bits) != 0 {
		d.fail()
	}
}

func (d *decoder) int() int64 {
	i, n := binary.Varint(d.buf)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.buf = d.buf[n:]
	return i
}

func (d *decoder) uint() uint64 {
	i, n := binary.Uvarint(d.buf)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.buf = d.buf[n:]
	return i
}

func (d *decoder) count() int {
	i := d.int()
	if int64(int(i)) != i {
		d.fail()
		return 0
	}
	return int(i)
}

func (d *decoder) string() string {
	if d.text == "" && len(d.buf) <= shortText {
		d.text = string(d.buf)
	}
	b := d.bytes()
	if d.text == "" {
		return string(b)
	}
	end := len(d.text) - len(d.buf)
	return d.text[end-len(b) : end]
}

// bytes are those of the buffer, not a copy; nil where there are none.
func (d *decoder) bytes() []byte {
	length, n := binary.Uvarint(d.buf)
	if n <= 0 || length > uint64(len(d.buf)-n) {
		d.fail()
		return nil
	}
	end := n + int(length)
	b := d.buf[n:end:end]
	d.buf = d.buf[end:]
	if length == 0 {
		return nil
	}
	return b
}

func (d *decoder) time() time.Time {
	ms := d.int()
	switch {
	case ms == 0:
		return time.Time{}
	case ms > 0:
		ms--
	}
	return time.UnixMilli(ms).UTC()
}

// length is that of a list, -1 for nil. Every element takes a byte or more, which
// bounds what a damaged length can make us allocate.
func (d *decoder) length() int {
	n := d.int() - 1
	if d.failed || n < -1 || n > int64(len(d.buf)) {
		d.fail()
		return -1
	}
	return int(n)
}

func (d *decoder) strings() []string {
	n := d.length()
	if n < 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.string())
	}
	return list
}

func (d *decoder) header() http.Header {
	n := d.length()
	if n < 0 {
		return nil
	}
	h := make(http.Header, n)
	for range n {
		name := d.string()
		if _, twice := h[name]; twice {
			d.fail()
		}
		h[name] = d.strings()
	}
	return h
}
