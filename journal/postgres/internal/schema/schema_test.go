package schema_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func migrate(t *testing.T, server *postgrestest.Cluster, name string) error {
	t.Helper()
	cfg, err := pgx.ParseConfig(server.URL())
	require.NoError(t, err)
	return schema.Migrate(t.Context(), cfg, name, slog.New(slog.DiscardHandler), schema.Migrations())
}

func TestTablesOfAnEarlierStoreAreRefused(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Schema(t)
	server.Exec(t, `CREATE SCHEMA "`+name+`"`)
	server.Exec(t, `CREATE TABLE "`+name+`".journal AS SELECT 4 AS schema_version, 1 AS least_writer`)
	err := migrate(t, server, name)
	require.ErrorIs(t, err, journal.ErrVersion)
	require.ErrorContains(t, err, "drop the schema")
	var tables int
	require.NoError(t, server.Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = $1", name).Scan(&tables))
	assert.Equal(t, 1, tables, "nothing was made")
}

// A version of the schema is in use from its release on. A change of the tables is a file of its own.
func TestVersionsOfTheSchemaNeverChange(t *testing.T) {
	released := map[string]string{
		"0005_journal.sql":   "6e354fbd8cad5886e5de54ffef1ea284af35777663de8591e43f654f2b571d8f",
		"0006_bookmarks.sql": "ecdff3cf4d98a2f42d1935c95b31bef24fa7220c2a15451399aad77fec2ceea2",
		"0007_sealed.sql":    "d020fbf79cc8998b71c452f8b736d2d168fc0e7acaafd4e53e01a49ee6d3d969",
	}
	files, err := fs.ReadDir(schema.Migrations(), ".")
	require.NoError(t, err)
	found := map[string]string{}
	for _, file := range files {
		text, err := fs.ReadFile(schema.Migrations(), file.Name())
		require.NoError(t, err)
		found[file.Name()] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	assert.Equal(t, released, found, "undo the edit, and write a further migration; add the sum of a new file")
}

func TestMigrateByManyProcessesAtOnce(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Schema(t)
	var all sync.WaitGroup
	failed := make([]error, 4)
	for i := range failed {
		all.Go(func() { failed[i] = migrate(t, server, name) })
	}
	all.Wait()
	for _, err := range failed {
		assert.NoError(t, err)
	}
	require.NoError(t, migrate(t, server, name), "once more")
	var sealed []byte
	require.NoError(t, server.Conn(t).QueryRow(t.Context(), `SELECT key FROM "`+name+`".journal`).Scan(&sealed))
	_, err := schema.Key(sealed)
	require.NoError(t, err)
	sealed[3] ^= 1
	_, err = schema.Key(sealed)
	require.ErrorIs(t, err, format.ErrDamaged)
}
