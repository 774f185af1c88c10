package sqlite

import (
	"cmp"
	"database/sql/driver"
	"slices"

	"github.com/onceward/onceward/journal/internal/format"
)

// unfolded returns the operations that only the log has, by handle, as the snapshot of r shows them. They
// come from memory, or from the log if another process wrote since the writer last read.
func (w *writer) unfolded(r *reader) (ops []*format.Record, err error) {
	row, err := r.latest()
	if err != nil {
		return nil, err
	}
	if ops, ok := w.memtable.All(row.Seq); ok {
		return ops, nil
	}
	return r.readLog(row.Folded)
}

// readLog makes operations after folded of the log's records.
func (r *reader) readLog(folded int64) (ops []*format.Record, err error) {
	logged := make(map[int64]*format.Record)
	find := func(handle int64) *format.Record { return logged[handle] }
	before := int64(0)
	err = r.each("SELECT "+format.LogColumns+" FROM onceward_log ORDER BY seq", func(v []driver.Value) error {
		row, records, err := format.ReadLogRow(v)
		if err == nil && before > 0 && row.Seq != before+1 {
			err = format.ErrDamaged // one is missing
		}
		if err != nil {
			return err
		}
		before = row.Seq
		_, err = format.EachRecord(records, folded, find, func(k *format.Record) error {
			logged[k.Op.Handle] = k
			return nil
		})
		return err
	})
	for _, k := range logged {
		ops = append(ops, k)
	}
	slices.SortFunc(ops, func(a, b *format.Record) int { return cmp.Compare(a.Op.Handle, b.Op.Handle) })
	return ops, err
}
