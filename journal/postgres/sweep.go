package postgres

import (
	"cmp"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// A sweep goes over all that has no answer, in one transaction: whoever comes in between would go by a clock that not all
// know yet, or send what is not adopted. There may be hundreds of thousands, so it goes page by page, each of which costs
// some round trips and has its own time. One is short, so that nobody takes who sweeps for somebody who is gone (see
// evict).

// sweepPage is how many are swept at a time.
const sweepPage = 256

// lockPause is how long whoever holds a row that is to be swept is left alone.
const lockPause = 50 * time.Millisecond

const (
	// Those are by an index of what is not over.
	unanswered = `SELECT o.handle FROM {{schema}}.operations o WHERE o.state <> 3 AND o.handle > $1 ORDER BY o.handle LIMIT $2`
	lockNow    = `SELECT handle FROM {{schema}}.operations WHERE handle = ANY($1) ORDER BY handle FOR UPDATE`
	areThere   = `SELECT count(*) FROM {{schema}}.operations WHERE handle = ANY($1)`
	// Their bodies, of which nothing is asked, may be larger than memory.
	headsOf = `SELECT ` + columns + ` FROM {{schema}}.operations o LEFT JOIN {{schema}}.requests r ON r.handle = o.handle AND r.handle = ANY($1)
		WHERE o.handle = ANY($1) ORDER BY o.handle`
	// Without the + 0 all that are due later would be sorted for each page.
	flowsDueAfter = selectFlow + ` WHERE state = 2 AND due_at + 0 > $1 AND handle > $2 ORDER BY handle LIMIT $3 FOR UPDATE`

	// A transaction that goes on for long has no time as a whole: a client that is cut off amid it is one that says nothing.
	sweepTime = `SELECT set_config('idle_in_transaction_session_timeout', '60s', true),
		CASE WHEN current_setting('server_version_num')::int >= 170000 THEN set_config('transaction_timeout', '0', true) END`
	plansNow = `SELECT ARRAY(SELECT current_setting(name) FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY p (name, n) ORDER BY n)`
	plansAs  = `SELECT set_config(name, value, true) FROM unnest($1::text[], $2::text[]) p (name, value)`
)

// planning are the settings by which statements are planned in a sweep, as in flush.
var planning = []string{"plan_cache_mode", "enable_seqscan", "enable_bitmapscan", "enable_nestloop", "enable_mergejoin"}

// sweep gives every operation without an answer the event that the clock asks for.
func (t *tx) sweep() error {
	ev := t.clock.Sweep()
	if err := t.sweepFlows(ev); err != nil {
		return err
	}
	return t.eachUnanswered(func(r *row) error {
		// EventClock has no error.
		next, _, _ := journal.Next(r.op, false, ev)
		if !store.Changes(r.op, next, journal.Ignored) {
			return nil
		}
		_, err := t.put(r, next)
		return err
	})
}

// eachUnanswered calls f with every operation without an answer, page by page.
func (t *tx) eachUnanswered(f func(r *row) error) error {
	return t.paged(func(after int64) (last int64, n int, err error) { return t.unansweredAfter(after, f) })
}

// unansweredAfter calls f with a page of the operations without an answer that come after that handle, locked, and without their bodies. It passes
// over damaged ones. It returns the last of the n handles that it went through.
func (t *tx) unansweredAfter(after int64, f func(r *row) error) (last int64, n int, err error) {
	handles, err := t.numbers(unanswered, after, t.j.sweepPage)
	if err != nil || len(handles) == 0 {
		return 0, 0, err
	}
	if err := t.lock(handles); err != nil {
		return 0, 0, err
	}
	// By another statement, which sees what whoever held the locks has written.
	var rows []*row
	err = t.each(func(from scanner) error {
		var handle int64
		r, err := scan(firstOf{from, &handle})
		if isDamaged(err) {
			t.damaged = cmp.Or(t.damaged, fmt.Errorf("operation %d: %w", handle, err))
			return nil
		}
		if err == nil && r.op.State != journal.StateCompleted { // meanwhile
			rows = append(rows, r)
		}
		return err
	}, headsOf, handles)
	for _, r := range rows {
		if err == nil {
			err = f(r)
		}
	}
	return handles[len(handles)-1], len(handles), err
}

// lock locks operations. Whoever holds one, as a handler of DeliverTx may, is waited for without undoing what was swept, for as
// long as such a handler has: past that it is 55P03, and what is held here is left to others meanwhile.
func (t *tx) lock(handles []int64) error {
	for until := time.Now().Add(t.j.pace.handler); time.Now().Before(until); {
		locked, err := t.numbers(lockThese, handles)
		if err != nil || len(locked) == len(handles) {
			return err
		}
		there := 0
		if err := t.one(areThere, handles).Scan(&there); err != nil || len(locked) == there {
			return err
		}
		if _, err := t.do(sweepTime); err != nil {
			return err
		}
		select {
		case <-time.After(lockPause):
		case <-t.ctx.Done():
			return t.ctx.Err()
		}
		if err := t.renew(); err != nil {
			return err
		}
	}
	_, err := t.do(lockNow, handles)
	return err
}

// renew has a sweep go on, if whoever asked for it still does.
func (t *tx) renew() error {
	t.allowed.renew()
	t.ctx = t.allowed.ctx
	if t.asker != nil && t.asker.Err() != nil {
		return t.j.ended(t.asker)
	}
	return nil
}

// sweepFlows gives every waiting flow that is due later than the clock the FlowEventClock which goes with ev.
func (t *tx) sweepFlows(ev journal.Event) error {
	return t.paged(func(after int64) (last int64, n int, err error) {
		var later []journal.Flow
		err = t.each(func(row scanner) error {
			f, err := scanFlow(firstOf{row, &last})
			n++
			if isDamaged(err) {
				return nil // it is believed by nobody
			}
			later = append(later, f)
			return err
		}, flowsDueAfter, ev.At.UnixMilli(), after, t.j.sweepPage)
		for _, f := range later {
			if err == nil {
				_, err = t.nextFlow(f, journal.FlowEvent{Kind: journal.FlowEventClock, At: ev.At, Last: ev.Last})
			}
		}
		return last, n, err
	})
}

// paged calls page with the handle of the last that was swept, until one is not full. What page puts is
// written together.
func (t *tx) paged(page func(after int64) (last int64, n int, err error)) error {
	var were []string
	b := new(pgx.Batch)
	b.Queue(sweepTime)
	b.Queue(plansNow, planning).QueryRow(func(row pgx.Row) error { return row.Scan(&were) })
	b.Queue(t.j.sql.togetherPlans)
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		return err
	}
	for after, n := int64(0), t.j.sweepPage; n == t.j.sweepPage; {
		err := t.renew()
		if err != nil {
			return err
		}
		t.puttingOff = true
		if after, n, err = page(after); err != nil {
			return err
		}
		if err = t.flush(); err != nil {
			return err
		}
	}
	_, err := t.exec(plansAs, planning, were)
	return err
}
