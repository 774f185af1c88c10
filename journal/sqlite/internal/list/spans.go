package list

import (
	"database/sql/driver"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// span is from one handle to another, both included.
type span struct{ from, to int64 }

// spans returns the rest of a span without the segments that have nothing for the filter.
func (p *Page) spans(r *read.Reader, all span) (left []span, err error) {
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
