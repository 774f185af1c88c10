package verify

import (
	"cmp"
	"database/sql/driver"
	"math"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// receipts reads every receipt as a whole, in pages. Many journals have no tables of receipts.
func (v *verification) receipts() error {
	made, err := v.Conn.Value("SELECT count(*) FROM sqlite_schema WHERE name = 'onceward_receipts'")
	after, more := int64(math.MinInt64), made == int64(1)
	for err == nil && more {
		more = false
		err = cmp.Or(v.ctx.Err(), v.Each(sealed.SelectReceipts+" WHERE handle > ?1 ORDER BY handle LIMIT ?2", func(row []driver.Value) error {
			after, more = row[0].(int64), true
			r, err := sealed.Receipt(row)
			if err != nil {
				v.file("receipt %d is as it was written", after)
				return nil
			}
			for _, broken := range journal.ReceiptViolations(r) {
				v.file("receipt %d: %s", after, broken)
			}
			return nil
		}, after, int64(receiptsAPage)))
	}
	return err
}

// verifyHeard checks the recorded events.
func (v *verification) verifyHeard() error {
	return v.Each("SELECT hash, at FROM onceward_heard", func(row []driver.Value) error {
		if !format.IsHeard(format.ToBytes(row[0])) {
			v.file("an event that was heard is as it was written")
		}
		return nil
	})
}

// sweeps looks at the sweeps that are under way.
func (v *verification) sweeps() error {
	return v.Each("SELECT "+sealed.SweepColumns+" FROM onceward_sweeps", func(row []driver.Value) error {
		if _, err := sealed.ReadSweep(row); err != nil {
			v.file("a sweep is as it was written: row %v of onceward_sweeps", row[0])
		}
		return nil
	})
}

// outbox checks the records of the application's transactions that were not taken in yet.
func (v *verification) outbox() error {
	return v.Each("SELECT "+sealed.OutboxColumns+" FROM onceward_outbox ORDER BY seq", func(row []driver.Value) error {
		_, r, err := sealed.ReadOutbox(row)
		switch {
		case err != nil:
		case r.Kind == sealed.Operation:
			var k *format.Record
			if k, err = r.Operation(); err == nil {
				var op journal.Operation
				if op, err = k.Operation(); err == nil {
					for _, broken := range journal.Violations(op, op.UpdatedAt) {
						v.add(journal.Violation{Handle: op.Handle, Ref: op.Ref, Invariant: broken})
					}
				}
			}
		case r.Kind == sealed.Delivery:
			_, err = r.Delivery()
		case r.Kind != sealed.Alias:
			err = format.ErrDamaged
		}
		if err != nil {
			v.file("the record of a transaction is as it was written: row %v of onceward_outbox", row[0])
		}
		return nil
	})
}
