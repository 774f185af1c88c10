package schema_test

import (
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
