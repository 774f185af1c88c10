package rowstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// claimPast is the number of operations after which a claim begins another transaction. Other processes write
// meanwhile, and passed-over operations fill no memory.
const claimPast = 512

// claimPage is the number of index places that a claim reads in reserve, since some operations may not be claimable.
const claimPage = 64

// Claim implements machine.Store.
func (s *Store) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if err := s.writable(ctx); err != nil {
		return nil, err
	}
	if err := store.CheckClaim(ev); err != nil {
		return nil, err
	}
	var all []*outcome
	var passed error
	for most, after := limit, int64(0); ; {
		var c *claim
		err := s.alone(ctx, &request{run: func(b *batch) error {
			c = &claim{b: b, p: s.prepare(ev), limit: most, after: after}
			return c.run()
		}})
		switch {
		case isOfRow(err) && len(c.outs) > 1: // the database may refuse one of them
			most = len(c.outs) / 2
			continue
		case isOfRow(err) && len(c.outs) == 1:
			handle := c.outs[0].it.op.Handle
			s.refusals.add(handle, fmt.Errorf("operation %d is passed over for a minute: %w", handle, err))
			s.log.Warn("the database refuses the claim of an operation, which is passed over for a minute", "handle", handle, "error", err)
			most = limit - len(all)
			continue
		case err != nil && len(all) == 0:
			return nil, err
		case err != nil: // a caller gets those of the earlier transactions
			return s.results(all)
		}
		all, passed = append(all, c.outs...), cmp.Or(passed, c.passed)
		if most, after = limit-len(all), c.after; c.more {
			continue
		}
		if len(all) == 0 {
			return nil, passed
		}
		return s.results(all)
	}
}

func (s *Store) results(outs []*outcome) ([]machine.Result, error) {
	all := make([]machine.Result, 0, len(outs))
	for _, out := range outs {
		r, err := out.result(s.codec)
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// claim is one Claim in a transaction.
type claim struct {
	b      *batch
	p      *prepared
	limit  int
	after  int64    // it has come so far
	more   bool     // it is to go on from there in another transaction
	dead   []string // sessions that hold something
	outs   []*outcome
	passed error // why an operation was passed over, for a caller that gets none
}

func (c *claim) run() error {
	if err := c.b.maySend(); err != nil {
		return err
	}
	if err := c.b.s.sessions.require(c.p.Session); err != nil {
		return err
	}
	if err := c.b.see(c.p.At); err != nil {
		return err
	}
	if err := c.findDead(); err != nil {
		return err
	}
	for past := 0; len(c.outs) < c.limit; {
		handles, more, err := c.next(c.after, c.limit-len(c.outs)+claimPage)
		if err != nil {
			return c.b.fail(err)
		}
		if err := c.take(handles); err != nil {
			return err
		}
		if !more {
			return nil
		}
		c.after, past = handles[len(handles)-1], past+len(handles)
		if c.more = past >= claimPast && len(c.outs) < c.limit; c.more {
			return nil
		}
	}
	return nil
}

// findDead finds the sessions whose processes have died. A session with an unknown fate keeps its operations.
func (c *claim) findDead() error {
	holders, err := c.b.tx.Holders(c.b.ctx)
	if err != nil {
		return c.b.fail(err)
	}
	c.b.findLives(holders)
	for _, holder := range holders {
		switch live, err := c.b.live(holder); {
		case err != nil:
			c.passed = err
		case !live:
			c.dead = append(c.dead, holder)
		}
	}
	return nil
}

// next returns the lowest handles after the handle after that may be claimable, and reports whether there may be
// more.
func (c *claim) next(after int64, limit int) (handles []int64, more bool, err error) {
	scans := []Scan{{Index: Pending, By: store.WakeBy(c.p.Event).UnixMilli(), Providers: c.p.From}}
	if !c.p.HookElsewhere {
		scans = append(scans, Scan{Index: Undelivered})
	}
	for _, holder := range c.dead {
		scans = append(scans, Scan{Index: HeldBy, Holder: holder, Providers: c.p.From})
	}
	for _, scan := range scans {
		scan.After, scan.Limit = Position{Handle: after}, limit
		places, err := c.b.tx.Scan(c.b.ctx, scan)
		if err != nil {
			return nil, false, err
		}
		more = more || len(places) == limit
		for _, at := range places {
			handles = append(handles, at.Handle)
		}
	}
	slices.Sort(handles)
	handles = slices.Compact(handles)
	if len(handles) > limit {
		handles, more = handles[:limit], true
	}
	return handles, more, nil
}

// take claims operations, oldest first. Rows that are not needed stay free for other claims. take
// locks more rows only after some rows turned out not to be claimable.
func (c *claim) take(handles []int64) error {
	for size := 0; len(handles) > 0 && len(c.outs) < c.limit; handles = handles[size:] {
		size = min(len(handles), max(2*size, c.limit-len(c.outs)))
		if err := c.lock(handles[:size]); err != nil {
			return err
		}
		for _, handle := range handles[:size] {
			if len(c.outs) == c.limit {
				return nil
			}
			if err := c.one(handle); err != nil {
				return err
			}
		}
	}
	return nil
}

// lock locks rows, except rows that other transactions hold.
func (c *claim) lock(handles []int64) error {
	keys := Keys{Whole: true, Lock: TryLock}
	for _, handle := range handles {
		if c.b.entries[handle] == nil {
			keys.Handles = append(keys.Handles, handle)
		}
	}
	found, err := c.b.tx.Find(c.b.ctx, keys)
	if err != nil {
		return c.b.fail(err)
	}
	c.b.take(keys, found)
	return nil
}

func (c *claim) one(handle int64) error {
	if refused := c.b.s.refusals.of(handle); refused != nil {
		c.passed = refused
		return nil
	}
	e, err := c.b.entries[handle].usable()
	if skips(err) {
		c.passed = err
	}
	if err != nil || e == nil || !c.wants(&e.now.op) {
		return nil
	}
	out, err := c.b.decide(e, c.p)
	switch {
	case skips(err) && c.b.broken == nil:
		c.passed = err
	case err != nil:
		return err
	case out.decision != machine.Ignored:
		c.outs = append(c.outs, out)
	}
	return nil
}

// wants reports whether the locked operation may be claimed.
func (c *claim) wants(op *journal.Operation) bool {
	unsent := op.State == journal.StatePending || op.State == journal.StateInFlight
	switch {
	case unsent && c.p.From != nil && !slices.Contains(c.p.From, op.Provider):
		return false
	case op.State == journal.StatePending:
		return !op.WakeAt.After(store.WakeBy(c.p.Event))
	case op.Holder != "":
		return slices.Contains(c.dead, op.Holder)
	}
	return op.State == journal.StateInFlight || store.Undelivered(op)
}
