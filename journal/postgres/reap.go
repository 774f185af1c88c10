package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// reapBatch is how many operations are reaped in one commit, between those of others, and reapRead how many are looked at
// for them.
const (
	reapBatch = 100
	reapRead  = 1000
)

const (
	// settledBy selects operations that were settled by then and may be reaped, after those that were looked at already.
	settledBy = `SELECT o.settled_at, ` + columns + ` FROM (SELECT * FROM {{schema}}.operations o
		WHERE (o.state = 3 OR o.state = 5) AND o.delivered AND NOT o.tombstone AND o.settled_at <= $1
		AND (o.settled_at, o.handle) > ($2, $3) ORDER BY o.settled_at, o.handle LIMIT $4) o` + besides + `ORDER BY o.settled_at, o.handle`
	lockThese = `SELECT handle FROM {{schema}}.operations WHERE handle = ANY($1) ORDER BY handle FOR UPDATE SKIP LOCKED`

	takeLease = `INSERT INTO {{schema}}.leases (name, session, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (name) DO UPDATE SET session = excluded.session, expires_at = excluded.expires_at
		WHERE leases.session = excluded.session OR leases.expires_at <= clock_timestamp() OR leases.expires_at > clock_timestamp() + interval '2 minutes'`
	endLease = `DELETE FROM {{schema}}.leases WHERE name = $1 AND session = $2`
)

// reapLease is the name of the lease of whoever reaps, and leaseFor how long it has it without reaping.
const (
	reapLease = "reap"
	leaseFor  = 30 * time.Second
)

// Reap applies ev, of kind EventReap, to at most limit operations, those settled first coming first, and says how many were
// shrunk or removed. It takes 100 a commit, so that nobody waits for it for long. With Options.Archive, none goes
// before it was written there. What can't be read stays, and is for Verify to tell of. One process reaps at a time: where
// another does, nothing is done. Where an error comes in the middle, the number is of those before.
func (j *Journal) Reap(ctx context.Context, ev journal.Event, limit int) (int, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	if err := store.CheckReap(ev); err != nil {
		return 0, err
	}
	r := &reaper{j: j, ev: ev, lease: newSessionID()}
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
	return reaped, errors.Join(err, r.end(ctx))
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
	j     *Journal
	ev    journal.Event
	lease string

	leads   bool
	passed  time.Time // the latest time that has passed for sure
	settled int64     // of the last one that was looked at
	handle  int64
	done    bool
}

// some reaps at most limit operations, and at most reapBatch, in one commit: by another one than looks for them where
// they are archived in between.
func (r *reaper) some(ctx context.Context, limit int) (reaped int, err error) {
	var handles []int64
	var found []journal.Operation
	err = r.inTx(ctx, limit, func(t *tx, next *reaper) (err error) {
		if handles, err = next.find(t, min(limit, reapBatch)); err != nil {
			return err
		}
		if r.j.archive != nil {
			found, err = t.whatIsAt(handles)
			return err
		}
		reaped, err = next.reap(t, handles, nil)
		return err
	})
	switch {
	case err != nil || !r.leads:
		return 0, err
	case r.j.archive == nil:
		return reaped, nil
	}
	archived, err := r.j.archive.Write(found)
	if err != nil {
		return 0, fmt.Errorf("postgres: %w", err)
	}
	err = r.inTx(ctx, limit, func(t *tx, next *reaper) (err error) {
		reaped, err = next.reap(t, handles, archived)
		return err
	})
	if err != nil || !r.leads {
		return 0, err
	}
	return reaped, nil
}

// inTx calls f, in one commit, if this is who reaps. What f does to next counts once that is there.
func (r *reaper) inTx(ctx context.Context, limit int, f func(t *tx, next *reaper) error) error {
	next := *r
	err := r.j.tx(ctx, ask{doing: "reap", at: r.ev.At, decides: true}, func(t *tx) error {
		next = *r
		n, err := t.do(takeLease, reapLease, r.lease, leaseFor)
		if err != nil {
			return err
		}
		next.leads, next.passed = n > 0, t.clock.Passed(r.ev.At)
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

// eventIn is what is asked of each operation.
func (r *reaper) eventIn(t *tx) journal.Event {
	ev := r.ev
	ev.Last, ev.Unconfirmed = t.clock.Last, t.clock.Unconfirmed(ev.At)
	return ev
}

// find looks for at most limit operations that may be reaped, from where it stands.
func (r *reaper) find(t *tx, limit int) (handles []int64, err error) {
	ev := r.eventIn(t)
	n := 0
	err = t.each(func(from scanner) error {
		var settled int64
		op, err := scan(behind{from, &settled})
		n++
		if err != nil && !isDamaged(err) {
			return err
		}
		if err == nil && len(handles) < limit {
			r.settled, r.handle = settled, op.op.Handle
			if _, decision, _ := journal.Next(op.op, false, ev); decision == journal.Recorded {
				handles = append(handles, op.op.Handle)
			}
		}
		return nil
	}, settledBy, r.passed.Add(-ev.Keep).UnixMilli(), r.settled, r.handle, reapRead)
	r.done = n < reapRead && len(handles) < limit
	return handles, err
}

// whatIsAt reads operations whole that nobody is changing.
func (t *tx) whatIsAt(handles []int64) (ops []journal.Operation, err error) {
	locked, err := t.numbers(lockThese, handles)
	if err != nil {
		return nil, err
	}
	for _, handle := range locked {
		r, err := t.byHandle(handle)
		if err != nil && !isDamaged(err) {
			return nil, err
		}
		if err == nil && r != nil {
			ops = append(ops, r.op)
		}
	}
	return ops, nil
}

// reap reaps those of the operations that still can be, and are as they were archived: others may have come first.
func (r *reaper) reap(t *tx, handles []int64, archived store.Archived) (reaped int, err error) {
	ev := r.eventIn(t)
	locked, err := t.numbers(lockThese, handles)
	if err != nil {
		return 0, err
	}
	for _, handle := range locked {
		op, err := t.byHandle(handle)
		if err != nil && !isDamaged(err) {
			return 0, err
		}
		if err != nil || op == nil || !archived.Has(&op.op) {
			continue
		}
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

// behind reads a column that stands before the others.
type behind struct {
	scanner
	first any
}

func (b behind) Scan(dest ...any) error { return b.scanner.Scan(append([]any{b.first}, dest...)...) }
