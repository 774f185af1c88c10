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
	var seq, folded int64
	err = r.each("SELECT seq, folded FROM onceward_log ORDER BY seq DESC LIMIT 1", func(v []driver.Value) error {
		seq, folded = v[0].(int64), v[1].(int64)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if ops, ok := w.recent.all(seq); ok {
		return ops, nil
	}
	return r.readLog(folded)
}

// all returns what is shown, by handle, if that is up to the log's row seq.
func (r *recent) all(seq int64) (ops []*kept, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.seq != seq {
		return nil, false
	}
	for _, s := range r.byRef {
		if s.shown != nil {
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
	err = r.each("SELECT records FROM onceward_log ORDER BY seq", func(v []driver.Value) error {
		records, _ := v[0].([]byte)
		records, err := unseal(records)
		if err != nil {
			return err
		}
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
