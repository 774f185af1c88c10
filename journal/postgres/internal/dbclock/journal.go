package dbclock

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// Journal is the journal's clock as this process has it. It is safe for concurrent use.
type Journal struct {
	mu     sync.Mutex
	clock  store.Clock
	resets int // that this process knows of
}

// Get returns the clock.
func (j *Journal) Get() store.Clock {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.clock
}

// Set replaces the clock.
func (j *Journal) Set(clock store.Clock) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.clock = clock
}

// Glance records a caller's clock, unless it has jumped. The next guard keeps it. If it has jumped, or had before,
// only a transaction can decide on it, and still is false.
func (j *Journal) Glance(at time.Time) (clock store.Clock, still bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
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

// Margin records the terms of an operation, and reports whether they lower the least margin.
func (j *Journal) Margin(terms journal.Terms) (lowered bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.clock.Margin(terms)
}

// Take takes over the clock's recorded state, and how often it was reset. If it was reset since this process looked,
// the clock is reset first. A least margin of this process's own stays, if it is less.
func (j *Journal) Take(kept store.Clock, resets int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if own := j.clock.LeastMargin; own != 0 && (kept.LeastMargin == 0 || own < kept.LeastMargin) {
		kept.LeastMargin = own
	}
	if resets > j.resets {
		j.clock.Reset(kept.Last)
	}
	j.resets = max(j.resets, resets)
	TakeNews(&j.clock, kept)
}

// TakeNews takes over the clock's recorded state if it says more than c. A process must not take over its own record:
// that would close windows of operations that began since.
func TakeNews(c *store.Clock, kept store.Clock) {
	if kept.Last.After(c.Last) || !kept.Jumped.Equal(c.Jumped) || kept.Ahead.After(c.Ahead) || kept.LeastMargin != c.LeastMargin {
		c.Take(kept)
	}
}

// Conn runs a statement with one row.
type Conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Kept returns the clock's state as the tables of the schema record it, and how often it was reset. lock is a clause that
// locks the journal's row, or "".
func Kept(ctx context.Context, conn Conn, schema, lock string) (is store.Clock, resets int, err error) {
	var last, margin, laneLast, laneMargin int64
	var jumped, ahead *int64
	if err := conn.QueryRow(ctx, "SELECT last_at, least_margin, jumped_at, ahead_at, (length(history) - length(replace(history, '"+Reset+"', ''))) / length('"+Reset+"') FROM "+
		schema+".journal"+lock).Scan(&last, &margin, &jumped, &ahead, &resets); err != nil {
		return store.Clock{}, 0, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(last_at), 0), coalesce(min(nullif(least_margin, 0)), 0) FROM "+schema+".lanes").Scan(&laneLast, &laneMargin)
	if err != nil {
		return store.Clock{}, 0, err
	}
	kept := store.Clock{LeastMargin: time.Duration(margin), Jumped: record.TimeOf(jumped), Ahead: record.TimeOf(ahead)}
	if last = max(last, laneLast); last != 0 {
		kept.Last = time.UnixMilli(last).UTC()
	}
	if laneMargin != 0 && (margin == 0 || laneMargin < margin) {
		kept.LeastMargin = time.Duration(laneMargin)
	}
	return kept, resets, nil
}

// Reset is what the journal's history says of a ResetClock.
const Reset = ": clock reset to "

// Millis returns a time for a column of milliseconds that may be compared. The zero time is before all others.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64 + 1
	}
	return t.UnixMilli()
}
