package record

import (
	"database/sql/driver"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// SelectReceipt selects receipts without the bodies of their answers, and WholeReceipt with them behind the others.
// {{schema}} stands for the schema's quoted name.
const (
	SelectReceipt = `SELECT ` + format.ReceiptColumns + ` FROM {{schema}}.receipts `
	WholeReceipt  = `SELECT ` + format.ReceiptColumns + `, body FROM {{schema}}.receipts `
)

// ReceiptRow is a receipt with the columns of its row.
type ReceiptRow struct {
	journal.Receipt
	Facts       []byte // show whether the row has changed
	WrittenHere bool   // this transaction has written it
}

// ScanReceipt reads format.ReceiptColumns, and further columns behind them. The answer has no body.
func ScanReceipt(from Scanner, more ...any) (r ReceiptRow, encoded []byte, err error) {
	var handle, ends int64
	var state int16
	var scope, key, place, answer []byte
	if err := from.Scan(append([]any{&handle, &scope, &key, &place, &state, &ends, &r.Facts, &answer}, more...)...); err != nil {
		return r, nil, err
	}
	// The handle is given by the insert itself, and is not in the sum.
	values := []driver.Value{int64(0), string(scope), string(key), string(place), int64(state), ends, r.Facts, nil}
	if answer != nil {
		values[len(values)-1] = answer
	}
	r.Receipt, encoded, err = format.ReadReceipt(values)
	if r.Handle = handle; err != nil {
		err = fmt.Errorf("postgres: receipt %d: %w", handle, err)
	}
	return r, encoded, err
}

// ScanWholeReceipt is ScanReceipt with the body behind these columns, before the further ones.
func ScanWholeReceipt(from Scanner, more ...any) (ReceiptRow, error) {
	var body []byte
	r, encoded, err := ScanReceipt(from, append([]any{&body}, more...)...)
	if err == nil && encoded != nil {
		if format.Lacks(encoded, body) {
			err = ErrDamaged
		} else {
			r.Answer, err = format.DecodeAnswer(encoded, body)
		}
		if err != nil {
			err = fmt.Errorf("postgres: receipt %d: %w", r.Handle, err)
		}
	}
	return r, err
}

// ReceiptArgs are the values of a receipt's row from place on, and its scope and key.
func ReceiptArgs(r journal.Receipt) (names, values []any) {
	r.Handle = 0
	args, body := format.ReceiptArgs(&r, -1)
	for i, name := range args[:3] {
		args[i] = []byte(name.(string))
	}
	return args[:2:2], append(args[2:], body)
}

// FactsOf are the facts of a receipt as its row has them.
func FactsOf(r journal.Receipt) []byte {
	_, values := ReceiptArgs(r)
	return values[3].([]byte)
}

// ReceiptID returns the hash that makes the key of a receipt unique.
func ReceiptID(key journal.ReceiptKey) []byte {
	return Digest(journal.Ref{Scope: key.Scope, ID: key.Key})
}
