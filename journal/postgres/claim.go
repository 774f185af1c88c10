package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/known"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

const (
	// fewDue is up to how many due operations are sorted by age; past that, pending ones are walked by age, since many
	// of them are due.
	fewDue = 500
	// claimAtOnce limits the operations that a claim reads in one commit. If it skips thousands, others commit in
	// between.
	claimAtOnce = 256
)

// everything is higher than any handle.
const everything = math.MaxInt64

// Claim applies ev, of kind EventClaim, to at most limit claimable operations, oldest first. It uses one commit, or more
// if it skips hundreds or their bodies exceed 16 MB. It skips operations that another transaction is changing, so fewer
// than limit results mean that no other was claimable and unlocked. If an error follows the first results, Claim returns
// those, and the next claim fails. If the server refuses a claim, as by a trigger of the application's, Claim skips that
// operation for a minute. If hundreds are due, an operation that became due since may be claimed up to two seconds after
// others that were begun later.
func (j *laneJournal) Claim(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := store.CheckClaim(ev); err != nil {
		return nil, err
	}
	if err := j.joined(ev.Session); err != nil {
		return nil, err
	}
	var results []journal.Result
	var damaged error
	marked := known.LowMarkOf(&ev)
	low, passed := j.lows.Get(marked), false
	apart := false // one in a commit, to find the one that the server refuses
	for after, done := int64(0), false; !done; {
		var c *claiming
		err := j.tx(ctx, ask{doing: "claim", at: ev.At, needs: []string{ev.Session}, decides: true, indices: true}, func(t *tx) error {
			c = &claiming{after: after, low: low, many: low > 0, passed: passed}
			most := limit - len(results)
			if apart {
				most = min(most, 1)
			}
			return t.claim(ev, most, c)
		})
		switch {
		case err != nil && c != nil && len(c.results) > 0 && isRows(err):
			if apart = true; len(c.results) == 1 {
				handle := c.results[0].Operation.Handle
				j.refused.Add(handle)
				j.log.Warn("onceward: the server rejects the claim of an operation; the operation is passed over for a minute", "handle", handle, "error", err)
				damaged = cmp.Or(damaged, fmt.Errorf("operation %d is passed over for a minute: %w", handle, err))
			}
			continue
		case err != nil && len(results) == 0:
			return nil, err
		case err != nil:
			return results, nil
		}
		if len(results) == 0 {
			results = c.results
		} else {
			results = append(results, c.results...)
		}
		after, done, passed, damaged = c.after, c.done || len(results) >= limit, c.passed, cmp.Or(damaged, c.damaged)
		switch {
		case c.low > low && c.many:
			low = c.low
			j.lows.Raise(marked, low)
		case c.done && low > 0 && len(results) < limit: // again, from the beginning
			j.lows.Drop(marked)
			low, after, passed, done = 0, 0, false, false
		}
	}
	if len(results) == 0 && damaged != nil {
		return nil, damaged
	}
	return results, nil
}

// claiming is how far a claim has come.
type claiming struct {
	after   int64 // every operation up to this handle was looked at
	done    bool  // there are no others
	low     int64 // every due operation up to this handle is held
	many    bool  // are due, or were when the low mark was made
	passed  bool  // one of them was passed over
	damaged error // there is one that can't be read
	results []journal.Result
}

// claim applies the event to at most limit operations that want one.
func (t *tx) claim(ev journal.Event, limit int, c *claiming) error {
	t.puttingOff = true
	for looked, size := 0, limit; len(c.results) < limit && looked < claimAtOnce; size = max(limit-len(c.results), min(2*size, claimAtOnce)) {
		handles, through, err := t.wanted(ev, c, size)
		if err != nil {
			return err
		}
		looked += len(handles)
		read, err := t.claimThese(ev, limit, handles, c)
		if err != nil {
			return err
		}
		if read < len(handles) { // for another commit
			break
		}
		if len(handles) < size {
			if c.done = through == everything; !c.done && len(c.results) < limit {
				c.after = through
			}
			break
		}
	}
	c.done = c.done || limit <= 0
	return t.flush()
}

// claimThese applies the event to the first of some operations that are locked, as many as are read at once.
func (t *tx) claimThese(ev journal.Event, limit int, handles []int64, c *claiming) (read int, err error) {
	rows, err := t.whole(handles)
	if err != nil {
		return 0, err
	}
	c.results = slices.Grow(c.results, min(len(rows), limit-len(c.results)))
	for i, r := range rows {
		if len(c.results) == limit {
			break
		}
		c.after = handles[i]
		if t.j.refused.Has(handles[i]) {
			c.passed = true
			continue
		}
		if r.err != nil {
			c.passed = true
			c.damaged = fmt.Errorf("operation %d is passed over: %w", handles[i], r.err)
			continue
		}
		if r.row == nil {
			continue
		}
		due := r.row.Op.State == journal.StatePending
		result, _, err := t.next(r.row, ev)
		if err != nil {
			return 0, err
		}
		if result.Decision == journal.Ignored { // it is passed over
			c.passed = c.passed || due
			continue
		}
		c.results = append(c.results, result)
		if due && !c.passed {
			c.low = handles[i]
		}
	}
	return len(rows), nil
}

const (
	dueCount = `SELECT count(*) FROM (SELECT 1 FROM {{schema}}.operations o WHERE o.state = 1 AND wake_at BETWEEN -$1::bigint AND $1 ORDER BY wake_at LIMIT $2) few`
	oldest   = ` AND o.handle > $2 ORDER BY o.handle LIMIT $3 FOR UPDATE OF o SKIP LOCKED`
	dueFew   = `SELECT o.handle FROM {{schema}}.operations o WHERE o.state = 1 AND o.wake_at BETWEEN -$4::bigint AND $4
		AND o.handle = ANY(ARRAY(SELECT handle FROM {{schema}}.operations d WHERE d.state = 1 AND d.wake_at BETWEEN -$4::bigint AND $4 ORDER BY d.wake_at, d.handle LIMIT 500))` + ofThese + oldest
	// Many are due: the first of those that wait, whatever the time, and not all that are due, sorted. (No index is of
	// wake_at + 0.)
	dueMany = `SELECT o.handle FROM {{schema}}.operations o WHERE o.state = 1 AND o.wake_at + 0 BETWEEN -$4::bigint AND $4 AND o.handle <= $5` + ofThese + oldest
	// Up to there, so many wait, of whichever provider.
	dueEnd = `SELECT count(*), coalesce(max(handle), 0) FROM (SELECT o.handle FROM {{schema}}.operations o WHERE o.state = 1 AND o.handle > $1 ORDER BY o.handle LIMIT $2) waiting`
	// The operations that a dead session holds: those in flight, of these providers, and those with an outcome. A
	// claim that looks for unknown operations skips these until they need attention. Each + 0 keeps the server from
	// the indices of operations that are not over: a dead session holds few of them.
	heldBy = `SELECT o.handle FROM {{schema}}.operations o WHERE (o.holder, o.handle) > ($4, $2) AND o.holder <= $4 AND (o.state + 0 > 2 AND NOT o.delivered OR o.state + 0 = 2` + ofThese + `)
		AND (NOT $5 OR o.state <> 4 OR o.wake_at = 0) ORDER BY o.holder, o.handle LIMIT $3 FOR UPDATE OF o SKIP LOCKED`
	// Outcomes that no session holds.
	nobodys = `SELECT o.handle FROM {{schema}}.operations o WHERE o.state > 2 AND NOT o.delivered AND o.holder IS NULL
		AND (NOT $1 OR o.state <> 4 OR o.wake_at = 0)` + oldest
)

// wanted locks claimable operations that were begun after those read already and that no other transaction locks,
// oldest first. It returns the first limit of them, and omits none up to the handle through. A claim scans the backlog
// of other providers in several commits.
func (t *tx) wanted(ev journal.Event, c *claiming, limit int) (handles []int64, through int64, err error) {
	from, after := providers(ev.From), c.after
	by := store.WakeBy(ev).UnixMilli()
	var n int
	var dead []string
	b := new(pgx.Batch)
	if !c.many { // else there are as many, or nearly; to count them takes as long as to claim some
		b.Queue(t.j.in(dueCount), by, fewDue+1).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	}
	b.Queue(t.j.in(fmt.Sprintf(deadHolders, "operations"))).Query(func(rows pgx.Rows) (err error) {
		dead, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if !ev.HookElsewhere {
		b.Queue(t.j.in(nobodys), ev.Looking, after, limit).Query(func(rows pgx.Rows) (err error) {
			handles, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		})
	}
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		return nil, 0, err
	}
	through = everything
	var pending []int64
	if c.many = c.many || n > fewDue; c.many {
		if pending, through, err = t.dueOfMany(from, max(after, c.low), limit, by); err != nil {
			return nil, 0, err
		}
	} else if n > 0 {
		if pending, err = t.numbers(dueFew, from, after, limit, by); err != nil {
			return nil, 0, err
		}
	}
	handles = append(handles, pending...)
	for _, holder := range dead {
		held, err := t.numbers(heldBy, from, after, limit, holder, ev.Looking)
		if err != nil {
			return nil, 0, err
		}
		handles = append(handles, held...)
	}
	handles = slices.DeleteFunc(handles, func(handle int64) bool { return handle > through })
	slices.Sort(handles)
	return handles[:min(limit, len(handles))], through, nil
}

// dueOfMany locks the first of many operations that are due, of these providers, and leaves none out up to the handle through.
func (t *tx) dueOfMany(from [][]byte, after int64, limit int, by int64) (handles []int64, through int64, err error) {
	through = everything
	if from != nil {
		var n int
		var last int64
		if err := t.one(dueEnd, after, t.j.claimScans).Scan(&n, &last); err != nil {
			return nil, 0, err
		}
		if n == t.j.claimScans {
			through = last
		}
	}
	if handles, err = t.numbers(dueMany, from, after, limit, by, through); len(handles) == limit {
		through = everything // those that are left out come after all of these
	}
	return handles, through, err
}

// isRows reports whether an error may be of one row alone: of a transaction's changes, and not of tables or
// privileges (SQLSTATE's class 42).
func isRows(err error) bool {
	var told *Error
	return errors.As(err, &told) && told.Code != "" && !strings.HasPrefix(told.Code, "42") &&
		(pgerr.FateOfCode(told.Code) == pgerr.Poisoned || pgerr.FateOfCode(told.Code) == pgerr.Again)
}
