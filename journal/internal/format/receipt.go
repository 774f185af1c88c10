package format

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"time"

	"github.com/onceward/onceward/journal"
)

// receiptFacts are what no store looks for. Times are milliseconds since 1970.
type receiptFacts struct {
	Claim       int64  `json:"claim"`
	Fingerprint string `json:"fingerprint"`
	Created     int64  `json:"created"`
	Settled     int64  `json:"settled,omitempty"`
	Expires     int64  `json:"expires"`
	Refused     int64  `json:"refused"`
	Cause       string `json:"cause,omitempty"`
	Box         []byte `json:"sealed,omitempty"` // Fingerprint
}

func ofReceipt(of string, key journal.ReceiptKey) subject {
	return subject{of: of, scope: key.Scope, id: key.Key}
}

// ReceiptEnds is the time when the next part of the receipt is reaped: first the answer, then the row.
func ReceiptEnds(r *journal.Receipt) time.Time {
	if r.State == journal.ReceiptCompleted && r.Answer == nil {
		return r.RefusedUntil
	}
	return r.ExpiresAt
}

// EncodeReceipt encodes a receipt's facts, with the row's checksum, and the answer. The row ends then. box, if not nil,
// has the fingerprint as it is stored. It stays, also without its key.
func (c Codec) EncodeReceipt(r *journal.Receipt, ends int64, box []byte) (facts, answer, body []byte) {
	f := receiptFacts{
		Claim: r.Claim, Created: Millis(r.CreatedAt), Settled: Millis(r.SettledAt), Expires: Millis(r.ExpiresAt), Refused: Millis(r.RefusedUntil), Cause: r.Cause, Box: box,
	}
	switch {
	case box != nil:
	case c.Ring != nil:
		f.Box = c.seal(nil, []byte(r.Fingerprint), ofReceipt("receipt", r.ReceiptKey), nil)
	default:
		f.Fingerprint = r.Fingerprint
	}
	facts, _ = json.Marshal(f) // numbers and strings: it can't fail
	facts = mark(facts, f.Box)
	if r.Answer != nil {
		answer, body = c.encodeAnswer(ofReceipt("receipt answer", r.ReceiptKey), r.Answer)
	}
	return binary.LittleEndian.AppendUint32(facts, receiptSum(r, ends, facts, answer)), answer, body
}

func receiptSum(r *journal.Receipt, ends int64, facts, answer []byte) uint32 {
	e := encoder{buf: make([]byte, 0, 192)}
	e.int(r.Handle)
	e.byte(byte(r.State))
	e.int(ends)
	for _, s := range [...]string{r.Scope, r.Key, r.Place} {
		e.string(s)
	}
	e.int(int64(SumIn(answer)))
	return crc32.Update(Sum(facts), castagnoli, e.buf)
}

// DecodeReceipt adds the facts to a receipt with the values of the columns, and the answer without the body. It returns
// the fingerprint's box, or nil. If the codec lacks a key, r.SealedBy has the key's ID. It returns ErrDamaged for a row
// in another form.
func (c Codec) DecodeReceipt(r *journal.Receipt, ends int64, facts, answer []byte) (box []byte, err error) {
	n := len(facts) - SumSize
	if n < 0 || SumIn(facts) != receiptSum(r, ends, facts[:n], answer) {
		return nil, ErrDamaged
	}
	var f receiptFacts
	if err := unmarshal(facts[:n], &f, &f.Box); err != nil {
		return nil, err
	}
	r.Claim, r.Fingerprint, r.Cause = f.Claim, f.Fingerprint, f.Cause
	r.CreatedAt, r.SettledAt, r.ExpiresAt, r.RefusedUntil = Moment(f.Created), Moment(f.Settled), Moment(f.Expires), Moment(f.Refused)
	if f.Box != nil {
		var plain []byte
		plain, r.SealedBy, err = c.open(f.Box, ofReceipt("receipt", r.ReceiptKey), nil)
		r.Fingerprint = string(plain)
	} else if !c.readsClear() {
		err = ErrClear
	}
	if answer != nil && err == nil {
		err = c.DecodeReceiptAnswer(r, answer, nil)
	}
	return f.Box, err
}

// DecodeReceiptAnswer adds the answer with its body.
func (c Codec) DecodeReceiptAnswer(r *journal.Receipt, answer, body []byte) (err error) {
	var by string
	r.Answer, by, err = c.decodeAnswer(ofReceipt("receipt answer", r.ReceiptKey), answer, body)
	r.SealedBy = cmp.Or(r.SealedBy, by)
	return err
}

// IdentityOf is a hash of two texts, such as a receipt's scope and key.
func IdentityOf(a, b string) []byte {
	text := binary.AppendUvarint(make([]byte, 0, 128), uint64(len(a)))
	sum := sha256.Sum256(append(append(text, a...), b...))
	return sum[:]
}
