package sqlite_test

import (
	"path/filepath"
	"testing"

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
	_, err = anotherProcess(t, path).ExecContext(t.Context(), "UPDATE onceward_head SET version = version + 10")
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-2", s))
	require.ErrorIs(t, err, journal.ErrVersion)
	assert.ErrorContains(t, err, path)
	assert.ErrorContains(t, err, "open it with the release that wrote it")
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

// A reader also notices that the file was migrated under it.
func TestSchemaMigratedUnderAReader(t *testing.T) {
	path := madeAndClosed(t)
	reader, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	defer reader.Close()
	alter(t, path, "UPDATE onceward_head SET version = version + 10")
	_, err = reader.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.ErrorIs(t, err, journal.ErrVersion)
	alter(t, path, "UPDATE onceward_head SET version = version - 10")
	_, err = reader.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.NoError(t, err)
}
