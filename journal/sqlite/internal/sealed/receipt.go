package sealed

import (
	"database/sql/driver"
	"math"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// Never is ends_at of a reserved receipt: nothing of it is to be reaped. So the reserved receipts, few once committed, are found
// at the end of an index, whose last page a new receipt changes anyway.
const Never int64 = math.MaxInt64

// WhereReserved selects the reserved receipts.
const WhereReserved = " WHERE ends_at = 9223372036854775807"

// ReceiptArgs are format.ReceiptArgs with the ends_at of this store.
func ReceiptArgs(r *journal.Receipt, above int) (args []any, body []byte) {
	ends := format.ReceiptEnds(r).UnixMilli()
	if r.State == journal.ReceiptReserved {
		ends = Never
	}
	return format.ReceiptArgsUntil(r, ends, above)
}

// SelectReceipt selects what format.ReadReceipt reads.
const SelectReceipt = "SELECT " + format.ReceiptColumns + " FROM onceward_receipts"

// SelectReceipts selects what Receipt reads. SelectStanding selects the latest row of the log, and a key's receipt. If there
// is no receipt, it reads one page of each level of an index, and no log.
const (
	SelectReceipts = "SELECT " + format.ReceiptColumns + ", body FROM onceward_receipts"
	SelectStanding = "SELECT (SELECT max(seq) FROM onceward_log), " + format.ReceiptColumns + ", body FROM onceward_receipts WHERE scope = ?1 AND key = ?2"
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
