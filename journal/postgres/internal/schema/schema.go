// Package schema makes and checks a journal's tables.
package schema

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// Default is the journal's schema if the caller names none.
const Default = "onceward"

// least is the earliest version of the schema that Migrate can migrate. Earlier versions belong to another store.
const least = 5

var tables = store.Schema{Store: "postgres", Needed: 7, Writer: 4}

// Tables are the journal's tables but journal itself: a role needs all privileges on them. Sequences give handles.
var (
	Tables    = []string{"sessions", "lanes", "operations", "names", "requests", "answers", "marks", "heard", "flows", "flow_steps", "receipts", "heads", "bookmarks"}
	Sequences = []string{"handles", "receipt_handles", "flow_handles"}
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the SQL files of Migrate.
func Migrations() fs.FS {
	sub, _ := fs.Sub(migrations, "migrations") // it is there
	return sub
}

// Quoted returns the schema's name in SQL. An empty name means Default.
func Quoted(schema string) (string, error) {
	schema = cmp.Or(schema, Default)
	return `"` + schema + `"`, tables.CheckName(schema)
}

// ErrNoJournal means that the schema has no journal.
var ErrNoJournal error = store.NoJournal("postgres: there is no journal in that schema: run postgres.Migrate, or set Options.Migrate; or is it another database, or Options.Schema?")

// ErrUnsafe is postgres.ErrUnsafe.
var ErrUnsafe = errors.New("postgres: not safe for a journal")

// ErrNoRow means that the journal lacks its only row, which has the key of all names.
var ErrNoRow = fmt.Errorf("%w: the table journal has no row: was it truncated? Restore the journal's backup", ErrUnsafe)

// Check rejects a schema that this release can't use.
func Check(version, leastWriter int) error {
	if version < least {
		return ofEarlierStore(version)
	}
	return tables.Check(version, leastWriter)
}

func ofEarlierStore(version int) error {
	return fmt.Errorf("%w: the schema has tables of an earlier store (version %d), which this release can't read: drop the schema, or name another one by Options.Schema", journal.ErrVersion, version)
}

// Migrate makes the journal's tables in the schema, or migrates the tables, by the files.
func Migrate(ctx context.Context, cfg *pgx.ConnConfig, schema string, logger *slog.Logger, files fs.FS) error {
	q, err := Quoted(schema)
	if err != nil {
		return err
	}
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // files of several statements
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	plain := strings.Trim(q, `"`)
	if err := create(ctx, db, q, plain); err != nil {
		return err
	}
	if err := checkFormer(ctx, db, q); err != nil {
		return err
	}
	locker, err := lock.NewPostgresTableLocker(lock.WithTableName(plain+".migration_lock"), lock.WithTableLogger(logger))
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	steps, err := steps(q, files)
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, nil,
		goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true), goose.WithTableName(plain+".migrations"),
		goose.WithLocker(locker), goose.WithSlog(logger))
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	for try := 1; ; try++ {
		_, err := provider.Up(ctx)
		if err == nil || try == tries || !pgerr.MayPass(err) {
			return err
		}
	}
}

// tries limits the tries of a migration that other transactions' locks block.
const tries = 5

func create(ctx context.Context, db *sql.DB, q, plain string) error {
	var there, reserved bool
	err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1), EXISTS (SELECT 1 FROM pg_get_keywords() WHERE word = $1 AND catcode IN ('R', 'T'))", plain).
		Scan(&there, &reserved)
	if reserved { // goose quotes no name
		return fmt.Errorf("postgres: schema %q is a word of SQL's: choose another, such as %q", plain, Default)
	}
	if err != nil || there {
		return err
	}
	_, err = db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+q)
	if pgerr.Code(err) == pgerr.UniqueViolation { // another process made it just now
		return nil
	}
	return err
}

// checkFormer rejects a schema that can't be migrated, before anything is written. Of a schema without a journal, it rejects one
// that has a relation by a name of the journal's: it is another application's, or left of a lost journal. A killed Migrate may
// have left the table migrations.
func checkFormer(ctx context.Context, db *sql.DB, q string) error {
	var there bool
	var taken sql.NullString
	err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'schema_version'), "+
		"(SELECT min(relname::text) FROM pg_class c WHERE relnamespace = to_regnamespace($2) AND (relname = ANY($3) OR relname = 'migrations' AND NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = c.oid AND attname = 'version_id')))",
		q+".journal", q, slices.Concat([]string{"journal", "commits"}, Tables, Sequences)).Scan(&there, &taken)
	switch {
	case err != nil || !there && !taken.Valid:
		return err
	case !there:
		return fmt.Errorf("%w: the schema %s has %s and no journal: give the journal a schema of its own by Options.Schema, or restore the journal's backup", ErrUnsafe, q, taken.String)
	}
	var version int
	err = db.QueryRowContext(ctx, "SELECT schema_version FROM "+q+".journal").Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNoRow
	case err == nil && version < least:
		return ofEarlierStore(version)
	}
	return err
}

// steps returns the SQL files for goose, with the schema's name in them.
func steps(q string, files fs.FS) ([]*goose.Migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []*goose.Migration
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		script := "SET LOCAL lock_timeout = '5s';\n" + strings.ReplaceAll(string(text), "{{schema}}", q)
		all = append(all, goose.NewGoMigration(version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, script)
			return err
		}}, nil))
	}
	return all, nil
}

// Key returns the key of the journal's digests, as journal.key has it.
func Key(sealed []byte) (key format.HashKey, err error) {
	if len(sealed) != len(key)+sha256.Size || sha256.Sum256(sealed[:len(key)]) != [sha256.Size]byte(sealed[len(key):]) {
		return key, fmt.Errorf("%w: the key of its names (journal.key)", format.ErrDamaged)
	}
	return format.HashKey(sealed[:len(key)]), nil
}
