package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// awaitAStandby makes the server's commits wait for a standby that does not exist, from now on.
func awaitAStandby(t *testing.T, server *postgrestest.Cluster, conn *pgx.Conn) {
	t.Helper()
	server.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'a_standby'")
	server.Exec(t, "SELECT pg_reload_conf()")
	t.Cleanup(func() { // no cleanup waits for the standby
		server.Exec(t, "ALTER SYSTEM RESET synchronous_standby_names")
		server.Exec(t, "SELECT pg_reload_conf()")
	})
	require.Eventually(t, func() bool { return setting(t, conn, "SHOW synchronous_standby_names") != "" }, soon, tick)
}

// Only a notice says that a commit did not wait for its standby. If something on the way drops notices, a server with
// such standbys is refused. Any other server is not.
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
	awaitAStandby(t, server, server.Conn(t))
	opts.Migrate = false
	_, err = postgres.Open(within(t, soon), url, opts)
	require.ErrorIs(t, err, postgres.ErrUnsafe)
	require.ErrorContains(t, err, "notice of a commit")
	p.Mute(false)
	waits, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	_, err = postgres.Open(waits, url, opts)
	require.Error(t, err, "there is no such standby to wait for")
	require.NotErrorIs(t, err, postgres.ErrUnsafe)
}

// A server is also refused if its commits start to wait for a standby beneath open connections. No caller gets a
// success that no standby has.
func TestNoticesThatAreKeptFromNowOn(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	p, url := proxied(t, server)
	p.Mute(true)
	j := openAt(t, url, durable(t, server))
	s := join(t, j)
	_, err := j.Apply(t.Context(), now(j, begin("order", s)))
	require.NoError(t, err)
	conn := server.Conn(t)
	awaitAStandby(t, server, conn)
	told := make(chan outcome, 1)
	go func() {
		r, err := j.Apply(within(t, soon), now(j, begin("not replicated", s)))
		told <- outcome{r, err}
	}()
	for {
		select {
		case is := <-told:
			require.ErrorIs(t, is.err, postgres.ErrUnsafe)
			return
		case <-time.After(tick): // cancels every wait for the standby
			setting(t, conn, "SELECT count(pg_cancel_backend(pid))::text FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		}
	}
}
