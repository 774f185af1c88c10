package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A server that may lose acknowledged commits is refused with an error that names the setting, instead of a warning.
func TestUnsafeServersAreRefused(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := durable(t, server)
	require.NoError(t, postgres.Migrate(t.Context(), server.URL(), opts.Schema))
	quoted := `"` + opts.Schema + `"`
	for _, at := range []struct{ name, do, undo, says string }{
		{"fsync", "ALTER SYSTEM SET fsync = off", "ALTER SYSTEM RESET fsync", "fsync is off"},
		{"full_page_writes", "ALTER SYSTEM SET full_page_writes = off", "ALTER SYSTEM RESET full_page_writes", "full_page_writes is off"},
		{"unlogged", "ALTER TABLE " + quoted + ".heard SET UNLOGGED", "ALTER TABLE " + quoted + ".heard SET LOGGED", "unlogged"},
	} {
		t.Run(at.name, func(t *testing.T) {
			server.Exec(t, at.do)
			server.Exec(t, "SELECT pg_reload_conf()")
			var err error
			require.Eventually(t, func() bool { // it takes effect a moment later
				_, err = postgres.Open(t.Context(), server.URL(), opts)
				return err != nil
			}, soon, tick)
			require.ErrorIs(t, err, postgres.ErrUnsafe)
			assert.ErrorContains(t, err, at.says)
			server.Exec(t, at.undo)
			server.Exec(t, "SELECT pg_reload_conf()")
			require.Eventually(t, func() bool {
				j, err := postgres.Open(t.Context(), server.URL(), opts)
				return err == nil && j.Close() == nil
			}, soon, tick)
		})
	}
	j := openAt(t, server.URL(), opts)
	s := join(t, j)

	// The guard refuses a setting that changes under an open journal.
	server.Exec(t, "ALTER SYSTEM SET full_page_writes = off")
	server.Exec(t, "SELECT pg_reload_conf()")
	require.Eventually(t, func() bool {
		_, err := j.Apply(t.Context(), now(j, begin("refused", s)))
		return err != nil
	}, soon, tick)
	_, err := j.Apply(t.Context(), now(j, begin("refused as well", s)))
	require.ErrorIs(t, err, postgres.ErrUnsafe)
	_, err = j.Get(t.Context(), journal.Ref{ID: "refused as well"})
	require.ErrorIs(t, err, journal.ErrNotFound)

	opts.Durability = postgres.Provider
	provided := openAt(t, server.URL(), opts)
	_, err = provided.Apply(t.Context(), now(provided, begin("accepted", join(t, provided))))
	require.NoError(t, err)
}

// Row security is refused, since it would hide operations from the journal.
func TestRowSecurityIsRefused(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := durable(t, server)
	require.NoError(t, postgres.Migrate(t.Context(), server.URL(), opts.Schema))
	quoted := `"` + opts.Schema + `"`
	server.Exec(t, "CREATE ROLE writer LOGIN PASSWORD 'secret-of-writer'")
	server.Exec(t, "GRANT USAGE ON SCHEMA "+quoted+" TO writer")
	server.Exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+quoted+" TO writer")
	server.Exec(t, "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA "+quoted+" TO writer")
	url := "postgres://writer:secret-of-writer@" + server.Addr() + "/postgres"
	opts.Migrate = false
	j := openAt(t, url, opts)
	_, err := j.Apply(t.Context(), now(j, begin("order", join(t, j))))
	require.NoError(t, err, "that is all that a writer needs")
	server.Exec(t, "ALTER TABLE "+quoted+".operations ENABLE ROW LEVEL SECURITY")
	_, err = postgres.Open(t.Context(), url, opts)
	require.ErrorIs(t, err, postgres.ErrUnsafe)
	server.Exec(t, "ALTER ROLE writer SET default_transaction_read_only = on")
	_, err = postgres.Open(t.Context(), url, opts)
	require.ErrorContains(t, err, "read-only")
	_, err = postgres.Open(t.Context(), url+"?sslmode=require", opts)
	require.ErrorContains(t, err, "sslmode")
}

func TestOptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	for _, schema := range []string{"Onceward", "1journal", `a"; DROP TABLE x; --`, "ünicode", strings.Repeat("a", 64)} {
		bad := opts
		bad.Schema = schema
		_, err := postgres.Open(t.Context(), server.URL(), bad)
		require.ErrorContains(t, err, "schema", schema)
	}
	bad := opts
	bad.Deployment = ""
	_, err := postgres.Open(t.Context(), server.URL(), bad)
	require.ErrorContains(t, err, "Deployment")
	bad = opts
	bad.Migrate = false
	_, err = postgres.Open(t.Context(), server.URL(), bad)
	require.ErrorIs(t, err, journal.ErrVersion)
	assert.ErrorContains(t, err, "postgres.Migrate")
	assert.NotContains(t, err.Error(), "newer")

	_ = open(t, server, opts)
	bad = opts
	bad.Deployment = "staging"
	_, err = postgres.Open(t.Context(), server.URL(), bad)
	require.ErrorIs(t, err, postgres.ErrDeployment)
	server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET least_writer = 1000`)
	opts.Migrate = false
	_, err = postgres.Open(t.Context(), server.URL(), opts)
	require.ErrorIs(t, err, journal.ErrVersion)
}

// No error contains the connection string or its password.
func TestErrorsHaveNoSecret(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://user:hunter2@127.0.0.1:1/db?connect_timeout=1", "postgres://user:hunter2@[::1:99999/db"} {
		_, err := postgres.Open(t.Context(), url, postgres.Options{Deployment: "test"})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "hunter2")
		assert.NotContains(t, err.Error(), "127.0.0.1")
	}
}

func TestClockAheadIsRefused(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	opts.Unsafe = false
	opts.Durability = postgres.Provider
	j := open(t, server, opts)
	s := join(t, j)
	ev := begin("order", s)
	ev.At = j.Now().Add(2 * time.Minute)
	_, err := j.Apply(t.Context(), ev)
	require.ErrorIs(t, err, postgres.ErrClockAhead)
	ev.At = j.Now()
	_, err = j.Apply(t.Context(), ev)
	require.NoError(t, err)
	before := j.Now()
	for range 1000 {
		now := j.Now()
		require.False(t, now.Before(before))
		before = now
	}
}
