package rows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	wait   string   // lock_timeout
	needs  []string // sessions that live
	read   rowstore.Head

	recorded string // journal.restored, as it was read
	begun    bool   // the guard has passed. Else nothing was sent yet
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
//
// Without keys, a transaction that waits for no lock sends nothing if this process has read the head lately. Then the guard
// goes with the first statement or, before the changes, with Commit: that is one round trip. Commit returns ErrMissed if
// the head has changed meanwhile.
func (d *Driver) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	wait := sharedWait
	if keys.Lock == rowstore.WaitLock {
		wait = ownWait
	}
	f := newFinding(keys)
	if head, known := d.head.lately(); known && f.isEmpty() && keys.Lock == rowstore.TryLock && d.fleet.Why() == "" {
		t, err := d.open(ctx, wait, func(t *tx) (bool, error) { t.read = head; return true, nil })
		return t, head, f.found, err
	}
	t, err := d.begin(ctx, wait, func(p *pipeline) {
		*f = *newFinding(keys)
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
	return d.open(ctx, wait, func(t *tx) (bool, error) {
		p := &pipeline{d: d}
		t.queueBegin(p, nil)
		queue(p)
		return t.sendBegin(ctx, p)
	})
}

// open makes a transaction on a lane that is ready, and calls start. If start reports that the guard refuses, open finds
// out why, and mends the cause if it can.
func (d *Driver) open(ctx context.Context, wait string, start func(*tx) (bool, error)) (*tx, error) {
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
		t := l.transaction(ctx, wait)
		var passed bool
		if passed, err = start(t); err == nil && passed {
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

// sessions returns the sessions of this process that live as far as it knows.
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
	whole, leave := grace.After(ctx)
	within, end := context.WithTimeout(whole, l.d.opts.Time)
	stop := context.AfterFunc(l.d.background, end)
	t := &tx{reader: reader{d: l.d}, lane: l, caller: ctx, ctx: within, cancel: func() { stop(); end(); leave() }, wait: wait, needs: l.d.sessions()}
	t.c = bounded{t}
	return t
}

// theGuard is the number of the guard among the statements of queueBegin.
const theGuard = 2

// queueBegin queues BEGIN, the settings and the guard. If the transaction was decided already, decided is the head at that
// time.
func (t *tx) queueBegin(p *pipeline, decided *rowstore.Head) {
	l := t.lane
	p.queue(nil, connection.BeginSQL)
	p.queue(nil, settings, t.wait)
	sent := time.Now()
	l.queueGuard(p, t.needs, decided, func(row pgx.Rows) (err error) {
		var one int32
		var now time.Time
		t.read = rowstore.Head{Identity: l.d.identity, Key: l.d.key}
		if t.recorded, err = l.d.scanHead(row, &t.read, &one, &now); err != nil {
			return err
		}
		t.begun = true
		l.d.fleet.Time.HeardAt(sent, now)
		l.d.head.note(&t.read, sent)
		return nil
	})
}

// sendBegin sends the begin of the transaction, and reports whether the guard has passed.
func (t *tx) sendBegin(ctx context.Context, p *pipeline) (passed bool, err error) {
	failed, err := p.send(ctx, t.lane.conn)
	if err == nil {
		return true, nil
	}
	t.begun = false
	t.lane.rollback()
	if failed == theGuard && pgerr.FateOf(err) == pgerr.Guard {
		return false, nil
	}
	return false, err
}

// start begins the transaction before a statement, if it has not begun.
func (t *tx) start() error {
	if t.begun {
		return nil
	}
	p := &pipeline{d: t.d}
	t.queueBegin(p, &t.read)
	passed, err := t.sendBegin(t.ctx, p)
	if err == nil && passed {
		return nil
	}
	t.d.head.forget()
	return fmt.Errorf("%w: the transaction did not begin: %w", rowstore.ErrMissed, meaning(cmp.Or(err, errRefused)))
}

// errRefused is the reason why a transaction that was decided before has not begun. The next Begin finds out more.
var errRefused = errors.New("the guard has refused it")

// head is what this process has read last of the journal's head.
type head struct {
	mu   sync.Mutex
	is   rowstore.Head
	read time.Time // zero: none counts
}

// recent is the greatest age of a head that decides a transaction. A transaction may last as long.
const recent = connection.CommitTime

func (h *head) lately() (is rowstore.Head, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.is, !h.read.IsZero() && time.Since(h.read) < recent
}

// note keeps a head that was read at a time, unless the journal counts as restored.
func (h *head) note(is *rowstore.Head, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.is, h.read = *is, at; is.Restored != "" {
		h.read = time.Time{}
	}
}

// committed notes the clock of a commit of this process's.
func (h *head) committed(is *rowstore.Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.is.Clock, h.is.Leaps = is.Clock, is.Leaps
}

func (h *head) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read = time.Time{}
}

// bounded is the connection of a transaction. Its first statement begins the transaction, and all end with its time.
type bounded struct{ t *tx }

func (b bounded) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := b.t.start(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return b.t.lane.conn.Exec(b.t.ctx, sql, args...)
}

func (b bounded) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := b.t.start(); err != nil {
		return nil, err
	}
	return b.t.lane.conn.Query(b.t.ctx, sql, args...)
}

func (b bounded) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	if err := b.t.start(); err != nil {
		return failedRow{err}
	}
	return b.t.lane.conn.QueryRow(b.t.ctx, sql, args...)
}

func (b bounded) SendBatch(_ context.Context, batch *pgx.Batch) pgx.BatchResults {
	if err := b.t.start(); err != nil {
		return pgx.FailedBatchResults(batch, err)
	}
	return b.t.lane.conn.SendBatch(b.t.ctx, batch)
}

// failedRow is the row of a statement that was not sent.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

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
	switch {
	case t.begun:
	case head.Restored != t.read.Restored:
		if err := t.start(); err != nil {
			t.Rollback()
			return err
		}
	default:
		decided := t.read
		t.queueBegin(p, &decided)
	}
	queueChanges(p, changes)
	t.d.operations.queue(p, inserted(changes))
	if head.Reset {
		p.queue(nil, resetLanes, t.lane.member.ID, t.lane.number, toColumn(head.Clock.Last))
	} else if head.Leaps != t.read.Leaps {
		p.queue(nil, fenceLanes, t.lane.member.ID, t.lane.number)
	}
	if head.Leaps != t.read.Leaps {
		p.queue(nil, setLeaps, head.Leaps, t.read.Leaps)
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
				t.d.fleet.Evict(t.caller)
			}
			return err
		}
	}
	err := t.commit(p, commitLane, toColumn(head.Clock.Last), toColumn(head.Clock.Jumped), int64(head.Clock.LeastMargin), toColumn(head.Clock.Ahead))
	switch {
	case err == nil:
		t.d.head.committed(&head)
		adopted()
	case errors.Is(err, rowstore.ErrLocked) && head.Leaps != t.read.Leaps:
		t.d.fleet.Evict(t.caller)
	}
	return err
}

func inserted(changes []*rowstore.Change) (n int) {
	for _, c := range changes {
		if c.Insert {
			n++
		}
	}
	return n
}

// commit sends statements, the lane's row by next, and COMMIT.
func (t *tx) commit(p *pipeline, next string, args ...any) error {
	defer t.end()
	l := t.lane
	p.queue(nil, next, append([]any{l.member.ID, l.number, l.batch, l.tenure}, args...)...)
	p.queue(nil, "COMMIT")
	_, err := p.send(t.ctx, l.conn)
	if err != nil {
		t.d.head.forget()
	}
	return l.committed(t.caller, p.tag.String(), err)
}

// Rollback implements rowstore.Tx.
func (t *tx) Rollback() {
	if t.ended {
		return
	}
	if t.begun {
		t.lane.rollback()
	}
	t.end()
}

// end gives the lane back.
func (t *tx) end() {
	t.ended = true
	t.cancel()
	t.d.giveBack(t.lane)
}
