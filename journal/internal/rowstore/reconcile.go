package rowstore

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

var _ machine.Reconciler = (*Store)(nil)

// Looks implements machine.Reconciler.
func (s *Store) Looks(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if err := s.writable(ctx); err != nil {
		return nil, err
	}
	if err := store.CheckLooks(ev); err != nil {
		return nil, err
	}
	p := s.prepare(ev)
	var outs []*outcome
	var damaged error
	err := s.alone(ctx, &request{run: func(b *batch) (err error) {
		outs, damaged, err = b.looks(p, limit)
		return err
	}})
	if err != nil {
		return nil, err
	}
	if len(outs) == 0 {
		return nil, damaged
	}
	return s.results(outs)
}

// looks claims due look-ups, the longest due first. looks skips damaged rows and rows that other transactions hold.
// damaged is the first damaged row's error. looks stops once the bodies reach the byte limit.
func (b *batch) looks(p *prepared, limit int) (outs []*outcome, damaged, err error) {
	if err := b.maySend(); err != nil {
		return nil, nil, err
	}
	if err := b.see(p.At); err != nil {
		return nil, nil, err
	}
	bytes := 0
	for scan := (Scan{Index: LookDue, By: p.At.UnixMilli(), Limit: limit + claimPage}); len(outs) < limit; {
		places, err := b.tx.Scan(b.ctx, scan)
		if err != nil {
			return nil, nil, b.fail(err)
		}
		for _, at := range places {
			if len(outs) == limit || bytes > b.s.most {
				return outs, damaged, nil
			}
			switch out, size, err := b.look(at.Handle, p); {
			case skips(err) && b.broken == nil:
				damaged = cmp.Or(damaged, passedOver(err))
			case err != nil:
				return nil, nil, err
			case out != nil:
				outs = append(outs, out)
				bytes += size
			}
			scan.After = at
		}
		if len(places) < scan.Limit {
			return outs, damaged, nil
		}
	}
	return outs, damaged, nil
}

// look claims one look-up, and returns the size of the bodies. A nil out means that the row is held, or no longer
// due.
func (b *batch) look(handle int64, p *prepared) (out *outcome, size int, err error) {
	if b.entries[handle] == nil {
		keys := Keys{Handles: []int64{handle}, Whole: true, Lock: TryLock}
		found, err := b.tx.Find(b.ctx, keys)
		if err != nil {
			return nil, 0, b.fail(err)
		}
		b.take(keys, found)
	}
	e, err := b.entries[handle].usable()
	switch {
	case errors.Is(err, errHeld):
		return nil, 0, nil
	case err != nil || e == nil || !store.LookIsDue(p.Event, &e.now.op):
		return nil, 0, err
	}
	op, err := b.opened(e) // its caller gets the whole of it
	if err != nil {
		return nil, 0, err
	}
	size = len(op.Request.Body)
	if op.Answer != nil {
		size += len(op.Answer.Body)
	}
	out, err = b.decide(e, p)
	return out, size, err
}

// RecordEvent implements machine.Reconciler.
func (s *Store) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) (all []machine.Result, first bool, err error) {
	if err := s.writable(ctx); err != nil {
		return nil, false, err
	}
	if err := store.CheckEvent(heard, evs); err != nil {
		return nil, false, err
	}
	ps := make([]*prepared, len(evs))
	for i := range evs {
		ps[i] = s.prepare(evs[i])
	}
	var outs []*outcome
	err = s.alone(ctx, &request{run: func(b *batch) (err error) {
		outs, first, err = b.hear(s.key.OfHeard(heard), ps)
		if err != nil {
			b.broken = err // nothing of it stays
		}
		return err
	}})
	if err != nil || !first || len(evs) == 0 {
		return nil, first && err == nil, err
	}
	all, err = s.results(outs)
	return all, first, err
}

// hear applies a heard event's changes the first time. Without changes, hear remembers nothing.
func (b *batch) hear(digest []byte, ps []*prepared) (outs []*outcome, first bool, err error) {
	if err := b.maySend(); err != nil {
		return nil, false, err
	}
	after := b.clock.glance(&Head{})
	for _, p := range ps {
		after.see(p.At)
	}
	if first, err = b.tx.RecordEvent(b.ctx, digest, after.kept().Last.UnixMilli()); err != nil || !first {
		return nil, first, err
	}
	if b.undone = len(ps) == 0; b.undone {
		return nil, true, nil
	}
	for _, p := range ps {
		if err := b.refuses(p); err != nil { // before the clock of any is seen
			return nil, false, err
		}
	}
	for _, p := range ps {
		out, err := b.apply(p)
		if err != nil {
			return nil, false, err
		}
		outs = append(outs, out)
	}
	b.keep = true
	return outs, true, nil
}

// refuses returns the error that Next has for an event.
func (b *batch) refuses(p *prepared) error {
	e, err := b.named(p)
	if err != nil {
		return err
	}
	op, live, err := b.asNextReads(e, p)
	if err != nil {
		return err
	}
	_, _, err = callNext(op, live, p.Event)
	return err
}

// FindBy implements machine.Reconciler.
func (s *Store) FindBy(ctx context.Context, provider string, by machine.By, value string) (matches []machine.Match, err error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	err = s.source.Read(ctx, func(r Reader) error {
		matches = nil
		known, err := marked(ctx, r, s.key.OfMark(byte(by), store.MarkValue(by, value)))
		handles := slices.Clone(known)
		if err == nil && by == machine.ByKey {
			err = inFlight(ctx, r, func(page []int64) { handles = append(handles, page...) })
		}
		if err != nil {
			return err
		}
		slices.Sort(handles)
		for page := range slices.Chunk(slices.Compact(handles), listPage) {
			more, err := s.matching(ctx, r, page, known, provider, by, value)
			if err != nil {
				return err
			}
			matches = append(matches, more...)
		}
		return nil
	})
	return matches, err
}

// marked returns the handles that have a mark.
func marked(ctx context.Context, r Reader, mark int64) ([]int64, error) {
	found, err := r.Find(ctx, Keys{Marks: []int64{mark}})
	return found.Marks[mark], err
}

// inFlight yields the handles of operations in flight. Such operations are few, and have no mark for their key.
func inFlight(ctx context.Context, r Reader, yield func([]int64)) error {
	for scan := (Scan{Index: InFlight, Limit: listPage}); ; {
		places, err := r.Scan(ctx, scan)
		if err != nil {
			return err
		}
		page := make([]int64, len(places))
		for i, at := range places {
			page[i], scan.After = at.Handle, at
		}
		if yield(page); len(places) < scan.Limit {
			return nil
		}
	}
}

// matching returns the provider's operations that have the value. matching passes over damaged operations, unless they
// are known to have the value's mark. Otherwise one damaged operation would keep events from all others.
func (s *Store) matching(ctx context.Context, r Reader, handles, known []int64, provider string, by machine.By, value string) (matches []machine.Match, err error) {
	found, err := r.Find(ctx, Keys{Handles: handles, Heads: true})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found.Rows, func(a, b *Row) int { return int(a.Handle - b.Handle) })
	for _, row := range found.Rows {
		it, err := decode(s.codec, row)
		if err == nil {
			err = it.fillHeads(row)
		}
		if errors.Is(err, format.ErrDamaged) && !slices.Contains(known, row.Handle) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, is := machine.RoundBy(&it.op, by, value); !is || it.op.Provider != provider {
			continue
		}
		op, err := it.operation(s.codec, false)
		if err == nil {
			err = sealedOperation(&op)
		}
		if err != nil {
			return nil, err
		}
		matches = append(matches, store.Match(op, by, value))
	}
	return matches, nil
}
