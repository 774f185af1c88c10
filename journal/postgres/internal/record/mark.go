package record

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// MarkHash returns the hash of a mark. Marks serve to recognise operations.
func MarkHash(m store.Mark) int64 {
	sum := sha256.Sum256(append([]byte{byte(m.By)}, m.Value...))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// Sought returns the hash of the marks by which an operation with this value is found.
func Sought(by journal.By, value string) int64 {
	return MarkHash(store.Mark{By: by, Value: store.MarkValue(by, value)})
}

// Marked reports whether the operation has marks in the table. An operation that is sent for the first time has none,
// unless it has more than a key. Most have their answer right after, and would write and remove a row for nothing.
// FindBy scans the operations in flight instead. They are no more than are sent at a time.
func Marked(op *journal.Operation) bool {
	return store.Marked(op) && (op.State != journal.StateAbsent) &&
		(op.State != journal.StateInFlight || op.Found.State == journal.StatePending || op.Reference != "" || op.Object != "" || len(op.Evidence) > 0 || len(op.Rounds) > 0)
}

// Remarked returns the marks to add and to remove when before has become after.
func Remarked(before, after *journal.Operation) (add, remove []int64) {
	hashes := func(op *journal.Operation) (all []int64) {
		if !Marked(op) {
			return nil
		}
		for _, m := range store.AllMarks(op) {
			all = append(all, MarkHash(m))
		}
		return all
	}
	had, has := hashes(before), hashes(after)
	for _, hash := range has {
		if !slices.Contains(had, hash) {
			add = append(add, hash)
		}
	}
	for _, hash := range had {
		if !slices.Contains(has, hash) {
			remove = append(remove, hash)
		}
	}
	return add, remove
}
