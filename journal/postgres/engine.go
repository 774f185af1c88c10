package postgres

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
)

// Journal is a journal in PostgreSQL, shared by all processes that open it. Open makes one. Its methods are safe for
// concurrent use.
type Journal struct{ engine }

// engine is what a Journal does, by either of the two layouts of a schema.
type engine interface {
	journal.Journal
	journal.Clock
	journal.ClockResetter
	journal.HookKeeper
	journal.StatsReader
	journal.LocalFlows
	journal.Outbox
	journal.Receipts
	journal.ReceiptCounter
	journal.Reconciler

	Adopt(ctx context.Context) error
	Confirm(ctx context.Context) error
	Verify(ctx context.Context) ([]Violation, error)
}

var _ journal.Journal = (*Journal)(nil)

// layout is a way to keep a journal in a schema.
type layout struct {
	open       func(ctx context.Context, d *connection.Dialer, schema string, opts Options) (engine, error)
	migrate    func(ctx context.Context, cfg *pgx.ConnConfig, schema string, logger *slog.Logger, files fs.FS) error
	migrations func() fs.FS
}

// chosen is the layout in use. Tests choose the other one, too.
var chosen = layout{
	open: func(ctx context.Context, d *connection.Dialer, schema string, opts Options) (engine, error) {
		return openLanes(ctx, d, schema, opts)
	},
	migrate:    migrateLanes,
	migrations: laneMigrations,
}

// Open opens the journal in the database that connString names, a URL or list of keywords as for libpq. It dials its
// own connections: one for the heartbeat, one for each lane, some for single transactions, at most four for handlers
// of DeliverTx, and Options.Readers. The caller closes the Journal.
//
// A restored or copied journal opens, and sends nothing until it is adopted: see Adopt.
//
// Errors say what to do. errors.Is finds journal.ErrVersion, ErrUnsafe and ErrDeployment. errors.As finds *Error.
func Open(ctx context.Context, connString string, opts Options) (*Journal, error) {
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		return nil, errConnString
	}
	return open(ctx, cfg, opts)
}

// OpenPool is Open with the configuration of the application's pool, including BeforeConnect. It uses none of the
// pool's connections, so an exhausted pool stops no heartbeat.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, opts Options) (*Journal, error) {
	cfg := pool.Config()
	if opts.BeforeConnect == nil {
		opts.BeforeConnect = cfg.BeforeConnect
	}
	return open(ctx, cfg.ConnConfig, opts)
}

func open(ctx context.Context, cfg *pgx.ConnConfig, opts Options) (*Journal, error) {
	if opts.ReadOnly {
		opts.Existing = true
	}
	if opts.Deployment == "" && !opts.Existing {
		return nil, errors.New("postgres: Options.Deployment is needed: the name of the deployment whose journal it is, such as \"prod\"")
	}
	schema, err := quoted(opts.Schema)
	if err != nil {
		return nil, err
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	dialer := connection.NewDialer(cfg, connection.Options{Pooled: opts.Pooled, ReadOnly: opts.ReadOnly, BeforeConnect: opts.BeforeConnect})
	if opts.Migrate && !opts.Existing {
		if err := chosen.migrate(ctx, dialer.Config(), opts.Schema, opts.Logger, Migrations()); err != nil {
			return nil, explain("migrate", err)
		}
	}
	e, err := chosen.open(ctx, dialer, schema, opts)
	if err != nil {
		return nil, err
	}
	return &Journal{e}, nil
}

// Migrations returns the SQL files of Migrate for your own migration tool. Run them in the order of their names.
// {{schema}} in them stands for the schema's quoted name. They don't create the schema.
func Migrations() fs.FS { return chosen.migrations() }

// Migrate makes a journal in that schema of the database, or migrates one to this release. An empty schema means
// DefaultSchema. Several processes may call it at once: one of them migrates. It needs a role that may create the
// schema, or that owns it. It uses a connection of its own, and closes it.
//
// A statement waits for a lock at most five seconds, so that others don't queue behind it for longer. After such a
// failure Migrate tries it again, five times in all, then fails. Call it again: finished steps stay.
func Migrate(ctx context.Context, connString, schema string) error {
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		return errConnString
	}
	return explain("migrate", chosen.migrate(ctx, cfg, schema, slog.New(slog.DiscardHandler), Migrations()))
}
