package sqlite

import (
	"cmp"
	"database/sql/driver"
	"slices"
)

// unfolded returns the operations that only the log has, by handle, as the snapshot
// shows them that r reads. Where another process has written since the writer looked,
// they are read from the log, else from memory.
func (w *writer) unfolded(r *reader) (ops []*kept, err error) {
	var row logRow
	err = r.each(latestLogRow, func(v []driver.Value) (err error) {
		row, _, err = readLogRow(v)
		return err
	})
	if err != nil {
		return nil, err
	}
	if ops, ok := w.recent.all(row.seq); ok {
		return ops, nil
	}
	return r.readLog(row.folded)
}

// all returns what is shown, by handle, if that is up to the log's row seq.
func (r *recent) all(seq int64) (ops []*kept, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.seq != seq {
		return nil, false
	}
	for ref, s := range r.byRef {
		if s.shown != nil && s.shown.op.Ref == ref { // and not by its second name
			ops = append(ops, s.shown)
		}
	}
	slices.SortFunc(ops, byHandle)
	return ops, true
}

// readLog makes operations after folded of the log's records.
func (r *reader) readLog(folded int64) (ops []*kept, err error) {
	logged := make(map[int64]*kept)
	find := func(handle int64) *kept { return logged[handle] }
	before := int64(0)
	err = r.each("SELECT "+logColumns+" FROM onceward_log ORDER BY seq", func(v []driver.Value) error {
		row, records, err := readLogRow(v)
		if err == nil && before > 0 && row.seq != before+1 {
			err = errFormat // one is missing
		}
		if err != nil {
			return err
		}
		before = row.seq
		_, err = eachRecord(records, folded, find, func(k *kept) error {
			logged[k.op.Handle] = k
			return nil
		})
		return err
	})
	for _, k := range logged {
		ops = append(ops, k)
	}
	slices.SortFunc(ops, byHandle)
	return ops, err
}

func byHandle(a, b *kept) int { return cmp.Compare(a.op.Handle, b.op.Handle) }
