package rows

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
)

// tx is a transaction, on a lane of its own, or within one of the application's.
type tx struct {
	reader
	lane   *lane           // nil in the application's
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
// If the guard refuses, begin finds out why, and mends the cause if it can.
func (d *Driver) begin(ctx context.Context, queue func(*pipeline)) (*tx, error) {
	l, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	for {
		if ctx.Err() != nil || d.background.Err() != nil {
			err = d.ended(ctx)
			break
		}
		fresh := l.conn == nil
		// It may have broken while it was idle. Nothing is written on it until the guard has passed: retry once on another.
		broken := func() bool { return !fresh && l.conn == nil && myerr.FateOf(err) == myerr.Outage }
		if err = l.ready(ctx); err != nil {
			if broken() {
				continue
			}
			break
		}
		t := l.transaction(ctx)
		var passed bool
		if passed, err = t.start(queue); err == nil && passed {
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

// living returns the sessions of this process that live as far as it knows.
func (d *Driver) living() (ids []string) {
	for id := range d.sessions.Living() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// transaction makes the lane's next transaction, which has not begun.
func (l *lane) transaction(ctx context.Context) *tx {
	t := &tx{reader: reader{d: l.d, own: true}, lane: l, until: time.Now().Add(commitTime), needs: l.d.living()}
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
			t.lane.rollback()
		} else {
			t.lane.hangUp()
		}
		return false, err
	}
	if !g.writes { // it is the primary no more
		t.lane.hangUp()
		return false, myerr.IsReadOnly()
	}
	if !t.passed(g) {
		t.lane.rollback()
		return false, nil
	}
	t.d.time.HeardAt(sent, time.UnixMicro(g.now))
	return true, nil
}

// bounded is a transaction's connection. All statements end with the transaction's time. After a deadlock, the server has rolled
// the transaction back, and would commit a further statement by itself. So no statement follows.
type bounded struct{ t *tx }

func (b bounded) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	if b.t.failed != nil {
		return nil, b.t.failed
	}
	return b.t.lane.conn.ExecContext(b.t.ctx, query, args...)
}

func (b bounded) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	if b.t.failed != nil {
		return nil, b.t.failed
	}
	return b.t.lane.conn.QueryContext(b.t.ctx, query, args...)
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
	m, number := t.lane.member.ID, t.lane.number
	if head.Leaps != t.read.Leaps {
		p.queueFor(1, setLeaps, head.Leaps, t.read.Leaps)
	}
	if head.Reset {
		p.queue(nil, resetLanes, toColumn(head.Clock.Last), m, number)
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
		if adopted, err = t.adopt(head.Restored); err != nil {
			t.Rollback()
			return meaning(err)
		}
	}
	err := t.commit(ctx, p, commitLane, toColumn(head.Clock.Last), toColumn(head.Clock.Jumped), int64(head.Clock.LeastMargin), toColumn(head.Clock.Ahead), t.read.Number)
	if err == nil {
		adopted()
		t.d.sealed.Store(&head.Sealed)
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
	p.queueFor(1, next, append(args, l.member.ID, l.number, l.batch, l.tenure)...)
	p.queue(nil, "COMMIT")
	within, cancel := l.within(ctx, t.until)
	defer cancel()
	return l.committed(ctx, p.send(within, l.conn))
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

// ignored reads a row that only has to be locked. A row without a lock is another error.
func ignored(*sql.Rows) error { return nil }

// one reads a single row.
func one(into ...any) answer { return func(rows *sql.Rows) error { return rows.Scan(into...) } }
