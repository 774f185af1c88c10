package sqlite

import (
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// unfolded returns the operations that only the log has, by handle, as the snapshot of r shows them. They
// come from memory, or from the log if another process wrote since the writer last read.
func (w *writer) unfolded(r *read.Reader) (ops []*format.Record, err error) {
	row, err := r.Latest()
	if err != nil {
		return nil, err
	}
	if ops, ok := w.memtable.All(row.Seq); ok {
		return ops, nil
	}
	return r.Log(row.Folded)
}
