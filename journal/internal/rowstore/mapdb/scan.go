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

func (v *view) Scan(_ context.Context, scan rowstore.Scan) (found []rowstore.Position, err error) {
	defer v.db.lock()()
	in := func(row *rowstore.Row) (rowstore.Position, bool) { return place(row, &scan) }
	for _, p := range page(v.all(), in, scan.After, scan.Newest, scan.Limit) {
		found = append(found, p.at)
	}
	return found, nil
}

func (v *view) Count(_ context.Context, scans []rowstore.Scan) ([]rowstore.Count, error) {
	defer v.db.lock()()
	counts := make([]rowstore.Count, len(scans))
	for i, scan := range scans {
		for _, row := range v.all() {
			if at, is := place(row, &scan); is && compare(at, scan.After) > 0 {
				counts[i].Rows++
				counts[i].Settled = least(counts[i].Settled, row.Settled)
			}
		}
	}
	return counts, nil
}

func (v *view) Head(context.Context) (rowstore.Head, error) {
	defer v.db.lock()()
	return v.db.head, nil
}

func (v *view) Restored(ctx context.Context) (string, error) {
	head, err := v.Head(ctx)
	return head.Restored, err
}

func (v *view) Totals(context.Context) (rowstore.Totals, error) {
	defer v.db.lock()()
	return rowstore.Totals{Begun: v.db.head.Newest, Sessions: int64(len(v.db.sessions)), Last: v.db.head.Clock.Last}, nil
}

func (v *view) Names(_ context.Context, after []byte, limit int) (found []rowstore.Name, err error) {
	defer v.db.lock()()
	for key, handles := range v.db.index {
		if name, is := key.(rowstore.Digest); is && bytes.Compare(name[:], after) > 0 {
			for handle := range handles {
				found = append(found, rowstore.Name{Digest: name, Handle: handle})
			}
		}
	}
	slices.SortFunc(found, func(a, b rowstore.Name) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
	return found[:min(len(found), limit)], nil
}

func (v *view) Marks(_ context.Context, after rowstore.Mark, limit int) (found []rowstore.Mark, err error) {
	defer v.db.lock()()
	order := func(a, b rowstore.Mark) int {
		return cmp.Or(cmp.Compare(a.Mark, b.Mark), cmp.Compare(a.Handle, b.Handle))
	}
	for key, handles := range v.db.index {
		if m, is := key.(mark); is {
			for handle := range handles {
				if at := (rowstore.Mark{Mark: int64(m), Handle: handle}); order(at, after) > 0 {
					found = append(found, at)
				}
			}
		}
	}
	slices.SortFunc(found, order)
	return found[:min(len(found), limit)], nil
}

func (v *view) Holders(context.Context) ([]string, error) {
	defer v.db.lock()()
	holders := make(map[string]bool)
	for _, row := range v.all() {
		holders[row.Holder] = true
	}
	delete(holders, "")
	return slices.Sorted(maps.Keys(holders)), nil
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
