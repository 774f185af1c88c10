package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// The application's tables and versions in a shared file are its own.
func TestSharedFileTablesAndVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	require.NoError(t, open(t, path).Close())
	app := anotherProcess(t, path)
	for _, statement := range []string{"PRAGMA user_version=99", "PRAGMA application_id=7"} {
		_, err := app.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	for _, table := range []string{"operations", "answers", "blocks", "segments", "sessions", "journal", "backup", "log", "flows", "flow_steps", "schema"} {
		_, err := app.ExecContext(t.Context(), "CREATE TABLE "+table+" (theirs TEXT)")
		require.NoError(t, err, table)
		_, err = app.ExecContext(t.Context(), "INSERT INTO "+table+" VALUES ('theirs')")
		require.NoError(t, err, table)
	}
	j := open(t, path)
	goOn(t, j, "invoice-1")
	violations, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, violations)
	require.NoError(t, j.Close())
	var version, id int
	require.NoError(t, app.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version))
	require.NoError(t, app.QueryRowContext(t.Context(), "PRAGMA application_id").Scan(&id))
	assert.Equal(t, []int{99, 7}, []int{version, id})
	var ours int
	require.NoError(t, app.QueryRowContext(t.Context(), `SELECT count(*) FROM sqlite_schema WHERE tbl_name GLOB 'onceward_*'
		AND name NOT GLOB 'onceward_*' AND name NOT GLOB 'sqlite_autoindex_onceward_*'`).Scan(&ours))
	assert.Zero(t, ours, "all that is ours says so by its name")
}

// A running process notices that its file was migrated.
func TestSchemaMigratedUnderARunningProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	_, err = anotherProcess(t, path).ExecContext(t.Context(), "UPDATE onceward_schema SET version = version + 1")
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-2", s))
	require.ErrorIs(t, err, journal.ErrVersion)
	assert.ErrorContains(t, err, path)
	assert.ErrorContains(t, err, "start one of the newer release")
}

// With NoMigration, Open does not migrate the file of an older release.
func TestNoMigrationKeepsTheSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	defer sqlite.Release("CREATE TABLE onceward_new (one INTEGER PRIMARY KEY) STRICT")()
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = sqlite.Open(path, sqlite.Options{NoMigration: true})
	require.ErrorIs(t, err, journal.ErrVersion)
	assert.ErrorContains(t, err, "of an older release")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after, "it was left alone")

	goOn(t, open(t, path), "invoice-1")
	j, err := sqlite.Open(path, sqlite.Options{NoMigration: true})
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

var readOnly = sqlite.Options{ReadOnly: true}

// madeAndClosed makes a journal of this release with an operation in it, and closes it.
func madeAndClosed(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Close())
	return path
}

// With NoMigration, Open opens a file that needs no migration.
func TestNoMigrationOfThisReleasesFile(t *testing.T) {
	path := madeAndClosed(t)
	for _, alter := range []func(){func() {}, func() { alter(t, path, "CREATE TABLE invoices (id TEXT)") }} {
		alter()
		j, err := sqlite.Open(path, sqlite.Options{NoMigration: true})
		require.NoError(t, err)
		assert.True(t, has(t, j, "invoice-1"))
		require.NoError(t, j.Close())
	}
}

// A file of the journal alone has its application id. A shared file keeps the application's.
func TestApplicationIDOfAFile(t *testing.T) {
	for _, shared := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "journal.db")
		if shared {
			alter(t, path, "CREATE TABLE invoices (id TEXT)")
		}
		require.NoError(t, open(t, path).Close())
		var id int
		require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "PRAGMA application_id").Scan(&id))
		assert.Equal(t, shared, id == 0)
	}
}

// number returns the result of a query for one number.
func number(t *testing.T, path, query string) (n int) {
	t.Helper()
	require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

// A journal of each earlier schema is migrated to the latest one, also in the application's file.
func TestSchemaOfEachEarlierRelease(t *testing.T) {
	for version := 1; version < sqlite.SchemaVersion; version++ {
		for _, row := range []struct {
			name, alter string
			application int
		}{
			{"alone", "", 0x4f6e6365},
			{"alone, and not said so", "PRAGMA application_id=0", 0x4f6e6365},
			{"beside tables of the application's", "PRAGMA application_id=0; CREATE TABLE invoices (id TEXT)", 0},
			{"in a file with an application id", "PRAGMA application_id=7", 7},
		} {
			t.Run(fmt.Sprint(version, " ", row.name), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "journal.db")
				require.NoError(t, os.WriteFile(path, nil, 0o600))
				require.NoError(t, sqlite.Make(path, version))
				if row.alter != "" {
					alter(t, path, row.alter)
				}
				_, err := sqlite.Open(path, sqlite.Options{NoMigration: true})
				require.ErrorIs(t, err, journal.ErrVersion)
				assert.ErrorContains(t, err, fmt.Sprint("version ", version))
				assert.Equal(t, version, number(t, path, "SELECT version FROM onceward_schema"), "it was left alone")

				j := open(t, path)
				goOn(t, j, "invoice-1")
				violations, err := j.Verify(t.Context())
				require.NoError(t, err)
				assert.Empty(t, violations)
				require.NoError(t, j.Close())
				assert.Equal(t, sqlite.SchemaVersion, number(t, path, "SELECT version FROM onceward_schema"))
				assert.Equal(t, row.application, number(t, path, "PRAGMA application_id"))
			})
		}
	}
}

// A failed migration has changed nothing, wherever it failed.
func TestMigrationThatFails(t *testing.T) {
	for name, migration := range map[string]string{
		"at its second statement": "CREATE TABLE onceward_new (one INTEGER PRIMARY KEY) STRICT; INSERT INTO onceward_nothing VALUES (1)",
		"as it is noted":          "CREATE TRIGGER onceward_new BEFORE UPDATE ON onceward_schema BEGIN SELECT RAISE(ABORT, 'no'); END",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			require.NoError(t, open(t, path).Close())
			later := sqlite.Release(migration)
			_, err := sqlite.Open(path, sqlite.Options{})
			later()
			require.ErrorContains(t, err, "migrate")
			assert.Zero(t, number(t, path, "SELECT count(*) FROM sqlite_schema WHERE name = 'onceward_new'"))
			goOn(t, open(t, path), "invoice-1")
		})
	}
}

// A migration runs only in a transaction. While another process has the file's lock, none begins.
func TestMigrationWhileAnotherWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	app := anotherProcess(t, path)
	_, err := app.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	later := sqlite.Release("CREATE TABLE onceward_new (one INTEGER PRIMARY KEY) STRICT")
	defer later()
	patient := sqlite.Impatient()
	_, err = sqlite.Open(path, sqlite.Options{BusyTimeout: time.Millisecond})
	patient()
	require.ErrorContains(t, err, "open")
	assert.NotContains(t, err.Error(), "migrate", "no statement of it was tried")
	_, err = app.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	j, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	assert.Equal(t, 1, number(t, path, "SELECT count(*) FROM sqlite_schema WHERE name = 'onceward_new'"))
}

// An empty database belongs to no one: even with NoMigration, Open makes a journal there.
func TestNoMigrationOfAnEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{NoMigration: true})
	require.NoError(t, err)
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Close())
}

// A reader also notices that the file was migrated under it.
func TestSchemaMigratedUnderAReader(t *testing.T) {
	path := madeAndClosed(t)
	reader, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	defer reader.Close()
	alter(t, path, "UPDATE onceward_schema SET version = version + 1")
	_, err = reader.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.ErrorIs(t, err, journal.ErrVersion)
	alter(t, path, "UPDATE onceward_schema SET version = version - 1")
	_, err = reader.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.NoError(t, err)
}

// Version 1 was once edited in place. A file from before that is refused, instead of being damaged forever.
func TestSchemaFromBeforeVersionOneWasComplete(t *testing.T) {
	for version := 1; version <= sqlite.SchemaVersion; version++ {
		path := filepath.Join(t.TempDir(), "journal.db")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, sqlite.Make(path, version))
		alter(t, path, "DROP INDEX onceward_flows_aside")
		for _, opts := range []sqlite.Options{{}, {Existing: true, NoMigration: true}} {
			_, err := sqlite.Open(path, opts)
			require.ErrorIs(t, err, sqlite.ErrNotJournal)
			assert.ErrorContains(t, err, "development version")
		}
		assert.Equal(t, version, number(t, path, "SELECT version FROM onceward_schema"), "it was left alone")
	}
}
