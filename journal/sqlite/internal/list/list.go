// Package list reads the pages of a list of operations, each as of one moment.
//
// It knows the filter, and how blocks and rows are searched for it. It must not know the writer: the caller brings the
// operations that only the log has.
package list

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// Page is the position of a List.
type Page struct {
	filter journal.Filter
	key    format.HashKey
	query  string
	args   []any     // of the filter
	handle int64     // the last one yielded, or passed over
	wake   time.Time // its WakeAt
	Ops    []journal.Operation
	Last   bool // no other page follows

	sought  bool
	through int64 // nothing that is later is selected, up to the rest
	rest    []span
}

// New returns the position before the first page. key is that of the file's hashes.
func New(f journal.Filter, key format.HashKey) *Page {
	p := &Page{filter: f, key: key}
	var where []string
	and := func(clause string, args ...any) {
		where = append(where, clause)
		p.args = append(p.args, args...)
	}
	if f.ByWake || !f.WakeBefore.IsZero() {
		and("state = 1")
	}
	if len(f.States) > 0 {
		// The numbers are in the text, and a single one is written like in the partial indices. With a
		// parameter SQLite would not use them.
		var either []string
		for _, state := range f.States {
			clause := fmt.Sprintf("state = %d", state)
			if state > journal.StateCompleted {
				clause = "state > 3 AND " + clause
			}
			either = append(either, clause)
		}
		and("(" + strings.Join(either, " OR ") + ")")
	}
	if len(f.States) == 1 && f.States[0] == journal.StateInFlight { // each has a holder, by which an index finds it
		and("o.handle IN (SELECT handle FROM onceward_operations WHERE holder IS NOT NULL)")
	}
	if f.Scope != nil {
		and("scope = ?", *f.Scope)
	}
	if f.Provider != "" {
		and("provider = ?", f.Provider)
	}
	if !f.WakeBefore.IsZero() {
		before := f.WakeBefore.Add(time.Millisecond - 1).UnixMilli() // times are kept cut to the millisecond
		and("wake_at > ? AND wake_at < ?", -before, before)
	}
	if f.Undelivered {
		and(`o.handle IN (
			SELECT handle FROM onceward_operations WHERE holder IS NOT NULL AND state > 2 AND delivered = 0
			UNION ALL SELECT handle FROM onceward_operations WHERE holder IS NULL AND state > 2 AND delivered = 0)`)
	}
	if !f.NeedsAttention.IsZero() {
		overdue, day := f.NeedsAttention.Add(-journal.AttentionAfter).UnixMilli(), f.NeedsAttention.Add(-journal.PendingAttentionAfter).UnixMilli()
		and("o.handle IN ("+read.NeedAttention+")", overdue, day, overdue)
	}
	if f.Before > 0 {
		and("o.handle < ?", f.Before)
	}
	if f.After > 0 && (f.ByWake || f.Newest) {
		and("o.handle > ?", f.After)
	}
	order := "o.handle"
	if f.ByWake {
		and("(wake_at, o.handle) > (?, ?)") // from 0 on
		order = "wake_at, o.handle"
	} else {
		if f.Newest {
			order = "o.handle DESC"
			and("o.handle < ?")
			and("o.handle > ?")
		} else {
			and("o.handle > ?")
			and("o.handle <= ?")
		}
	}
	from := ", a.answer FROM onceward_operations o LEFT JOIN onceward_answers a ON a.handle = o.handle AND o.state = 3 AND o.tombstone = 0"
	if f.ByWake || !f.WakeBefore.IsZero() {
		from = ", NULL FROM onceward_operations o" // pending ones have none, and looking for them takes a quarter of the time
	}
	p.query = "SELECT " + read.Columns + from + " WHERE " + strings.Join(where, " AND ") + " ORDER BY " + order + " LIMIT ?"
	return p
}

// spansAPage bounds the spans of handles that are read for a page, whatever they contain.
const spansAPage = 16

// ReadSpans reads the next operations, at most size, those of one span.
func (p *Page) ReadSpans(r *read.Reader, recent []*format.Record, size int) (err error) {
	if p.Last {
		return nil
	}
	for range spansAPage {
		if p.filter.Newest && !p.filter.ByWake {
			err = p.readNewest(r, recent, size)
		} else {
			err = p.read(r, recent, size)
		}
		if err != nil || !p.Last || len(p.rest) == 0 {
			return err
		}
		if p.enter(p.rest); len(p.Ops) > 0 {
			return nil
		}
	}
	return nil
}

// enter goes on with the first of the spans.
func (p *Page) enter(spans []span) {
	if p.Last = len(spans) == 0; !p.Last {
		p.handle, p.through, p.rest = spans[0].from-1, spans[0].to, spans[1:]
	}
}

// Seek starts at the filter's bounds.
func (p *Page) Seek(r *read.Reader) error {
	f := p.filter
	if p.sought {
		return nil
	}
	p.sought, p.through = true, math.MaxInt64
	if f.ByWake {
		return nil
	}
	p.handle = f.After
	if f.Before > 0 {
		p.through = f.Before - 1
	}
	left, err := p.spans(r, span{p.handle + 1, p.through})
	if f.Newest {
		slices.Reverse(left)
	}
	p.enter(left)
	return err
}

// read reads the next operations, at most size: from blocks, from their rows, and from
// those that only the log has.
func (p *Page) read(r *read.Reader, recent []*format.Record, size int) (err error) {
	p.Ops = p.Ops[:0]
	through := p.through // none is missing up to it
	if p.inBlocks() {
		if through, err = p.readBlocks(r, size); err != nil {
			return err
		}
	}
	args := append([]any{}, p.args...)
	if p.filter.ByWake {
		wake := int64(-1)
		if !p.wake.IsZero() {
			wake = p.wake.UnixMilli()
		}
		args = append(args, wake, p.handle)
	} else {
		args = append(args, p.handle, through)
	}
	rows, last, err := p.readRows(r, append(args, int64(size)))
	if err != nil {
		return err
	}
	if rows == size && !p.filter.ByWake {
		through = min(through, last)
	}
	p.Last = rows < size
	if !p.filter.ByWake {
		p.cut(size, &through)
		p.Last = through == p.through
	}
	if p.Last || p.filter.ByWake {
		if through, err = p.addRecent(recent, size, through); err != nil {
			return err
		}
	}
	if !p.Last {
		p.handle = through
	}
	if n := len(p.Ops); n > 0 {
		p.handle, p.wake = max(p.Ops[n-1].Handle, p.handle), p.Ops[n-1].WakeAt
	}
	return nil
}

// readRows adds the operations with rows of their own, and returns their number and the last one's handle.
func (p *Page) readRows(r *read.Reader, args []any) (rows int, last int64, err error) {
	err = r.Each(p.query, func(v []driver.Value) error {
		k, err := read.Bodiless(v)
		if err != nil {
			return err
		}
		rows, last = rows+1, k.Op.Handle
		op, err := k.WithoutBodies()
		p.Ops = append(p.Ops, op)
		return err
	}, args...)
	return rows, last, err
}

// cut sorts the operations of a page and leaves those up to through, at most size.
func (p *Page) cut(size int, through *int64) {
	slices.SortFunc(p.Ops, func(a, b journal.Operation) int { return cmp.Compare(a.Handle, b.Handle) })
	n := sort.Search(len(p.Ops), func(i int) bool { return p.Ops[i].Handle > *through })
	if n > size {
		n, *through = size, p.Ops[size-1].Handle
	}
	p.Ops = p.Ops[:n]
}

// inBlocks reports whether a block may match the filter.
func (p *Page) inBlocks() bool {
	f := p.filter
	return !f.ByWake && f.WakeBefore.IsZero() && !f.Undelivered && f.NeedsAttention.IsZero() && (len(f.States) == 0 || slices.Contains(f.States, journal.StateCompleted))
}

// blocksAPage bounds the blocks that are read for a page, so that a search for a rare operation pins nothing.
const blocksAPage = 128

// readBlocks adds the operations of blocks, and returns the handle up to which none of them is missing.
func (p *Page) readBlocks(r *read.Reader, size int) (through int64, err error) {
	blocks, last := 0, int64(0)
	err = r.Each(`SELECT first, data FROM onceward_blocks WHERE first >= coalesce((SELECT max(first) FROM onceward_blocks WHERE first <= ?1), 0) AND first <= ?2
		ORDER BY first LIMIT ?3`, func(v []driver.Value) error {
		if len(p.Ops) >= size {
			return conn.ErrEnough
		}
		blocks++
		data, _ := v[1].([]byte)
		return p.readBlock(v[0].(int64), data, func(handle int64) bool {
			last = max(last, handle)
			return handle > p.handle && handle <= p.through
		}, func(k *format.Record) error {
			op, err := k.WithoutBodies()
			p.Ops = append(p.Ops, op)
			return err
		})
	}, p.handle+1, p.through, int64(blocksAPage))
	switch {
	case err != nil && !errors.Is(err, conn.ErrEnough):
		return 0, err
	case err != nil || blocks == blocksAPage:
		return min(p.through, last), nil
	}
	return p.through, nil
}

// readBlock decodes the operations of a block that match the filter and have a useful handle.
func (p *Page) readBlock(first int64, data []byte, of func(handle int64) bool, add func(*format.Record) error) error {
	f := &p.filter
	return format.EachGlimpsed(first, data, func(handle int64, g format.Glimpse) bool {
		return of(handle) && (f.Scope == nil || *f.Scope == string(g.Scope)) && (f.Provider == "" || f.Provider == string(g.Provider))
	}, func(k *format.Record) error {
		if !store.Selects(f, &k.Op) {
			return nil
		}
		return add(k)
	})
}

// addRecent adds to a page the operations that only the log has. All of them began after the others. It
// returns the handle up to which none is missing now.
func (p *Page) addRecent(recent []*format.Record, size int, through int64) (int64, error) {
	var added []*format.Record
	full := len(p.Ops) == size
	for _, k := range recent {
		switch {
		case !store.Selects(&p.filter, &k.Op):
		case !p.filter.ByWake && (k.Op.Handle <= p.handle || k.Op.Handle > p.through):
		case p.filter.ByWake && byWake(&k.Op, &journal.Operation{WakeAt: p.wake, Handle: p.handle}) <= 0:
		case p.filter.ByWake && full && byWake(&k.Op, &p.Ops[size-1]) > 0: // its page is another
		default:
			added = append(added, k)
		}
	}
	if p.filter.ByWake {
		slices.SortFunc(added, func(a, b *format.Record) int { return byWake(&a.Op, &b.Op) })
	}
	for _, k := range added[:min(len(added), size+1)] {
		op, err := k.WithoutBodies()
		if err != nil {
			return 0, err
		}
		p.Ops = append(p.Ops, op)
	}
	if p.filter.ByWake && len(added) > 0 {
		slices.SortFunc(p.Ops, func(a, b journal.Operation) int { return byWake(&a, &b) })
	}
	if len(p.Ops) > size {
		p.Ops, p.Last = p.Ops[:size], false
	}
	if !p.Last {
		through = p.Ops[len(p.Ops)-1].Handle
	}
	return through, nil
}

func byWake(a, b *journal.Operation) int {
	return cmp.Or(a.WakeAt.Compare(b.WakeAt), cmp.Compare(a.Handle, b.Handle))
}
