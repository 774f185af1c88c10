package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/schema"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// reader reads on a connection, or in an application transaction.
type reader struct {
	d     *Driver
	c     runner
	own   bool // c is the journal's own
	alone bool // no transaction has begun
	app   bool // c is the application's transaction

	failed error // of a statement that may have ended the transaction; nil for none

	later *pipeline // statements that are sent with the next read, or with COMMIT; nil for none
}

// pipeline returns the writes that were not sent yet, for further statements.
func (r *reader) pipeline() *pipeline {
	p := r.later
	if r.later = nil; p == nil {
		p = r.d.pipeline(r.own)
	}
	return p
}

// flush sends the writes that were not sent yet.
func (r *reader) flush(ctx context.Context) error {
	if r.later == nil {
		return nil
	}
	return r.meaning(r.pipeline().send(ctx, r.c))
}

// meaning is the function of the same name. The application's transaction waits for locks as it says itself, and can't be
// repeated by the journal.
func (r *reader) meaning(err error) error {
	if r.app && myerr.Number(err) == myerr.LockWait && r.d.undoes.Load() {
		return fmt.Errorf("%w (%w)", journal.ErrTxAborted, myerr.Explain(err))
	}
	if r.app && (myerr.FateOf(err) != myerr.Again || errors.Is(theirError(err), journal.ErrTxAborted)) {
		return theirError(err)
	}
	err = meaning(err)
	if err != nil && myerr.Number(err) != myerr.Duplicate && r.failed == nil {
		r.failed = err
	}
	return err
}

// query reads rows behind the writes that were not sent yet.
func (r *reader) query(ctx context.Context, rows answer, text string, args ...any) error {
	p := r.pipeline()
	p.queue(rows, text, args...)
	return r.meaning(p.send(ctx, r.c))
}

// readTries limits the tries of a read whose connection fails. After a restart of the server, all connections of a pool do.
const readTries = 8

// Read implements rowstore.Source. If the connection breaks, it calls f again.
func (d *Driver) Read(ctx context.Context, f func(rowstore.Reader) error) error {
	return d.read(ctx, false, f)
}

// Snapshot implements rowstore.Source.
func (d *Driver) Snapshot(ctx context.Context, f func(rowstore.Reader) error) error {
	return d.read(ctx, true, f)
}

// beginSnapshot begins a transaction that sees one database state.
const beginSnapshot = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

func (d *Driver) read(ctx context.Context, snapshot bool, f func(rowstore.Reader) error) error {
	for try, pause := 1, 5*time.Millisecond; ; try, pause = try+1, 2*pause {
		err := d.readOnce(ctx, snapshot, f)
		if err == nil || try == readTries || ctx.Err() != nil || !isOutage(err) {
			return meaning(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isOutage reports whether an error is of a connection or of a server that is going.
func isOutage(err error) bool {
	var own *myerr.Error
	return myerr.IsConnections(err) || errors.As(err, &own) && own.Number == 0 || myerr.Number(err) != 0 && myerr.FateOf(err) == myerr.Outage
}

func (d *Driver) readOnce(ctx context.Context, snapshot bool, f func(rowstore.Reader) error) error {
	conn, err := d.reads.Conn(ctx)
	if err != nil {
		return err
	}
	r := &reader{d: d, c: conn, own: true, alone: !snapshot, later: d.primary()}
	if snapshot {
		if _, err := conn.ExecContext(ctx, beginSnapshot); err != nil {
			server.HangUp(conn)
			return err
		}
	}
	err = f(r)
	if snapshot {
		if _, ends := conn.ExecContext(ctx, "ROLLBACK"); ends != nil {
			server.HangUp(conn)
			return err
		}
	}
	if isOutage(err) {
		server.HangUp(conn)
	} else {
		_ = conn.Close()
	}
	return err
}

// Find implements rowstore.Reader.
func (r *reader) Find(ctx context.Context, keys rowstore.Keys) (rowstore.Found, error) {
	f := newFinding(keys)
	if r.alone { // one database state
		conn := r.c.(*sql.Conn)
		if _, err := conn.ExecContext(ctx, beginSnapshot); err != nil {
			return rowstore.Found{}, err
		}
		defer func() {
			if _, ends := conn.ExecContext(ctx, "ROLLBACK"); ends != nil {
				server.HangUp(conn)
			}
		}()
	}
	p := r.pipeline()
	f.queue(p)
	if err := p.send(ctx, r.c); err != nil {
		return rowstore.Found{}, r.meaning(err)
	}
	return f.result(ctx, r)
}

// finding is a Find on its way.
type finding struct{ columns.Finding }

func newFinding(keys rowstore.Keys) *finding { return &finding{columns.NewFinding(keys)} }

const rowColumns = "handle, state, coalesce(holder, ''), wake_at, coalesce(settled_at, 0), delivered, tombstone, provider, facts"

// queue adds the statements of the first round trip. Names are locked for sharing. So a name that another transaction adds or
// removes fails at once, or is waited for, and a name that is found stays.
func (f *finding) queue(p *pipeline) {
	if len(f.Keys.Names) > 0 {
		p.queue(f.Name, "SELECT digest, handle FROM {{s}}.names WHERE digest IN "+places(len(f.Keys.Names))+
			map[rowstore.Lock]string{rowstore.TryLock: "{{share}} NOWAIT", rowstore.WaitLock: "{{share}}"}[f.Keys.Lock], digests(f.Keys.Names)...)
	}
	if len(f.Keys.Handles) > 0 {
		f.queueRows(p, f.Keys.Handles, f.Keys.Whole || f.Keys.Heads)
	}
	if len(f.Keys.Marks) > 0 {
		f.queueMarks(p)
	}
}

// queueMarks locks the slots of marks in order, and reads the marks.
func (f *finding) queueMarks(p *pipeline) {
	if f.Keys.Lock != rowstore.NoLock {
		var slots []int
		for _, m := range f.Keys.Marks {
			slots = append(slots, int(uint64(m)%schema.Slots))
		}
		slices.Sort(slots)
		slots = slices.Compact(slots)
		wait := ""
		if f.Keys.Lock == rowstore.TryLock {
			wait = " NOWAIT"
		}
		p.queue(ignored, "SELECT slot FROM {{s}}.mark_slots WHERE slot IN "+places(len(slots))+" ORDER BY slot FOR UPDATE"+wait, anys(slots)...)
	}
	p.queue(f.Mark, "SELECT mark, handle FROM {{s}}.marks WHERE mark IN "+places(len(f.Keys.Marks)), anys(f.Keys.Marks)...)
}

// queueRows adds statements for rows. Each statement sees what was committed before it, and rows stay as they are once they are
// locked. So parts are read after the locks.
func (f *finding) queueRows(p *pipeline, handles []int64, withParts bool) {
	in := places(len(handles))
	how := map[rowstore.Lock]string{rowstore.TryLock: " FOR UPDATE SKIP LOCKED", rowstore.WaitLock: " FOR UPDATE"}[f.Keys.Lock]
	p.queue(f.Row, "SELECT "+rowColumns+" FROM {{s}}.operations WHERE handle IN "+in+" ORDER BY handle"+how, anys(handles)...)
	if !withParts {
		return
	}
	body := "body"
	if f.Keys.Heads {
		body = "NULL"
	}
	p.queue(f.Request, "SELECT handle, head, "+body+" FROM {{s}}.requests WHERE handle IN "+in, anys(handles)...)
	p.queue(f.Answer, "SELECT handle, head, "+body+" FROM {{s}}.answers WHERE handle IN "+in, anys(handles)...)
}

func digests(names []rowstore.Digest) []any {
	all := make([]any, len(names))
	for i := range names {
		all[i] = names[i][:]
	}
	return all
}

// result reads the rows of the names that were found, and returns all rows, also those that exist and could not be locked.
func (f *finding) result(ctx context.Context, r *reader) (rowstore.Found, error) {
	whole := make(map[int64]bool, len(f.Found.Names))
	var named []int64
	for _, handle := range f.Found.Names {
		if !whole[handle] {
			whole[handle], named = true, append(named, handle)
		}
	}
	if len(named) > 0 {
		slices.Sort(named)
		p := r.pipeline()
		f.queueRows(p, named, true)
		if err := p.send(ctx, r.c); err != nil {
			return f.Found, r.meaning(err)
		}
	}
	for _, row := range f.Rows {
		row.Whole = (f.Keys.Whole || whole[row.Handle]) && !f.Keys.Heads
	}
	if err := f.locked(ctx, r, append(named, f.Keys.Handles...)); err != nil {
		return f.Found, err
	}
	for _, row := range f.Rows {
		f.Found.Rows = append(f.Found.Rows, row)
	}
	return f.Found, nil
}

// locked adds the rows that exist and could not be locked.
func (f *finding) locked(ctx context.Context, r *reader, handles []int64) error {
	handles = slices.DeleteFunc(handles, func(handle int64) bool { return f.Rows[handle] != nil })
	if len(handles) == 0 || f.Keys.Lock == rowstore.NoLock {
		return nil
	}
	var late bool
	err := r.query(ctx, func(rows columns.Row) error {
		row := &rowstore.Row{Locked: true}
		err := rows.Scan(&row.Handle)
		f.Rows[row.Handle] = row
		late = f.Keys.Lock != rowstore.TryLock // the row came after the locks
		return err
	}, "SELECT handle FROM {{s}}.operations WHERE handle IN "+places(len(handles)), anys(handles)...)
	if err == nil && late {
		err = rowstore.ErrMissed
	}
	return err
}
