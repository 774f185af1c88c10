package mysql_test

import (
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// If an account lacks a privilege, the error says so, of Open and within a transaction. The tests' open and theirs show that the four
// privileges on the journal's database suffice for both accounts.
func TestMissingGrantsAreNamed(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	opts.Migrate = false
	ours := account(t, "GRANT USAGE ON *.* TO {{account}}", server)
	cfg, err := driver.ParseDSN(ours)
	require.NoError(t, err)
	grant := func(what string) {
		server.Exec(t, "GRANT "+what+" ON "+opts.Schema+".* TO "+cfg.User+"@'%'")
	}
	looks := opts
	looks.ReadOnly = true
	for _, opts := range []mysql.Options{opts, looks} {
		_, err := mysql.Open(t.Context(), ours, opts)
		require.ErrorIs(t, err, journal.ErrVersion)
		assert.ErrorContains(t, err, "the account has no privilege there")
	}
	grant("SELECT")
	reader, err := mysql.Open(t.Context(), ours, looks)
	require.NoError(t, err)
	violations, err := reader.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, violations)
	require.NoError(t, reader.Close())

	lacks := func(err error) {
		t.Helper()
		var told *mysql.Error
		require.ErrorAs(t, err, &told)
		assert.Contains(t, told.Reason, "GRANT the privileges that docs/mysql.md lists")
		assert.NotContains(t, err.Error(), cfg.User)
	}
	app := theirs(t, server, func(c *driver.Config) { c.User = cfg.User })
	tx, err := app.Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
	lacks(err)
	require.NoError(t, tx.Rollback())
	for _, what := range []string{"INSERT", "UPDATE"} {
		_, err = mysql.Open(t.Context(), ours, opts)
		lacks(err)
		grant(what)
	}
	grant("DELETE")
	all, err := mysql.Open(t.Context(), ours, opts)
	require.NoError(t, err)
	require.NoError(t, all.Close())
	tx, err = app.Begin()
	require.NoError(t, err)
	result, err := j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, result.Decision)
	assert.Equal(t, machine.Execute, received(t, j, tx, "a"))
}
