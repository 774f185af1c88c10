package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// set makes each connection begin with a setting, as ALTER ROLE does.
func set(name, value string) func(context.Context, *pgx.ConnConfig) error {
	return func(_ context.Context, cfg *pgx.ConnConfig) error {
		cfg.RuntimeParams[name] = value
		return nil
	}
}

// Behind a pooler answers come as text. A setting with another text form is refused, since the journal could not read
// its answers, and nothing is recorded.
func TestSettingsThatShapeText(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := options(t, server)
	openAt(t, server.URL(), opts)
	for _, row := range []struct{ name, value string }{{"bytea_output", "escape"}, {"DateStyle", "German"}, {"DateStyle", "SQL, DMY"}, {"client_encoding", "LATIN1"}} {
		opts := opts
		opts.BeforeConnect, opts.Pooled, opts.Migrate = set(row.name, row.value), true, false
		_, err := postgres.Open(t.Context(), server.URL(), opts)
		require.ErrorIs(t, err, postgres.ErrUnsafe, row.name)
		assert.ErrorContains(t, err, row.name)
		assert.ErrorContains(t, err, "Options.Pooled")

		opts.Pooled, opts.ReadOnly = true, true
		_, err = postgres.Open(t.Context(), server.URL(), opts)
		require.ErrorContains(t, err, row.name, "nor is anything read")
	}
	for _, row := range []struct{ name, value string }{{"bytea_output", "escape"}, {"DateStyle", "German"}} {
		opts := opts
		opts.BeforeConnect = set(row.name, row.value)
		j := openAt(t, server.URL(), opts) // without a pooler answers come in binary
		s := join(t, j)
		ev := now(j, begin(row.value, s))
		ev.Intent.Request.Body = []byte("a\\b\x00\xff")
		_, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		op, err := j.Get(t.Context(), journal.Ref{ID: row.value})
		require.NoError(t, err)
		assert.Equal(t, ev.Intent.Request.Body, op.Request.Body)
	}
}

// Options.Committed counts every commit, with the number of events that it carried.
func TestCommitted(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	var commits, requests atomic.Int64
	opts := options(t, server)
	postgres.Still(&opts)
	opts.Committed = func(n int, took time.Duration) {
		assert.Positive(t, took)
		commits.Add(1)
		requests.Add(int64(n))
	}
	j := openAt(t, server.URL(), opts)
	s := join(t, j)
	before := requests.Load()
	for _, id := range []string{"invoice-1", "invoice-2"} {
		_, err := j.Apply(t.Context(), now(j, begin(id, s)))
		require.NoError(t, err)
	}
	assert.Equal(t, before+2, requests.Load())
	before = requests.Load()
	require.NoError(t, j.KeepHook(t.Context(), true))
	assert.Greater(t, requests.Load(), before, "outside of batches, too")
	assert.LessOrEqual(t, commits.Load(), requests.Load())
}
