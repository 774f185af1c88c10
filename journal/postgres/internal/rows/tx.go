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
	"github.com/onceward/onceward/journal/postgres/internal/check"
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
	read   rowstore.Head

	recorded string // journal.restored, as it was read
	ended    bool
}

// How long a statement waits for another transaction: one that shares its transaction with others, and one that waits
// on its own.
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

// begin starts a transaction, and sends statements with the guard. It returns once the guard has passed.
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
		// It may have broken while it was idle. Nothing runs on it until the guard has passed: retry once on another.
		broken := func() bool { return !fresh && l.conn == nil && pgerr.FateOf(err) == pgerr.Outage }
		if err = l.ready(ctx); err != nil {
			if broken() {
				continue
			}
			break
		}
		var t *tx
		needs := d.sessions()
		if t, err = l.begin(ctx, wait, needs, queue); err == nil && t != nil {
			return t, nil
		}
		switch {
		case err != nil && broken():
			continue
		case err == nil:
			if err = l.diagnose(ctx, needs); err == nil {
				continue
			}
		}
		break
	}
	d.giveBack(l)
	return nil, meaning(err)
}

// sessions returns the sessions of this process that live as far as it knows.
func (d *Driver) sessions() []string {
	ids := []string{}
	for id := range d.fleet.Sessions.Living() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// begin sends BEGIN, the guard and the first statements at once. It returns nil if the guard refuses.
func (l *lane) begin(ctx context.Context, wait string, needs []string, queue func(*pipeline)) (*tx, error) {
	whole, leave := grace.After(ctx)
	within, end := context.WithTimeout(whole, l.d.opts.Time)
	stop := context.AfterFunc(l.d.background, end)
	t := &tx{reader: reader{d: l.d}, lane: l, caller: ctx, ctx: within, cancel: func() { stop(); end(); leave() }}
	t.c = bounded{l.conn, within}
	t.read = rowstore.Head{Identity: l.d.identity, Key: l.d.key}
	p := &pipeline{d: l.d}
	p.queue(nil, connection.BeginSQL)
	p.queue(nil, settings, wait)
	l.Warned.Store(false)
	sent := time.Now()
	passed := false
	l.queueGuard(p, needs, func(row pgx.Rows) error {
		var now time.Time
		var err error
		t.recorded, err = l.d.scanHead(row, &t.read, &passed, &now)
		l.d.fleet.Time.HeardAt(sent, now)
		return err
	})
	queue(p)
	_, err := p.send(ctx, t.c)
	l.Guarded(time.Since(sent))
	if err != nil || !passed {
		l.rollback()
		t.cancel()
		return nil, err
	}
	return t, nil
}

// bounded is a connection whose statements end with a transaction's time.
type bounded struct {
	conn *pgx.Conn
	ctx  context.Context
}

func (b bounded) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return b.conn.Exec(b.ctx, sql, args...)
}

func (b bounded) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	return b.conn.Query(b.ctx, sql, args...)
}

func (b bounded) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	return b.conn.QueryRow(b.ctx, sql, args...)
}

func (b bounded) SendBatch(_ context.Context, batch *pgx.Batch) pgx.BatchResults {
	return b.conn.SendBatch(b.ctx, batch)
}

// Handle implements rowstore.Tx.
func (t *tx) Handle(ctx context.Context) (int64, error) {
	return t.d.operations.take(ctx, t.d, t.sequences())
}

// sequences is a connection for handles: the transaction's own, so that readers don't hold it up. The application's may
// have another role.
func (t *tx) sequences() check.RowReader {
	if t.lane == nil {
		return t.d.pool
	}
	return t.c
}

// Hear implements rowstore.Tx.
func (t *tx) Hear(ctx context.Context, digest []byte, at int64) (bool, error) {
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
	p := &pipeline{d: t.d}
	queueChanges(p, changes)
	_, err := p.send(ctx, t.c)
	return meaning(err)
}

// Commit implements rowstore.Tx. If the answer is lost, it finds out what became of the commit, until the context of Begin
// ends.
func (t *tx) Commit(_ context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	p := &pipeline{d: t.d}
	queueChanges(p, changes)
	if head.Reset {
		// A process that is about to commit by the former latest time checks first.
		p.queue(nil, resetLanes, toColumn(head.Clock.Last), t.lane.Member.ID, t.lane.Number)
	}
	if head.Hook != t.read.Hook {
		p.queue(nil, "UPDATE {{s}}.journal SET hooked = $1", head.Hook)
	}
	if head.Naming != t.read.Naming {
		p.queue(nil, "UPDATE {{s}}.journal SET naming = $1", head.Naming)
	}
	adopted := func() {}
	if head.Restored != t.read.Restored {
		var err error
		if adopted, err = t.adopt(head.Restored); err != nil {
			t.Rollback()
			if err = meaning(err); errors.Is(err, rowstore.ErrLocked) {
				t.d.fleet.Evict(t.caller, "true")
			}
			return err
		}
	}
	err := t.commit(p, commitLane, toColumn(head.Clock.Last), toColumn(head.Clock.Jumped), int64(head.Clock.LeastMargin), toColumn(head.Clock.Ahead))
	switch {
	case err == nil:
		adopted()
	case errors.Is(err, rowstore.ErrLocked) && head.Reset:
		t.d.fleet.Evict(t.caller, "true")
	}
	return err
}

// commit sends statements, the lane's row by next, and COMMIT.
func (t *tx) commit(p *pipeline, next string, args ...any) error {
	defer t.end()
	l := t.lane
	p.queue(nil, next, append([]any{l.Member.ID, l.Number, l.Batch, l.Tenure}, args...)...)
	p.queue(nil, "COMMIT")
	_, err := p.send(t.ctx, t.c)
	return l.committed(t.caller, p.tag.String(), err)
}

// Rollback implements rowstore.Tx.
func (t *tx) Rollback() {
	if !t.ended {
		t.lane.rollback()
		t.end()
	}
}

// end gives the lane back.
func (t *tx) end() {
	t.ended = true
	t.cancel()
	t.d.giveBack(t.lane)
}
