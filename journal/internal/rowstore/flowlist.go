package rowstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// flowPage is how many flows are read at once.
const flowPage = 256

// GetFlow implements machine.Flows.
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
		if f, err = decodeFlow(s.codec, row); err != nil {
			return err
		}
		if f.Steps, err = s.stepsOf(ctx, r, &f); err == nil && f.SealedBy != "" {
			err = sealedFlow(&f)
		}
		return err
	})
	return f, err
}

// ListFlows implements machine.Flows.
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
					page, more, err = s.flowsOf(ctx, r, &scan, &filter, &passed)
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

// flowsOf reads a page, passes over damaged flows, and moves the scan behind the page.
func (s *Store) flowsOf(ctx context.Context, r Reader, scan *FlowScan, filter *journal.FlowFilter, passed *error) (page []journal.Flow, more bool, err error) {
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
		f, err := decodeFlow(s.codec, row)
		if err == nil && !selectsFlow(filter, &f) {
			continue
		}
		if err == nil {
			f.Steps, err = s.stepsOf(ctx, r, &f)
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
		if page = append(page, f); len(page) == filter.Limit {
			break // ListFlows yields no more
		}
	}
	return page, len(rows) == scan.Limit, nil
}

func selectsFlow(filter *journal.FlowFilter, f *journal.Flow) bool {
	return (filter.Scope == nil || *filter.Scope == f.Scope) && (filter.ID == "" || filter.ID == f.ID) &&
		(len(filter.States) == 0 || slices.Contains(filter.States, f.State)) && (len(filter.Functions) == 0 || slices.Contains(filter.Functions, f.Function))
}

// ClaimFlows implements machine.Flows.
func (s *Store) ClaimFlows(ctx context.Context, ev machine.FlowEvent, limit int) (results []machine.FlowResult, err error) {
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

func (b *batch) claimFlows(ev machine.FlowEvent, limit int) ([]machine.FlowResult, error) {
	if err := b.mayApplyFlow(&ev); err != nil {
		return nil, err
	}
	if err := b.s.sessions.require(ev.Session); err != nil {
		return nil, err
	}
	if err := b.see(ev.At); err != nil {
		return nil, err
	}
	c := flowClaim{b: b, ev: ev, limit: limit}
	by := ev.At.UnixMilli()
	for _, scan := range []FlowScan{
		{Index: FlowsRunning},
		{Index: FlowsByDue, By: by, After: Position{Key: -1, Handle: math.MaxInt64}},
		{Index: FlowsByDue, By: by, After: putOff},
	} {
		if err := c.find(scan); err != nil {
			return nil, err
		}
	}
	if err := c.take(); err != nil {
		return nil, err
	}
	return c.all()
}

// putOff is the first position for flows with a long delay. Their Due is below 0.
var putOff = Position{Key: math.MinInt64}

// flowClaim is one ClaimFlows in a transaction.
type flowClaim struct {
	b            *batch
	ev           machine.FlowEvent
	limit        int
	mine, others []journal.Flow // that may be claimable
	claimed      []machine.FlowResult
	passed       error // why a flow that no living session holds was passed over, for a caller that gets none
}

// find finds flows without a living session. Some may turn out not to be claimable.
func (c *flowClaim) find(scan FlowScan) error {
	enough := len(c.mine) + c.limit + claimPage
	return c.b.eachFlow(scan, func(row *Flow, f *journal.Flow, unread error) (more bool) {
		if scan.After == putOff && row.HasDue && row.Due >= 0 {
			return false
		}
		switch live, err := c.b.live(row.Holder); {
		case err != nil:
			c.passed = cmp.Or(c.passed, err)
		case live:
		case unread != nil:
			c.passed = cmp.Or(c.passed, passedOver(unread))
		case slices.Contains(c.ev.Functions, f.Function):
			f.Input = nil
			c.mine = append(c.mine, *f)
		case len(c.others) < c.limit:
			c.others = append(c.others, *f)
		}
		return len(c.mine) < enough
	})
}

// take claims flows whose function the caller has, due flows first.
func (c *flowClaim) take() error {
	slices.SortStableFunc(c.mine, func(a, b journal.Flow) int { return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.Handle, b.Handle)) })
	for _, f := range c.mine {
		if len(c.claimed) == c.limit {
			return nil
		}
		ev := c.ev
		ev.Handle = f.Handle
		result, err := c.b.applyFlow(ev, TryLock)
		switch {
		case errors.Is(err, errHeld):
		case skips(err) && c.b.broken == nil:
			c.passed = cmp.Or(c.passed, passedOver(err))
		case err != nil:
			return c.b.fail(err)
		case result.Decision != machine.Ignored:
			c.claimed = append(c.claimed, result)
		}
	}
	return nil
}

// all returns the claimed flows, and then some flows whose function the caller lacks.
func (c *flowClaim) all() ([]machine.FlowResult, error) {
	slices.SortFunc(c.claimed, func(a, b machine.FlowResult) int { return cmp.Compare(a.Flow.Handle, b.Flow.Handle) })
	slices.SortFunc(c.others, func(a, b journal.Flow) int { return cmp.Compare(a.Handle, b.Handle) })
	results := c.claimed
	for _, f := range c.others[:min(max(c.limit-len(results), 0), len(c.others))] {
		results = append(results, machine.FlowResult{Flow: f, Decision: machine.Ignored})
	}
	if len(results) == 0 {
		return nil, c.passed
	}
	return results, nil
}

// eachFlow calls f with an index's flows, or with a damaged flow's error, as long as f wants more.
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
			if is, err := decodeFlow(b.s.codec, row); !f(row, &is, err) {
				return nil
			}
		}
		if len(rows) < flowPage {
			return nil
		}
	}
}

// ReapFlows implements machine.Flows.
func (s *Store) ReapFlows(ctx context.Context, ev machine.FlowEvent, limit int) (reaped int, err error) {
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
		for scan := (FlowScan{Index: FlowsEnded, By: own.At.Add(-ev.Keep).UnixMilli(), After: Position{Key: math.MinInt64}, Limit: flowPage}); ; {
			rows, err := b.tx.Flows(b.ctx, scan)
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
				case result.Decision == machine.Recorded:
					reaped++
				}
			}
			if len(rows) < scan.Limit {
				return nil
			}
			last := rows[len(rows)-1]
			scan.After = Position{Key: last.Ended, Handle: last.Handle}
		}
	}})
	if err == nil && reaped < limit {
		err = damaged
	}
	return reaped, err
}
