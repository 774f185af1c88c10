package rows

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// forget resets the session after a transaction of the application's. The next one on that connection may be another
// tenant's, and begins as the first did.
const forget = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; "

// soundly makes a transaction's commit wait for the disk, even if the application's other commits do not.
const soundly = "SELECT pg_catalog.set_config('synchronous_commit', 'on', true) WHERE pg_catalog.current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"

// BeginTx implements rowstore.Driver. Driver returns a pgx.Tx. The transaction is durable once it commits, regardless of
// its settings.
func (d *Driver) BeginTx(ctx context.Context) (journal.Tx, error) {
	tx, err := d.apps.BeginTx(ctx, pgx.TxOptions{
		BeginQuery:  connection.BeginSQL + "; " + soundly,
		CommitQuery: forget + connection.SoundCommit + "; COMMIT"})
	if err != nil {
		return nil, err
	}
	return apptx.NewOwn(tx), nil
}

// within is the journal's part of a transaction of the application's.
type within struct{ *tx }

var errElsewhere = errors.New("the transaction is not one of the journal's database")

// Within implements rowstore.Driver. Without keys, it sends nothing yet. The server may refuse a transaction that is
// serializable, or of repeatable reads (SQLSTATE 40001). The application then repeats it as a whole.
func (d *Driver) Within(ctx context.Context, theirs journal.Tx, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	c, err := apptx.RunnerOf(theirs)
	if err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	t := &within{&tx{reader: reader{d: d, c: c}, read: rowstore.Head{Identity: d.identity, Key: d.key}}}
	f := newFinding(keys)
	if len(keys.Names)+len(keys.Handles)+len(keys.Marks) == 0 {
		return t, t.read, f.found, nil
	}
	p := t.pipeline()
	p.queue(func(rows pgx.Rows) error { _, err := d.scanHead(rows, &t.read); return err }, "SELECT "+clocks)
	f.queue(p)
	if _, err := p.send(ctx, c); err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, theirError(err)
	}
	found, err := f.result()
	return t, t.read, found, err
}

// pipeline begins with a statement that fails unless the transaction is one of the journal's database, which has not
// gone back.
func (t *within) pipeline() *pipeline {
	p := &pipeline{d: t.d}
	p.queue(func(rows pgx.Rows) error {
		var id, why *string
		switch err := rows.Scan(&id, &why); {
		case err != nil:
			return err
		case id == nil || *id != t.d.identity:
			return errElsewhere
		case why != nil:
			return fmt.Errorf("%w: %s; see Adopt and Confirm", journal.ErrRestored, *why)
		}
		return nil
	}, "SELECT (SELECT id FROM {{s}}.journal), (SELECT coalesce(restored, 'the server was promoted to ' || promoted) FROM {{s}}.journal)")
	return p
}

// Receipt implements rowstore.Tx.
func (t *within) Receipt(ctx context.Context, key journal.ReceiptKey) (rowstore.FoundReceipt, error) {
	p := t.pipeline()
	p.queue(nil, soundly)
	return t.receipt(ctx, p, key, true)
}

// Flow implements rowstore.Tx.
func (t *within) Flow(ctx context.Context, handle int64, name rowstore.Digest, lock rowstore.Lock) (*rowstore.Flow, error) {
	f, err := t.flow(ctx, t.pipeline(), handle, name, lock)
	return f, theirError(err)
}

// CompleteReceipt implements rowstore.Tx.
func (t *within) CompleteReceipt(ctx context.Context, was, is *rowstore.Receipt) (bool, error) {
	done, err := t.tx.CompleteReceipt(ctx, was, is)
	return done, theirError(err)
}

// theirError is the server's error as it is. After it, the transaction can only be rolled back.
func theirError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg
	}
	return err
}

// Find implements rowstore.Reader.
func (t *within) Find(ctx context.Context, keys rowstore.Keys) (rowstore.Found, error) {
	found, err := t.tx.Find(ctx, keys)
	return found, theirError(err)
}

const savepoint = "onceward_rows"

// Commit implements rowstore.Tx. If another transaction was faster, the application's goes on as it was.
func (t *within) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	p := &pipeline{d: t.d}
	p.queue(nil, "SAVEPOINT "+savepoint)
	queueChanges(p, changes)
	if margin := head.Clock.LeastMargin; margin != t.read.Clock.LeastMargin {
		// A lane that no transaction uses: an update of another one would make other transactions wait.
		p.queue(nil, "INSERT INTO {{s}}.lanes (process, lane, least_margin) VALUES ($1, 0, $2)", fleet.NewID(), int64(margin))
	}
	p.queue(nil, "RELEASE SAVEPOINT "+savepoint)
	_, err := p.send(ctx, t.c)
	if pgerr.Code(err) != pgerr.DivisionByZero {
		return theirError(err)
	}
	for _, text := range []string{"ROLLBACK TO SAVEPOINT " + savepoint, "RELEASE SAVEPOINT " + savepoint} {
		if _, err := t.c.Exec(ctx, text); err != nil {
			return err
		}
	}
	return rowstore.ErrMissed
}

// Rollback leaves the transaction to the application.
func (t *within) Rollback() {}
