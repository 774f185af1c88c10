package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
)

// database is a journal in PostgreSQL.
type database struct {
	*postgres.Journal
	cfg    *pgx.ConnConfig
	schema string
	place  string // for display
}

var (
	_ store         = (*database)(nil)
	_ machine.Clock = (*database)(nil)
)

// inDatabase reports whether a name is a PostgreSQL URL and not a file's path.
func inDatabase(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// hasPassword reports whether a URL has, or may have, a password.
func hasPassword(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || misread(u, raw) {
		return strings.Contains(raw, "@")
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password") || u.Query().Has("sslpassword")
}

// misread reports whether part of the URL had to be escaped. One parser then takes it as part of the password, and
// another as part of a printed name.
func misread(u *url.URL, raw string) bool {
	beforeQuery, query, _ := strings.Cut(raw, "?")
	key, _, _ := strings.Cut(query, "=")
	return strings.Contains(raw, "#") || strings.Count(beforeQuery, "@") > 1 || strings.ContainsAny(u.EscapedPath(), "@=;") || strings.Contains(key, "@")
}

// isDatabases reports whether a name that is no PostgreSQL URL is meant for a database. It may have a password in it.
func isDatabases(name string) bool {
	name = strings.ToLower(strings.TrimLeft(name, " \"'"))
	if strings.Contains(name, "://") || strings.HasPrefix(name, "postgres:") || strings.HasPrefix(name, "postgresql:") {
		return true
	}
	for _, setting := range strings.Fields(name) { // as libpq's other connection strings have them
		switch key, _, _ := strings.Cut(setting, "="); key {
		case "host", "hostaddr", "dbname", "user", "password", "service":
			return key != setting
		}
	}
	return false
}

// configured reads the URL, and what the environment, ~/.pgpass and service files add to it.
func (c *command) configured() (*pgx.ConnConfig, error) {
	u, err := url.Parse(c.journal)
	if err != nil || misread(u, c.journal) { // the error would quote it
		return nil, usage("the URL of the journal can't be read: it has the form postgres://user@host:5432/database, and what is special in a part of it is escaped, as @ by %%40")
	}
	cfg, err := pgx.ParseConfig(c.journal)
	if err != nil {
		why := err.Error()
		if inner := errors.Unwrap(err); inner != nil {
			why = inner.Error()
		}
		if password, _ := u.User.Password(); password != "" && strings.Contains(why, password) || strings.Contains(why, "://") {
			why = "a setting of it is wrong"
		}
		return nil, usage("the URL of the journal can't be used: %s", shown.Text(why))
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "onceward command"
	}
	if c.pooled {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
		cfg.StatementCacheCapacity, cfg.DescriptionCacheCapacity = 0, 0
		clear(cfg.RuntimeParams)
	}
	return cfg, nil
}

// openDatabase opens a journal in a database, for any deployment.
func (c *command) openDatabase(ctx context.Context, how access) (*database, error) {
	cfg, err := c.configured()
	if err != nil {
		return nil, err
	}
	d := &database{cfg: cfg, schema: cmp.Or(c.schema, postgres.DefaultSchema), place: fmt.Sprintf("%s:%d/%s", cfg.Host, cfg.Port, cfg.Database)}
	d.Journal, err = postgres.Open(ctx, c.journal, postgres.Options{
		Schema: c.schema, Existing: true, ReadOnly: !how.write, Pooled: c.pooled, Seal: c.ringFor(how),
		BeforeConnect: func(_ context.Context, cfg *pgx.ConnConfig) error {
			if !c.pooled {
				cfg.RuntimeParams["application_name"] = d.cfg.RuntimeParams["application_name"]
			}
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, d.explained(err)
	}
	return d, nil
}

// explained adds the place to an opening error, and its exit code.
func (d *database) explained(err error) error {
	var said *postgres.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return notFound("there is no journal in schema %s of %s, and none is made: is it another database, or --schema?", shown.Text(d.schema), shown.Text(d.place))
	case strings.HasPrefix(err.Error(), "postgres: schema "): // its name can't be one
		return usage("--schema: %s", strings.TrimPrefix(err.Error(), "postgres: "))
	case errors.Is(err, journal.ErrVersion):
		return fmt.Errorf("journal in %s: %w", d.place, err)
	case errors.As(err, &said) && said.Code == "42703": // a column is missing
		return refused("schema %s of %s has a table of a journal's name, and its columns are not those of one of this release: is it another database, or --schema?",
			shown.Text(d.schema), shown.Text(d.place))
	case errors.As(err, &said):
		code := exitFailed
		switch said.Code {
		case "3D000", "3F000", "42P01": // no such database, schema or table
			code = exitNotFound
		case "28P01", "28000", "42501": // who asks is not let in, or may not
			code = exitRefused
		}
		return &exit{code, fmt.Errorf("journal in %s, as %s: %w", d.place, d.cfg.User, err)}
	}
	return fmt.Errorf("journal in %s: %w", d.place, err)
}

// look runs read on one database state, in a read-only transaction.
func (d *database) look(ctx context.Context, read func(pgx.Tx) error) error {
	conn, err := pgx.ConnectConfig(ctx, d.cfg)
	if err == nil {
		err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, read)
		ending, cancel := grace.After(ctx)
		err = errors.Join(err, conn.Close(ending))
		cancel()
	}
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said):
		return fmt.Errorf("%s (SQLSTATE %s)", said.Message, said.Code)
	case err != nil && ctx.Err() == nil:
		return errors.New("the connection to the database failed")
	}
	return err
}

// in returns SQL with the journal's schema for {{schema}}.
func (d *database) in(query string) string {
	return strings.ReplaceAll(query, "{{schema}}", pgx.Identifier{d.schema}.Sanitize())
}

func (d *database) clock(ctx context.Context, now time.Time) (last, unconfirmed time.Time, err error) {
	var lastAt, jumpedAt sql.NullInt64
	err = d.look(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, d.in("SELECT nullif(max(last_at), 0), nullif((array_agg(jumped_at ORDER BY seq DESC))[1], 0) FROM {{schema}}.lanes")).Scan(&lastAt, &jumpedAt)
	})
	if err != nil {
		return last, unconfirmed, err
	}
	last, unconfirmed = believed(now, lastAt, jumpedAt)
	return last, unconfirmed, nil
}

func (d *database) backup(context.Context, string) error {
	return usage("backup copies a journal in a SQLite file; one in PostgreSQL is backed up with its database, by pg_basebackup and archived WAL or by pg_dump: " +
		"see docs/postgresql.md. One that was restored from that is adopted")
}

func (d *database) adopt(ctx context.Context, deployment *string) error {
	if deployment != nil {
		return usage("--as names the deployment of a journal in a SQLite file: one in PostgreSQL keeps the name that it was opened with first")
	}
	return d.Adopt(ctx)
}
