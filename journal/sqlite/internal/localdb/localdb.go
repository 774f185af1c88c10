// Package localdb begins the application's own transactions on the journal's file, by database/sql.
//
// It knows SQLite's settings for such a transaction, the lock that the transactions take in turn, and how SQLite ends a
// transaction of its own accord. It must not know the journal's tables or the writer. The writer only waits for the
// same lock.
package localdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	sqlite "modernc.org/sqlite"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
)

// Database is a database/sql handle on the open file, for transactions that hold the application's writes beside a
// step's record. It is opened on first use.
type Database struct {
	once sync.Once
	db   *sql.DB
	err  error
}

// Begin begins a transaction in the file at path, in the caller's turn. It waits for other processes at most timeout.
// over is called when the transaction ends, or has not begun.
//
// It takes a connection only then, mostly the connection that has just passed on its turn, with its writes in the
// cache.
func (d *Database) Begin(ctx context.Context, path string, timeout time.Duration, over func()) (*sql.Tx, error) {
	if err := d.open(path, timeout); err != nil {
		over()
		return nil, err
	}
	return d.begin(ctx, over)
}

func (d *Database) open(path string, timeout time.Duration) error {
	d.once.Do(func() {
		settings := url.Values{"_txlock": {"immediate"}, "_pragma": {
			"busy_timeout(0)", // Lock and conn.InTurn wait: SQLite's own waiting starves the longest waiter
			"synchronous(FULL)", "wal_autocheckpoint(0)", fmt.Sprintf("journal_size_limit(%d)", checkpoint.MaxWAL), "trusted_schema(OFF)", "foreign_keys(ON)",
		}}
		var base driver.Connector
		if base, d.err = sqlite.NewConnector("file:" + (&url.URL{Path: path}).EscapedPath() + "?" + settings.Encode()); d.err == nil {
			d.db = sql.OpenDB(guards{base, timeout})
		}
	})
	return d.err
}

func (d *Database) begin(ctx context.Context, over func()) (*sql.Tx, error) {
	tx, err := d.db.BeginTx(context.WithValue(ctx, overKey{}, over), nil)
	if err != nil {
		over()
	}
	return tx, err
}

// overKey is for the context of a transaction that begins in its turn. It has what is called when the transaction ends.
type overKey struct{}

// Close ends the connections, and prevents new ones.
func (d *Database) Close() error {
	d.once.Do(func() { d.err = journal.ErrClosed })
	if d.db == nil {
		return nil
	}
	return d.db.Close()
}

const begin = "BEGIN"

// errOpen is of a transaction that is begun in another one.
var errOpen = errors.New("a transaction is open")

// IsOpen returns journal.ErrTxAborted if SQLite has ended a transaction of its own accord. database/sql does not
// notice: each further statement would be a separate transaction. A transaction cannot begin within another one, so an
// attempt to begin one shows it.
func IsOpen(ctx context.Context, tx *sql.Tx) error {
	whole := context.WithoutCancel(ctx) // a transaction that began and did not end would include the next statements
	if _, err := tx.ExecContext(whole, begin); err != nil {
		return ctx.Err()
	}
	_, err := tx.ExecContext(whole, "ROLLBACK")
	return errors.Join(errEnded, err)
}

var errEnded = fmt.Errorf("SQLite rolled the transaction back after one of its statements (ON CONFLICT ROLLBACK, RAISE(ROLLBACK), an interrupted statement, or a full disk): %w", journal.ErrTxAborted)

type handleKey struct{}

// OnHandle is the context for the journal's own statements in a BeginSQL transaction, which has the write lock on the
// journal's file. Each connection prepares such a statement once. The end of ctx does not break the statement off: the
// statement takes microseconds, and waiting for ctx as well would take a goroutine.
func OnHandle(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), handleKey{}, ctx)
}

// IsOnHandle returns the context that OnHandle got, or nil.
func IsOnHandle(ctx context.Context) context.Context {
	of, _ := ctx.Value(handleKey{}).(context.Context)
	return of
}
