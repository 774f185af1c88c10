package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// That a commit did not wait for its standby is told by a notice alone: where something in between keeps notices to itself, a
// server with such standbys is refused, and any other is not.
func TestNoticesThatAreKeptAreRefused(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := durable(t, server)
	p, url := proxied(t, server)
	p.Mute(true)
	alone := openAt(t, url, opts)
	_, err := alone.Apply(t.Context(), now(alone, begin("order", join(t, alone))))
	require.NoError(t, err)
	require.NoError(t, alone.Close())
	server.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'a_standby'")
	server.Exec(t, "SELECT pg_reload_conf()")
	conn := server.Conn(t)
	require.Eventually(t, func() bool { return setting(t, conn, "SHOW synchronous_standby_names") != "" }, soon, tick)
	opts.Migrate = false
	_, err = postgres.Open(within(t, soon), url, opts)
	require.ErrorIs(t, err, postgres.ErrUnsafe)
	require.ErrorContains(t, err, "notices")
	p.Mute(false)
	waits, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	_, err = postgres.Open(waits, url, opts)
	require.Error(t, err, "there is no such standby to wait for")
	require.NotErrorIs(t, err, postgres.ErrUnsafe)
	server.Exec(t, "ALTER SYSTEM RESET synchronous_standby_names")
	server.Exec(t, "SELECT pg_reload_conf()")
}
