package format

import (
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
}

// ReceiptEnds is when something of the receipt is to be reaped next: its answer, or else its row.
func ReceiptEnds(r *journal.Receipt) time.Time {
	if r.State == journal.ReceiptCompleted && r.Answer == nil {
		return r.RefusedUntil
	}
	return r.ExpiresAt
}

// EncodeReceipt encodes the facts of a receipt, with a checksum of its row, and its answer. The row ends then.
func EncodeReceipt(r *journal.Receipt, ends int64) (facts, answer, body []byte) {
	facts, _ = json.Marshal(receiptFacts{ // numbers and strings: it can't fail
		Claim: r.Claim, Fingerprint: r.Fingerprint, Created: millis(r.CreatedAt), Settled: millis(r.SettledAt),
		Expires: millis(r.ExpiresAt), Refused: millis(r.RefusedUntil), Cause: r.Cause,
	})
	if r.Answer != nil {
		var compressed bool
		body, compressed = Compress(r.Answer.Body)
		answer = EncodeAnswer(r.Answer, compressed)
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

// DecodeReceipt adds the facts to a receipt with the values of its columns, and the answer without its body. It returns
// ErrDamaged for a row that was not written so.
func DecodeReceipt(r *journal.Receipt, ends int64, facts, answer []byte) (err error) {
	n := len(facts) - SumSize
	if n < 0 || SumIn(facts) != receiptSum(r, ends, facts[:n], answer) {
		return ErrDamaged
	}
	var f receiptFacts
	if json.Unmarshal(facts[:n], &f) != nil {
		return ErrDamaged
	}
	r.Claim, r.Fingerprint, r.Cause = f.Claim, f.Fingerprint, f.Cause
	r.CreatedAt, r.SettledAt, r.ExpiresAt, r.RefusedUntil = moment(f.Created), moment(f.Settled), moment(f.Expires), moment(f.Refused)
	if answer != nil {
		r.Answer, err = DecodeAnswer(answer, nil)
	}
	return err
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
