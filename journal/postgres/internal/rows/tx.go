package rows

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/internal/rowstore"
)

// tx is a transaction, on a connection and a lane of its own.
type tx struct {
	reader
	pooled *pgxpool.Conn
	lane   *lane
	hook   bool // of the head as it was read
	naming string
	ended  bool
}

// How long a statement waits for another transaction: one that shares its transaction with others, and one that waits
// on its own.
const (
	sharedWait = "5ms"
	ownWait    = "1s"
)

// Begin implements rowstore.Driver.
func (d *Driver) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	head := rowstore.Head{Identity: d.identity, Key: d.key}
	l, err := d.takeLane(ctx)
	if err != nil {
		return nil, head, rowstore.Found{}, err
	}
	c, err := d.pool.Acquire(ctx)
	if err != nil {
		d.giveBack(l)
		return nil, head, rowstore.Found{}, err
	}
	t := &tx{reader: reader{d: d, c: c.Conn()}, pooled: c, lane: l}
	found, err := t.begin(ctx, keys, &head)
	if err != nil {
		t.Rollback()
		return nil, head, rowstore.Found{}, meaning(err)
	}
	return t, head, found, nil
}

// begin sends BEGIN, the guard and the first reads at once.
func (t *tx) begin(ctx context.Context, keys rowstore.Keys, head *rowstore.Head) (rowstore.Found, error) {
	wait := sharedWait
	if keys.Lock == rowstore.WaitLock {
		wait = ownWait
	}
	p := &pipeline{d: t.d}
	p.queue(nil, "BEGIN ISOLATION LEVEL READ COMMITTED")
	p.queue(nil, "SET LOCAL lock_timeout = '"+wait+"'")
	fenced := false
	p.queue(func(rows pgx.Rows) error {
		var number int64
		err := scanClocks(rows, head, &number)
		t.hook, t.naming = head.Hook, head.Naming
		fenced = number != t.lane.number
		return err
	}, readHead, t.lane.id)
	f := newFinding(keys)
	f.queue(p)
	if _, err := p.send(ctx, t.c); err != nil {
		return rowstore.Found{}, err
	}
	if fenced {
		return rowstore.Found{}, rowstore.ErrFenced
	}
	return f.result()
}

// readHead is the lane's number, and the clock of all lanes: the latest time, the jump that was seen last, and the
// least margin.
const (
	readHead = "SELECT (SELECT batch FROM {{s}}.lanes WHERE process = $1 AND lane = 0), " + clocks
	clocks   = `coalesce(max(seq), 0), coalesce(max(last_at), 0), coalesce((array_agg(jumped_at ORDER BY seq DESC))[1], 0),
	coalesce(min(least_margin) FILTER (WHERE least_margin > 0), 0), coalesce(max(ahead_at), 0), (SELECT hooked FROM {{s}}.journal), (SELECT naming FROM {{s}}.journal) FROM {{s}}.lanes`
)

// scanClocks reads one value and then clocks.
func scanClocks(rows pgx.Rows, head *rowstore.Head, first any) error {
	var last, jumped, margin, ahead int64
	err := rows.Scan(first, &head.Number, &last, &jumped, &margin, &ahead, &head.Hook, &head.Naming)
	head.Clock.Last, head.Clock.Jumped, head.Clock.Ahead, head.Clock.LeastMargin = fromColumn(last), fromColumn(jumped), fromColumn(ahead), time.Duration(margin)
	return err
}

// handles are taken from a sequence in blocks, which are lost with their process.
type handles struct {
	sequence  string
	mu        sync.Mutex
	next, end int64
}

// blockOfHandles is the increment of the sequences.
const blockOfHandles = 256

func (h *handles) take(ctx context.Context, d *Driver) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == h.end {
		if err := d.pool.QueryRow(ctx, d.in("SELECT nextval('{{s}}."+h.sequence+"')")).Scan(&h.next); err != nil {
			return 0, meaning(err)
		}
		h.end = h.next + blockOfHandles
	}
	h.next++
	return h.next - 1, nil
}

// Handle implements rowstore.Tx.
func (t *tx) Handle(ctx context.Context) (int64, error) { return t.d.operations.take(ctx, t.d) }

// Hear implements rowstore.Tx.
func (t *tx) Hear(ctx context.Context, digest []byte, at int64) (bool, error) {
	tag, err := t.c.Exec(ctx, t.d.in("INSERT INTO {{s}}.heard VALUES ($1, $2) ON CONFLICT DO NOTHING"), digest, at)
	return tag.RowsAffected() == 1, meaning(err)
}

// Forget implements rowstore.Tx.
func (t *tx) Forget(ctx context.Context, before int64, limit int) error {
	_, err := t.c.Exec(ctx, t.d.in("DELETE FROM {{s}}.heard WHERE digest IN (SELECT digest FROM {{s}}.heard WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)"), before, limit)
	return meaning(err)
}

// Put implements rowstore.Tx.
func (t *tx) Put(ctx context.Context, changes []*rowstore.Change) error {
	p := &pipeline{d: t.d}
	queueChanges(p, changes)
	_, err := p.send(ctx, t.c)
	return meaning(err)
}

// Commit implements rowstore.Tx.
func (t *tx) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	defer t.Rollback()
	p := &pipeline{d: t.d}
	queueChanges(p, changes)
	if head.Reset {
		p.queue(nil, "UPDATE {{s}}.lanes SET last_at = least(last_at, $1), jumped_at = 0", toColumn(head.Clock.Last))
	}
	if head.Hook != t.hook {
		p.queue(nil, "UPDATE {{s}}.journal SET hooked = $1", head.Hook)
	}
	if head.Naming != t.naming {
		p.queue(nil, "UPDATE {{s}}.journal SET naming = $1", head.Naming)
	}
	own := len(p.answers)
	p.queue(nil, "WITH w AS (UPDATE {{s}}.lanes SET batch = batch + 1, seq = nextval('{{s}}.commits'), last_at = $3, jumped_at = $4, least_margin = $5, ahead_at = $6 WHERE process = $1 AND lane = 0 AND batch = $2"+exactly(1),
		t.lane.id, t.lane.number, toColumn(head.Clock.Last), toColumn(head.Clock.Jumped), int64(head.Clock.LeastMargin), toColumn(head.Clock.Ahead))
	p.queue(nil, "COMMIT")
	if failed, err := p.send(ctx, t.c); err != nil {
		return t.fate(err, failed == own)
	}
	t.lane.number++
	t.end()
	return nil
}

// Rollback implements rowstore.Tx.
func (t *tx) Rollback() {
	if t.ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := t.c.Exec(ctx, "ROLLBACK"); err != nil {
		_ = t.pooled.Conn().Close(ctx) // the pool makes another
	}
	t.end()
}

// lose gives up the connection, whose answer was lost.
func (t *tx) lose() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = t.pooled.Conn().Close(ctx)
}

// end gives the connection and the lane back.
func (t *tx) end() {
	t.ended = true
	t.pooled.Release()
	if t.lane != nil {
		t.d.giveBack(t.lane)
	}
}
