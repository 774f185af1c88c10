package list

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// readNewest reads the next operations, at most size, newest first: from the log, which has the newest, and
// then from blocks and rows. They are above p.handle and up to p.through, which it lowers.
func (p *Page) readNewest(r *read.Reader, recent []*format.Record, size int) error {
	p.Ops = p.Ops[:0]
	from := p.handle + 1 // of those up to through, none is missing from here on
	add := func(k *format.Record) error {
		op, err := k.WithoutBodies()
		p.Ops = append(p.Ops, op)
		return err
	}
	for _, k := range slices.Backward(recent) {
		if k.Op.Handle > p.through || k.Op.Handle <= p.handle || !store.Selects(&p.filter, &k.Op) {
			continue
		}
		if err := add(k); err != nil {
			return err
		}
		if len(p.Ops) == size {
			p.through, p.Last = k.Op.Handle-1, k.Op.Handle-1 <= p.handle
			return nil
		}
	}
	if p.inBlocks() {
		reached, err := p.newestBlocks(r, size, from, add)
		if err != nil {
			return err
		}
		from = max(from, reached)
	}
	rows, last, err := p.readRows(r, append(append([]any{}, p.args...), p.above(), from-1, int64(size)))
	if err != nil {
		return err
	}
	if rows == size {
		from = max(from, last)
	}
	slices.SortFunc(p.Ops, func(a, b journal.Operation) int { return cmp.Compare(b.Handle, a.Handle) })
	if len(p.Ops) > size { // also of those from blocks that come behind the rows
		p.Ops = p.Ops[:size]
		from = p.Ops[size-1].Handle
	}
	p.through = from - 1
	p.Last = p.through <= p.handle
	return nil
}

// above is the handle below which the page begins.
func (p *Page) above() int64 {
	if p.through < 1<<62 {
		return p.through + 1
	}
	return p.through
}

// newestBlocks adds the operations of blocks, and returns the handle from which none is missing now.
func (p *Page) newestBlocks(r *read.Reader, size int, from int64, add func(*format.Record) error) (reached int64, err error) {
	blocks, found, first := 0, 0, int64(0)
	err = r.Each("SELECT first, data FROM onceward_blocks WHERE first <= ? ORDER BY first DESC LIMIT ?", func(v []driver.Value) error {
		if found >= size || first > 0 && first <= from {
			return conn.ErrEnough
		}
		blocks++
		first = v[0].(int64)
		data, _ := v[1].([]byte)
		return p.readBlock(first, data, func(handle int64) bool { return handle >= from && handle <= p.through }, func(k *format.Record) error {
			found++
			return add(k)
		})
	}, p.through, int64(blocksAPage))
	if errors.Is(err, conn.ErrEnough) {
		return first, nil
	}
	if err != nil || blocks < blocksAPage {
		return 0, err
	}
	return first, nil
}
