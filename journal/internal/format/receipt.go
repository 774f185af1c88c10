package format

import (
	"bytes"
	"database/sql/driver"
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

// ReceiptArgs are the scope, key, place, state, end, facts and answer of a receipt's row, and the answer's body as it is
// stored. The checksum includes the handle.
func ReceiptArgs(r *journal.Receipt, ends int64) (args []any, body []byte) {
	facts, _ := json.Marshal(receiptFacts{ // numbers and strings: it can't fail
		Claim: r.Claim, Fingerprint: r.Fingerprint, Created: millis(r.CreatedAt), Settled: millis(r.SettledAt),
		Expires: millis(r.ExpiresAt), Refused: millis(r.RefusedUntil), Cause: r.Cause,
	})
	var answer []byte
	if r.Answer != nil {
		var compressed bool
		body, compressed = Compress(r.Answer.Body)
		answer = EncodeAnswer(r.Answer, compressed)
	}
	facts = binary.LittleEndian.AppendUint32(facts, receiptSum(r.Handle, &r.ReceiptKey, r.Place, r.State, ends, facts, answer))
	return []any{r.Scope, r.Key, r.Place, int64(r.State), ends, facts, answer}, body
}

func receiptSum(handle int64, key *journal.ReceiptKey, place string, state journal.ReceiptState, ends int64, facts, answer []byte) uint32 {
	e := encoder{buf: make([]byte, 0, 192)}
	e.int(handle)
	e.byte(byte(state))
	e.int(ends)
	for _, s := range [...]string{key.Scope, key.Key, place} {
		e.string(s)
	}
	e.int(int64(SumIn(answer)))
	return crc32.Update(Sum(facts), castagnoli, e.buf)
}

// ReadReceipt reads a handle and ReceiptArgs: the receipt, and its answer without the body. encoded is the rest that
// DecodeAnswer needs beside the body. It returns ErrDamaged for a row that was not written so.
func ReadReceipt(v []driver.Value) (r journal.Receipt, encoded []byte, err error) {
	r = journal.Receipt{
		Handle: v[0].(int64), ReceiptKey: journal.ReceiptKey{Scope: v[1].(string), Key: v[2].(string)}, Place: v[3].(string),
		State: journal.ReceiptState(toByte(v[4])),
	}
	ends, sealed := v[5].(int64), ToBytes(v[6])
	encoded = bytes.Clone(ToBytes(v[7]))
	n := len(sealed) - SumSize
	if n < 0 || SumIn(sealed) != receiptSum(r.Handle, &r.ReceiptKey, r.Place, r.State, ends, sealed[:n], encoded) {
		return r, nil, ErrDamaged
	}
	var f receiptFacts
	if json.Unmarshal(sealed[:n], &f) != nil {
		return r, nil, ErrDamaged
	}
	r.Claim, r.Fingerprint, r.Cause = f.Claim, f.Fingerprint, f.Cause
	r.CreatedAt, r.SettledAt, r.ExpiresAt, r.RefusedUntil = moment(f.Created), moment(f.Settled), moment(f.Expires), moment(f.Refused)
	if encoded != nil {
		r.Answer, err = DecodeAnswer(encoded, nil)
	}
	return r, encoded, err
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
