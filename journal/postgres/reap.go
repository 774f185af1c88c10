package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// reapRead is how many operations are read to find those that may be reaped.
const reapRead = 1000

const (
	// settledBy selects operations that were settled by then and may be reaped, after those that were looked at already.
	settledBy = `SELECT o.settled_at, ` + record.Columns + ` FROM (SELECT * FROM {{schema}}.operations o
		WHERE (o.state = 3 OR o.state = 5) AND o.delivered AND NOT o.tombstone AND o.settled_at <= $1
		AND (o.settled_at, o.handle) > ($2, $3) ORDER BY o.settled_at, o.handle LIMIT $4) o` + record.Besides + `ORDER BY o.settled_at, o.handle`
)

// Reap applies ev, of kind EventReap, to at most limit operations, those settled first coming first. It returns how
// many were shrunk or removed, also with an error. It takes 100 a commit, or 16 MB, so that no caller waits long.
// One process reaps at a time: the others do nothing. It skips damaged
// operations, and returns their error if there is nothing else to reap.
func (j *laneJournal) Reap(ctx context.Context, ev journal.Event, limit int) (int, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	if err := store.CheckReap(ev); err != nil {
		return 0, err
	}
	r := &reaper{j: j, ev: ev, lease: fleet.NewID()}
	reaped := 0
	for !r.done && reaped < max(limit, 1) {
		n, err := r.some(ctx, limit-reaped)
		reaped += n
		if err != nil {
			return reaped, errors.Join(err, r.end(ctx))
		}
	}
	if r.leads {
		err = j.forgetHeard(ctx, store.HeardBefore(ev.Keep, r.passed))
	}
	err = errors.Join(err, r.end(ctx))
	if reaped < limit {
		err = errors.Join(err, r.damaged)
	}
	return reaped, err
}

// end leaves the reaping to others at once.
func (r *reaper) end(ctx context.Context) error {
	if !r.leads {
		return nil
	}
	return r.j.tx(ctx, ask{doing: "reap"}, func(t *tx) error {
		_, err := t.do(endLease, reapLease, r.lease)
		return err
	})
}

// reaper is one call of Reap.
type reaper struct {
	j     *laneJournal
	ev    journal.Event
	lease string

	leads   bool
	passed  time.Time // the latest time that has passed for sure
	last    expired   // that was looked at
	done    bool
	damaged error
}

// expired is an operation that may be reaped.
type expired struct{ settled, handle int64 }

// some reaps at most limit operations, and at most reapBatch, in one commit.
func (r *reaper) some(ctx context.Context, limit int) (reaped int, err error) {
	err = r.inTx(ctx, limit, func(t *tx, next *reaper) error {
		found, err := next.find(t, min(limit, reapBatch))
		if err != nil {
			return err
		}
		rows, err := next.read(t, found)
		if err == nil {
			reaped, err = next.reap(t, rows)
		}
		return err
	})
	if err != nil || !r.leads {
		return 0, err
	}
	return reaped, nil
}

// inTx calls f, in one commit, if this process has the lease to reap. Changes of next take effect once that commit is
// there.
func (r *reaper) inTx(ctx context.Context, limit int, f func(t *tx, next *reaper) error) error {
	next := *r
	err := r.j.tx(ctx, ask{doing: "reap", at: r.ev.At, decides: true}, func(t *tx) error {
		next = *r
		n, err := t.do(takeLease, reapLease, r.lease, leaseFor)
		if err != nil {
			return err
		}
		next.leads, next.passed = n > 0, t.passed(r.ev.At)
		if !next.leads || limit <= 0 {
			next.done = true
			return nil
		}
		return f(t, &next)
	})
	if err == nil {
		*r = next
	}
	return err
}

// eventIn returns the event for each operation, by the transaction's clock.
func (r *reaper) eventIn(t *tx) journal.Event {
	ev := r.ev
	ev.Last, ev.Unconfirmed = t.clock.Last, t.unconfirmed(ev.At)
	return ev
}

// find looks for at most limit operations that may be reaped, from where it stands.
func (r *reaper) find(t *tx, limit int) (found []expired, err error) {
	ev := r.eventIn(t)
	n := 0
	err = t.each(func(from record.Scanner) error {
		var is expired
		op, err := record.Scan(record.KeepFirst(record.WithFirst(from, &is.settled), &is.handle))
		n++
		if err != nil && !record.IsDamaged(err) || len(found) == limit {
			return err
		}
		r.last = is
		if r.passOver(is, err) {
			return nil
		}
		if _, decision, _ := journal.Next(op.Op, false, ev); decision == journal.Recorded {
			found = append(found, is)
		}
		return nil
	}, settledBy, r.passed.Add(-ev.Keep).UnixMilli(), r.last.settled, r.last.handle, reapRead)
	r.done = n < reapRead && len(found) < limit
	return found, err
}

// passOver reports whether err says that the operation is damaged, and keeps the first such error.
func (r *reaper) passOver(is expired, err error) bool {
	if !record.IsDamaged(err) {
		return false
	}
	r.damaged = cmp.Or(r.damaged, fmt.Errorf("operation %d is passed over: %w", is.handle, err))
	return true
}

// read locks operations and reads them whole, the first of them if not all fit in memory. It skips operations that
// another transaction is changing, and damaged ones. If some are left, the next search goes on after the last one
// that was read.
func (r *reaper) read(t *tx, found []expired) (rows []*record.Row, err error) {
	handles := make([]int64, 0, len(found))
	for _, is := range found {
		handles = append(handles, is.handle)
	}
	locked, err := t.numbers(lockThese, handles)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(slices.Clone(found), func(is expired) bool { return !slices.Contains(locked, is.handle) })
	handles = handles[:0]
	for _, is := range found {
		handles = append(handles, is.handle)
	}
	read, err := t.whole(handles)
	if err != nil {
		return nil, err
	}
	for i, one := range read {
		if !r.passOver(found[i], one.err) && one.row != nil {
			rows = append(rows, one.row)
		}
	}
	if n := len(read); n < len(found) {
		r.last, r.done = found[n-1], false
	}
	return rows, nil
}

// reap reaps the operations that still can be reaped.
func (r *reaper) reap(t *tx, rows []*record.Row) (reaped int, err error) {
	ev := r.eventIn(t)
	for _, op := range rows {
		result, _, err := t.next(op, ev)
		if err != nil {
			return 0, err
		}
		if result.Decision == journal.Recorded {
			reaped++
		}
	}
	return reaped, nil
}
