package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// sweptAhead records the operations that a call of Journal.tx has swept page by page, before its transaction moves
// the clock. Such a call is ResetClock's, or runs in the background. There is one at a time in each process, and by a
// lease one in all processes.
type sweptAhead struct {
	owns  bool      // it is such a call, which holds Journal.sweeps
	lease string    // the process that has it; "" for ResetClock, which needs none
	asked time.Time // by the caller's clock
	began time.Time // that was then, by this process's
	tries int
	ev    journal.Event // that was given

	seen  map[int64]int32       // operations, at the revision that they have since
	open  []int64               // those that a later event of the same kind may change
	flows map[int64]waitingFlow // likewise
}

// waitingFlow has the fields of a waiting flow that every other event changes.
type waitingFlow struct{ claim, due int64 }

func asWaits(f journal.Flow) waitingFlow { return waitingFlow{f.Claim, format.Due(&f).UnixMilli()} }

// mostTries limits how often operations are swept ahead for a clock that moves otherwise meanwhile. Then one
// transaction sweeps all of them.
const mostTries = 3

// errSweepAhead makes Journal.tx sweep page by page, and then try again.
type errSweepAhead struct{ ev journal.Event }

func (errSweepAhead) Error() string { return "postgres: operations have to be swept first" }

const (
	// manyToSweep reports whether more operations or flows are to be swept than a page holds.
	manyToSweep = `SELECT (SELECT count(*) FROM (SELECT 1 FROM {{schema}}.operations o WHERE o.state <> 3 AND o.handle > 0 ORDER BY o.handle LIMIT $2::bigint + 1) o) > $2::bigint
		OR (SELECT count(*) FROM (SELECT 1 FROM {{schema}}.flows WHERE state = 2 AND (due_at > $1 OR due_at < -$1::bigint) LIMIT $2::bigint + 1) f) > $2::bigint`
	revisions   = `SELECT coalesce(array_agg(handle), '{}'), coalesce(array_agg(revision), '{}') FROM {{schema}}.operations WHERE state <> 3`
	flowsDue    = `SELECT coalesce(array_agg(handle), '{}'), coalesce(array_agg(claim), '{}'), coalesce(array_agg(due_at), '{}') FROM {{schema}}.flows WHERE state = 2 AND (due_at > $1 OR due_at < -$1::bigint)`
	flowsOf     = record.SelectFlow + ` WHERE state = 2 AND handle = ANY($1) ORDER BY handle FOR UPDATE`
	putOffFor   = time.Second
	mostChanged = 3 // rounds over what has changed meanwhile
)

// now returns what a caller's clock that showed at shows now, if operations have been swept since, or else at.
func (p *sweptAhead) now(at time.Time) time.Time {
	if p.tries == 0 {
		return at
	}
	if now := p.asked.Add(time.Since(p.began)).Truncate(time.Millisecond); now.After(at) {
		return now
	}
	return at
}

// after returns ev for operations that have changed since. It is later by the caller's clock, so that it touches no
// operation that this clock has begun since.
func (p *sweptAhead) after(ev journal.Event, at time.Time) journal.Event {
	if now := p.now(at); now.After(ev.At) {
		ev.At = now
	}
	return ev
}

// covers reports whether ev leaves a swept operation as it is, if that has not changed since and is not among open.
// It does if ev comes of the same jump as the event that was given, and not before it. A journal's last time that has
// gone on closes more windows: those are among open.
func (p *sweptAhead) covers(ev journal.Event) bool {
	return p.seen != nil && ev.Since.Equal(p.ev.Since) && !ev.Last.Before(p.ev.Last) && (ev.Since.IsZero() || ev.Last.Equal(p.ev.Last)) &&
		!ev.At.Before(p.ev.At.Add(-time.Second)) // what is reckoned by two of this process's clocks may be apart by some milliseconds
}

// sweepBy gives all operations the event that the clock asks for at that time, or returns errSweepAhead. It reports
// amid if another call sweeps in the background, and this one goes on.
func (t *tx) sweepBy(at time.Time) (amid bool, err error) {
	ev, p := t.clock.Sweep(), t.ahead
	switch {
	case !p.owns && len(t.j.sweeps) > 0:
		return true, nil
	case p.tries == 0:
		if many, err := t.many(ev); err != nil {
			return false, err
		} else if !many {
			return false, t.sweep(ev)
		}
	case p.covers(ev):
		return false, t.catchUp(ev, at)
	case p.tries == mostTries:
		return false, t.sweep(ev)
	}
	if !p.owns {
		t.j.sweepBehind(at)
		return true, nil
	}
	return false, p.due(ev, at)
}

// sweepBehind starts a sweep by a caller's clock in the background, unless this process already sweeps.
func (j *laneJournal) sweepBehind(at time.Time) {
	select {
	case j.sweeps <- struct{}{}:
	default:
		return
	}
	p := &sweptAhead{owns: true, lease: j.fleet.Member().ID, asked: at, began: time.Now()}
	j.goroutines.Go(func() {
		defer func() { <-j.sweeps }()
		err := j.tx(j.background, ask{doing: "sweep", at: at, ahead: p}, func(t *tx) error {
			_, err := t.do(endLease, sweepLease, p.lease)
			return err
		})
		if err == nil {
			return
		}
		if !errors.Is(err, errSweptElsewhere) && j.background.Err() == nil {
			j.log.Warn("onceward: the clock has changed, and the operations' times could not be corrected; this is tried again", "error", err)
		}
		select {
		case <-time.After(sweepAgain):
		case <-j.background.Done():
		}
	})
}

// errSweptElsewhere means that another process sweeps.
var errSweptElsewhere = errors.New("postgres: another process sweeps")

// sweepAgain is how long a process leaves the one alone that sweeps.
const sweepAgain = time.Second

// due returns the error that makes Journal.tx sweep operations by ev, which comes of a caller's clock.
func (p *sweptAhead) due(ev journal.Event, at time.Time) error {
	if p.asked.IsZero() {
		p.asked, p.began = at, time.Now()
	}
	return errSweepAhead{ev}
}

// many reports whether ev has to be given to more than a page of operations, or of flows.
func (t *tx) many(ev journal.Event) (many bool, err error) {
	err = t.planned(func() error { return t.one(manyToSweep, ev.At.UnixMilli(), t.j.sweepPage).Scan(&many) })
	return many, err
}

// asSwept returns an operation as the sweep under way will leave it.
func (t *tx) asSwept(r *record.Row) *record.Row {
	if t.amid == nil || !r.Exists() {
		return r
	}
	swept := *r
	swept.Op = afterClock(r.Op, withoutSince(*t.amid))
	return &swept
}

// withoutSince returns an event of the clock without Since, which comes with the clock itself.
func withoutSince(ev journal.Event) journal.Event {
	ev.Since = time.Time{}
	return ev
}

// sweepAhead gives all operations the event, page by page. It leaves out the confirmation, which comes with the clock
// itself.
func (j *laneJournal) sweepAhead(ctx context.Context, p *sweptAhead, ev journal.Event) error {
	p.tries++
	p.ev, p.seen, p.open, p.flows = ev, make(map[int64]int32), nil, make(map[int64]waitingFlow)
	page := func(f func(t *tx) (next func(), err error)) error {
		var next func()
		err := j.tx(ctx, ask{doing: "sweep", indices: true}, func(t *tx) (err error) {
			t.asker, t.puttingOff = ctx, true
			if p.lease != "" {
				if n, err := t.do(takeLease, sweepLease, p.lease, leaseFor); err != nil {
					return err
				} else if n == 0 {
					return errSweptElsewhere
				}
			}
			if next, err = f(t); err != nil {
				return err
			}
			return t.flush()
		})
		if err == nil {
			next()
		}
		return err
	}
	// Those that are changed from here on, and new ones, are given what the clock says then.
	were, waited := make(map[int64]int32), make(map[int64]waitingFlow)
	err := page(func(t *tx) (func(), error) {
		var handles, flows, claims, due []int64
		var are []int32
		b := new(pgx.Batch)
		b.Queue(t.j.in(revisions)).QueryRow(func(row pgx.Row) error { return row.Scan(&handles, &are) })
		b.Queue(t.j.in(flowsDue), ev.At.UnixMilli()).QueryRow(func(row pgx.Row) error { return row.Scan(&flows, &claims, &due) })
		return func() {
			for i, handle := range handles {
				were[handle] = are[i]
			}
			for i, handle := range flows {
				waited[handle] = waitingFlow{claims[i], due[i]}
			}
		}, t.conn.SendBatch(t.ctx, b).Close()
	})
	if err != nil {
		return err
	}
	for after, n := int64(0), j.sweepPage; n == j.sweepPage; {
		err := page(func(t *tx) (func(), error) {
			last, flows, err := t.flowsAfter(after, ev, func(f journal.Flow) journal.Event {
				if waited[f.Handle] == asWaits(f) {
					return ev
				}
				return p.after(ev, p.asked)
			})
			return func() {
				after, n = last, len(flows)
				for _, f := range flows {
					p.flows[f.Handle] = asWaits(f)
				}
			}, err
		})
		if err != nil {
			return err
		}
	}
	for after, n := int64(0), j.sweepPage; n == j.sweepPage; {
		err := page(func(t *tx) (func(), error) {
			var rows []*record.Row
			last, read, err := t.unansweredAfter(after, func(r *record.Row) (err error) {
				was, there := were[r.Op.Handle]
				of := withoutSince(ev)
				if !there || was != r.Revision {
					of = p.after(of, p.asked)
				}
				r, err = t.give(r, of)
				rows = append(rows, r)
				return err
			})
			return func() { after, n = last, read; p.note(rows) }, err
		})
		if err != nil {
			return err
		}
	}
	for range mostChanged {
		var changed []int64
		err := page(func(t *tx) (_ func(), err error) { changed, err = t.changed(p); return func() {}, err })
		if err != nil || len(changed) <= j.sweepPage {
			return err
		}
		for handles := range slices.Chunk(changed, j.sweepPage) {
			since := p.after(withoutSince(ev), p.asked)
			err := page(func(t *tx) (func(), error) {
				var rows []*record.Row
				err := t.unansweredOf(handles, func(r *record.Row) (err error) {
					r, err = t.give(r, since)
					rows = append(rows, r)
					return err
				})
				return func() { p.note(rows) }, err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// note records operations that were swept.
func (p *sweptAhead) note(rows []*record.Row) {
	for _, r := range rows {
		p.seen[r.Op.Handle] = r.Revision
		if p.mayChange(r.Op) {
			p.open = append(p.open, r.Op.Handle)
		}
	}
}

// mayChange reports whether a later event of the same jump changes an operation that was swept. Such an event
// confirms the jump, or comes after the journal's last time has gone on.
func (p *sweptAhead) mayChange(op journal.Operation) bool {
	confirmed, further := p.ev, withoutSince(p.ev)
	confirmed.At, further.Last = p.ev.At.Add(journal.Leap), p.ev.Last.Add(100*journal.Leap)
	return store.Changes(op, afterClock(op, confirmed), journal.Ignored) || store.Changes(op, afterClock(op, further), journal.Ignored)
}

// changed returns the operations that have changed since they were swept, or have come in since.
func (t *tx) changed(p *sweptAhead) (changed []int64, err error) {
	var handles []int64
	var are []int32
	if err := t.one(revisions).Scan(&handles, &are); err != nil {
		return nil, err
	}
	for i, handle := range handles {
		if was, seen := p.seen[handle]; !seen || was != are[i] {
			changed = append(changed, handle)
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// catchUp gives ev to all operations and flows that were not swept ahead, or have changed since. It also gives ev to
// those that it changes once more.
func (t *tx) catchUp(ev journal.Event, at time.Time) error {
	p := t.ahead
	now := p.after(ev, at)
	give := func(handles []int64, evs ...journal.Event) error {
		for page := range slices.Chunk(handles, t.j.sweepPage) {
			if err := t.renew(); err != nil {
				return err
			}
			t.puttingOff = true
			if err := t.unansweredOf(page, func(r *record.Row) error { _, err := t.give(r, evs...); return err }); err != nil {
				return err
			}
			if err := t.flush(); err != nil {
				return err
			}
		}
		return nil
	}
	return t.planned(func() error {
		changed, err := t.changed(p)
		if err != nil {
			return err
		}
		if err := give(changed, now); err != nil {
			return err
		}
		open := slices.DeleteFunc(slices.Clone(p.open), func(handle int64) bool {
			_, is := slices.BinarySearch(changed, handle)
			return is
		})
		slices.Sort(open)
		if err := give(slices.Compact(open), ev, now); err != nil {
			return err
		}
		return t.catchUpFlows(now)
	})
}

// catchUpFlows is catchUp for flows.
func (t *tx) catchUpFlows(ev journal.Event) error {
	var handles, claims, due, changed []int64
	if err := t.one(flowsDue, ev.At.UnixMilli()).Scan(&handles, &claims, &due); err != nil {
		return err
	}
	for i, handle := range handles {
		if was, seen := t.ahead.flows[handle]; !seen || was != (waitingFlow{claims[i], due[i]}) {
			changed = append(changed, handle)
		}
	}
	slices.Sort(changed)
	for page := range slices.Chunk(changed, t.j.sweepPage) {
		if err := t.renew(); err != nil {
			return err
		}
		t.puttingOff = true
		var flows []journal.Flow
		err := t.each(func(row record.Scanner) error {
			f, err := record.ScanFlow(row)
			if record.IsDamaged(err) {
				return nil // no process trusts it
			}
			flows = append(flows, f)
			return err
		}, flowsOf, page)
		for _, f := range flows {
			if err == nil {
				_, err = t.nextFlow(f, flowClock(ev))
			}
		}
		if err == nil {
			err = t.flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
