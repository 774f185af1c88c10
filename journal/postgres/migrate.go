package postgres

import (
	"context"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/schema"
)

// DefaultSchema is the schema of a journal if Options names none.
const DefaultSchema = schema.Default

// Migrations returns the SQL files of Migrate for your own migration tool. Run them in the order of their names.
// {{schema}} in them stands for the schema's quoted name. They don't create the schema.
func Migrations() fs.FS { return schema.Migrations() }

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
	return migrate(ctx, cfg, schema, slog.New(slog.DiscardHandler), Migrations())
}

func migrate(ctx context.Context, cfg *pgx.ConnConfig, name string, logger *slog.Logger, files fs.FS) error {
	return explain("migrate", schema.Migrate(ctx, cfg, name, logger, files))
}
