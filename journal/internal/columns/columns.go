// Package columns reads the rows of a database server as the values of package rowstore. Texts are binary columns, and
// numbers are signed. The package must not know SQL, or a driver.
package columns

import (
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Row is a row that a statement returns.
type Row interface{ Scan(into ...any) error }

// Into returns a function that reads each row, and adds what it reads to a page.
func Into[T any](page *[]T, read func(Row) (T, error)) func(Row) error {
	return func(row Row) error {
		v, err := read(row)
		*page = append(*page, v)
		return err
	}
}

// One returns a function that reads a single row.
func One(into ...any) func(Row) error { return func(row Row) error { return row.Scan(into...) } }

// Text reads a text.
func Text(row Row) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// Position reads a key, a handle, and a number of bytes.
func Position(row Row) (at rowstore.Position, err error) {
	err = row.Scan(&at.Key, &at.Handle, &at.Bytes)
	return at, err
}

// Name reads a digest and a handle.
func Name(row Row) (n rowstore.Name, err error) {
	var digest []byte
	err = row.Scan(&digest, &n.Handle)
	copy(n.Digest[:], digest)
	return n, err
}

// Mark reads a mark and a handle.
func Mark(row Row) (m rowstore.Mark, err error) {
	err = row.Scan(&m.Mark, &m.Handle)
	return m, err
}

// Count reads the number of a scan, and the scan's count.
func Count(counts []rowstore.Count) func(Row) error {
	return func(row Row) error {
		var i int
		var c rowstore.Count
		err := row.Scan(&i, &c.Rows, &c.Settled)
		counts[i] = c
		return err
	}
}

// Stray returns a function that reports each row, whether of a flow and its handle, as a part without the rest.
func Stray(found func(journal.Violation)) func(Row) error {
	return func(row Row) error {
		v := journal.Violation{Invariant: "its request and its answer are of an operation that is there"}
		err := row.Scan(&v.Flow, &v.Handle)
		if v.Flow {
			v.Invariant = "its steps are of a flow that is there"
		}
		found(v)
		return err
	}
}

// Bookmark reads a name, a version and a record.
func Bookmark(row Row) (*rowstore.Bookmark, error) {
	var name []byte
	b := new(rowstore.Bookmark)
	err := row.Scan(&name, &b.Version, &b.Record)
	b.Name = string(name)
	return b, err
}

// Receipt reads a handle, a scope, a key, a place, a state, an end, facts and an answer.
func Receipt(row Row) (*rowstore.Receipt, error) { return ReceiptAnd(row) }

// ReceiptAnd reads the columns of Receipt, and further columns behind them.
func ReceiptAnd(row Row, further ...any) (*rowstore.Receipt, error) {
	r := new(rowstore.Receipt)
	var scope, key, place []byte
	var state int16
	err := row.Scan(append([]any{&r.Handle, &scope, &key, &place, &state, &r.Ends, &r.Facts, &r.Answer}, further...)...)
	r.Key, r.Place, r.State = journal.ReceiptKey{Scope: string(scope), Key: string(key)}, string(place), uint8(state)
	return r, err
}

// Flow reads a flow's columns in the order of the Scan below. An empty holder means none. A due time or an end may be NULL.
func Flow(row Row) (*rowstore.Flow, error) {
	f := new(rowstore.Flow)
	var name, scope, parent, id, function []byte
	var version int64
	var state int16
	var due, ended *int64
	err := row.Scan(&f.Handle, &name, &scope, &parent, &id, &function, &version, &state, &f.Holder, &due, &ended, &f.Tombstone, &f.Claim, &f.Facts, &f.Input)
	copy(f.Name[:], name)
	f.Ref = journal.Ref{Scope: string(scope), Parent: string(parent), ID: string(id)}
	f.Function, f.State = journal.FlowFunction{Name: string(function), Version: int(version)}, uint8(state)
	if due != nil {
		f.HasDue, f.Due = true, *due
	}
	if ended != nil {
		f.HasEnded, f.Ended = true, *ended
	}
	return f, err
}

// Step reads a number, a kind, a name, a position, whether the step ran beside others, a time, a result and a checksum.
func Step(row Row) (s rowstore.Step, err error) {
	var seq, position, at int64
	var kind int16
	var name []byte
	err = row.Scan(&seq, &kind, &name, &position, &s.Parallel, &at, &s.Result, &s.Sum)
	s.Seq, s.Kind, s.Name, s.Position, s.At = int(seq), journal.StepKind(kind), string(name), int(position), format.Moment(at)
	return s, err
}
