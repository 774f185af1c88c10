package postgres_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// If a role lacks a grant, Open's error names it before anything begins.
func TestMissingGrantsAreNamed(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t) // roles belong to the server
	opts := durable(t, server)
	require.NoError(t, postgres.Migrate(t.Context(), server.URL(), opts.Schema))
	opts.Migrate = false
	s := `"` + opts.Schema + `"`
	server.Exec(t, "CREATE ROLE service LOGIN PASSWORD 'secret-of-service'")
	url := "postgres://service:secret-of-service@" + server.Addr() + "/postgres"
	lacks := func(opts postgres.Options, what ...string) {
		t.Helper()
		_, err := postgres.Open(t.Context(), url, opts)
		var told *postgres.Error
		require.ErrorAs(t, err, &told)
		assert.Equal(t, "42501", told.Code)
		for _, one := range what {
			assert.ErrorContains(t, err, one)
		}
		assert.NotContains(t, err.Error(), "service")
	}
	looks := postgres.Options{Schema: opts.Schema, ReadOnly: true}
	lacks(opts, "USAGE ON SCHEMA "+s)
	lacks(looks, "USAGE ON SCHEMA "+s)
	server.Exec(t, "GRANT USAGE ON SCHEMA "+s+" TO service")
	lacks(opts, "UPDATE ON "+s+".journal", "DELETE ON "+s+".flow_steps", "USAGE ON SEQUENCE "+s+".handles")
	lacks(looks, "SELECT ON "+s+".answers", "SELECT ON SEQUENCE "+s+".handles")
	server.Exec(t, "GRANT SELECT ON ALL TABLES IN SCHEMA "+s+" TO service")
	server.Exec(t, "GRANT SELECT ON ALL SEQUENCES IN SCHEMA "+s+" TO service")
	require.NoError(t, openAt(t, url, looks).Close())
	server.Exec(t, "GRANT INSERT, UPDATE ON ALL TABLES IN SCHEMA "+s+" TO service")
	server.Exec(t, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA "+s+" TO service")
	lacks(opts, "DELETE ON "+s+".operations")
	server.Exec(t, "GRANT DELETE ON ALL TABLES IN SCHEMA "+s+" TO service")
	j := openAt(t, url, opts)
	_, err := j.Apply(t.Context(), now(j, begin("order", join(t, j))))
	require.NoError(t, err)
	require.NoError(t, j.MakeReceipts(t.Context(), ""))
	server.Exec(t, "REVOKE INSERT ON "+s+".heads FROM service")
	lacks(opts, "INSERT ON "+s+".heads")
	// An open journal checks nothing anew. A statement that it can't run is an error then.
	server.Exec(t, "REVOKE INSERT ON "+s+".sessions FROM service")
	_, err = j.Join(t.Context())
	require.ErrorContains(t, err, "privilege")
}

// The journal warns once that commits wait for no standby, unless the options say that this is known.
func TestWarningOfLossyFailover(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := durable(t, server)
	opts.Failover = postgres.FailoverUnknown
	for _, at := range []struct {
		name string
		warn bool
		with func(*postgres.Options)
	}{
		{"unknown", true, func(*postgres.Options) {}},
		{"may lose", false, func(o *postgres.Options) { o.Failover = postgres.MayLose }},
		{"loses nothing", false, func(o *postgres.Options) { o.Failover = postgres.LosesNothing }},
		{"the provider's", false, func(o *postgres.Options) { o.Durability = postgres.Provider }},
		{"a test's", false, func(o *postgres.Options) { o.Unsafe = true }},
		{"an operator's", false, func(o *postgres.Options) { o.Existing = true }},
	} {
		t.Run(at.name, func(t *testing.T) {
			opts, said := opts, new(bytes.Buffer)
			opts.Logger = slog.New(slog.NewTextHandler(said, nil))
			at.with(&opts)
			j := openAt(t, server.URL(), opts)
			_, err := j.ReadStats(t.Context())
			require.NoError(t, err)
			require.NoError(t, j.Close())
			want := 0
			if at.warn {
				want = 1
			}
			assert.Equal(t, want, bytes.Count(said.Bytes(), []byte("synchronous_standby_names")), said.String())
		})
	}
}
