package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// Adopt ends the restored state: the journal no longer returns journal.ErrRestored. If it was not restored, Adopt does
// nothing.
//
// The caller asserts that no other copy of the journal is, or will be, in use. The journal does not know what happened
// after the copy was made. Every operation without an answer counts as sent, from its creation until now. It is
// pending or unknown by the resend rule, and cancelled ones are unknown. Names that were begun after the copy are not
// known, and execute when a caller asks again: adoption can't close that gap.
//
// Outcomes that were delivered after the copy was made are delivered once more, those of cancelled operations as
// unknown. Outcomes delivered before are not.
//
// Adopt ends all sessions, in every process. The processes start others. The journal's history (journal.history)
// records the adoption.
//
// Adopt corrects the operations without an answer in commits of some hundred, so late answers are recorded in between.
// The journal counts as restored until the last of these commits, so a partly adopted journal sends nothing. If Adopt
// returns an error, or its process dies, call it again. It begins anew, and a second adoption changes nothing. If the
// error names a damaged operation, the journal was adopted, and that operation stays as it is.
func (j *laneJournal) Adopt(ctx context.Context) error {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if j.fleet.Why() == "" {
		return nil
	}
	mark := fleet.Adopting + fleet.NewID()
	err = j.tx(ctx, ask{doing: "adopt", lanes: []any{"true"}}, func(t *tx) error { return t.cutOff("adopts it", mark) })
	if err != nil {
		return err
	}
	var damaged error
	for after, done := int64(0), false; !done; {
		var last int64
		err := j.tx(ctx, ask{doing: "adopt", indices: true}, func(t *tx) (err error) {
			t.asker = ctx
			if last, done, err = t.adopt(after); err == nil && done {
				err = t.adopted(mark)
			}
			damaged = cmp.Or(damaged, t.damaged)
			return err
		})
		if err != nil {
			return err
		}
		after = last
	}
	j.fleet.Adopted()
	if damaged != nil {
		return fmt.Errorf("adopted, but %w", damaged)
	}
	return nil
}

// adopt adopts a page of the operations without an answer that come after that handle.
func (t *tx) adopt(after int64) (last int64, done bool, err error) {
	if t.at = t.j.fleet.Time.Now(); t.at.IsZero() {
		t.at = time.Now()
	}
	if err := t.see(); err != nil {
		return 0, false, err
	}
	ev := journal.Event{Kind: journal.EventAdopt, At: t.at, Last: t.clock.Last, Unconfirmed: t.unconfirmed(t.at)}
	t.puttingOff = true
	last, n, err := t.unansweredAfter(after, func(r *record.Row) error {
		r = t.asSwept(r)
		live, err := t.holds(&r.Op, ev.Kind)
		if err != nil {
			return err
		}
		next, decision, err := journal.Next(r.Op, live, ev)
		if err == nil && store.Changes(r.Op, next, decision) {
			_, err = t.put(r, next)
		}
		return err
	})
	if err == nil {
		err = t.flush()
	}
	return last, n < t.j.sweepPage, err
}

// adopted ends the adoption that has this mark.
func (t *tx) adopted(mark string) error {
	n, err := t.exec("UPDATE "+t.j.schema+".journal SET restored = NULL WHERE restored = $1", mark)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: while it was adopted another process adopted it too, or found that the database has gone back; call Adopt again", journal.ErrRestored)
	}
	if err != nil {
		return err
	}
	return t.note("adopted")
}

// Confirm ends the restored state without changing an operation: after a planned move, a promotion without loss, or an
// upgrade to another major version. The caller asserts that nothing was lost, and that no other copy is, or will be,
// in use. It ends all sessions. If the journal does not count as restored, it does nothing.
func (j *laneJournal) Confirm(ctx context.Context) error {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if j.fleet.Why() == "" {
		return nil
	}
	if err := j.tx(ctx, ask{doing: "confirm", lanes: []any{"true"}}, func(t *tx) error { return t.cutOff("confirmed", "") }); err != nil {
		return err
	}
	j.fleet.Adopted()
	return nil
}

// cutOff ends all sessions, and begins another epoch.
func (t *tx) cutOff(word, restored string) error {
	done, err := t.j.fleet.CutOff(t.ctx, t.conn, word, restored)
	if err != nil {
		return err
	}
	t.onCommit = append(t.onCommit, done)
	clear(t.alive)
	return nil
}
