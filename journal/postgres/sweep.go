package postgres

import (
	"cmp"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// A sweep gives every operation without an answer, and every waiting flow, the event that the clock asks for. There may be
// hundreds of thousands of them. If they are no more than a page, the transaction that moves the clock sweeps them.
//
// If there are more, pages of them are swept first, each in a transaction of its own, and the clock moves last (sweptAhead). Until then
// every process goes by the clock as it was, whichever its release: no process decides by a clock that some operations were not
// swept by. To be swept too early does an operation no harm: its window is closed, or a time of a clock that ran ahead is corrected. A sweep that is
// broken off leaves no trace but that. The one event that permits more than before comes with the clock: a jump that is
// confirmed (Event.Since). The transaction that moves the clock sweeps the operations that changed since their page. It compares revisions.

// lockPause is how long a sweep waits before it tries a locked row again.
const lockPause = 50 * time.Millisecond

const (
	// These use an index of operations that are not over.
	unanswered = `SELECT o.handle FROM {{schema}}.operations o WHERE o.state <> 3 AND o.handle > $1 ORDER BY o.handle LIMIT $2`
	lockThese  = `SELECT handle FROM {{schema}}.operations WHERE handle = ANY($1) ORDER BY handle FOR UPDATE SKIP LOCKED`
	lockNow    = `SELECT handle FROM {{schema}}.operations WHERE handle = ANY($1) ORDER BY handle FOR UPDATE`
	areThere   = `SELECT count(*) FROM {{schema}}.operations WHERE handle = ANY($1)`
	// It omits the bodies, which the sweep does not need: they may be larger than memory.
	headsOf = `SELECT ` + record.Columns + ` FROM {{schema}}.operations o LEFT JOIN {{schema}}.requests r ON r.handle = o.handle AND r.handle = ANY($1)
		WHERE o.handle = ANY($1) ORDER BY o.handle`
	// Without the + 0 all that are due later would be sorted for each page.
	flowsDueAfter = record.SelectFlow + ` WHERE state = 2 AND abs(due_at) > $1 AND handle > $2 ORDER BY handle LIMIT $3 FOR UPDATE`

	// A transaction that goes on for long has no time as a whole: a client that is cut off amid it is one that says nothing.
	sweepTime = `SELECT set_config('idle_in_transaction_session_timeout', '60s', true),
		CASE WHEN current_setting('server_version_num')::int >= 170000 THEN set_config('transaction_timeout', '0', true) END`
	plansNow = `SELECT ARRAY(SELECT current_setting(name) FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY p (name, n) ORDER BY n)`
	plansAs  = `SELECT set_config(name, value, true) FROM unnest($1::text[], $2::text[]) p (name, value)`
)

// planning lists the settings for the plans of a sweep's statements, as in flush.
var planning = []string{"plan_cache_mode", "enable_seqscan", "enable_bitmapscan", "enable_nestloop", "enable_mergejoin"}

// sweep gives every operation without an answer the event that the clock asks for, in this transaction.
func (t *tx) sweep(ev journal.Event) error {
	err := t.paged(func(after int64) (last int64, n int, err error) {
		last, flows, err := t.flowsAfter(after, ev, func(journal.Flow) journal.Event { return ev })
		return last, len(flows), err
	})
	if err != nil {
		return err
	}
	return t.paged(func(after int64) (last int64, n int, err error) {
		return t.unansweredAfter(after, func(r *record.Row) error {
			_, err := t.give(r, ev)
			return err
		})
	})
}

// give gives an operation events of the clock, one after the other, and returns its row as it is then.
func (t *tx) give(r *record.Row, evs ...journal.Event) (*record.Row, error) {
	op := r.Op
	for _, ev := range evs {
		op = afterClock(op, ev)
	}
	if !store.Changes(r.Op, op, journal.Ignored) {
		return r, nil
	}
	return t.put(r, op)
}

// afterClock is an operation after an event of the clock.
func afterClock(op journal.Operation, ev journal.Event) journal.Operation {
	// EventClock has no error.
	if next, _, _ := journal.Next(op, false, ev); store.Changes(op, next, journal.Ignored) {
		return next
	}
	return op
}

// unansweredAfter calls f with a page of the operations without an answer that come after that handle, locked, and without their bodies. It passes
// over damaged ones. It returns the last of the n handles that it went through.
func (t *tx) unansweredAfter(after int64, f func(r *record.Row) error) (last int64, n int, err error) {
	handles, err := t.numbers(unanswered, after, t.j.sweepPage)
	if err != nil || len(handles) == 0 {
		return 0, 0, err
	}
	return handles[len(handles)-1], len(handles), t.unansweredOf(handles, f)
}

// unansweredOf calls f with those of the operations that have no answer, locked, and without their bodies. It passes over damaged ones.
func (t *tx) unansweredOf(handles []int64, f func(r *record.Row) error) error {
	if err := t.lock(handles); err != nil {
		return err
	}
	// By another statement, which sees the changes of a transaction that held the locks.
	var rows []*record.Row
	err := t.each(func(from record.Scanner) error {
		var handle int64
		r, err := record.Scan(record.KeepFirst(from, &handle))
		if record.IsDamaged(err) {
			t.damaged = cmp.Or(t.damaged, fmt.Errorf("operation %d: %w", handle, err))
			return nil
		}
		if err == nil && r.Op.State != journal.StateCompleted { // meanwhile
			rows = append(rows, r)
		}
		return err
	}, headsOf, handles)
	for _, r := range rows {
		if err == nil {
			err = f(r)
		}
	}
	return err
}

// lock locks operations. Another transaction may hold one, as a handler of DeliverTx does. A transaction that moves
// the clock waits for it without undoing what was swept, for as long as such a handler may run. After that lock
// returns 55P03. There is one such transaction at a time. For any other transaction, lock returns 55P03 soon, and it
// runs again: two that kept their locks would wait for each other.
func (t *tx) lock(handles []int64) error {
	if !t.jumped {
		_, err := t.do(lockNow, handles)
		return err
	}
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

// renew gives the transaction its time anew. It returns an error if the caller has given the sweep up.
func (t *tx) renew() error {
	t.allowed.renew()
	t.ctx = t.allowed.ctx
	if t.asker != nil && t.asker.Err() != nil {
		return t.j.ended(t.asker)
	}
	return nil
}

// flowsAfter gives a page of waiting flows the FlowEventClock that goes with the result of of. They are due later
// than the clock, and come after that handle. It returns the flows as they are then, and the handle of the last one.
// A damaged one is the zero Flow.
func (t *tx) flowsAfter(after int64, ev journal.Event, of func(journal.Flow) journal.Event) (last int64, flows []journal.Flow, err error) {
	err = t.each(func(row record.Scanner) error {
		f, err := record.ScanFlow(record.KeepFirst(row, &last))
		if record.IsDamaged(err) {
			f, err = journal.Flow{}, nil // no process trusts it
		}
		flows = append(flows, f)
		return err
	}, flowsDueAfter, ev.At.UnixMilli(), after, t.j.sweepPage)
	for i, f := range flows {
		if err == nil && f.Handle != 0 {
			var result journal.FlowResult
			result, err = t.nextFlow(f, flowClock(of(f)))
			flows[i] = result.Flow
		}
	}
	return last, flows, err
}

// paged calls page with the handle of the last operation that was swept, until a page is not full. It writes the
// changes of a page together.
func (t *tx) paged(page func(after int64) (last int64, n int, err error)) error {
	return t.planned(func() error {
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
		return nil
	})
}

// planned calls f, whose statements are planned as in flush.
func (t *tx) planned(f func() error) error {
	var were []string
	b := new(pgx.Batch)
	b.Queue(sweepTime)
	b.Queue(plansNow, planning).QueryRow(func(row pgx.Row) error { return row.Scan(&were) })
	b.Queue(connection.TogetherPlans)
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	_, err := t.exec(plansAs, planning, were)
	return err
}
