package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// database is a journal in a database.
type database struct {
	inTables
	product
}

var _ store = (*database)(nil)

// inTables is a journal of journal/postgres or journal/mysql.
type inTables interface {
	contents
	machine.Clock
	Adopt(ctx context.Context) error
}

// product is what differs between PostgreSQL and MySQL.
type product interface {
	// openJournal opens the journal, for any deployment.
	openJournal(ctx context.Context, c *command, how access) (inTables, error)
	// connect returns connections for what the journal has no method for. The caller closes them.
	connect() (*sql.DB, error)
	// place returns where the journal's schema is, and account by whose rights it is used, for display.
	place() (schema, server, account string)
	// in fills SQL in: {{schema}} is the journal's schema, {{now}} the server's time in milliseconds, and {{alive}} a
	// condition that live sessions s meet.
	in(query string) string
	// fault returns what an opening error means.
	fault(err error) fault
	// said returns the server's own words about a statement. Another error has none.
	said(err error) string
	// checks are doctor's checks of the server.
	checks() []check
	// keptBy says what copies the journal instead of backup.
	keptBy() string
}

// fault is what an error of opening a journal means.
type fault uint8

const (
	faultElsewhere fault = iota // it is not the server's
	faultOther
	faultMissing // there is no such database or schema
	faultForeign // the tables are another program's, or not all there
	faultRefused // who asks is not let in, or may not
)

// check is one of doctor's checks, in a transaction that only reads.
type check func(ctx context.Context, tx *sql.Tx, x *examination) error

// openDatabase opens a journal in a database.
func (c *command) openDatabase(ctx context.Context, p product, how access) (*database, error) {
	j, err := p.openJournal(ctx, c, how)
	if err != nil {
		return nil, locate(p, err)
	}
	return &database{j, p}, nil
}

// locate adds the place to an opening error, and its exit code.
func locate(p product, err error) error {
	schema, server, account := p.place()
	_, about, _ := strings.Cut(err.Error(), ": ")
	is := p.fault(err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return notFound("there is no journal in schema %s of %s that the account may see, and none is made: is it another database, or --schema?", shown.Text(schema), shown.Text(server))
	case strings.HasPrefix(about, "schema "): // its name can't be one
		return usage("--schema: %s", about)
	case errors.Is(err, journal.ErrVersion):
		return fmt.Errorf("journal in %s: %w", server, err)
	case is == faultForeign:
		return refused("schema %s of %s has a table of a journal's name, and lacks tables or columns of one of this release: is it another database, or --schema?",
			shown.Text(schema), shown.Text(server))
	case is == faultElsewhere:
		return fmt.Errorf("journal in %s: %w", server, err)
	}
	code := exitFailed
	switch is {
	case faultMissing:
		code = exitNotFound
	case faultRefused:
		code = exitRefused
	}
	return &exit{code, fmt.Errorf("journal in %s, as %s: %w", server, account, err)}
}

// look runs read on one database state, in a read-only transaction.
func (d *database) look(ctx context.Context, read func(*sql.Tx) error) error {
	db, err := d.connect()
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err == nil {
		err = errors.Join(read(tx), tx.Rollback())
	}
	err = errors.Join(err, db.Close())
	switch said := d.said(err); {
	case said != "":
		return errors.New(said)
	case err != nil && ctx.Err() == nil:
		return errors.New("the connection to the database failed")
	}
	return err
}

func (d *database) clock(ctx context.Context, now time.Time) (last, unconfirmed time.Time, err error) {
	var lastAt, jumpedAt sql.NullInt64
	err = d.look(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, d.in("SELECT nullif(max(last_at), 0), (SELECT nullif(jumped_at, 0) FROM {{schema}}.lanes ORDER BY seq DESC LIMIT 1) FROM {{schema}}.lanes")).Scan(&lastAt, &jumpedAt)
	})
	if err != nil {
		return last, unconfirmed, err
	}
	last, unconfirmed = believed(now, lastAt, jumpedAt)
	return last, unconfirmed, nil
}

func (d *database) backup(context.Context, string) error {
	return usage("backup copies a journal in a SQLite file; %s. One that was restored from that is adopted", d.keptBy())
}

func (d *database) adopt(ctx context.Context, deployment *string) error {
	if deployment != nil {
		return usage("--as names the deployment of a journal in a SQLite file: one in a database keeps the name that it was opened with first")
	}
	return d.Adopt(ctx)
}
