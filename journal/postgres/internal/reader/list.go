package reader

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// pageSize is how many operations List reads at a time. windowSize is how many it scans for them if no index covers
// the filter. A statement that goes on for long would keep the server from vacuuming.
const (
	pageSize   = 200
	windowSize = 10_000
)

// Get returns the whole operation, or journal.ErrNotFound.
func (read Reader) Get(ctx context.Context, ref journal.Ref) (op journal.Operation, err error) {
	found := false
	err = read(ctx, func(from record.Scanner) error {
		found = true
		op, err = record.ScanOperation(from)
		return err
	}, record.WholeFrom+"WHERE "+record.ByRef, record.Digest(ref), []byte(ref.ID), []byte(ref.Scope), []byte(ref.Parent))
	switch {
	case err != nil:
		return journal.Operation{}, err
	case !found:
		return journal.Operation{}, journal.ErrNotFound
	}
	return op, nil
}

// List yields operations without bodies, in pages. Nothing is open between two pages, so a slow reader pins nothing.
// It scans unindexed filters, such as all operations of a scope, 10,000 operations at a time.
func (read Reader) List(ctx context.Context, filter journal.Filter) iter.Seq2[journal.Operation, error] {
	return func(yield func(journal.Operation, error) bool) {
		p := newPage(filter)
		store.InPages(filter, pageSize, func(size int) ([]journal.Operation, bool, error) {
			err := p.read(ctx, read, size)
			return p.ops, p.last, err
		})(yield)
	}
}

// page is the position of a List.
type page struct {
	filter journal.Filter
	where  []string
	args   []any
	narrow bool // an index covers the filter

	from, to int64 // the bounds of the rest, both included
	wake     int64 // by wake: where the last one stood, and its handle
	handle   int64
	ops      []journal.Operation
	last     bool // no other page follows
}

func newPage(f journal.Filter) *page {
	p := &page{filter: f, from: f.After + 1, to: math.MaxInt64, wake: -1}
	if f.Before > 0 {
		p.to = f.Before - 1
	}
	and := func(clause string, args ...any) {
		for _, arg := range args {
			p.args = append(p.args, arg)
			clause = strings.Replace(clause, "?", fmt.Sprintf("$%d", len(p.args)), 1)
		}
		p.where = append(p.where, clause)
	}
	// As numbers in the text: no parameter selects an index of some states.
	if f.ByWake || !f.WakeBefore.IsZero() {
		and(isPending)
		p.narrow = true
	}
	if len(f.States) > 0 {
		var either []string
		p.narrow = true
		for _, state := range f.States {
			either = append(either, fmt.Sprintf("o.state = %d", state))
			if state == journal.StateCompleted {
				p.narrow = false
			}
		}
		and("(" + strings.Join(either, " OR ") + ")")
	}
	if !f.WakeBefore.IsZero() {
		before := f.WakeBefore.Add(time.Millisecond - 1).UnixMilli() // times are kept cut to the millisecond
		and("o.wake_at > ? AND o.wake_at < ?", -before, before)
	}
	if f.Undelivered {
		and("o.state > 2 AND NOT o.delivered")
		p.narrow = true
	}
	if !f.NeedsAttention.IsZero() {
		overdue, day := f.NeedsAttention.Add(-journal.AttentionAfter).UnixMilli(), f.NeedsAttention.Add(-journal.PendingAttentionAfter).UnixMilli()
		and("("+needAttention+")", overdue, day, overdue)
		p.narrow = true
	}
	if f.Scope != nil {
		and("o.scope = ?", []byte(*f.Scope))
	}
	if f.Provider != "" {
		and("o.provider = ?", []byte(f.Provider))
	}
	return p
}

// needAttention is journal.Operation.NeedsAttention. Its parameters are that time less journal.AttentionAfter, less
// journal.PendingAttentionAfter, and less journal.AttentionAfter again. The wake_at of a pending one with a reason of its own is below zero: see format.Wake.
const needAttention = "o.wake_at = 0 OR o.state = 4 AND (o.wake_at IS NULL OR o.wake_at <= o.settled_at OR o.wake_at <= ?) OR o.state = 1 AND o.wake_at <= ? OR o.state = 2 AND o.wake_at <= ?"

// isPending is the condition of the index of operations that are to be woken.
const isPending = "o.state = 1"

// read reads the next operations, at most size.
func (p *page) read(ctx context.Context, read Reader, size int) error {
	p.ops = p.ops[:0]
	if p.from > p.to {
		p.last = true
		return nil
	}
	from, to, err := p.window(ctx, read)
	if err != nil {
		return err
	}
	query, args := p.statement(from, to, size)
	err = read(ctx, func(from record.Scanner) error {
		var head []byte
		r, err := record.Scan(from, &head)
		if err != nil {
			return err
		}
		op, err := record.WithoutBodies(r, head)
		p.ops = append(p.ops, op)
		return err
	}, query, args...)
	if err != nil {
		return err
	}
	n := len(p.ops)
	switch {
	case p.filter.ByWake && n == size:
		p.wake, p.handle = p.ops[n-1].WakeAt.UnixMilli(), p.ops[n-1].Handle
	case p.filter.ByWake:
		p.last = true
	case p.filter.Newest && n == size:
		p.to = p.ops[n-1].Handle - 1
	case p.filter.Newest:
		p.to, p.last = from-1, from <= p.from
	case n == size:
		p.from = p.ops[n-1].Handle + 1
	default:
		p.from, p.last = to+1, to >= p.to
	}
	return nil
}

// statement selects the next page.
func (p *page) statement(from, to int64, size int) (query string, args []any) {
	where := slices.Clone(p.where)
	args = slices.Clone(p.args)
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	where = append(where, "o.handle >= "+arg(from), "o.handle <= "+arg(to))
	order := "o.handle"
	switch {
	case p.filter.ByWake:
		order = "o.wake_at, o.handle"
		where = append(where, "(o.wake_at, o.handle) > ("+arg(p.wake)+", "+arg(p.handle)+")")
	case p.filter.Newest:
		order = "o.handle DESC"
	}
	return `SELECT ` + record.Columns + `, a.head FROM (SELECT * FROM {{schema}}.operations o
		WHERE ` + strings.Join(where, " AND ") + " ORDER BY " + order + " LIMIT " + arg(size) + ") o" + record.Besides + "ORDER BY " + order, args
}

// window returns the bounds of the search for the next page. If no index covers the filter, they hold the next
// windowSize operations.
func (p *page) window(ctx context.Context, read Reader) (from, to int64, err error) {
	if p.narrow || len(p.where) == 0 {
		return p.from, p.to, nil
	}
	order, end := "handle", "max(handle)"
	if p.filter.Newest {
		order, end = "handle DESC", "min(handle)"
	}
	var last *int64
	n := 0
	err = read(ctx, func(row record.Scanner) error { return row.Scan(&last, &n) }, "SELECT "+end+", count(*) FROM (SELECT handle FROM {{schema}}.operations "+
		"WHERE handle >= $1 AND handle <= $2 ORDER BY "+order+" LIMIT $3) w", p.from, p.to, windowSize)
	switch {
	case err != nil || n < windowSize:
		return p.from, p.to, err
	case p.filter.Newest:
		return *last, p.to, nil
	}
	return p.from, *last, nil
}
