package rowstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// flowPage is how many flows are read at once.
const flowPage = 256

// GetFlow implements journal.Flows.
func (s *Store) GetFlow(ctx context.Context, ref journal.Ref) (f journal.Flow, err error) {
	if err := s.open(ctx); err != nil {
		return f, err
	}
	err = s.source.Read(ctx, func(r Reader) error {
		row, err := r.Flow(ctx, 0, NameDigest(&s.key, ref), NoLock)
		if err != nil {
			return err
		}
		if row == nil {
			return journal.ErrNotFound
		}
		if f, err = decodeFlow(row); err != nil {
			return err
		}
		f.Steps, err = stepsOf(ctx, r, f.Handle)
		return err
	})
	return f, err
}

// ListFlows implements journal.Flows.
func (s *Store) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	scan := FlowScan{Newest: filter.Newest, Limit: flowPage}
	switch {
	case filter.ByDue:
		scan = FlowScan{Index: FlowsByDue, By: math.MaxInt64, After: Position{Key: -1, Handle: math.MaxInt64}, Limit: flowPage}
	case !filter.Newest && slices.Equal(filter.States, []journal.FlowState{journal.FlowStateRunning}):
		scan.Index = FlowsRunning
	}
	return func(yield func(journal.Flow, error) bool) {
		var passed error // of the first damaged one
		for n, more := 0, true; more; {
			var page []journal.Flow
			err := s.open(ctx)
			if err == nil {
				from, before := scan, passed
				err = s.source.Read(ctx, func(r Reader) (err error) {
					scan, passed = from, before
					page, more, err = flowsOf(ctx, r, &scan, &filter, &passed)
					return err
				})
			}
			if !more {
				err = cmp.Or(err, passed)
			}
			for _, f := range page {
				if n++; !yield(f, nil) || n == filter.Limit {
					return
				}
			}
			if err != nil {
				yield(journal.Flow{}, err)
				return
			}
		}
	}
}

// flowsOf reads a page, and moves the scan behind it. It passes over damaged flows.
func flowsOf(ctx context.Context, r Reader, scan *FlowScan, filter *journal.FlowFilter, passed *error) (page []journal.Flow, more bool, err error) {
	rows, err := r.Flows(ctx, *scan)
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		if scan.After = (Position{Handle: row.Handle}); scan.Newest {
			scan.After, scan.Before = Position{}, row.Handle
		} else if filter.ByDue {
			scan.After.Key = row.Due
		}
		f, err := decodeFlow(row)
		if err == nil && !selectsFlow(filter, &f) {
			continue
		}
		if err == nil {
			f.Steps, err = stepsOf(ctx, r, f.Handle)
		}
		if passes(err, passed) {
			continue
		}
		if err != nil {
			return page, false, err
		}
		f.Input = nil
		for i := range f.Steps {
			f.Steps[i].Result = nil
		}
		page = append(page, f)
	}
	return page, len(rows) == scan.Limit, nil
}

func selectsFlow(filter *journal.FlowFilter, f *journal.Flow) bool {
	return (filter.Scope == nil || *filter.Scope == f.Scope) && (filter.ID == "" || filter.ID == f.ID) &&
		(len(filter.States) == 0 || slices.Contains(filter.States, f.State)) && (len(filter.Functions) == 0 || slices.Contains(filter.Functions, f.Function))
}

// ClaimFlows implements journal.Flows.
func (s *Store) ClaimFlows(ctx context.Context, ev journal.FlowEvent, limit int) (results []journal.FlowResult, err error) {
	if err := s.writable(ctx); err != nil {
		return nil, err
	}
	if err := store.CheckClaimFlows(ev); err != nil {
		return nil, err
	}
	err = s.alone(ctx, &request{run: func(b *batch) (err error) {
		results, err = b.claimFlows(ev, limit)
		return err
	}})
	return results, err
}

func (b *batch) claimFlows(ev journal.FlowEvent, limit int) (results []journal.FlowResult, err error) {
	if err := b.mayApplyFlow(&ev); err != nil {
		return nil, err
	}
	if err := b.s.sessions.require(ev.Session); err != nil {
		return nil, err
	}
	if err := b.see(ev.At); err != nil {
		return nil, err
	}
	var mine, others []journal.Flow
	var passed error // why a flow that no living session holds was passed over, for a caller that gets none
	due := FlowScan{Index: FlowsByDue, By: ev.At.UnixMilli(), After: Position{Key: -1, Handle: math.MaxInt64}}
	late := due // those that were put off for long
	late.After = Position{Key: math.MinInt64}
	for _, scan := range []FlowScan{{Index: FlowsRunning}, due, late} {
		enough := len(mine) + limit + claimPage // some may turn out not to be claimable
		err := b.eachFlow(scan, func(row *Flow, f *journal.Flow, unread error) (more bool) {
			if scan.After == late.After && row.HasDue && row.Due >= 0 {
				return false
			}
			switch live, err := b.live(row.Holder); {
			case err != nil:
				passed = cmp.Or(passed, err)
			case live:
			case unread != nil:
				passed = cmp.Or(passed, passedOver(unread))
			case slices.Contains(ev.Functions, f.Function):
				f.Input = nil
				mine = append(mine, *f)
			case len(others) < limit:
				others = append(others, *f)
			}
			return len(mine) < enough
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(mine, func(a, b journal.Flow) int { return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.Handle, b.Handle)) })
	for _, f := range mine {
		if len(results) == limit {
			break
		}
		own := ev
		own.Handle = f.Handle
		result, err := b.applyFlow(own, TryLock)
		switch {
		case errors.Is(err, errHeld):
		case errors.Is(err, format.ErrDamaged) && b.broken == nil:
			passed = cmp.Or(passed, passedOver(err))
		case err != nil:
			return nil, b.fail(err)
		case result.Decision != journal.Ignored:
			results = append(results, result)
		}
	}
	slices.SortFunc(results, func(a, b journal.FlowResult) int { return cmp.Compare(a.Flow.Handle, b.Flow.Handle) })
	slices.SortFunc(others, func(a, b journal.Flow) int { return cmp.Compare(a.Handle, b.Handle) })
	for _, f := range others[:min(max(limit-len(results), 0), len(others))] {
		results = append(results, journal.FlowResult{Flow: f, Decision: journal.Ignored})
	}
	if len(results) == 0 {
		return nil, passed
	}
	return results, nil
}

// eachFlow calls f with the flows of an index, or with the error of a damaged one, as long as it wants more.
func (b *batch) eachFlow(scan FlowScan, f func(*Flow, *journal.Flow, error) (more bool)) error {
	for scan.Limit = flowPage; ; {
		rows, err := b.tx.Flows(b.ctx, scan)
		if err != nil {
			return b.fail(err)
		}
		holders := make([]string, len(rows))
		for i, row := range rows {
			holders[i] = row.Holder
		}
		b.findLives(holders)
		for _, row := range rows {
			scan.After = Position{Handle: row.Handle}
			switch scan.Index {
			case FlowsByDue:
				scan.After.Key = row.Due
			case FlowsEnded:
				scan.After.Key = row.Ended
			}
			if is, err := decodeFlow(row); !f(row, &is, err) {
				return nil
			}
		}
		if len(rows) < flowPage {
			return nil
		}
	}
}

// ReapFlows implements journal.Flows.
func (s *Store) ReapFlows(ctx context.Context, ev journal.FlowEvent, limit int) (reaped int, err error) {
	if err := s.writable(ctx); err != nil {
		return 0, err
	}
	if err := store.CheckReapFlows(ev); err != nil {
		return 0, err
	}
	var damaged error
	err = s.alone(ctx, &request{run: func(b *batch) error {
		reaped, damaged = 0, nil
		if err := b.mayApplyFlow(&ev); err != nil {
			return err
		}
		if err := b.see(ev.At); err != nil {
			return err
		}
		own := ev
		own.At = b.clock.passed(ev.At)
		rows, err := b.tx.Flows(b.ctx, FlowScan{Index: FlowsEnded, By: own.At.Add(-ev.Keep).UnixMilli(), After: Position{Key: math.MinInt64}, Limit: limit + flowPage})
		if err != nil {
			return b.fail(err)
		}
		for _, row := range rows {
			if reaped == limit {
				return nil
			}
			own.Handle = row.Handle
			result, err := b.applyFlow(own, TryLock)
			switch {
			case errors.Is(err, errHeld):
			case errors.Is(err, format.ErrDamaged) && b.broken == nil:
				damaged = cmp.Or(damaged, passedOver(err))
			case err != nil:
				return b.fail(err)
			case result.Decision == journal.Recorded:
				reaped++
			}
		}
		return nil
	}})
	if err == nil && reaped < limit {
		err = damaged
	}
	return reaped, err
}
