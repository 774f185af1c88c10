package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// fewDue is the number up to which due operations are sorted by age. Above it, pending ones are read by age,
// because many of them are due.
const fewDue = 500

// claimAtOnce is the number of operations that a claim reads in one commit. Others write in between if it
// skips thousands.
const claimAtOnce = 256

// claimScans is how many due operations a claim goes through in one commit to find those of its providers.
var claimScans = 1024 // a test has fewer

// claimFor is the time limit for that, if the operations are large.
var claimFor = 20 * time.Millisecond // a test has more

// claiming is how far a claim has come, from one commit to the next.
type claiming struct {
	after    int64 // every operation up to this handle was looked at
	done     bool  // there are no others
	restored error // the holder of some operation is unknown
	damaged  error // and one that can't be read
}

// claim applies the event to at most limit operations, at least one, that need a claim, oldest first. It
// continues from c.
func (b *batch) claim(p *prepared, limit int, c *claiming) ([]outcome, error) {
	if err := b.refuses(p.Kind); err != nil {
		return nil, err
	}
	if err := b.requireSession(p.Session); err != nil {
		return nil, err
	}
	if err := b.observeClock(p.At); err != nil {
		return nil, err
	}
	handles, through, restored, err := b.wanted(p, c.after, claimAtOnce)
	if err != nil {
		return nil, err
	}
	if restored != nil {
		c.restored = restored
	}
	full := len(handles) == claimAtOnce
	c.done = !full && through == everything
	var outs []outcome
	began := time.Now()
	for _, handle := range handles {
		if len(outs) == limit || time.Since(began) > claimFor {
			c.done = false
			return outs, nil
		}
		var out outcome
		r, err := b.byHandle(handle)
		if err == nil {
			err = b.next(r, p, &out)
		}
		switch {
		case errors.Is(err, format.ErrDamaged) && b.broken == nil:
			c.damaged = fmt.Errorf("operation %d is passed over: %w", handle, err)
		case err != nil:
			return nil, b.giveUp(err) // the earlier claims of this batch are undone
		case out.decision != journal.Ignored: // else it was passed over
			outs = append(outs, out)
		}
		c.after = handle
	}
	if !full && !c.done {
		c.after = through
	}
	return outs, nil
}

// everything is higher than any handle.
const everything = math.MaxInt64

// wanted lists the handles of at most limit operations after one handle that need a claim, oldest first. None
// up to the handle through is missing. restored is not nil if the holders of others are unknown.
func (b *batch) wanted(p *prepared, after int64, limit int) (handles []int64, through int64, restored, err error) {
	handles, through, err = b.due(p, after, limit)
	if err != nil {
		return nil, 0, nil, err
	}
	orphans, restored, err := b.orphans(providers(p.From), p.Looking, after, limit)
	if err != nil {
		return nil, 0, nil, err
	}
	var nobodys []int64
	if !p.HookElsewhere {
		if nobodys, err = b.handles(b.sql.Unheld, after, limit, p.Looking); err != nil {
			return nil, 0, nil, err
		}
	}
	wanting, some, err := b.wanting(p, after)
	if err != nil {
		return nil, 0, nil, err
	}
	if some != nil {
		restored = some
	}
	handles = append(append(append(handles, orphans...), nobodys...), wanting...)
	handles = slices.DeleteFunc(handles, func(handle int64) bool { return handle > through })
	slices.Sort(handles)
	return handles[:min(limit, len(handles))], through, restored, nil
}

// providers are those of Event.From as a JSON array, nil for all.
func providers(from []string) any {
	if from == nil {
		return nil
	}
	list, _ := json.Marshal(from) // strings: it can't fail
	return string(list)
}

func (b *batch) handles(s *conn.Stmt, args ...any) (handles []int64, err error) {
	err = b.read(s, func(v []driver.Value) error {
		handles = append(handles, v[0].(int64))
		return nil
	}, args...)
	return handles, err
}

// due lists pending operations to be woken, oldest first. None up to the handle through is missing. A foreign
// backlog takes as many commits as necessary.
func (b *batch) due(p *prepared, after int64, limit int) (handles []int64, through int64, err error) {
	by := store.WakeBy(p.Event).UnixMilli()
	n, err := b.handles(b.sql.DueCount, by, fewDue+1) // counted there: a row that is handed over costs more
	if err != nil {
		return nil, 0, err
	}
	if n[0] <= fewDue {
		handles, err = b.handles(b.sql.DueFew, by, providers(p.From), fewDue)
		handles = slices.DeleteFunc(handles, func(handle int64) bool { return handle <= after })
		slices.Sort(handles)
		return handles[:min(limit, len(handles))], everything, err
	}
	through = everything
	err = b.read(b.sql.DueEnd, func(v []driver.Value) error {
		if v[0] == int64(claimScans) {
			through = v[1].(int64)
		}
		return nil
	}, by, claimScans, after)
	if err != nil {
		return nil, 0, err
	}
	if handles, err = b.handles(b.sql.DueMany, by, providers(p.From), limit, after, through); len(handles) == limit {
		through = everything // the others come after all of them
	}
	return handles, through, err
}

// wanting lists the operations to be claimed that only the log has.
func (b *batch) wanting(p *prepared, after int64) (handles []int64, restored, err error) {
	wakeBy := store.WakeBy(p.Event)
	for k := range b.recently {
		op := &k.Op
		switch {
		case op.Handle <= after || !p.mayTake(op):
			continue
		case op.State == journal.StatePending:
			if op.WakeAt.After(wakeBy) {
				continue
			}
		case op.Delivered:
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

// orphans lists the operations of dead sessions, oldest first for each session. restored is not nil if the
// holders of some operations are unknown.
func (b *batch) orphans(from any, looking bool, after int64, limit int) (handles []int64, restored, err error) {
	for holder := ""; ; {
		found, err := b.sql.NextHolder.First(func(v []driver.Value) error {
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
			held, err := b.handles(b.sql.HeldBy, holder, from, limit, after, looking)
			if err != nil {
				return nil, nil, err
			}
			handles = append(handles, held...)
		}
	}
}
