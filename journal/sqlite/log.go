package sqlite

import (
	"database/sql/driver"
	"slices"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// logged is a row of the log that may have to stay.
type logged struct {
	seq     int64
	highest int64 // handle that it speaks of
	bytes   int   // of its records
}

// pruneAt is the number of small rows of the log that are removed at a time. A large row is removed at once
// and its pages are reused. Freed pages are overwritten, and would otherwise be written twice.
const pruneAt = 32

// pruneLeast is by the rows that are written now.
func (b *batch) pruneLeast() int {
	if b.rowBytes > pageBytes {
		return 1
	}
	return pruneAt
}

// record adds an operation's new state to the batch's row of the log.
func (b *batch) record(k *format.Record, parts byte) {
	b.wrote, b.changed = true, true
	b.records = format.AppendRecord(b.records, k, parts)
	b.highest = max(b.highest, k.Op.Handle)
	b.memtable.Put(k)
}

// appendToLog writes the batch's row of the log, which also numbers the batch.
func (b *batch) appendToLog() error {
	b.numbered = b.number
	if b.restored == nil { // else it would catch up with its sidecar
		b.numbered++
	}
	row := format.LogRow{
		Seq: b.seq + 1, Last: b.clock.Last, Jumped: b.clock.Jumped, LeastMargin: b.clock.LeastMargin,
		Newest: b.newest, Folded: b.folded, Number: b.numbered,
	}
	b.records = row.Seal(b.records)
	b.rowBytes = len(b.records)
	_, err := b.sql.AppendLog.Exec(row.Seq, format.FromTime(row.Last), format.FromTime(row.Jumped), int64(row.LeastMargin), row.Newest, row.Folded, row.Number, b.records)
	return err
}

// prune removes the log's first rows if all their operations are elsewhere, and if there are at least that
// many.
func (b *batch) prune(least int) error {
	n := 0
	for n < len(b.log) && b.log[n].highest <= b.folded {
		n++
	}
	if n < least {
		return nil
	}
	if err := b.write(b.sql.PruneLog, b.log[n-1].seq); err != nil {
		return err
	}
	b.log = slices.Delete(b.log, 0, n)
	return nil
}

// readLog takes over the rows that other processes appended to the log. It reads the whole log if the
// following row is gone, or if reset is set.
func (w *writer) readLog(reset bool) error {
	had := w.durable.Last
	if reset {
		w.memtable.Reset()
		w.seq, w.log = 0, nil
	}
	known, before := len(w.log), w.seq
	var records [][]byte
	err := w.sql.ReadLog.Each(func(v []driver.Value) error {
		row, blob, err := format.ReadLogRow(v)
		if err != nil {
			return err
		}
		if len(records) > 0 && row.Seq != w.seq+1 {
			return format.ErrDamaged // one is missing
		}
		w.seq = row.Seq
		w.wasReset = w.wasReset || !reset && row.Last.Before(w.durable.Last)
		w.durable = store.Clock{Last: row.Last, Jumped: row.Jumped, LeastMargin: row.LeastMargin}
		w.newest, w.folded, w.number = row.Newest, row.Folded, row.Number
		w.begun = w.newest
		records = append(records, blob)
		w.log = append(w.log, logged{seq: w.seq, bytes: len(blob)})
		return nil
	}, w.seq)
	if err != nil {
		return err
	}
	if reset { // some of the rows were known already, and are older than had
		w.wasReset = w.wasReset || w.durable.Last.Before(had)
	}
	if !reset && len(records) > 0 && w.log[known].seq != before+1 {
		return w.readLog(true)
	}
	w.memtable.Uncount(w.folded)
	w.memtable.Commit(w.memtable.Through(), w.folded) // the next records may follow these
	for i, blob := range records {
		if w.log[known+i].highest, err = w.replay(blob); err != nil {
			return err
		}
	}
	if w.memtable.Newest(w.folded) < w.newest || w.folded > w.newest || w.folded < w.newest && w.memtable.At(w.folded+1) == nil {
		return format.ErrDamaged
	}
	w.memtable.Commit(w.seq, w.folded)
	return nil
}

// replay applies the records of a row, except for operations that were folded since.
func (w *writer) replay(records []byte) (highest int64, err error) {
	return format.EachRecord(records, w.folded, w.memtable.At, func(k *format.Record) error {
		if k.Op.Handle > w.memtable.Newest(w.folded)+1 {
			return format.ErrDamaged // the one before it is missing
		}
		w.memtable.Put(k)
		return nil
	})
}
