package postgres

import (
	"database/sql/driver"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// receiptRow is a receipt with the columns of its row.
type receiptRow struct {
	journal.Receipt
	facts []byte // show whether the row has changed
	here  bool   // this transaction has written it
}

// scanReceipt reads format.ReceiptColumns, and further columns behind them. The answer has no body.
func scanReceipt(from scanner, more ...any) (r receiptRow, encoded []byte, err error) {
	var handle, ends int64
	var state int16
	var scope, key, place, answer []byte
	if err := from.Scan(append([]any{&handle, &scope, &key, &place, &state, &ends, &r.facts, &answer}, more...)...); err != nil {
		return r, nil, err
	}
	// The handle is given by the insert itself, and is not in the sum.
	values := []driver.Value{int64(0), string(scope), string(key), string(place), int64(state), ends, r.facts, nil}
	if answer != nil {
		values[len(values)-1] = answer
	}
	r.Receipt, encoded, err = format.ReadReceipt(values)
	if r.Handle = handle; err != nil {
		err = fmt.Errorf("postgres: receipt %d: %w", handle, err)
	}
	return r, encoded, err
}

// scanWholeReceipt is scanReceipt with the body behind these columns, before the further ones.
func scanWholeReceipt(from scanner, more ...any) (receiptRow, error) {
	var body []byte
	r, encoded, err := scanReceipt(from, append([]any{&body}, more...)...)
	if err == nil && encoded != nil {
		if format.Lacks(encoded, body) {
			err = errDamaged
		} else {
			r.Answer, err = format.DecodeAnswer(encoded, body)
		}
		if err != nil {
			err = fmt.Errorf("postgres: receipt %d: %w", r.Handle, err)
		}
	}
	return r, err
}

// receiptArgs are the values of a receipt's row from place on, and its scope and key.
func receiptArgs(r journal.Receipt) (names, values []any) {
	r.Handle = 0
	args, body := format.ReceiptArgs(&r, -1)
	for _, name := range args[:3] {
		names = append(names, []byte(name.(string)))
	}
	return names[:2], append(append(names[2:3:3], args[3:]...), body)
}

// factsOf are the facts of a receipt as its row has them.
func factsOf(r journal.Receipt) []byte {
	_, values := receiptArgs(r)
	return values[3].([]byte)
}

func receiptID(key journal.ReceiptKey) []byte {
	return digest(journal.Ref{Scope: key.Scope, ID: key.Key})
}
