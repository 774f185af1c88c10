package read

import (
	"cmp"
	"database/sql/driver"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// BlockOf selects the block that may hold a handle.
const BlockOf = "SELECT first, data FROM onceward_blocks WHERE first <= ? ORDER BY first DESC LIMIT 1"

// Row reads one whole operation that has a row of its own.
func Row(r *Reader, where string, args ...any) (op journal.Operation, found bool, err error) {
	err = r.Each(`SELECT `+Columns+`, o.request_body, a.answer, a.body
		FROM onceward_operations o LEFT JOIN onceward_answers a ON a.handle = o.handle AND o.state = 3 AND o.tombstone = 0
		WHERE `+where, func(v []driver.Value) error {
		found = true
		op, err = whole(v)
		return err
	}, args...)
	return op, found, err
}

// whole reads an operation from columns, its request's body, its answer and that
// one's body.
func whole(v []driver.Value) (journal.Operation, error) {
	r, err := format.ReadRow(v)
	if err != nil {
		return journal.Operation{}, err
	}
	k := format.Record{Row: r, Body: format.ToBytes(v[len(v)-3]), Answer: format.ToBytes(v[len(v)-2]), AnswerBody: format.ToBytes(v[len(v)-1])}
	if err := r.GoesWith(k.Answer); err != nil {
		return journal.Operation{}, err
	}
	return k.Operation()
}

// Bodiless reads a record from columns, and its answer without both bodies.
func Bodiless(v []driver.Value) (*format.Record, error) {
	r, err := format.ReadRow(v)
	if err != nil {
		return nil, err
	}
	answer := format.ToBytes(v[len(v)-1])
	if err := r.GoesWith(answer); err != nil {
		return nil, err
	}
	return &format.Record{Row: r, Answer: answer}, nil
}

// latestLogRow selects the latest row of the log.
const latestLogRow = "SELECT " + format.LogColumns + " FROM onceward_log ORDER BY seq DESC LIMIT 1"

// Latest reads the latest row of the log.
func (r *Reader) Latest() (latest format.LogRow, err error) {
	err = r.Each(latestLogRow, func(v []driver.Value) (err error) {
		latest, _, err = format.ReadLogRow(v)
		return err
	})
	return latest, err
}

// Named reads the operation with this handle, if ref names it, and reports whether the handle exists.
func (r *Reader) Named(handle int64, ref journal.Ref) (op journal.Operation, is, there bool, err error) {
	err = r.Record(handle, func(k *format.Record) error {
		there, is = true, store.IsNamed(&k.Op, ref)
		return nil
	})
	if err == nil && is {
		op, is, err = r.At(handle, ref)
	}
	return op, is, there, err
}

// MayLack returns format.ErrDamaged unless the operation with this handle, which is nowhere, was removed.
func (r *Reader) MayLack(handle int64) error {
	first := format.SegmentOf(handle)
	gone := false
	err := r.Each(RemovedOf, func(v []driver.Value) error {
		bits, err := format.DecodeRemoved(first, v[0].([]byte))
		gone = err == nil && bits.Has(handle-first)
		return err
	}, first)
	if err != nil || gone {
		return err
	}
	err = r.Each("SELECT "+format.SegmentColumns+" FROM onceward_segments WHERE first = ?", func(v []driver.Value) error {
		s, hashes, err := format.ReadSegment(v)
		gone = err == nil && s.Spent && !format.HasOffset(hashes, handle-first)
		return err
	}, first)
	if err == nil && !gone {
		err = format.ErrDamaged
	}
	return err
}

// At reads the operation with this handle, if ref names it.
func (r *Reader) At(handle int64, ref journal.Ref) (op journal.Operation, found bool, err error) {
	var k *format.Record
	err = r.Each(BlockOf, func(v []driver.Value) error {
		k, err = format.FindInBlock(v, handle)
		return err
	}, handle)
	switch {
	case err != nil:
	case k != nil && store.IsNamed(&k.Op, ref):
		op, err = k.Operation()
		return op, err == nil, err
	case k == nil:
		op, found, err = Row(r, "o.handle = ?", handle)
		found = found && store.IsNamed(&op, ref)
	}
	return op, found, err
}

// Record reads an operation that is not in the log, without its bodies.
func (r *Reader) Record(handle int64, f func(*format.Record) error) error {
	var k *format.Record
	err := r.Each(BlockOf, func(v []driver.Value) (err error) {
		k, err = format.FindInBlock(v, handle)
		return err
	}, handle)
	if err != nil {
		return err
	}
	if k != nil {
		return f(k)
	}
	return r.Each("SELECT "+Columns+`, a.answer FROM onceward_operations o
		LEFT JOIN onceward_answers a ON a.handle = o.handle AND o.state = 3 AND o.tombstone = 0 WHERE o.handle = ?`, func(v []driver.Value) error {
		k, err := Bodiless(v)
		if err != nil {
			return err
		}
		return f(k)
	}, handle)
}

// An operation that a segment has, but no row and no block, was removed, or the file is damaged: a flipped
// bit in one of SQLite's pages makes rows vanish silently. To distinguish these, the handles of removed
// operations are recorded as bits, in one row for a segment, until the segment is empty.

// RemovedOf selects the bits of the segment that begins with first.
const RemovedOf = "SELECT bits FROM onceward_removed WHERE first = ?"

// Columns is columns of operations that a query calls o.
const Columns = "o." + format.Columns

// Log makes operations after folded of the log's records.
func (r *Reader) Log(folded int64) (ops []*format.Record, err error) {
	logged := make(map[int64]*format.Record)
	find := func(handle int64) *format.Record { return logged[handle] }
	before := int64(0)
	err = r.Each("SELECT "+format.LogColumns+" FROM onceward_log ORDER BY seq", func(v []driver.Value) error {
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

// NeedAttention selects the handles of operations that need attention: journal.Operation.NeedsAttention. Its parameters are
// that time less journal.AttentionAfter, less journal.PendingAttentionAfter, and less journal.AttentionAfter again.
// The wake_at of a pending one with a reason of its own is below zero: see format.Wake.
const NeedAttention = `SELECT handle FROM onceward_operations INDEXED BY onceward_operations_dead WHERE state > 2 AND wake_at = 0 AND state <> 4
	UNION ALL SELECT handle FROM onceward_operations INDEXED BY onceward_operations_looks WHERE state = 4 AND (wake_at IS NULL OR wake_at <= settled_at OR wake_at <= ?)
	UNION ALL SELECT handle FROM onceward_operations INDEXED BY onceward_operations_wake WHERE state = 1 AND wake_at <= ?
	UNION ALL SELECT handle FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder IS NOT NULL AND state = 2 AND wake_at <= ?`
