package rows

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/server"
)

// forget resets the session after an application transaction. The next one on that connection may be another
// tenant's, and begins as the first did. Behind a pooler, the sessions are the pooler's, and clients must not change
// the sessions.
var forget = []string{"RESET SESSION AUTHORIZATION", "RESET ROLE", "RESET ALL"}

// soundly makes a transaction's commit wait for the disk, even if the application's other commits do not.
const soundly = "SELECT pg_catalog.set_config('synchronous_commit', 'on', true) WHERE pg_catalog.current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"

// BeginTx implements rowstore.Driver. Driver returns a pgx.Tx. The transaction begins with its first statement. The
// record is durable once the transaction commits, regardless of the transaction's settings.
func (d *Driver) BeginTx(ctx context.Context, delivery bool) (journal.Tx, error) {
	pool := d.apps
	if delivery {
		pool = d.deliveries
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	closing := []string{connection.SoundCommit}
	if !d.opts.Pooled {
		closing = append(slices.Clone(forget), closing...)
	}
	// The role may have less patience.
	return apptx.NewOwn(ctx, conn, []string{soundly, "SET LOCAL idle_in_transaction_session_timeout = '60s'"}, closing), nil
}

// asMade reports whether a connection has the first settings again after a reset. The application's AfterConnect may
// have set others, so then it reports false, and the next transaction gets another connection.
func asMade(conn *pgx.Conn) bool { return conn.Config().AfterConnect == nil }

// within is the journal's part in an application's transaction.
type within struct{ *tx }

var errElsewhere = errors.New("postgres: the transaction is on another server than the journal's connections reach: roll it back, and begin another")

// Within implements rowstore.Driver. Without keys, it sends nothing yet. The server may refuse a transaction that is
// serializable, or of repeatable reads (SQLSTATE 40001). The application then repeats it as a whole.
func (d *Driver) Within(ctx context.Context, theirs journal.Tx, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	c, err := apptx.RunnerOf(theirs)
	if err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	t := &within{&tx{reader: reader{d: d, c: c}, read: rowstore.Head{Identity: d.Identity, Key: d.Key, Sealed: d.Sealed()}}}
	f := newFinding(keys)
	if f.isEmpty() {
		return t, t.read, f.Found, nil
	}
	p, isOurs := t.pipeline()
	p.queue(func(rows columns.Row) error { _, err := d.scanHead(rows, &t.read); return err }, "SELECT "+clocks)
	f.queue(p)
	if _, err := p.send(ctx, c); err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, theirError(err)
	}
	if err := isOurs(ctx); err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	found, err := f.result()
	return t, t.read, found, err
}

// pipeline begins with a statement about the server that the transaction is on. Once the statement was sent, isOurs
// returns an error if the transaction is on another database, or if the journal has gone back. The application makes
// its own connections. If a transaction reaches an unchecked server, isOurs checks the server of the journal's
// connections again.
func (t *within) pipeline() (p *pipeline, isOurs func(context.Context) error) {
	p = &pipeline{d: t.d}
	var id, why *string
	var started time.Time
	f := t.d
	p.queue(func(rows columns.Row) error { return rows.Scan(&id, &why, &started) },
		"SELECT (SELECT id FROM {{s}}.journal), (SELECT coalesce(restored, 'the server was promoted to ' || promoted) FROM {{s}}.journal), "+server.StartSQL)
	return p, func(ctx context.Context) error {
		switch {
		case id == nil || *id != t.d.Identity:
			return fmt.Errorf("%w: the transaction is not one of the journal's database", server.ErrDeployment)
		case why != nil:
			return fmt.Errorf("%w: %s; see Adopt and Confirm", journal.ErrRestored, *why)
		case started.Equal(f.Started()):
			return nil
		}
		own, err := f.Dial(ctx)
		if err != nil {
			return err
		}
		own.HangUp()
		if err := f.Refusal(); err != nil {
			return err
		}
		if !started.Equal(f.Started()) {
			return errElsewhere
		}
		return nil
	}
}

// Receipt implements rowstore.Tx.
func (t *within) Receipt(ctx context.Context, key journal.ReceiptKey) (rowstore.FoundReceipt, error) {
	p, isOurs := t.pipeline()
	p.queue(nil, soundly)
	found, err := t.receipt(ctx, p, key)
	if err == nil {
		err = isOurs(ctx)
	}
	return found, err
}

// Flow implements rowstore.Tx. The steps of a claim are recorded in a restored journal, too.
func (t *within) Flow(ctx context.Context, handle int64, name rowstore.Digest, lock rowstore.Lock) (*rowstore.Flow, error) {
	p, isOurs := t.pipeline()
	f, err := t.flow(ctx, p, handle, name, lock)
	if err == nil && lock != rowstore.ShareLock {
		err = isOurs(ctx)
	}
	return f, theirError(err)
}

// CompleteReceipt implements rowstore.Tx.
func (t *within) CompleteReceipt(ctx context.Context, was, is *rowstore.Receipt) (bool, error) {
	done, err := t.tx.CompleteReceipt(ctx, was, is)
	return done, theirError(err)
}

// theirError is the server's error, explained. After it, the transaction can only be rolled back.
func theirError(err error) error {
	var own *pgerr.Error
	if errors.As(meaning(err), &own) {
		return own
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
		p.queue(nil, "INSERT INTO {{s}}.lanes (process, lane, least_margin) VALUES ($1, 0, $2)", rand.Text(), int64(margin))
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
