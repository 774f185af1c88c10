package rows

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// reader reads on a connection, or in an application transaction.
type reader struct {
	d        *Driver
	c        apptx.Runner
	alone    bool    // no transaction has begun
	restored *string // was read with a receipt; nil means that it was not

	later *pipeline // writes that are sent with the next read, or with COMMIT; nil for none
}

// pipeline returns the writes that were not sent yet, for further statements.
func (r *reader) pipeline() *pipeline {
	p := r.later
	if r.later = nil; p == nil {
		p = &pipeline{d: r.d}
	}
	return p
}

// readTries limits the tries of a read whose connection fails. After a server restart, all of a pool's connections do.
const readTries = 5

// Read implements rowstore.Source. If the connection breaks, it calls f again. So does a read in the way of a standby's
// replay. A journal that is only read is read in READ ONLY transactions.
func (d *Driver) Read(ctx context.Context, f func(rowstore.Reader) error) error {
	return d.read(ctx, d.opts.ReadOnly, f)
}

// Snapshot implements rowstore.Source.
func (d *Driver) Snapshot(ctx context.Context, f func(rowstore.Reader) error) error {
	return d.read(ctx, true, f)
}

func (d *Driver) read(ctx context.Context, snapshot bool, f func(rowstore.Reader) error) error {
	for try := 1; ; try++ {
		err := d.readOnce(ctx, snapshot, f)
		if err == nil {
			return nil
		}
		passes := pgerr.IsConnections(err) || pgerr.Code(err) != "" && pgerr.FateOf(err) == pgerr.Outage || d.opts.ReadOnly && errors.Is(err, rowstore.ErrMissed)
		if try == readTries || ctx.Err() != nil || !passes {
			return err
		}
	}
}

func (d *Driver) readOnce(ctx context.Context, snapshot bool, f func(rowstore.Reader) error) error {
	if !snapshot {
		c, err := d.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release()
		return f(&reader{d: d, c: c.Conn(), alone: true})
	}
	tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return meaning(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	return f(&reader{d: d, c: tx})
}

// answer is what a queued statement's rows are read by. Nil reads none.
type answer func(columns.Row) error

// pipeline is statements that are sent at once.
type pipeline struct {
	d       *Driver
	b       pgx.Batch
	answers []answer
	tag     pgconn.CommandTag // of the latest statement without rows
}

func (p *pipeline) queue(f answer, text string, args ...any) {
	p.b.Queue(p.d.in(text), args...)
	p.answers = append(p.answers, f)
}

// send returns the first error, and the number of the statement that failed.
func (p *pipeline) send(ctx context.Context, c apptx.Runner) (failed int, err error) {
	results := c.SendBatch(ctx, &p.b)
	for i, f := range p.answers {
		if f == nil {
			p.tag, err = results.Exec()
		} else {
			err = eachRow(results, f)
		}
		if err != nil {
			_ = results.Close()
			return i, err
		}
	}
	return len(p.answers), results.Close()
}

// eachRow reads the rows of the next statement.
func eachRow(results pgx.BatchResults, f answer) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Find implements rowstore.Reader.
func (r *reader) Find(ctx context.Context, keys rowstore.Keys) (rowstore.Found, error) {
	p := r.pipeline()
	f := newFinding(keys)
	if r.alone {
		p.queue(nil, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
	}
	f.queue(p)
	if r.alone {
		p.queue(nil, "COMMIT")
	}
	if _, err := p.send(ctx, r.c); err != nil {
		return rowstore.Found{}, meaning(err)
	}
	return f.result()
}

// finding is a Find on its way.
type finding struct {
	columns.Finding
	names  [][]byte
	exists []int64 // of Keys.Handles
}

func newFinding(keys rowstore.Keys) *finding {
	f := &finding{Finding: columns.NewFinding(keys)}
	for i := range keys.Names {
		f.names = append(f.names, keys.Names[i][:])
	}
	slices.Sort(f.Keys.Marks)
	return f
}

func (f *finding) isEmpty() bool {
	return len(f.names)+len(f.Keys.Handles)+len(f.Keys.Marks) == 0
}

const (
	byNames    = "= ANY(ARRAY(SELECT handle FROM {{s}}.names WHERE digest = ANY($1)))"
	rowColumns = "o.handle, o.state, coalesce(o.holder, ''), o.wake_at, coalesce(o.settled_at, 0), o.delivered, o.tombstone, o.provider, o.facts"
)

// queue adds the statements. Each sees what was committed before it, and rows stay as they are once they are locked. So
// names and parts are read after the locks.
func (f *finding) queue(p *pipeline) {
	lock := map[rowstore.Lock]string{rowstore.TryLock: " FOR UPDATE SKIP LOCKED", rowstore.WaitLock: " FOR UPDATE"}[f.Keys.Lock]
	if len(f.names) > 0 {
		p.queue(f.Row, "SELECT "+rowColumns+" FROM {{s}}.operations o WHERE o.handle "+byNames+" ORDER BY o.handle"+lock, f.names)
		p.queue(f.Name, "SELECT digest, handle FROM {{s}}.names WHERE digest = ANY($1)", f.names)
		f.queueParts(p, byNames, f.names)
	}
	if len(f.Keys.Handles) > 0 {
		p.queue(f.Row, "SELECT "+rowColumns+" FROM {{s}}.operations o WHERE o.handle = ANY($1) ORDER BY o.handle"+lock, f.Keys.Handles)
		p.queue(f.existing, "SELECT handle FROM {{s}}.operations WHERE handle = ANY($1)", f.Keys.Handles)
		if f.Keys.Whole || f.Keys.Heads {
			f.queueParts(p, "= ANY($1)", f.Keys.Handles)
		}
	}
	if len(f.Keys.Marks) > 0 {
		if f.Keys.Lock != rowstore.NoLock {
			p.queue(nil, "SELECT pg_catalog.pg_advisory_xact_lock(m) FROM pg_catalog.unnest($1::bigint[]) m", f.Keys.Marks)
		}
		p.queue(f.Mark, "SELECT mark, handle FROM {{s}}.marks WHERE mark = ANY($1)", f.Keys.Marks)
	}
}

func (f *finding) queueParts(p *pipeline, which string, arg any) {
	body := "body"
	if f.Keys.Heads {
		body = "NULL::bytea"
	}
	p.queue(f.Request, "SELECT handle, head, "+body+" FROM {{s}}.requests WHERE handle "+which, arg)
	p.queue(f.Answer, "SELECT handle, head, "+body+" FROM {{s}}.answers WHERE handle "+which, arg)
}

func (f *finding) existing(rows columns.Row) error {
	var handle int64
	err := rows.Scan(&handle)
	f.exists = append(f.exists, handle)
	return err
}

// result adds the rows, and the existing rows that could not be locked.
func (f *finding) result() (rowstore.Found, error) {
	whole := make(map[int64]bool, len(f.Found.Names))
	for _, handle := range f.Found.Names {
		whole[handle] = true
		f.exists = append(f.exists, handle)
	}
	for _, handle := range f.exists {
		switch r := f.Rows[handle]; {
		case r != nil:
			r.Whole = (f.Keys.Whole || whole[handle]) && !f.Keys.Heads
		case f.Keys.Lock == rowstore.TryLock:
			f.Rows[handle] = &rowstore.Row{Handle: handle, Locked: true}
		case f.Keys.Lock == rowstore.WaitLock:
			return f.Found, rowstore.ErrMissed // it came after the locks
		}
	}
	for _, r := range f.Rows {
		f.Found.Rows = append(f.Found.Rows, r)
	}
	return f.Found, nil
}
