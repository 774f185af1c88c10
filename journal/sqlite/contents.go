package sqlite

import (
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/nameindex"
)

// contentsOf reads the contents of the segment that begins with first; false: it has no row.
func (b *batch) contentsOf(first int64) (c format.Contents, found bool, err error) {
	err = b.read(b.sql.Contents, func(v []driver.Value) error {
		found = true
		c, err = format.DecodeContents(first, v[0].([]byte))
		return err
	}, first)
	return c, found, err
}

// noteContents records the contents of the segment that is sealed now.
func (b *batch) noteContents(first int64, members []nameindex.Member) error {
	scopes, providers := make(map[string]bool), make(map[string]bool)
	for _, m := range members {
		scopes[m.Scope], providers[m.Provider] = true, true
	}
	c, _, err := b.contentsOf(first)
	if errors.Is(err, format.ErrDamaged) {
		return nil // a damaged row stays so, and stops no new operation
	}
	if err != nil {
		return err
	}
	for scope := range scopes {
		c = append(c, b.segments.Key.OfContent(format.OfScope, scope))
	}
	for provider := range providers {
		c = append(c, b.segments.Key.OfContent(format.OfProvider, provider))
	}
	slices.Sort(c)
	return b.write(b.sql.NoteContents, first, slices.Compact(c).Seal(first))
}

// noteProvider is for an operation that was begun again with another provider. Its scope is part of its name.
func (b *batch) noteProvider(before, after *journal.Operation) error {
	if before.Provider == after.Provider {
		return nil
	}
	first := format.SegmentOf(after.Handle)
	c, found, err := b.contentsOf(first)
	hash := b.segments.Key.OfContent(format.OfProvider, after.Provider)
	if errors.Is(err, format.ErrDamaged) {
		return nil // as in noteContents
	}
	if sealed := first+format.SegmentSize-1 <= b.newest; err != nil || sealed && !found || c.Has(hash) {
		return err
	}
	return b.write(b.sql.NoteContents, first, c.Add(hash).Seal(first))
}
