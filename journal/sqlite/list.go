package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
)

// pageSize is how many operations List reads at a time.
const pageSize = 200

// List yields operations without bodies, in pages: between two of them nothing is
// open, so that a slow reader pins nothing.
func (j *Journal) List(ctx context.Context, filter journal.Filter) iter.Seq2[journal.Operation, error] {
	return func(yield func(journal.Operation, error) bool) {
		if err := j.open(ctx); err != nil {
			yield(journal.Operation{}, err)
			return
		}
		page := newPage(filter)
		for left := filter.Limit; ; left -= len(page.ops) {
			err := ctx.Err()
			if err == nil && j.closed.Load() {
				err = journal.ErrClosed
			}
			size := pageSize
			if filter.Limit > 0 {
				size = min(size, left)
			}
			if err == nil {
				err = j.file.readers.read(ctx, func(r *reader) error { return page.read(r, size) })
			}
			if err != nil {
				yield(journal.Operation{}, err)
				return
			}
			for _, op := range page.ops {
				if !yield(op, nil) {
					return
				}
			}
			if len(page.ops) < size || len(page.ops) == left {
				return
			}
		}
	}
}

// page is where a List stands.
type page struct {
	query  string
	args   []any // of the filter
	byWake bool
	handle int64     // the last one yielded
	wake   time.Time // its WakeAt
	ops    []journal.Operation
}

func newPage(f journal.Filter) *page {
	p := &page{byWake: f.ByWake}
	var where []string
	and := func(clause string, args ...any) {
		where = append(where, clause)
		p.args = append(p.args, args...)
	}
	if f.ByWake || !f.WakeBefore.IsZero() {
		and("state = 1")
	}
	if len(f.States) > 0 {
		// As numbers in the text, and so that one alone reads as the partial indices
		// have it: a parameter would not find them.
		var either []string
		for _, state := range f.States {
			clause := fmt.Sprintf("state = %d", state)
			if state > journal.Completed {
				clause = "state > 3 AND " + clause
			}
			either = append(either, clause)
		}
		and("(" + strings.Join(either, " OR ") + ")")
	}
	if f.Scope != nil {
		and("scope = ?", *f.Scope)
	}
	if f.Provider != "" {
		and("provider = ?", f.Provider)
	}
	if f.Naming != nil {
		and("naming = ?", int64(*f.Naming))
	}
	if !f.WakeBefore.IsZero() {
		and("wake_at < ?", f.WakeBefore.Add(time.Millisecond-1).UnixMilli()) // times are kept cut to the millisecond
	}
	if f.Undelivered {
		and(`o.handle IN (
			SELECT handle FROM operations WHERE holder IS NOT NULL AND state > 2 AND delivered = 0
			UNION ALL SELECT handle FROM operations WHERE holder IS NULL AND state > 2 AND delivered = 0)`)
	}
	order := "o.handle"
	if f.ByWake {
		and("(wake_at, o.handle) > (?, ?)")
		order = "wake_at, o.handle"
	} else {
		and("o.handle > ?")
	}
	p.query = "SELECT " + qualified + `, NULL, a.answer, NULL
		FROM operations o LEFT JOIN answers a ON a.handle = o.handle AND o.state = 3 AND o.tombstone = 0
		WHERE ` + strings.Join(where, " AND ") + " ORDER BY " + order + " LIMIT ?"
	return p
}

func (p *page) read(r *reader, size int) error {
	p.ops = p.ops[:0]
	args := append([]any{}, p.args...)
	if p.byWake {
		wake := int64(-1 << 63)
		if !p.wake.IsZero() {
			wake = p.wake.UnixMilli()
		}
		args = append(args, wake, p.handle)
	} else {
		args = append(args, p.handle)
	}
	return r.each(p.query, func(v []driver.Value) error {
		op, err := whole(v)
		if err != nil {
			return err
		}
		withoutEmptyBodies(&op)
		p.ops = append(p.ops, op)
		p.handle, p.wake = op.Handle, op.WakeAt
		return nil
	}, append(args, int64(size))...)
}

// withoutEmptyBodies: what tells of an empty body is kept beside the bodies.
func withoutEmptyBodies(op *journal.Operation) {
	op.Request.Body = nil
	if op.Answer != nil {
		op.Answer.Body = nil
	}
}
