package rowstore

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// Get implements journal.Journal.
func (s *Store) Get(ctx context.Context, ref journal.Ref) (op journal.Operation, err error) {
	if err := s.open(ctx); err != nil {
		return op, err
	}
	name := NameDigest(&s.key, ref)
	err = s.source.Read(ctx, func(r Reader) error {
		found, err := r.Find(ctx, Keys{Names: []Digest{name}})
		if err != nil {
			return err
		}
		b := newBatch(ctx, s, nil, Head{}, NoLock, false)
		b.take(Keys{Names: []Digest{name}}, found)
		e, err := b.byName(ref, name)
		if err != nil {
			return err
		}
		if e == nil {
			return journal.ErrNotFound
		}
		if op, err = e.now.operation(s.codec, true); err == nil {
			err = sealedOperation(&op)
		}
		return err
	})
	return op, err
}

// listPage is how many operations List reads at once.
const listPage = 256

// List implements journal.Journal.
func (s *Store) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	scan := Scan{Index: ByHandle, After: Position{Handle: f.After}, Before: f.Before, Newest: f.Newest}
	switch {
	case f.ByWake:
		scan = Scan{Index: PendingByWake}
		if !f.WakeAfter.IsZero() {
			scan.After = Position{Key: f.WakeAfter.UnixMilli(), Handle: math.MaxInt64}
		}
	case len(f.States) > 0 && !f.Newest && f.Before == 0 && !slices.Contains(f.States, journal.StateCompleted):
		scan.Index = Unanswered
	}
	var passed error // of the first damaged one
	read := false
	return store.InPages(f, listPage, func(size int) (ops []journal.Operation, last bool, err error) {
		if err := s.open(ctx); err != nil {
			return nil, false, err
		}
		if read {
			return nil, true, passed
		}
		from, before := scan, passed
		err = s.source.Read(ctx, func(r Reader) error {
			scan, passed = from, before
			ops, last, err = s.page(ctx, r, &scan, &f, size, &passed)
			return err
		})
		read = last
		return ops, last && passed == nil, err
	})
}

// page reads size operations that the filter selects, passes over damaged operations, and moves the scan behind the
// page. The fewer operations the filter selects, the more page reads at once.
func (s *Store) page(ctx context.Context, r Reader, scan *Scan, f *journal.Filter, size int, passed *error) (ops []journal.Operation, last bool, err error) {
	for scan.Limit = size; ; scan.Limit = min(2*scan.Limit, listPage) {
		places, err := r.Scan(ctx, *scan)
		if err != nil {
			return nil, false, err
		}
		rows, err := load(ctx, r, places, Keys{Heads: true})
		if err != nil {
			return nil, false, err
		}
		for _, at := range places {
			if scan.Newest {
				scan.Before = at.Handle
			} else {
				scan.After = at
			}
			op, is, err := selected(s.codec, rows[at.Handle], f)
			if err != nil && !passes(err, passed) {
				return nil, false, err
			}
			if !is {
				continue
			}
			if ops = append(ops, op); len(ops) == size {
				return ops, false, nil
			}
		}
		if len(places) < scan.Limit {
			return ops, true, nil
		}
	}
}

// passes reports whether an error is a damaged row's, and keeps the first such error.
func passes(err error, first *error) bool {
	is := errors.Is(err, format.ErrDamaged)
	if is && *first == nil {
		*first = passedOver(err)
	}
	return is
}

// load returns a page's rows, with the parts that keys ask for.
func load(ctx context.Context, r Reader, places []Position, keys Keys) (map[int64]*Row, error) {
	for _, at := range places {
		keys.Handles = append(keys.Handles, at.Handle)
	}
	found, err := r.Find(ctx, keys)
	rows := make(map[int64]*Row, len(found.Rows))
	for _, row := range found.Rows {
		rows[row.Handle] = row
	}
	return rows, err
}

// selected returns a row's operation, if the filter selects the operation. row is nil if the row was removed
// meanwhile.
func selected(c format.Codec, row *Row, f *journal.Filter) (op journal.Operation, is bool, err error) {
	if row == nil {
		return op, false, nil
	}
	it, err := decode(c, row)
	if err == nil {
		err = it.fillHeads(row)
	}
	if err != nil || !store.Selects(f, &it.op) {
		return op, false, err
	}
	op, err = it.operation(c, false)
	return op, err == nil, err
}
