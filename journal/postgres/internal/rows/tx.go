package rows

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// tx is a transaction, on a lane of its own.
type tx struct {
	reader
	lane   *lane
	caller context.Context // of Begin
	ctx    context.Context // of the transaction's statements
	cancel func()
	until  time.Time // when all of it has to be done
	wait   string    // lock_timeout
	needs  []string  // sessions that live
	read   rowstore.Head

	recorded string // journal.restored, as it was read
	ended    bool
}

// How long a statement waits for another transaction: a statement in a shared transaction, and a statement that waits
// alone.
const (
	sharedWait = "5ms"
	ownWait    = "1000ms"
)

// Begin implements rowstore.Driver. The end of ctx ends the wait for a connection. Then the transaction has its own time,
// which ends a grace.Period after ctx.
func (d *Driver) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	wait := sharedWait
	if keys.Lock == rowstore.WaitLock {
		wait = ownWait
	}
	var f *finding
	t, err := d.begin(ctx, wait, func(p *pipeline) {
		f = newFinding(keys)
		f.queue(p)
	})
	if err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	found, err := f.result()
	if err != nil {
		t.Rollback()
	}
	return t, t.read, found, err
}

// begin starts a transaction on a lane that is ready, and sends statements with the guard. It returns once the guard has
// passed. If the guard refuses, begin finds out why, and mends the cause if it can.
func (d *Driver) begin(ctx context.Context, wait string, queue func(*pipeline)) (*tx, error) {
	l, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	for {
		if ctx.Err() != nil || d.background.Err() != nil {
			err = d.ended(ctx)
			break
		}
		fresh := l.conn == nil || l.conn.IsClosed()
		// The connection may have broken while idle. Nothing runs on it until the guard has passed: retry once on
		// another.
		broken := func() bool { return !fresh && l.conn == nil && pgerr.FateOf(err) == pgerr.Outage }
		if err = l.ready(ctx); err != nil {
			if broken() {
				continue
			}
			break
		}
		t := l.transaction(ctx, wait)
		var passed bool
		if passed, err = t.start(ctx, queue); err == nil && passed {
			return t, nil
		}
		t.cancel()
		switch {
		case err != nil && broken():
			continue
		case err == nil:
			if err = l.diagnose(ctx, t.needs); err == nil {
				continue
			}
		}
		break
	}
	d.giveBack(l)
	return nil, meaning(err)
}

// sessions returns the process's sessions that live to the process's knowledge.
func (d *Driver) sessions() []string {
	ids := []string{}
	for id := range d.fleet.Sessions.Living() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// transaction makes the lane's next transaction, which has not begun.
func (l *lane) transaction(ctx context.Context, wait string) *tx {
	t := &tx{reader: reader{d: l.d}, lane: l, caller: ctx, until: time.Now().Add(l.d.opts.Time), wait: wait, needs: l.d.sessions()}
	t.ctx, t.cancel = l.within(ctx, t.until)
	t.c = bounded{t}
	return t
}

// within returns a context for statements. It ends a grace.Period after ctx, and at a time, and with the driver.
func (l *lane) within(ctx context.Context, until time.Time) (context.Context, func()) {
	whole, leave := grace.After(ctx)
	within, end := context.WithDeadline(whole, until)
	stop := context.AfterFunc(l.d.background, end)
	return within, func() { stop(); end(); leave() }
}

// theGuard is the guard's number among start's statements.
const theGuard = 2

// start sends BEGIN, the settings, the guard and further statements, and reports whether the guard has passed.
func (t *tx) start(ctx context.Context, queue func(*pipeline)) (passed bool, err error) {
	l, p := t.lane, &pipeline{d: t.d}
	p.queue(nil, connection.BeginSQL)
	p.queue(nil, settings, t.wait)
	sent := time.Now()
	l.queueGuard(p, t.needs, func(row pgx.Rows) (err error) {
		var one int32
		var now time.Time
		t.read = rowstore.Head{Identity: t.d.identity, Key: t.d.key}
		if t.recorded, err = t.d.scanHead(row, &t.read, &one, &now); err == nil {
			t.d.fleet.Time.HeardAt(sent, now)
		}
		return err
	})
	queue(p)
	failed, err := p.send(ctx, l.conn)
	if err == nil {
		return true, nil
	}
	l.rollback()
	if failed == theGuard && pgerr.FateOf(err) == pgerr.Guard {
		return false, nil
	}
	return false, err
}

// bounded is a transaction's connection. All statements end with its time.
type bounded struct{ t *tx }

func (b bounded) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return b.t.lane.conn.Exec(b.t.ctx, sql, args...)
}

func (b bounded) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	return b.t.lane.conn.Query(b.t.ctx, sql, args...)
}

func (b bounded) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	return b.t.lane.conn.QueryRow(b.t.ctx, sql, args...)
}

func (b bounded) SendBatch(_ context.Context, batch *pgx.Batch) pgx.BatchResults {
	return b.t.lane.conn.SendBatch(b.t.ctx, batch)
}

// Handle implements rowstore.Tx.
func (t *tx) Handle(ctx context.Context) (int64, error) {
	return t.d.operations.take(ctx, t.d, t.sequences())
}

// sequences is a connection for handles: the transaction's own, so readers don't hold the handles up. The application's
// may have another role.
func (t *tx) sequences() apptx.Runner {
	if t.lane == nil {
		return t.d.pool
	}
	return t.c
}

// RecordEvent implements rowstore.Tx.
func (t *tx) RecordEvent(ctx context.Context, digest []byte, at int64) (bool, error) {
	tag, err := t.c.Exec(ctx, t.d.in("INSERT INTO {{s}}.heard VALUES ($1, $2) ON CONFLICT DO NOTHING"), digest, at)
	return tag.RowsAffected() == 1, meaning(err)
}

// Forget implements rowstore.Tx.
func (t *tx) Forget(ctx context.Context, before int64, limit int) error {
	_, err := t.c.Exec(ctx, t.d.in("DELETE FROM {{s}}.heard WHERE digest = ANY(ARRAY(SELECT digest FROM {{s}}.heard WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))"), before, limit)
	return meaning(err)
}

// Put implements rowstore.Tx.
func (t *tx) Put(ctx context.Context, changes []*rowstore.Change) error {
	p := t.pipeline()
	queueChanges(p, changes)
	_, err := p.send(ctx, t.c)
	return meaning(err)
}

// Commit implements rowstore.Tx. If the answer is lost, it finds out what became of the commit, until ctx ends.
func (t *tx) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	p := t.pipeline()
	queueChanges(p, changes)
	if head.Leaps != t.read.Leaps {
		p.queue(nil, setLeaps, head.Leaps, t.read.Leaps)
	}
	if head.Reset {
		p.queue(nil, resetLanes, t.lane.member.ID, t.lane.number, toColumn(head.Clock.Last))
	} else if head.Leaps != t.read.Leaps {
		p.queue(nil, fenceLanes, t.lane.member.ID, t.lane.number)
	}
	if head.Hook != t.read.Hook {
		p.queue(nil, "UPDATE {{s}}.journal SET hooked = $1", head.Hook)
	}
	if head.Naming != t.read.Naming {
		p.queue(nil, "UPDATE {{s}}.journal SET naming = $1", head.Naming)
	}
	if head.Sealed != t.read.Sealed {
		p.queue(nil, setSealed, head.Sealed, t.read.Sealed)
	}
	adopted := func() {}
	if head.Restored != t.read.Restored {
		var err error
		if adopted, err = t.adopt(head.Restored); err != nil {
			t.Rollback()
			if err = meaning(err); errors.Is(err, rowstore.ErrLocked) {
				t.d.fleet.Evict(t.caller)
			}
			return err
		}
	}
	err := t.commit(ctx, p, commitLane, toColumn(head.Clock.Last), toColumn(head.Clock.Jumped), int64(head.Clock.LeastMargin), toColumn(head.Clock.Ahead))
	switch {
	case err == nil:
		adopted()
	case errors.Is(err, rowstore.ErrLocked) && head.Leaps != t.read.Leaps:
		t.d.fleet.Evict(t.caller)
	}
	return err
}

// commit sends statements, the lane's row by next, and COMMIT.
func (t *tx) commit(ctx context.Context, p *pipeline, next string, args ...any) error {
	defer t.end()
	l := t.lane
	p.queue(nil, next, append([]any{l.member.ID, l.number, l.batch, l.tenure}, args...)...)
	p.queue(nil, "COMMIT")
	within, cancel := l.within(ctx, t.until)
	defer cancel()
	_, err := p.send(within, l.conn)
	return l.committed(ctx, p.tag.String(), err)
}

// Rollback implements rowstore.Tx.
func (t *tx) Rollback() {
	if t.ended {
		return
	}
	t.lane.rollback()
	t.end()
}

// end gives the lane back.
func (t *tx) end() {
	t.ended = true
	t.cancel()
	t.d.giveBack(t.lane)
}
