package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/dbclock"
)

// see records the caller's clock. If it has jumped, or had before, this transaction alone decides on it.
//
// If many operations have to be swept first, a background sweep does that, and the clock moves then. Meanwhile this
// transaction goes on as if its own clock had swept them: it reads each operation as the sweep will leave it
// (asSwept). But it believes a clock that is ahead no sooner than all others do: to believe it may send more.
func (t *tx) see() error {
	if t.amid != nil {
		return nil
	}
	clock, still := t.j.clock.Glance(t.at)
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
	t.clock = t.j.clock.Get()
	kept, _, err := dbclock.Kept(t.ctx, t.conn, t.j.schema, " FOR UPDATE")
	if err != nil {
		return err
	}
	dbclock.TakeNews(&t.clock, kept)
	return nil
}

// keepClock writes the clock's state.
func (t *tx) keepClock() error {
	var jumped, ahead any
	if !t.clock.Jumped.IsZero() {
		jumped = t.clock.Jumped.UnixMilli()
	}
	if !t.clock.Ahead.IsZero() {
		ahead = t.clock.Ahead.UnixMilli()
	}
	_, err := t.exec("UPDATE "+t.j.schema+".journal SET last_at = $1, least_margin = $2, jumped_at = $3, ahead_at = $4", dbclock.Millis(t.clock.Last), int64(t.clock.LeastMargin), jumped, ahead)
	return err
}

// readClock takes over the clock's recorded state, and reads the database's time.
func (j *laneJournal) readClock(ctx context.Context, conn *pgx.Conn) error {
	var said time.Time
	sent := time.Now()
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&said); err != nil {
		return err
	}
	j.fleet.Time.HeardAt(sent, said)
	// No other transaction of this process changes the clock's state between its reading here and its use.
	select {
	case j.clockJob <- struct{}{}:
		defer func() { <-j.clockJob }()
	case <-ctx.Done():
		return ctx.Err()
	}
	kept, resets, err := dbclock.Kept(ctx, conn, j.schema, "")
	if err != nil {
		return err
	}
	j.clock.Take(kept, resets)
	return nil
}

// margin records the terms of an operation, which may lower the least margin.
func (t *tx) margin(terms journal.Terms) {
	t.clock.Margin(terms)
	if t.own != nil {
		t.own.OnCommit(func() { t.j.clock.Margin(terms) })
		return
	}
	lowered := t.j.clock.Margin(terms)
	t.lowered = t.lowered || lowered
}

// readTime is all that Options.ReadOnly asks of the server's clock: by how much it is ahead of this process's.
func (j *laneJournal) readTime(ctx context.Context, conn *pgx.Conn) error {
	var said time.Time
	sent := time.Now()
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&said); err != nil {
		return err
	}
	j.fleet.Time.HeardAt(sent, said)
	return nil
}
