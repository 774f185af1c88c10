package rows

import (
	"context"

	"github.com/onceward/onceward/journal/postgres/internal/apptx"
)

const (
	unlessRestored = "SELECT 1 / count(*) FROM (SELECT 1 FROM {{s}}.journal WHERE coalesce(restored, '') = $1 FOR UPDATE) j"
	// othersOfMember raises the tenure of this process's other lanes. CutOff raises those of other processes.
	othersOfMember = `UPDATE {{s}}.lanes l SET tenure = tenure + 1 FROM (SELECT process, lane FROM {{s}}.lanes WHERE process = $1 AND lane <> $2 ORDER BY lane FOR UPDATE) o
		WHERE l.process = o.process AND l.lane = o.lane`
)

// adopt adds the begin of an adoption to the transaction, if the journal counts as restored from then on, or its end. The
// caller calls done once the transaction has committed.
func (t *tx) adopt(restored string) (done func(), err error) {
	f := t.d.fleet
	if _, err := t.c.Exec(t.ctx, t.d.in(unlessRestored), t.recorded); err != nil {
		return nil, err
	}
	if restored != "" {
		return t.d.cutOff(t, "adopts it", restored)
	}
	if _, err := t.c.Exec(t.ctx, t.d.in("UPDATE {{s}}.journal SET restored = NULL")); err != nil {
		return nil, err
	}
	return f.Adopted, f.Note(t.ctx, t.c, "adopted")
}

// cutOff ends all sessions, and fences off each commit of an earlier epoch.
func (d *Driver) cutOff(t *tx, word, restored string) (done func(), err error) {
	if _, err := t.c.Exec(t.ctx, d.in(othersOfMember), t.lane.member.ID, t.lane.number); err != nil {
		return nil, err
	}
	return d.fleet.CutOff(t.ctx, t.c, word, restored)
}

// Confirm ends the restored state without changing an operation. If the journal does not count as restored, it does
// nothing.
func (d *Driver) Confirm(ctx context.Context) error {
	if d.fleet.Why() == "" {
		return nil
	}
	var done func()
	err := d.transact(ctx, "confirm", func(ctx context.Context, conn apptx.Runner) (err error) {
		done, err = d.fleet.CutOff(ctx, conn, "confirmed", "")
		return err
	})
	if err == nil {
		done()
		d.fleet.Adopted()
	}
	return err
}
