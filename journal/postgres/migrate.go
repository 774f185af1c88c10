package postgres

import (
	"context"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/schema"
)

// DefaultSchema is a journal's schema if Options names none.
const DefaultSchema = schema.Default

// Migrations returns Migrate's SQL files for your own migration tool. Run the files in the order of their names. In the
// files, {{schema}} stands for the schema's quoted name. The files don't create the schema.
func Migrations() fs.FS { return schema.Migrations() }

// Migrate makes a journal in the database's schema, or migrates a journal to this release. An empty schema means
// DefaultSchema. Several processes may call Migrate at once: one migrates. Migrate needs a role with the right to create
// the schema, or the schema's owner. Migrate uses a connection of its own, and closes the connection.
//
// A statement waits for a lock at most five seconds, so others don't queue behind the statement for longer. After such a
// failure Migrate tries the statement again, five times in all, then fails. Call Migrate again: finished steps stay.
//
// Migrate returns ErrUnsafe, and changes nothing, for a schema without a journal that has a table by a name of the journal's.
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
