package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

var _ journal.Reconciler = (*logJournal)(nil)

// Looks applies ev, of kind EventLook, in one commit to at most limit unknown operations whose look-up is
// due, the longest due first. It skips damaged ones, and returns an error for them once nothing else is due.
func (j *logJournal) Looks(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	if err := j.writable(ctx); err != nil {
		return nil, err
	}
	if err := store.CheckLooks(ev); err != nil {
		return nil, err
	}
	p := j.file.writer.prepare(ev)
	var outs []outcome
	err := j.file.writer.do(ctx, func(b *batch) (err error) {
		outs, err = b.looks(p, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return results(j.file.path, outs)
}

func results(path string, outs []outcome) ([]journal.Result, error) {
	results := make([]journal.Result, 0, len(outs))
	for i := range outs {
		result, err := outs[i].result(path)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

// dueLook is an operation whose look-up is due.
type dueLook struct {
	at     time.Time
	handle int64
}

func (b *batch) looks(p *prepared, limit int) ([]outcome, error) {
	if err := b.refuses(p.Kind); err != nil {
		return nil, err
	}
	if err := b.observeClock(p.At); err != nil {
		return nil, err
	}
	var outs []outcome
	var damaged error
	seen := make(map[int64]bool)
	for {
		due, err := b.dueLooks(p, limit-len(outs)+len(seen))
		if err != nil {
			return nil, err
		}
		before := len(seen)
		for _, d := range due {
			if len(outs) == limit || seen[d.handle] {
				continue
			}
			seen[d.handle] = true
			var out outcome
			r, err := b.byHandle(d.handle)
			if err == nil {
				_, err = b.wholeRequest(r) // before a session holds it
			}
			if err == nil {
				err = b.next(r, p, &out)
			}
			switch {
			case errors.Is(err, format.ErrDamaged) && b.broken == nil:
				damaged = fmt.Errorf("operation %d is passed over: %w", d.handle, err)
			case err != nil:
				return nil, b.giveUp(err)
			default:
				outs = append(outs, out)
			}
		}
		if damaged == nil || len(outs) == limit || len(seen) == before {
			break
		}
	}
	if len(outs) > 0 {
		return outs, nil // the next call reports the damaged ones
	}
	return nil, damaged
}

// dueLooks lists the looks that are due, at most limit, those due longest coming first.
func (b *batch) dueLooks(p *prepared, limit int) (due []dueLook, err error) {
	err = b.read(b.sql.DueLooks, func(v []driver.Value) error {
		due = append(due, dueLook{format.ToTime(v[0]), v[1].(int64)})
		return nil
	}, p.At.UnixMilli(), providers(p.From), int64(limit))
	if err != nil {
		return nil, err
	}
	for k := range b.recently {
		if store.LookIsDue(p.Event, &k.Op) {
			due = append(due, dueLook{k.Op.LookAt, k.Op.Handle})
		}
	}
	slices.SortFunc(due, func(a, b dueLook) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.handle, b.handle)) })
	return due[:min(limit, len(due))], nil
}

// Hear records in one commit that an event was heard, and its results.
func (j *logJournal) Hear(ctx context.Context, heard journal.Heard, evs []journal.Event) (all []journal.Result, first bool, err error) {
	if err := j.writable(ctx); err != nil {
		return nil, false, err
	}
	if err := store.CheckHear(heard, evs); err != nil {
		return nil, false, err
	}
	prepared := make([]*prepared, 0, len(evs))
	for _, ev := range evs {
		prepared = append(prepared, j.file.writer.prepare(ev))
	}
	var outs []outcome
	err = j.file.writer.do(ctx, func(b *batch) (err error) {
		first, outs, err = b.hear(heard, prepared)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	all, err = results(j.file.path, outs)
	return all, first, err
}

func (b *batch) hear(heard journal.Heard, evs []*prepared) (first bool, outs []outcome, err error) {
	if err := b.refuses(journal.EventEvidence); err != nil {
		return false, nil, err
	}
	hash := b.segments.Key.OfHeard(heard)
	before := false
	err = b.read(b.sql.HasHeard, func([]driver.Value) error {
		before = true
		return nil
	}, hash)
	if err != nil || before || len(evs) == 0 {
		return !before, nil, err
	}
	// Rejected events are rejected before anything is written.
	for _, p := range evs {
		r, err := b.find(p.Event)
		if err != nil {
			return false, nil, err
		}
		if _, _, refused := journal.Next(r.Op, false, p.Event); refused != nil {
			return false, nil, refused
		}
	}
	outs = make([]outcome, len(evs))
	for i, p := range evs {
		if err := b.apply(p, &outs[i]); err != nil {
			return false, nil, b.giveUp(err)
		}
	}
	return true, outs, b.giveUp(b.write(b.sql.AddHeard, hash, b.clock.Last.UnixMilli()))
}

// forgetHeard forgets events that were heard so long ago, some in a commit.
func (j *logJournal) forgetHeard(ctx context.Context, before time.Time) error {
	for {
		var left bool
		err := j.reapCommit(ctx, func(b *batch) error {
			var old [][]byte
			err := b.read(b.sql.OldHeard, func(v []driver.Value) error {
				old = append(old, format.ToBytes(v[0]))
				return nil
			}, before.UnixMilli(), int64(heardAtOnce))
			for _, hash := range old {
				if err == nil {
					err = b.write(b.sql.RemoveHeard, hash)
				}
			}
			left = len(old) == heardAtOnce
			return b.giveUp(err)
		})
		if err != nil || !left {
			return err
		}
	}
}

// heardAtOnce is how many events are forgotten in one commit.
const heardAtOnce = 1000
