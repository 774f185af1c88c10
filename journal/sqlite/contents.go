package sqlite

import (
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// contentsOf reads the contents of the segment that begins with first; false: it has no row.
func (b *batch) contentsOf(first int64) (c format.Contents, found bool, err error) {
	err = b.read(b.sql.contents, func(v []driver.Value) error {
		found = true
		c, err = format.DecodeContents(first, v[0].([]byte))
		return err
	}, first)
	return c, found, err
}

// noteContents records the contents of the segment that is sealed now.
func (b *batch) noteContents(first int64, members []member) error {
	scopes, providers := make(map[string]bool), make(map[string]bool)
	for _, m := range members {
		scopes[m.scope], providers[m.provider] = true, true
	}
	c, _, err := b.contentsOf(first)
	if errors.Is(err, format.ErrDamaged) {
		return nil // a damaged row stays so, and stops no new operation
	}
	if err != nil {
		return err
	}
	for scope := range scopes {
		c = append(c, b.segments.key.OfContent(format.OfScope, scope))
	}
	for provider := range providers {
		c = append(c, b.segments.key.OfContent(format.OfProvider, provider))
	}
	slices.Sort(c)
	return b.write(b.sql.noteContents, first, slices.Compact(c).Seal(first))
}

// noteProvider is for an operation that was begun again with another provider. Its scope is part of its name.
func (b *batch) noteProvider(before, after *journal.Operation) error {
	if before.Provider == after.Provider {
		return nil
	}
	first := format.SegmentOf(after.Handle)
	c, found, err := b.contentsOf(first)
	hash := b.segments.key.OfContent(format.OfProvider, after.Provider)
	if errors.Is(err, format.ErrDamaged) {
		return nil // as in noteContents
	}
	if sealed := first+format.SegmentSize-1 <= b.newest; err != nil || sealed && !found || c.Has(hash) {
		return err
	}
	return b.write(b.sql.noteContents, first, c.Add(hash).Seal(first))
}

// span is from one handle to another, both included.
type span struct{ from, to int64 }

// spans returns the rest of a span without the segments that have nothing for the filter.
func (p *page) spans(r *read.Reader, all span) (left []span, err error) {
	var needs []uint16
	key := &p.key
	if p.filter.Scope != nil {
		needs = append(needs, key.OfContent(format.OfScope, *p.filter.Scope))
	}
	if p.filter.Provider != "" {
		needs = append(needs, key.OfContent(format.OfProvider, p.filter.Provider))
	}
	if len(needs) == 0 || !p.inBlocks() {
		return []span{all}, nil
	}
	at := all.from
	err = r.Each(contentsWithin, func(v []driver.Value) error {
		first := v[0].(int64)
		c, err := format.DecodeContents(first, v[1].([]byte))
		if err != nil {
			return nil // it is not believed, and Verify says so
		}
		for _, hash := range needs {
			if !c.Has(hash) {
				if first > at {
					left = append(left, span{at, first - 1})
				}
				at = max(at, first+format.SegmentSize)
				break
			}
		}
		return nil
	}, format.SegmentOf(all.from), all.to)
	if at <= all.to {
		left = append(left, span{at, all.to})
	}
	return left, err
}

// contentsWithin selects those of segments that are sealed.
const contentsWithin = `SELECT first, hashes FROM onceward_contents WHERE first >= ? AND first <= ?
	AND first + 1023 <= (SELECT newest FROM onceward_log ORDER BY seq DESC LIMIT 1) ORDER BY first`
