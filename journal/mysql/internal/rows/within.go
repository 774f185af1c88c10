package rows

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// within is the journal's part of an application transaction. The transaction may be one of repeatable reads, whose
// plain reads have an old state, and whose locking reads lock gaps between rows. So the journal reads what is committed on a
// connection of its own, and locks only rows that exist.
type within struct {
	*tx
	theirs *sql.Tx
	onOurs bool // the connection is the journal's own, by BeginTx
}

// Within implements rowstore.Driver. Without keys, it sends nothing yet.
func (d *Driver) Within(ctx context.Context, theirs journal.Tx, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	their, is := theirs.(theirTx)
	if !is || their.tx == nil {
		return nil, rowstore.Head{}, rowstore.Found{}, fmt.Errorf("mysql: the transaction is a %T: make it by mysql.SQL or BeginTx", theirs)
	}
	t := &within{&tx{reader: reader{d: d, c: their.tx, app: true}, ctx: ctx, read: rowstore.Head{Identity: d.identity, Key: d.key, Sealed: d.Sealed()}}, their.tx, their.d == d}
	if len(keys.Names)+len(keys.Handles)+len(keys.Marks) == 0 {
		return t, t.read, newFinding(keys).Found, nil
	}
	if err := d.ask(ctx, func(rows columns.Row) error { _, err := d.scanHead(rows, &t.read); return err }, "SELECT "+clocks); err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, myerr.Explain(err)
	}
	if err := t.isOurs(ctx); err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	found, err := t.Find(ctx, keys)
	return t, t.read, found, err
}

// isOurs returns an error if the transaction is not one of the journal's database, or has ended, or if its settings could
// spoil a row. It begins no snapshot: what the application reads later has all that was committed before.
func (t *within) isOurs(ctx context.Context) error {
	if err := server.InTransaction(ctx, t.theirs); err != nil {
		return theirError(err)
	}
	var id string
	var autocommit, strict, unique, durable, plain bool
	err := t.query(ctx, columns.One(&id, &autocommit, &strict, &unique, &durable, &plain),
		"SELECT id, @@autocommit, @@sql_mode LIKE '%STRICT_%', @@unique_checks, "+server.DurableSQL+", @@character_set_client = 'utf8mb4' AND @@sql_mode NOT LIKE '%NO_BACKSLASH_ESCAPES%' FROM {{s}}.identity WHERE one = 1{{share}}")
	t.own = t.onOurs && plain // a handler may have changed how its session reads texts
	switch {
	case myerr.Number(err) == 1146, err == nil && id != t.d.identity:
		return fmt.Errorf("%w: the transaction is not one of the journal's database", ErrDeployment)
	case err != nil:
		return err
	case !autocommit:
		return fmt.Errorf("%w: the transaction's connection has autocommit off, so a statement after the transaction's end would begin another one: leave autocommit on, and use BeginTx of database/sql", server.ErrUnsafe)
	case !strict:
		return fmt.Errorf("%w: the transaction's connection has a sql_mode without STRICT_TRANS_TABLES, in which the server cuts values short: set sql_mode in the DSN", server.ErrUnsafe)
	case !unique:
		return server.Unsafe("the transaction's connection has unique_checks off, so the server may take a key twice: leave unique_checks on")
	case !durable && t.d.opts.Durable:
		return server.Unsafe("a power loss loses acknowledged commits: set innodb_flush_log_at_trx_commit to 1, and sync_binlog to 1 with a binary log, or see Options.Durability")
	}
	return nil
}

// isWhole returns journal.ErrRestored if the journal counts as restored.
func (t *within) isWhole(ctx context.Context) error {
	var restored sql.NullString
	err := myerr.Explain(t.d.ask(ctx, columns.One(&restored), "SELECT restored FROM {{s}}.journal"))
	if err == nil && restored.Valid {
		err = fmt.Errorf("%w: %s; see Adopt and Confirm", journal.ErrRestored, restored.String)
	}
	return err
}

// Find implements rowstore.Reader.
func (t *within) Find(ctx context.Context, keys rowstore.Keys) (rowstore.Found, error) {
	f := newFinding(keys)
	f.Keys.Lock = rowstore.WaitLock
	if err := t.findNames(ctx, f); err != nil {
		return f.Found, err
	}
	handles, whole := slices.Clone(keys.Handles), make(map[int64]bool)
	for _, handle := range f.Found.Names {
		whole[handle] = true
		if !slices.Contains(handles, handle) {
			handles = append(handles, handle)
		}
	}
	if len(handles) > 0 {
		slices.Sort(handles)
		if err := t.findRows(ctx, f, handles); err != nil {
			return f.Found, err
		}
	}
	for name, handle := range f.Found.Names {
		if f.Rows[handle] == nil {
			return f.Found, fmt.Errorf("%w: the row of %x is gone", rowstore.ErrMissed, name)
		}
	}
	if len(keys.Marks) > 0 {
		p := t.pipeline()
		f.queueMarks(p)
		if err := p.send(ctx, t.c); err != nil {
			return f.Found, t.meaning(err)
		}
		// The slots are locked: no other transaction adds to these marks.
		if err := t.d.ask(ctx, f.Mark, "SELECT mark, handle FROM {{s}}.marks WHERE mark IN "+places(len(keys.Marks)), anys(keys.Marks)...); err != nil {
			return f.Found, myerr.Explain(err)
		}
		for mark, of := range f.Found.Marks {
			slices.Sort(of)
			f.Found.Marks[mark] = slices.Compact(of)
		}
	}
	for _, row := range f.Rows {
		row.Whole = (keys.Whole || whole[row.Handle]) && !keys.Heads
		f.Found.Rows = append(f.Found.Rows, row)
	}
	return f.Found, nil
}

// findNames reads committed names. If a transaction holds one, maybe this one, it also reads those that this one has added.
func (t *within) findNames(ctx context.Context, f *finding) error {
	if len(f.Keys.Names) == 0 {
		return nil
	}
	p, text := t.d.primary(), "SELECT digest, handle FROM {{s}}.names WHERE digest IN "+places(len(f.Keys.Names))
	p.queue(f.Name, text, digests(f.Keys.Names)...)
	p.queue(ignored, text+"{{share}} NOWAIT", digests(f.Keys.Names)...)
	err := t.d.beside(ctx, p)
	if err == nil || myerr.FateOf(err) != myerr.Locked {
		return myerr.Explain(err)
	}
	return t.query(ctx, f.Name, text, digests(f.Keys.Names)...)
}

// findRows locks rows and reads them with their parts. The parts are read on a connection of the journal's, unless this
// transaction has changed the row. Last, the committed names have to lead to the rows still.
func (t *within) findRows(ctx context.Context, f *finding, handles []int64) error {
	p := t.pipeline()
	f.queueRows(p, handles, true) // parts as this transaction sees them
	if err := p.send(ctx, t.c); err != nil {
		return t.meaning(err)
	}
	committed := newFinding(rowstore.Keys{Names: f.Keys.Names, Handles: handles, Whole: true, Heads: f.Keys.Heads})
	beside := t.d.primary()
	beside.queue(nil, beginSnapshot)
	committed.queue(beside)
	beside.queue(nil, "COMMIT")
	if err := t.d.beside(ctx, beside); err != nil {
		return myerr.Explain(err)
	}
	for name, handle := range committed.Found.Names {
		if f.Found.Names[name] != handle {
			return rowstore.ErrMissed
		}
	}
	for handle, row := range f.Rows {
		if is := committed.Rows[handle]; is != nil && slices.Equal(is.Record, row.Record) {
			row.Request, row.Answer = is.Request, is.Answer
		}
	}
	return nil
}

// Receipt implements rowstore.Tx.
func (t *within) Receipt(ctx context.Context, key journal.ReceiptKey) (found rowstore.FoundReceipt, err error) {
	if err := t.isOurs(ctx); err != nil {
		return found, err
	}
	if err := t.isWhole(ctx); err != nil {
		return found, err
	}
	return t.tx.Receipt(ctx, key)
}

// ReserveReceipts implements rowstore.Tx.
func (t *within) ReserveReceipts(ctx context.Context, n int, made func(int, int64) *rowstore.Receipt) ([]bool, error) {
	if err := t.isOurs(ctx); err != nil {
		return make([]bool, n), err
	}
	return t.tx.ReserveReceipts(ctx, n, made)
}

// Advance implements rowstore.Tx.
func (t *within) Advance(ctx context.Context, source, entity string, seq int64) (bool, error) {
	if err := t.isOurs(ctx); err != nil {
		return false, err
	}
	return t.tx.Advance(ctx, source, entity, seq)
}

// Flow implements rowstore.Tx. The steps of a claim are recorded in a restored journal, too.
func (t *within) Flow(ctx context.Context, handle int64, name rowstore.Digest, lock rowstore.Lock) (*rowstore.Flow, error) {
	if err := t.isOurs(ctx); err != nil {
		return nil, err
	}
	if lock != rowstore.ShareLock {
		if err := t.isWhole(ctx); err != nil {
			return nil, err
		}
	}
	if handle == 0 {
		const text = "SELECT handle FROM {{s}}.flows WHERE name = ?"
		if err := t.d.ask(ctx, columns.One(&handle), text, name[:]); err != nil {
			return nil, myerr.Explain(err)
		}
		if handle == 0 {
			if err := t.query(ctx, columns.One(&handle), text, name[:]); err != nil || handle == 0 {
				return nil, err
			}
		}
	}
	return t.tx.Flow(ctx, handle, name, lock)
}

const savepoint = "onceward_rows"

// Commit implements rowstore.Tx. If a statement fails, the application's transaction goes on as it was, except after a deadlock.
func (t *within) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	p := t.pipeline()
	p.queue(nil, "SAVEPOINT "+savepoint)
	queueChanges(p, changes)
	if margin := head.Clock.LeastMargin; margin != t.read.Clock.LeastMargin {
		p.queue(nil, "INSERT INTO {{s}}.margins VALUES (?, ?)", rand.Text(), int64(margin))
	}
	err := p.send(ctx, t.c)
	if err == nil {
		return nil
	}
	err = t.meaning(err)
	if _, undo := t.c.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint); undo != nil && !errors.Is(err, journal.ErrTxAborted) {
		return fmt.Errorf("%w (%w)", journal.ErrTxAborted, err)
	}
	return err
}

// Rollback leaves the transaction to the application.
func (t *within) Rollback() {}
