package rows

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/server"
)

// tx is a transaction, on a lane of its own.
type tx struct {
	reader
	lane   *fleet.Lane
	conn   *server.Conn    // the lane's
	caller context.Context // of Begin
	ctx    context.Context // of the transaction's statements
	cancel func()
	until  time.Time // when all of it has to be done
	wait   string    // lock_timeout
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
// passed.
func (d *Driver) begin(ctx context.Context, wait string, queue func(*pipeline)) (t *tx, err error) {
	_, err = d.Fleet.Begin(ctx, func(l *fleet.Lane, needs []string) (passed bool, err error) {
		t = &tx{reader: reader{d: d}, lane: l, conn: l.Conn.(*server.Conn), caller: ctx, until: time.Now().Add(d.opts.Time), wait: wait}
		t.ctx, t.cancel = l.Within(ctx, t.until)
		t.c = bounded{t}
		if passed, err = t.start(needs, queue); !passed {
			t.cancel()
		}
		return passed, err
	})
	return t, err
}

// theGuard is the guard's number among start's statements.
const theGuard = 2

// start sends BEGIN, the settings, the guard and further statements, and reports whether the guard has passed.
func (t *tx) start(needs []string, queue func(*pipeline)) (passed bool, err error) {
	p := &pipeline{d: t.d}
	p.queue(nil, connection.BeginSQL)
	p.queue(nil, settings, t.wait)
	sent := time.Now()
	t.queueGuard(p, needs, func(row columns.Row) (err error) {
		var one int32
		var now time.Time
		t.read = rowstore.Head{Identity: t.d.Identity, Key: t.d.Key}
		if t.recorded, err = t.d.scanHead(row, &t.read, &one, &now); err == nil {
			t.d.Time.HeardAt(sent, now)
		}
		return err
	})
	queue(p)
	failed, err := p.send(t.caller, t.conn)
	if err == nil {
		return true, nil
	}
	t.lane.Rollback()
	if failed == theGuard && pgerr.FateOf(err) == pgerr.Guard {
		return false, nil
	}
	return false, err
}

// bounded is a transaction's connection. All statements end with its time.
type bounded struct{ t *tx }

func (b bounded) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return b.t.conn.Exec(b.t.ctx, sql, args...)
}

func (b bounded) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	return b.t.conn.Query(b.t.ctx, sql, args...)
}

func (b bounded) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	return b.t.conn.QueryRow(b.t.ctx, sql, args...)
}

func (b bounded) SendBatch(_ context.Context, batch *pgx.Batch) pgx.BatchResults {
	return b.t.conn.SendBatch(b.t.ctx, batch)
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
		p.queue(nil, resetLanes, t.lane.Member.ID, t.lane.Number, format.Millis(head.Clock.Last))
	} else if head.Leaps != t.read.Leaps {
		p.queue(nil, fenceLanes, t.lane.Member.ID, t.lane.Number)
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
		if adopted, err = t.d.Adopt(t.ctx, t, t.recorded, head.Restored); err != nil {
			t.Rollback()
			if err = meaning(err); errors.Is(err, rowstore.ErrLocked) {
				t.d.Evict(t.caller)
			}
			return err
		}
	}
	err := t.commit(ctx, p, commitLane, format.Millis(head.Clock.Last), format.Millis(head.Clock.Jumped), int64(head.Clock.LeastMargin), format.Millis(head.Clock.Ahead))
	switch {
	case err == nil:
		adopted()
	case errors.Is(err, rowstore.ErrLocked) && head.Leaps != t.read.Leaps:
		t.d.Evict(t.caller)
	}
	return err
}

// commit sends statements, the lane's row by next, and COMMIT.
func (t *tx) commit(ctx context.Context, p *pipeline, next string, args ...any) error {
	defer t.end()
	l := t.lane
	p.queue(nil, next, append([]any{l.Member.ID, l.Number, l.Batch, l.Tenure}, args...)...)
	p.queue(nil, "COMMIT")
	within, cancel := l.Within(ctx, t.until)
	defer cancel()
	_, err := p.send(within, t.conn)
	if err == nil && p.tag.String() != "COMMIT" { // the server rolled it back
		return rowstore.ErrMissed
	}
	return l.Committed(ctx, err)
}

// Rollback implements rowstore.Tx.
func (t *tx) Rollback() {
	if t.ended {
		return
	}
	t.lane.Rollback()
	t.end()
}

// end gives the lane back.
func (t *tx) end() {
	t.ended = true
	t.cancel()
	t.lane.Release()
}
