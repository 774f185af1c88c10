package mapdb

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Scan implements rowstore.Reader.
func (v *view) Scan(_ context.Context, scan rowstore.Scan) (page []rowstore.Position, err error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	for row := range v.all {
		if at, is := place(row, &scan); is && (scan.Newest || after(at, scan.After)) {
			page = append(page, at)
		}
	}
	slices.SortFunc(page, compare)
	if scan.Newest {
		slices.Reverse(page)
	}
	return page[:min(len(page), scan.Limit)], nil
}

// Count implements rowstore.Reader.
func (v *view) Count(_ context.Context, scans []rowstore.Scan) ([]rowstore.Count, error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	counts := make([]rowstore.Count, len(scans))
	for row := range v.all {
		for i := range scans {
			if at, is := place(row, &scans[i]); !is || !after(at, scans[i].After) {
				continue
			}
			c := &counts[i]
			c.Rows++
			if row.Settled != 0 && (c.Settled == 0 || row.Settled < c.Settled) {
				c.Settled = row.Settled
			}
		}
	}
	return counts, nil
}

// Head implements rowstore.Reader.
func (v *view) Head(context.Context) (rowstore.Head, error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	return v.db.found(), nil
}

// Restored implements rowstore.Reader.
func (v *view) Restored(ctx context.Context) (string, error) {
	head, err := v.Head(ctx)
	return head.Restored, err
}

// Totals implements rowstore.Reader.
func (v *view) Totals(context.Context) (rowstore.Totals, error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	return rowstore.Totals{Begun: v.db.head.Newest, Sessions: int64(len(v.db.alive)), Last: v.db.head.Clock.Last}, nil
}

// Names implements rowstore.Reader.
func (v *view) Names(_ context.Context, after []byte, limit int) (page []rowstore.Name, err error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	for digest := range v.db.names {
		if handle := v.name(digest); handle != 0 && bytes.Compare(digest[:], after) > 0 {
			page = append(page, rowstore.Name{Digest: digest, Handle: handle})
		}
	}
	slices.SortFunc(page, func(a, b rowstore.Name) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
	return page[:min(len(page), limit)], nil
}

// Marks implements rowstore.Reader.
func (v *view) Marks(_ context.Context, after rowstore.Mark, limit int) (page []rowstore.Mark, err error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	for m := range v.db.marks {
		for _, handle := range v.marked(m) {
			page = append(page, rowstore.Mark{Mark: m, Handle: handle})
		}
	}
	order := func(a, b rowstore.Mark) int {
		return cmp.Or(cmp.Compare(a.Mark, b.Mark), cmp.Compare(a.Handle, b.Handle))
	}
	page = slices.DeleteFunc(page, func(m rowstore.Mark) bool { return order(m, after) <= 0 })
	slices.SortFunc(page, order)
	return page[:min(len(page), limit)], nil
}

// all yields each row as the view has it.
func (v *view) all(yield func(*rowstore.Row) bool) {
	var staged map[int64]*rowstore.Row
	if v.t != nil {
		staged = v.t.rows
	}
	for _, row := range staged {
		if row != nil && !yield(row) {
			return
		}
	}
	for handle, row := range v.db.rows {
		if _, is := staged[handle]; !is && !yield(row) {
			return
		}
	}
}

func compare(a, b rowstore.Position) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Handle, b.Handle))
}

func after(at, bound rowstore.Position) bool {
	return bound == rowstore.Position{} || compare(at, bound) > 0
}

// place returns the row's place in the index of a scan, if it has one.
func place(r *rowstore.Row, s *rowstore.Scan) (at rowstore.Position, is bool) {
	at = rowstore.Position{Handle: r.Handle}
	state := journal.State(r.State)
	of := s.Providers == nil || slices.Contains(s.Providers, r.Provider)
	switch s.Index {
	case rowstore.ByHandle:
		return at, s.Before == 0 || r.Handle < s.Before
	case rowstore.Pending:
		return at, state == journal.StatePending && of && -s.By <= r.Wake && r.Wake <= s.By
	case rowstore.PendingByWake:
		at.Key = r.Wake
		return at, state == journal.StatePending && r.Wake > 0
	case rowstore.HeldBy:
		return at, r.Holder == s.Holder && (of || state != journal.StateInFlight)
	case rowstore.Undelivered:
		return at, state > journal.StateInFlight && !r.Told && r.Holder == ""
	case rowstore.LookDue:
		at.Key = r.Wake
		return at, state == journal.StateUnknown && r.Wake > 0 && r.Wake <= s.By
	case rowstore.Unanswered:
		return at, state != journal.StateCompleted
	case rowstore.InFlight:
		return at, state == journal.StateInFlight
	case rowstore.Settled:
		at.Key, at.Bytes = r.Settled, bodyOf(r.Request)+bodyOf(r.Answer)
		return at, r.Settled != 0 && r.Settled <= s.By && r.Told && !r.Reaped
	case rowstore.Unknown:
		return at, state == journal.StateUnknown
	case rowstore.Sought:
		return at, state == journal.StateUnknown && r.Wake > max(r.Settled, s.By)
	case rowstore.Cancelled:
		return at, state == journal.StateCancelled
	case rowstore.InFlightSince:
		return at, state == journal.StateInFlight && r.Wake <= s.By
	case rowstore.Untold:
		return at, state > journal.StateInFlight && !r.Told && (state != journal.StateUnknown || r.Wake <= r.Settled)
	case rowstore.Flagged:
		return at, state > journal.StateInFlight && state != journal.StateUnknown && r.HasWake && r.Wake == 0
	}
	return at, false
}

func bodyOf(p *rowstore.Part) int64 {
	if p == nil {
		return 0
	}
	return int64(len(p.Body))
}

// Holders implements rowstore.Reader.
func (v *view) Holders(context.Context) ([]string, error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	holders := make(map[string]bool)
	for row := range v.all {
		if row.Holder != "" {
			holders[row.Holder] = true
		}
	}
	return slices.Sorted(maps.Keys(holders)), nil
}
