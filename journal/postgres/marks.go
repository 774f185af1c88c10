package postgres

import (
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// Operations are found by marks: hashes of keys, references and objects, in a separate table. The operations
// themselves resolve collisions.

const (
	addMarks    = `INSERT INTO {{schema}}.marks (hash, handle) SELECT pg_catalog.unnest($1::bigint[]), $2 ON CONFLICT DO NOTHING`
	removeMarks = `DELETE FROM {{schema}}.marks WHERE hash = ANY($1) AND handle = $2`
	// For many operations.
	addTheseMarks    = `INSERT INTO {{schema}}.marks (hash, handle) SELECT * FROM unnest($1::bigint[], $2::bigint[]) ON CONFLICT DO NOTHING`
	removeTheseMarks = `DELETE FROM {{schema}}.marks WHERE (hash, handle) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))`
	// No operation has the handle 0. That row is the lock for callers with the same object. It stays for the reference
	// of an operation that was reaped.
	addObject  = `INSERT INTO {{schema}}.marks (hash, handle) VALUES ($1, 0) ON CONFLICT DO NOTHING`
	lockObject = `SELECT 1 FROM {{schema}}.marks WHERE hash = $1 AND handle = 0 FOR UPDATE`
)

// marksOf are marks of many operations, with the handle of each.
type marksOf struct{ hashes, handles []int64 }

func (m *marksOf) add(hashes []int64, handle int64) {
	for _, hash := range hashes {
		m.hashes, m.handles = append(m.hashes, hash), append(m.handles, handle)
	}
}

// remark updates the marks of the operation with that handle.
func (t *tx) remark(handle int64, before, after *journal.Operation) error {
	add, remove := record.Remarked(before, after)
	if t.puttingOff {
		t.laterMarks[0].add(add, handle)
		t.laterMarks[1].add(remove, handle)
		return nil
	}
	if len(add) > 0 {
		if _, err := t.do(addMarks, add, handle); err != nil {
			return err
		}
	}
	if len(remove) > 0 {
		if _, err := t.do(removeMarks, remove, handle); err != nil {
			return err
		}
	}
	return nil
}

// takes reports whether the object that ev names for op proves another operation. Another transaction that asks for
// the same object waits until this one has ended. So of two operations at once, the object proves one.
func (t *tx) takes(op *journal.Operation, ev journal.Event) (bool, error) {
	if !store.NamesObject(ev) {
		return false, nil
	}
	object := record.Sought(journal.ByObject, ev.Object)
	if _, err := t.do(addObject, object); err != nil {
		return false, err
	}
	if _, err := t.do(lockObject, object); err != nil {
		return false, err
	}
	taken := false
	err := t.each(func(from record.Scanner) error {
		other, err := record.Scan(from)
		if err == nil && store.Takes(&other.Op, op, ev) {
			taken = true
		}
		return err
	}, "SELECT "+record.Columns+t.j.fromOperations()+"WHERE o.handle IN (SELECT handle FROM {{schema}}.marks WHERE hash = $1) AND o.handle <> $2",
		record.Sought(store.TakenBy(ev), ev.Object), op.Handle)
	return taken, err
}

// sole reports whether no other operation has, or had, the caller's reference that ev shows of op.
func (t *tx) sole(op *journal.Operation, ev journal.Event) (bool, error) {
	reaped, is := store.NamesReference(op, ev)
	if !is {
		return false, nil
	}
	var hashes []int64
	for _, m := range reaped {
		hashes = append(hashes, record.MarkHash(m))
	}
	var was bool
	if err := t.one("SELECT EXISTS (SELECT 1 FROM {{schema}}.marks WHERE hash = ANY($1) AND handle = 0)", hashes).Scan(&was); err != nil || was {
		return false, err
	}
	sole := true
	err := t.each(func(from record.Scanner) error {
		other, err := record.Scan(from)
		if err == nil && store.Shares(&other.Op, op, ev) {
			sole = false
		}
		return err
	}, "SELECT "+record.Columns+t.j.fromOperations()+"WHERE o.handle IN (SELECT handle FROM {{schema}}.marks WHERE hash = $1) AND o.handle <> $2",
		record.MarkHash(store.Mark{By: journal.ByReference, Value: ev.Reference}), op.Handle)
	return sole, err
}
