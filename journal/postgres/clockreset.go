package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/dbclock"
)

// ResetClock sets the latest time of the journal to now, in one commit. Other processes use it before they commit
// anything else. If many operations have no answer, or many flows wait, commits of some hundred correct them before
// that. The time that passes meanwhile is added to now. After an error the clock is as it was, and some of them may be
// corrected: call it again.
func (j *laneJournal) ResetClock(ctx context.Context, now time.Time) error {
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
		if err := t.note(strings.TrimPrefix(dbclock.Reset, ": ") + now.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
		return t.keepClock()
	})
}
