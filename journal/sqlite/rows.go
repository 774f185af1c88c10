package sqlite

import "github.com/onceward/onceward/journal/internal/format"

// row is an operation as it is stored, and its place.
type row struct {
	format.Row
	record *format.Record // it stands in the log or in a block; nil: it has a row of its own
	block  bool           // in a block
	swept  bool           // it is not as it is stored: a sweep has still to come to it
}

func (r row) found() bool { return r.Op.Handle != 0 }
