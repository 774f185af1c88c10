package sqlite

import (
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// fewDue is up to how many due operations are sorted by age; past that, pending
// ones are walked by age, since many of them are due.
const fewDue = 500

// claim applies the event to at most limit operations that want one, oldest first.
func (b *batch) claim(p *prepared, limit int) ([]outcome, error) {
	if err := b.refuses(p.Kind); err != nil {
		return nil, err
	}
	if err := b.mine(p.Session); err != nil {
		return nil, err
	}
	if err := b.see(p.At); err != nil {
		return nil, err
	}
	if limit <= 0 {
		return nil, nil
	}
	handles, err := b.due(store.WakeBy(p.Event), limit)
	if err != nil {
		return nil, err
	}
	orphans, restored, err := b.orphans(limit)
	if err != nil {
		return nil, err
	}
	nobodys, err := b.handles(b.sql.nobodys, limit)
	if err != nil {
		return nil, err
	}
	wanting, some, err := b.wanting(store.WakeBy(p.Event))
	if err != nil {
		return nil, err
	}
	if some != nil {
		restored = some
	}
	handles = append(append(append(handles, orphans...), nobodys...), wanting...)
	slices.Sort(handles)
	if len(handles) > limit {
		handles = handles[:limit]
	}
	if len(handles) == 0 {
		return nil, restored
	}
	outs := make([]outcome, 0, len(handles))
	for _, handle := range handles {
		r, err := b.byHandle(handle)
		var out outcome
		if err == nil {
			err = b.next(r, p, &out)
		}
		if err != nil {
			if len(outs) > 0 {
				break // what was claimed before it has to be known to its asker
			}
			return nil, err
		}
		if out.decision != journal.Ignored { // else it was passed over
			outs = append(outs, out)
		}
	}
	return outs, nil
}

func (b *batch) handles(s *stmt, args ...any) (handles []int64, err error) {
	err = b.read(s, func(v []driver.Value) error {
		handles = append(handles, v[0].(int64))
		return nil
	}, args...)
	return handles, err
}

// due lists pending operations that are to be woken, oldest first.
func (b *batch) due(wakeBy time.Time, limit int) ([]int64, error) {
	by := wakeBy.UnixMilli()
	n, err := b.handles(b.sql.dueCount, by, fewDue+1) // counted there: a row that is handed over costs more
	if err != nil {
		return nil, err
	}
	if n[0] > fewDue {
		return b.handles(b.sql.dueMany, by, limit)
	}
	handles, err := b.handles(b.sql.dueFew, by, fewDue)
	slices.Sort(handles)
	return handles[:min(limit, len(handles))], err
}

// wanting lists what is to be claimed of that which only the log has.
func (b *batch) wanting(wakeBy time.Time) (handles []int64, restored, err error) {
	for k := range b.recently {
		op := &k.op
		switch {
		case op.State == journal.Pending:
			if op.WakeAt.After(wakeBy) {
				continue
			}
		case op.State > journal.InFlight && op.Delivered:
			continue
		case op.Holder != "":
			switch err := b.alive(op.Holder); {
			case err == nil:
				continue
			case errors.Is(err, journal.ErrRestored):
				restored = err
				continue
			case !errors.Is(err, errDead):
				return nil, nil, err
			}
		}
		handles = append(handles, op.Handle)
	}
	return handles, restored, nil
}

// orphans lists what dead sessions hold, oldest first for each. restored is not nil
// if there are operations of which nobody can say whether they are held.
func (b *batch) orphans(limit int) (handles []int64, restored, err error) {
	for holder := ""; ; {
		found, err := b.sql.nextHolder.first(func(v []driver.Value) error {
			holder = v[0].(string)
			return nil
		}, holder)
		if err != nil {
			return nil, nil, b.fail(err)
		}
		if !found {
			return handles, restored, nil
		}
		switch err := b.alive(holder); {
		case err == nil:
		case errors.Is(err, journal.ErrRestored):
			restored = err
		case !errors.Is(err, errDead):
			return nil, nil, err
		default:
			held, err := b.handles(b.sql.heldBy, holder, limit)
			if err != nil {
				return nil, nil, err
			}
			handles = append(handles, held...)
		}
	}
}
