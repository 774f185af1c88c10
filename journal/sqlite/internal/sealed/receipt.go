package sealed

import (
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// SelectReceipt selects what format.ReadReceipt reads.
const SelectReceipt = "SELECT " + format.ReceiptColumns + " FROM onceward_receipts"

// SelectReceipts selects what Receipt reads, and SelectWholeReceipt one of them.
const (
	SelectReceipts     = "SELECT " + format.ReceiptColumns + ", (SELECT body FROM onceward_receipt_bodies b WHERE b.handle = r.handle) FROM onceward_receipts r"
	SelectWholeReceipt = SelectReceipts + " WHERE scope = ?1 AND key = ?2"
)

// Receipt reads format.ReceiptColumns with the body of the answer behind them.
func Receipt(v []driver.Value) (journal.Receipt, error) {
	n := len(v) - 1
	r, encoded, err := format.ReadReceipt(v[:n])
	if err == nil && encoded != nil {
		body := format.ToBytes(v[n])
		if format.Lacks(encoded, body) {
			return r, format.ErrDamaged
		}
		r.Answer, err = format.DecodeAnswer(encoded, body)
	}
	return r, err
}
