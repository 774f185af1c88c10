package vfs_test

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"modernc.org/libc"
	_ "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal/sqlite/internal/cmem"
	"github.com/onceward/onceward/journal/sqlite/internal/vfs"
)

// connect opens the database at path on one connection, with these parameters in its URI.
func connect(t *testing.T, path, parameters string) *sql.Conn {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(0)"+parameters)
	require.NoError(t, err)
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		assert.NoError(t, db.Close())
	})
	return c
}

func do(t *testing.T, c *sql.Conn, query string, args ...any) {
	t.Helper()
	_, err := c.ExecContext(context.WithoutCancel(t.Context()), query, args...)
	require.NoError(t, err)
}

func value(t *testing.T, c *sql.Conn, query string) (v string) {
	t.Helper()
	require.NoError(t, c.QueryRowContext(t.Context(), query).Scan(&v))
	return v
}

// A transaction that does not fit in SQLite's cache has frames in the WAL before its end. Their place is free after its
// rollback, and another connection writes there. Nothing of the rollback's comes there later.
func TestRollbackLeavesItsPlaceInTheWALToOthers(t *testing.T) {
	parameter := vfs.Parameter()
	require.NotEmpty(t, parameter)
	path := filepath.Join(t.TempDir(), "data.db")
	ours := connect(t, path, parameter)
	other := connect(t, path, "")
	do(t, ours, "CREATE TABLE rows (body TEXT)")
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		do(t, ours, "PRAGMA wal_checkpoint(TRUNCATE)") // else SQLite reads the WAL to roll back, which it does from the file
		do(t, ours, "PRAGMA cache_size=5")
		do(t, ours, "BEGIN IMMEDIATE")
		do(t, ours, "INSERT INTO rows VALUES (?)", strings.Repeat("ours", 20_000))
		do(t, ours, end)
		do(t, other, "INSERT INTO rows VALUES (?)", strings.Repeat("others", 1000))
		do(t, ours, "INSERT INTO rows VALUES ('after it')")
	}

	for name, c := range map[string]*sql.Conn{"ours": ours, "another": other, "a new one": connect(t, path, "")} {
		assert.Equal(t, "ok", value(t, c, "PRAGMA integrity_check"), name)
		assert.Equal(t, "5", value(t, c, "SELECT count(*) FROM rows"), name)
		assert.Equal(t, "2", value(t, c, "SELECT count(*) FROM rows WHERE body LIKE 'others%'"), name)
	}
}

// A checkpoint on such a connection moves all of the WAL, and the file has it without the WAL.
func TestCheckpointMovesAllToTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	c := connect(t, path, vfs.Parameter())
	do(t, c, "CREATE TABLE rows (body TEXT)")
	for range 3 {
		for range 50 {
			do(t, c, "INSERT INTO rows VALUES (?)", strings.Repeat("body", 2000))
		}
		do(t, c, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	assert.Equal(t, "0", value(t, c, "SELECT count(*) FROM rows WHERE length(body) <> 8000"))
	alone := connect(t, path, "&immutable=1")
	assert.Equal(t, "150", value(t, alone, "SELECT count(*) FROM rows"))
	assert.Equal(t, "ok", value(t, alone, "PRAGMA integrity_check"))
}

// Once the application has a default VFS of its own, new connections use that, and no mixture of both.
func TestDefaultVFSOfTheApplication(t *testing.T) {
	const variable = "ONCEWARD_TEST_DEFAULT_VFS"
	if os.Getenv(variable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), variable+"=replace")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	require.NotEmpty(t, vfs.Parameter())
	path := filepath.Join(t.TempDir(), "data.db")
	late, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)"+vfs.Parameter())
	require.NoError(t, err)
	tls := libc.NewTLS()
	defer tls.Close()
	address, theirs := cmem.CopyOf(tls, cmem.At[sqlite3.Tsqlite3_vfs](sqlite3.Xsqlite3_vfs_find(tls, 0)))
	require.NotZero(t, address)
	theirs.FzName, err = libc.CString("theirs")
	require.NoError(t, err)
	theirs.FxOpen = 0 // a connection that calls it panics
	require.Zero(t, sqlite3.Xsqlite3_vfs_register(tls, address, 1))
	assert.Empty(t, vfs.Parameter())
	_, err = late.Exec("CREATE TABLE rows (body TEXT)") // it connects by the former parameter, and stays with that VFS
	assert.NoError(t, err)
	assert.NoError(t, late.Close())
}
