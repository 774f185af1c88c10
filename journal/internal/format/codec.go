package format

import (
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// The parts of an operation that SQL does not select by are kept in three BLOBs: facts, request and answer. Each
// begins with the number of its format. JSON would not do: it replaces the bytes of a header value that are not
// UTF-8.
const version = 1

// ErrDamaged is returned for a stored value that this package did not write.
var ErrDamaged = errors.New("a stored value is damaged, or of a newer format")

// facts appends the fields that no index needs, but for the request and the answer.
func (e *encoder) facts(op *journal.Operation) {
	e.byte(version)
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

func (d *decoder) facts(op *journal.Operation) {
	d.format()
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
}

// EncodeRequest leaves out the body. It encodes whether there is a body, since SQLite reads an empty BLOB back as
// NULL. It also encodes whether the body is stored compressed, and its checksum.
func EncodeRequest(r journal.Request, compressed bool) []byte {
	e := encoder{buf: make([]byte, 0, 256)}
	e.byte(version)
	e.bools(r.Body != nil, compressed)
	e.sum(r.Body)
	e.string(r.Method)
	e.string(r.URL)
	e.string(r.Host)
	e.header(r.Header)
	e.strings(r.WithheldHeaders)
	e.strings(r.WithheldQuery)
	return seal(e.buf)
}

// DecodeRequest adds the stored body to the request. If stored is nil, the request has an empty body or none. A nil b
// is the request of a tombstone, which has none any more.
func DecodeRequest(b, stored []byte) (r journal.Request, err error) {
	if b, err = unseal(b); b == nil {
		return r, err
	}
	d := decoder{buf: b}
	d.format()
	var body, compressed bool
	d.bools(&body, &compressed)
	if r.Body, err = decodeBody(body, stored, compressed, d.sum()); err != nil {
		return journal.Request{}, err
	}
	r.Method = d.string()
	r.URL = d.string()
	r.Host = d.string()
	r.Header = d.header()
	r.WithheldHeaders = d.strings()
	r.WithheldQuery = d.strings()
	return r, d.end()
}

func decodeBody(there bool, stored []byte, compressed bool, want uint32) ([]byte, error) {
	switch {
	case len(stored) > 0:
		body, err := expand(stored, compressed)
		if err == nil && Sum(body) != want {
			return nil, ErrDamaged
		}
		return body, err
	case there:
		return []byte{}, nil
	}
	return nil, nil
}

// EncodeAnswer leaves out the body as EncodeRequest does.
func EncodeAnswer(a *journal.Answer, compressed bool) []byte {
	e := encoder{buf: make([]byte, 0, 256)}
	e.byte(version)
	e.bools(a.Body != nil, a.Omitted, a.Cut, a.Refused, a.ByHand, compressed, a.Replaced != nil, a.Found)
	e.sum(a.Body)
	e.int(int64(a.Generation))
	e.int(int64(a.Status))
	e.string(a.Pointer)
	e.header(a.Header)
	e.header(a.Trailer)
	if a.Replaced != nil {
		replaced := *a.Replaced
		replaced.Replaced = nil
		e.bytes(EncodeAnswer(&replaced, false))
		e.bytes(replaced.Body)
	}
	return seal(e.buf)
}

// DecodeAnswer gives the answer a body as DecodeRequest does.
func DecodeAnswer(b, stored []byte) (a *journal.Answer, err error) {
	a = new(journal.Answer)
	if b, err = unseal(b); err != nil {
		return nil, err
	}
	d := decoder{buf: b}
	d.format()
	var body, compressed, replaced bool
	d.bools(&body, &a.Omitted, &a.Cut, &a.Refused, &a.ByHand, &compressed, &replaced, &a.Found)
	if a.Body, err = decodeBody(body, stored, compressed, d.sum()); err != nil {
		return nil, err
	}
	a.Generation = d.count()
	a.Status = d.count()
	a.Pointer = d.string()
	a.Header = d.header()
	a.Trailer = d.header()
	if replaced {
		if a.Replaced, err = DecodeAnswer(d.bytes(), d.bytes()); err != nil {
			return nil, err
		}
	}
	return a, d.end()
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

func (d *decoder) format() {
	if d.byte() != version {
		d.fail()
	}
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
