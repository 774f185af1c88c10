package rows

import (
	"context"
	"database/sql"
	"time"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
)

// tx is a transaction, on a lane of its own, or within one of the application's.
type tx struct {
	reader
	lane   *fleet.Lane     // nil in the application's
	conn   *ownConn        // the lane's
	ctx    context.Context // of the transaction's statements
	cancel func()
	until  time.Time // when all of it has to be done
	needs  []string  // sessions that live
	read   rowstore.Head

	recorded string // journal.restored, as it was read
	ended    bool
}

// Begin implements rowstore.Driver. The end of ctx ends the wait for a connection. Then the transaction has its own time, which
// ends a grace.Period after ctx.
func (d *Driver) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	f := newFinding(keys)
	t, err := d.begin(ctx, f.queue)
	if err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	found, err := f.result(t.ctx, &t.reader)
	if err != nil {
		t.Rollback()
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	return t, t.read, found, nil
}

// begin starts a transaction on a lane that is ready, and sends statements with the guard. It returns once the guard has passed.
func (d *Driver) begin(ctx context.Context, queue func(*pipeline)) (t *tx, err error) {
	_, err = d.Fleet.Begin(ctx, func(l *fleet.Lane, needs []string) (passed bool, err error) {
		t = &tx{reader: reader{d: d, own: true}, lane: l, conn: l.Conn.(*ownConn), until: time.Now().Add(d.opts.Time), needs: needs}
		t.ctx, t.cancel = l.Within(ctx, t.until)
		t.c = bounded{t}
		if passed, err = t.start(queue); !passed {
			t.cancel()
		}
		return passed, err
	})
	return t, err
}

// start sends BEGIN, the guard and further statements, and reports whether the guard has passed.
func (t *tx) start(queue func(*pipeline)) (passed bool, err error) {
	p, g := t.pipeline(), new(guard)
	p.queue(nil, "START TRANSACTION")
	sent := time.Now()
	t.read = rowstore.Head{Identity: t.d.identity, Key: t.d.key}
	t.queueGuard(p, g)
	queue(p)
	if err := p.send(t.ctx, t.c); err != nil {
		if myerr.IsStatements(err) {
			t.lane.Rollback()
		} else {
			t.lane.HangUp()
		}
		return false, err
	}
	if !g.writes { // it is the primary no more
		t.lane.HangUp()
		return false, myerr.IsReadOnly()
	}
	if !t.passed(g) {
		t.lane.Rollback()
		return false, nil
	}
	t.d.Time.HeardAt(sent, time.UnixMicro(g.now))
	return true, nil
}

// bounded is a transaction's connection. All statements end with the transaction's time. After a deadlock, the server has rolled
// the transaction back, and would commit a further statement by itself. So no statement follows.
type bounded struct{ t *tx }

func (b bounded) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	if b.t.failed != nil {
		return nil, b.t.failed
	}
	return b.t.conn.ExecContext(b.t.ctx, query, args...)
}

func (b bounded) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	if b.t.failed != nil {
		return nil, b.t.failed
	}
	return b.t.conn.QueryContext(b.t.ctx, query, args...)
}

// Handle implements rowstore.Tx.
func (t *tx) Handle(ctx context.Context) (int64, error) { return t.d.operations.take(ctx, t.d) }

// RecordEvent implements rowstore.Tx. An insert changes one row, and one that finds the row changes none.
func (t *tx) RecordEvent(ctx context.Context, digest []byte, at int64) (bool, error) {
	return t.write(ctx, "INSERT INTO {{s}}.heard VALUES (?, ?) ON DUPLICATE KEY UPDATE digest = digest", digest, at)
}

// Forget implements rowstore.Tx.
func (t *tx) Forget(ctx context.Context, before int64, limit int) error {
	_, err := t.write(ctx, "DELETE FROM {{s}}.heard WHERE heard_at < ? ORDER BY heard_at LIMIT ?", before, limit)
	return err
}

// write runs a statement, and reports whether it has changed one row.
func (t *tx) write(ctx context.Context, text string, args ...any) (bool, error) {
	if err := t.flush(ctx); err != nil {
		return false, err
	}
	statement := render(t.d.in(text), t.own, args)
	if len(statement) > int(t.d.packet.Load())-1024 {
		return false, t.meaning(myerr.TooLarge())
	}
	result, err := t.c.ExecContext(ctx, statement)
	if err != nil {
		return false, t.meaning(err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// Put implements rowstore.Tx.
func (t *tx) Put(ctx context.Context, changes []*rowstore.Change) error {
	p := t.pipeline()
	queueChanges(p, changes)
	return t.meaning(p.send(ctx, t.c))
}

// Commit implements rowstore.Tx. If the answer is lost, it finds out what became of the commit, until ctx ends.
func (t *tx) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	p := t.pipeline()
	queueChanges(p, changes)
	m, number := t.lane.Member.ID, t.lane.Number
	if head.Leaps != t.read.Leaps {
		p.queueFor(1, setLeaps, head.Leaps, t.read.Leaps)
	}
	if head.Reset {
		p.queue(nil, resetLanes, format.Millis(head.Clock.Last), m, number)
	} else if head.Leaps != t.read.Leaps {
		p.queue(nil, fenceLanes, m, number)
	}
	if head.Hook != t.read.Hook {
		p.queue(nil, "UPDATE {{s}}.journal SET hooked = ?", head.Hook)
	}
	if head.Naming != t.read.Naming {
		p.queue(nil, "UPDATE {{s}}.journal SET naming = ?", head.Naming)
	}
	if head.Sealed != t.read.Sealed {
		p.queueFor(1, setSealed, head.Sealed, t.read.Sealed)
	}
	adopted := func() {}
	if head.Restored != t.read.Restored {
		var err error
		if adopted, err = t.d.Adopt(t.ctx, t, t.recorded, head.Restored); err != nil {
			t.Rollback()
			return meaning(err)
		}
	}
	err := t.commit(ctx, p, commitLane, format.Millis(head.Clock.Last), format.Millis(head.Clock.Jumped), int64(head.Clock.LeastMargin), format.Millis(head.Clock.Ahead), t.read.Number)
	if err == nil {
		adopted()
		t.d.SetSealed(head.Sealed)
	}
	return err
}

// commit sends statements, the lane's row by next, and COMMIT. If the row has changed since the guard, the server skips COMMIT.
func (t *tx) commit(ctx context.Context, p *pipeline, next string, args ...any) error {
	if t.failed != nil {
		t.Rollback()
		return t.failed
	}
	defer t.end()
	l := t.lane
	p.queueFor(1, next, append(args, l.Member.ID, l.Number, l.Batch, l.Tenure)...)
	p.queue(nil, "COMMIT")
	within, cancel := l.Within(ctx, t.until)
	defer cancel()
	return l.Committed(ctx, p.send(within, t.conn))
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

// ignored reads a row that only has to be locked. A row without a lock is another error.
func ignored(columns.Row) error { return nil }
