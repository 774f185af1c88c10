package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal/postgres"
)

// postgreSQL is a PostgreSQL server with a journal.
type postgreSQL struct {
	cfg    *pgx.ConnConfig
	schema string
}

var _ product = (*postgreSQL)(nil)

// postgreSQL reads the URL, and what the environment, ~/.pgpass and service files add to it.
func (c *command) postgreSQL() (*postgreSQL, error) {
	u, err := address.Parse(c.journal)
	if err != nil {
		return nil, usage("the URL of the journal, of the form postgres://user@host:5432/database, %w", err)
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
	return &postgreSQL{cfg, cmp.Or(c.schema, postgres.DefaultSchema)}, nil
}

func (p *postgreSQL) openJournal(ctx context.Context, c *command, how access) (inTables, error) {
	return postgres.Open(ctx, c.journal, postgres.Options{
		Schema: p.schema, Existing: true, ReadOnly: !how.write, Pooled: c.pooled, Seal: c.ringFor(how),
		BeforeConnect: func(_ context.Context, cfg *pgx.ConnConfig) error {
			if !c.pooled {
				cfg.RuntimeParams["application_name"] = p.cfg.RuntimeParams["application_name"]
			}
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
}

func (p *postgreSQL) connect() (*sql.DB, error) { return stdlib.OpenDB(*p.cfg), nil }

func (p *postgreSQL) place() (schema, server, account string) {
	return p.schema, fmt.Sprintf("%s:%d/%s", p.cfg.Host, p.cfg.Port, p.cfg.Database), p.cfg.User
}

func (p *postgreSQL) in(query string) string {
	return strings.NewReplacer("{{schema}}", pgx.Identifier{p.schema}.Sanitize(), "{{now}}", "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
		"{{alive}}", "s.buried_at IS NULL AND s.expires_at > clock_timestamp()").Replace(query)
}

func (p *postgreSQL) fault(err error) fault {
	var said *postgres.Error
	if !errors.As(err, &said) {
		return faultElsewhere
	}
	switch said.Code {
	case "42703":
		return faultForeign
	case "3D000", "3F000", "42P01":
		return faultMissing
	case "28P01", "28000", "42501":
		return faultRefused
	}
	return faultOther
}

func (p *postgreSQL) said(err error) string {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return fmt.Sprintf("%s (SQLSTATE %s)", said.Message, said.Code)
	}
	return ""
}

func (p *postgreSQL) keptBy() string {
	return "one in PostgreSQL is backed up with its database, by pg_basebackup and archived WAL or by pg_dump: see docs/postgresql.md"
}
