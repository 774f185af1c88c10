package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// invoices makes an application's database.
const invoices = `PRAGMA user_version=42;
	CREATE TABLE invoices (id INTEGER PRIMARY KEY, paid INTEGER, customer TEXT);
	CREATE INDEX invoices_customer ON invoices (customer);
	CREATE TABLE changes (of INTEGER);
	CREATE TRIGGER invoices_changed AFTER UPDATE ON invoices BEGIN INSERT INTO changes VALUES (new.id); END;
	CREATE VIEW unpaid AS SELECT id FROM invoices WHERE paid = 0;
	INSERT INTO invoices VALUES (991, 0, 'jane'), (992, 0, 'joe');`

// one is the value that a query returns.
func one[T any](t *testing.T, app *sql.Conn, query string) (v T) {
	t.Helper()
	require.NoError(t, app.QueryRowContext(t.Context(), query).Scan(&v), query)
	return v
}

func TestAnApplicationsDatabaseTakesAJournal(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"as SQLite makes it":        "",
		"in WAL mode":               "PRAGMA journal_mode=WAL;",
		"with small pages":          "PRAGMA page_size=512;",
		"with pages that move":      "PRAGMA auto_vacuum=FULL;",
		"with an ID of its own":     "PRAGMA application_id=7;",
		"that Litestream copies":    "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER);",
		"with our names unprefixed": "CREATE TABLE operations (handle); CREATE TABLE sessions (id); CREATE TABLE schema (version);",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.db")
			alter(t, path, before+invoices)
			db, err := sql.Open("sqlite", path) // has it open all the time
			require.NoError(t, err)
			app, err := db.Conn(t.Context())
			require.NoError(t, err)
			id := one[int](t, app, "PRAGMA application_id")
			j := open(t, path)
			leaveIn(t, j)
			tx, err := j.BeginSQL(t.Context())
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), "UPDATE invoices SET paid = 1 WHERE id = 991")
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			_, err = app.ExecContext(t.Context(), "ALTER TABLE invoices ADD COLUMN note TEXT")
			require.NoError(t, err)
			goOn(t, j, "after its schema has changed")
			require.NoError(t, j.Close())

			j = open(t, path)
			require.NoError(t, sound(t.Context(), j))
			n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now().Add(23*time.Hour + 30*time.Minute)}, 100)
			require.NoError(t, err)
			assert.Positive(t, n)
			backup := filepath.Join(t.TempDir(), "backup.db")
			require.NoError(t, j.Backup(t.Context(), backup))
			goOn(t, j, "after the backup")
			require.NoError(t, j.Close())
			require.NoError(t, app.Close())
			require.NoError(t, db.Close())

			require.NoError(t, os.Remove(path))
			copyFile(t, backup, path)
			j = open(t, path)
			_, err = j.Join(t.Context())
			require.ErrorIs(t, err, journal.ErrRestored)
			require.NoError(t, j.Adopt(t.Context()))
			goOn(t, j, "once it is adopted")
			assert.True(t, has(t, j, "pending"))
			require.NoError(t, sound(t.Context(), j))
			require.NoError(t, j.Close())
			app = anotherProcess(t, path)
			assert.Equal(t, 42, one[int](t, app, "PRAGMA user_version"))
			assert.Equal(t, id, one[int](t, app, "PRAGMA application_id"))
			assert.Equal(t, 992, one[int](t, app, "SELECT id FROM unpaid"))
			assert.Equal(t, 991, one[int](t, app, "SELECT of FROM changes"))
		})
	}
}

// A journal is sound, whatever the application's tables are.
func TestSharedFilesTablesOfAnyKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	// An index by a collation that only the application's connections know, and a row that breaks a constraint.
	alter(t, path, invoices+`
		CREATE TABLE rates (name TEXT, rate INTEGER CHECK (rate > 0));
		CREATE INDEX rates_name ON rates (name COLLATE NOCASE);
		PRAGMA ignore_check_constraints=ON;
		INSERT INTO rates VALUES ('a', 0);
		PRAGMA writable_schema=ON;
		UPDATE sqlite_schema SET sql = replace(sql, 'NOCASE', 'theirs') WHERE name = 'rates_name';`)
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, sound(t.Context(), j))
	err := j.Backup(t.Context(), filepath.Join(t.TempDir(), "backup.db"))
	require.ErrorContains(t, err, "no such collation sequence: theirs")
	goOn(t, j, "invoice-2")
	require.NoError(t, j.Close())
	alter(t, path, "CREATE TRIGGER theirs AFTER UPDATE ON onceward_head BEGIN SELECT 1; END")
	violations, err := open(t, path).Verify(t.Context())
	require.NoError(t, err)
	assert.NotEmpty(t, violations, "what they have added to a table of the journal's")
}

func has(t *testing.T, j *sqlite.Journal, id string) bool {
	t.Helper()
	_, err := j.Get(t.Context(), journal.Ref{ID: id})
	if err != nil {
		require.ErrorIs(t, err, journal.ErrNotFound)
	}
	return err == nil
}
