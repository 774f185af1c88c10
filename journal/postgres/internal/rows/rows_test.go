package rows_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/postgres/internal/rows"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
	"github.com/onceward/onceward/journal/postgres/internal/server"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func config(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	return cfg
}

func options(name string) rows.Options {
	return rows.Options{Schema: name, Options: server.Options{Options: fleet.Options{AnyTime: true, Deployment: "test", Log: slog.New(slog.DiscardHandler)}, MayLose: true}}
}

func driver(t *testing.T, server *postgrestest.Cluster, name string) *rows.Driver {
	t.Helper()
	cfg := config(t, server.URL())
	require.NoError(t, schema.Migrate(t.Context(), cfg, name, slog.New(slog.DiscardHandler), schema.Migrations()))
	d, err := rows.Open(t.Context(), cfg, options(name))
	require.NoError(t, err)
	return d
}

func open(t *testing.T, server *postgrestest.Cluster, schema string) *rowstore.Store {
	t.Helper()
	s, err := rowstore.Open(t.Context(), driver(t, server, schema), rowstore.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestHistories(t *testing.T) {
	server := postgrestest.Shared(t)
	rowstoretest.Histories(t, func(t *testing.T) rowstoretest.Database {
		schema := server.Schema(t)
		in := func(text string) string {
			return strings.ReplaceAll(text, "{{s}}", pgx.Identifier{schema}.Sanitize())
		}
		return rowstoretest.Database{
			Open:   func(t *testing.T) *rowstore.Store { return open(t, server, schema) },
			Driver: func(t *testing.T) rowstore.Driver { return driver(t, server, schema) },
			Damage: func(t *testing.T, handle int64) {
				server.Exec(t, in("UPDATE {{s}}.operations SET facts = set_byte(facts, 20, get_byte(facts, 20) # 1) WHERE handle = $1"), handle)
			},
			DamageReceipt: func(t *testing.T, handle int64) {
				server.Exec(t, in("UPDATE {{s}}.receipts SET facts = set_byte(facts, 20, get_byte(facts, 20) # 1) WHERE handle = $1"), handle)
			},
			DamageBookmark: func(t *testing.T, name string) {
				server.Exec(t, in("UPDATE {{s}}.bookmarks SET record = set_byte(record, 8, get_byte(record, 8) # 1) WHERE name = $1"), []byte(name))
			},
			Refuse: func(t *testing.T, provider string, handle int64) {
				server.Exec(t, in(fmt.Sprintf(`CREATE FUNCTION {{s}}.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF NEW.provider = '%s'::bytea OR NEW.handle = %d THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$`, provider, handle)))
				server.Exec(t, in("CREATE TRIGGER no BEFORE INSERT OR UPDATE ON {{s}}.operations FOR EACH ROW EXECUTE FUNCTION {{s}}.no()"))
			},
			Hold: func(t *testing.T, handle int64) func() {
				return holding(t, server, in("SELECT 1 FROM {{s}}.operations WHERE handle = $1 FOR UPDATE"), handle)
			},
			HoldName: func(t *testing.T, name rowstore.Digest) func() {
				return holding(t, server, in("INSERT INTO {{s}}.names VALUES ($1, 0)"), name[:])
			},
		}
	})
}

// holding runs a statement in a transaction that release rolls back.
func holding(t *testing.T, server *postgrestest.Cluster, text string, arg any) (release func()) {
	t.Helper()
	tx, err := server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), text, arg)
	require.NoError(t, err)
	return func() { assert.NoError(t, tx.Rollback(t.Context())) }
}
