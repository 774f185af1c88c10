// Package schema makes and checks a journal's tables.
package schema

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// Default is the journal's database if the caller names none.
const Default = "onceward"

var tables = store.Schema{Store: "mysql", Needed: 1, Writer: 1}

// Tables are the journal's tables. The first migration makes the table journal before all others.
var Tables = []string{"journal", "identity", "handles", "sessions", "lanes", "margins", "operations", "names", "requests", "answers", "marks", "mark_slots", "heard", "flows", "flow_steps", "receipts", "heads", "bookmarks"}

// Slots is how many locks the marks share.
const Slots = 256

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the SQL files of Migrate.
func Migrations() fs.FS {
	sub, _ := fs.Sub(migrations, "migrations") // it is there
	return sub
}

// Quoted returns the database's name in SQL. An empty name means Default.
func Quoted(schema string) (string, error) {
	schema = cmp.Or(schema, Default)
	return "`" + schema + "`", tables.CheckName(schema)
}

// ErrNoJournal means that the database has no journal.
var ErrNoJournal error = store.NoJournal("mysql: there is no journal in the database, or the account has no privilege there: run mysql.Migrate, set Options.Migrate, or correct Options.Schema")

// Check rejects a schema that this release can't use.
func Check(version, leastWriter int) error { return tables.Check(version, leastWriter) }

// Migrate makes the journal's tables, or migrates them. Statements may run again after a failure.
func Migrate(ctx context.Context, cfg *mysql.Config, schema string) error {
	q, err := Quoted(schema)
	if err != nil {
		return err
	}
	cfg = cfg.Clone()
	cfg.DBName = "" // it may not exist yet
	db, err := server.Open(cfg, 1, 600)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	lock := strings.Trim(q, "`") // MySQL takes 64 characters
	var locked sql.NullBool
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", lock).Scan(&locked); err != nil {
		return err
	}
	if !locked.Bool {
		return errors.New("mysql: migrate: another process has been migrating for a minute: call Migrate again")
	}
	defer func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK(?)", lock)
	}()
	return migrate(ctx, conn, q)
}

func migrate(ctx context.Context, conn *sql.Conn, q string) error {
	_, err := conn.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+q)
	if err != nil && myerr.Number(err) != 1044 { // the account may have the rights in a database that exists
		return err
	}
	var version int
	err = conn.QueryRowContext(ctx, "SELECT schema_version FROM "+q+".journal").Scan(&version)
	switch {
	case err == nil && version >= tables.Needed:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		err = IsUnused(ctx, conn, q)
	case myerr.Number(err) == myerr.NoSuchTable, myerr.Number(err) == noSuchColumn:
		err = nil // see isFree
	}
	if err != nil {
		return err
	}
	if err := isFree(ctx, conn, q); err != nil {
		return err
	}
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, strings.ReplaceAll(string(text), "{{s}}", q)); err != nil {
			return err
		}
	}
	return fill(ctx, conn, q)
}

// noSuchColumn is the number of the error for another application's table journal.
const noSuchColumn = 1054

// IsUnused returns an error for a journal that lacks its only row, which has the key of all names, if another process has used
// the journal. Without use, the row is one that an interrupted Migrate has not written yet.
func IsUnused(ctx context.Context, conn *sql.Conn, q string) error {
	for _, table := range []string{"sessions", "names", "operations", "receipts", "flows"} { // in the order of Migrate
		var used bool
		err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+q+"."+table+")").Scan(&used)
		switch {
		case myerr.Number(err) == myerr.NoSuchTable:
			continue
		case err != nil:
			return err
		case used:
			return server.Unsafe("the table journal of the database %s has no row, and table %s has some: was it truncated? Restore the journal's backup: without the key in that row, each name would begin anew", q, table)
		}
	}
	return nil
}

// isFree returns an error for a database without a journal that has a table by a name of the journal's. The table is another
// application's, or left of a lost journal.
func isFree(ctx context.Context, conn *sql.Conn, q string) error {
	name := "CONVERT('" + strings.Trim(q, "`") + "' USING utf8mb4)"
	var taken sql.NullString
	err := conn.QueryRowContext(ctx, "SELECT min(table_name) FROM information_schema.tables WHERE table_schema = "+name+" AND table_name IN ('"+strings.Join(Tables, "','")+
		"') AND NOT EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = "+name+" AND table_name = 'journal' AND column_name = 'least_writer')").Scan(&taken)
	if err == nil && taken.Valid {
		err = server.Unsafe("the database %s has the table %s and no journal: give the journal a database of its own by Options.Schema, or restore the journal's backup", q, taken.String)
	}
	return err
}

// fill writes the rows that each journal has. The journal's row comes last: without it, Migrate begins anew.
func fill(ctx context.Context, conn *sql.Conn, q string) error {
	slots := make([]string, Slots)
	for i := range slots {
		slots[i] = fmt.Sprintf("(%d)", i)
	}
	if _, err := conn.ExecContext(ctx, "INSERT INTO "+q+".mark_slots VALUES "+strings.Join(slots, ",")+" ON DUPLICATE KEY UPDATE slot = VALUES(slot)"); err != nil {
		return err
	}
	id := rand.Text()
	if _, err := conn.ExecContext(ctx, "REPLACE INTO "+q+".identity VALUES (1, ?)", id); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, "INSERT INTO "+q+".journal (one, id, digest_key, epoch, schema_version, least_writer, hooked, leaps, naming, sealed, witnessed, history) VALUES (1, ?, ?, 1, ?, ?, 0, '', '', '', 0, '')",
		id, format.NewHashKey().Sealed(), tables.Needed, tables.Writer)
	return err
}
