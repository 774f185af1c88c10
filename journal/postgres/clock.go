package postgres

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// dbClock estimates the database's clock without a query.
type dbClock struct {
	mu    sync.Mutex
	ahead time.Duration // of this process's own clock
	exact bool          // the answer took at most mostTrip
	last  time.Time     // the latest result of now
}

// mostTrip limits the time that an exact answer of the database's clock may take.
const mostTrip = time.Second

// heardAt records the time that the database's clock said, in answer to a question that was sent at that time. A slow
// answer says little: this process, or its machine, may have been stopped before the question or after. Then an
// earlier, exact answer stays.
func (c *dbClock) heardAt(sent, said time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	took := max(now.Sub(sent), now.Round(0).Sub(sent.Round(0)))
	if took > mostTrip && c.exact {
		return
	}
	c.exact = took <= mostTrip
	c.ahead = said.Sub(sent.Add(now.Sub(sent) / 2))
}

// behindOf limits how far the database's clock may be set back while now stands still.
const behindOf = time.Minute

// now returns the database's time. It never goes back, unless the database's clock was set back by more than a
// minute. Then every caller has to see that, as windows depend on it.
func (c *dbClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Add(c.ahead).Round(0)
	if now.Before(c.last) && c.last.Sub(now) <= behindOf {
		return c.last
	}
	c.last = now
	return now
}

// glance records a caller's clock, unless it has jumped. The next guard keeps it. If it has jumped, or had before,
// only a transaction can decide on it, and still is false.
func (j *Journal) glance(at time.Time) (clock store.Clock, still bool) {
	j.clockMu.Lock()
	defer j.clockMu.Unlock()
	if at.IsZero() {
		return j.clock, true
	}
	probe := j.clock
	if probe.See(at) || !probe.Jumped.IsZero() || !j.clock.Jumped.IsZero() {
		return j.clock, false
	}
	j.clock = probe
	return probe, true
}

// see records the caller's clock. If it has jumped, or had before, this transaction alone decides on it.
//
// If many operations have to be swept first, a background sweep does that, and the clock moves then. Meanwhile this
// transaction goes on as if its own clock had swept them: it reads each operation as the sweep will leave it
// (asSwept). But it believes a clock that is ahead no sooner than all others do: to believe it may send more.
func (t *tx) see() error {
	if t.amid != nil {
		return nil
	}
	clock, still := t.j.glance(t.at)
	if still {
		t.clock = clock
		return nil
	}
	if err := t.takeClock(); err != nil {
		return err
	}
	was, at := t.clock, t.ahead.now(t.at)
	if t.clock.See(at) {
		amid, err := t.sweepBy(at)
		if err != nil {
			return err
		}
		if amid {
			ev := t.clock.Sweep()
			t.amid = &ev
			if t.putsOff = !ev.Since.IsZero() || t.clock.Jumped.After(t.clock.Last); t.putsOff {
				t.clock = was
			}
			return nil
		}
	}
	return t.keepClock()
}

// unconfirmed returns when a caller's clock, which was seen, will be believed, or the zero time if it is.
func (t *tx) unconfirmed(at time.Time) time.Time {
	if t.putsOff {
		return at.Add(putOffFor)
	}
	return t.clock.Unconfirmed(at)
}

// passed returns the latest time that has passed for sure, by a caller's clock that was seen.
func (t *tx) passed(at time.Time) time.Time {
	if last := t.clock.Last; !t.unconfirmed(at).IsZero() && last.Before(at) {
		return last
	}
	return t.clock.Passed(at)
}

// takeClock locks the journal's clock and reads its state.
func (t *tx) takeClock() error {
	if t.jumped {
		return nil
	}
	select {
	case t.j.clockJob <- struct{}{}:
	case <-time.After(time.Second): // it may sweep for long
		return errSweeps
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
	t.jumped = true
	t.j.clockMu.Lock()
	t.clock = t.j.clock
	t.j.clockMu.Unlock()
	kept, _, err := t.j.keptClock(t.ctx, t.conn, " FOR UPDATE")
	if err != nil {
		return err
	}
	takeNews(&t.clock, kept)
	return nil
}

// takeNews takes over the clock's recorded state if it says more than c. A process must not take over its own record:
// that would close windows of operations that began since.
func takeNews(c *store.Clock, kept store.Clock) {
	if kept.Last.After(c.Last) || !kept.Jumped.Equal(c.Jumped) || kept.LeastMargin != c.LeastMargin {
		c.Take(kept)
	}
}

// keepClock writes the clock's state.
func (t *tx) keepClock() error {
	var jumped any
	if !t.clock.Jumped.IsZero() {
		jumped = t.clock.Jumped.UnixMilli()
	}
	_, err := t.exec("UPDATE "+t.j.schema+".journal SET last_at = $1, least_margin = $2, jumped_at = $3", millis(t.clock.Last), int64(t.clock.LeastMargin), jumped)
	return err
}

// keptClock returns the clock's state as the journal and its lanes record it, and how often it was reset.
func (j *Journal) keptClock(ctx context.Context, conn check.RowReader, lock string) (is store.Clock, resets int, err error) {
	var last, margin, laneLast, laneMargin int64
	var jumped *int64
	if err := conn.QueryRow(ctx, "SELECT last_at, least_margin, jumped_at, (length(history) - length(replace(history, '"+clockReset+"', ''))) / length('"+clockReset+"') FROM "+
		j.schema+".journal"+lock).Scan(&last, &margin, &jumped, &resets); err != nil {
		return store.Clock{}, 0, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(last_at), 0), coalesce(min(nullif(least_margin, 0)), 0) FROM "+j.schema+".lanes").Scan(&laneLast, &laneMargin)
	if err != nil {
		return store.Clock{}, 0, err
	}
	kept := store.Clock{LeastMargin: time.Duration(margin), Jumped: record.TimeOf(jumped)}
	if last = max(last, laneLast); last != 0 {
		kept.Last = time.UnixMilli(last).UTC()
	}
	if laneMargin != 0 && (margin == 0 || laneMargin < margin) {
		kept.LeastMargin = time.Duration(laneMargin)
	}
	return kept, resets, nil
}

// clockReset is what the journal's history says of a ResetClock.
const clockReset = ": clock reset to "

// takeKept takes over the clock's recorded state. If the clock was reset since this process looked, takeKept resets c
// first.
func (j *Journal) takeKept(c *store.Clock, kept store.Clock, resets int) {
	if resets > j.resets {
		c.Reset(kept.Last)
	}
	j.resets = max(j.resets, resets)
	takeNews(c, kept)
}

// readClock takes over the clock's recorded state, and reads the database's time.
func (j *Journal) readClock(ctx context.Context, conn *pgx.Conn) error {
	var said time.Time
	sent := time.Now()
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&said); err != nil {
		return err
	}
	j.time.heardAt(sent, said)
	// No other transaction of this process changes the clock's state between its reading here and its use.
	select {
	case j.clockJob <- struct{}{}:
		defer func() { <-j.clockJob }()
	case <-ctx.Done():
		return ctx.Err()
	}
	kept, resets, err := j.keptClock(ctx, conn, "")
	if err != nil {
		return err
	}
	j.clockMu.Lock()
	defer j.clockMu.Unlock()
	if own := j.clock.LeastMargin; own != 0 && (kept.LeastMargin == 0 || own < kept.LeastMargin) {
		kept.LeastMargin = own
	}
	j.takeKept(&j.clock, kept, resets)
	return nil
}

// margin records the terms of an operation, which may lower the least margin.
func (t *tx) margin(terms journal.Terms) {
	t.clock.Margin(terms)
	if t.own != nil {
		t.own.OnCommit(func() {
			t.j.clockMu.Lock()
			t.j.clock.Margin(terms)
			t.j.clockMu.Unlock()
		})
		return
	}
	t.j.clockMu.Lock()
	lowered := t.j.clock.Margin(terms)
	t.j.clockMu.Unlock()
	t.lowered = t.lowered || lowered
}

// ResetClock sets the latest time of the journal to now, in one commit. Other processes use it before they commit
// anything else. If many operations have no answer, or many flows wait, commits of some hundred correct them before
// that. The time that passes meanwhile is added to now. After an error the clock is as it was, and some of them may be
// corrected: call it again.
func (j *Journal) ResetClock(ctx context.Context, now time.Time) error {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	select {
	case j.sweeps <- struct{}{}: // a sweep that runs now goes by another clock
	case <-ctx.Done():
		return ctx.Err()
	case <-j.background.Done():
		return journal.ErrClosed
	}
	defer func() { <-j.sweeps }()
	ahead := &sweptAhead{owns: true}
	return j.tx(ctx, ask{doing: "reset the clock", lanes: []any{"true"}, ahead: ahead}, func(t *tx) error {
		t.asker = ctx
		now := ahead.now(now)
		// No lane is locked yet, so no commit waits for this.
		if ahead.tries == 0 {
			t.clock.Reset(now)
			if many, err := t.many(t.clock.Sweep()); err != nil {
				return err
			} else if many {
				return ahead.due(t.clock.Sweep(), now)
			}
		}
		// A process that is about to commit by the former latest time checks first.
		if _, err := t.exec("UPDATE "+j.schema+".lanes l SET last_at = least(last_at, $1), tenure = tenure + 1 "+
			"FROM (SELECT process, lane FROM "+j.schema+".lanes ORDER BY process, lane FOR UPDATE) o WHERE l.process = o.process AND l.lane = o.lane",
			now.UnixMilli()); err != nil {
			return err
		}
		if err := t.takeClock(); err != nil {
			return err
		}
		t.clock.Reset(now)
		if _, err := t.sweepBy(now); err != nil {
			return err
		}
		if err := t.note(strings.TrimPrefix(clockReset, ": ") + now.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
		return t.keepClock()
	})
}
