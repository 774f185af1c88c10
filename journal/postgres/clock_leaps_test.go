package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// clocked starts a server whose clock is ahead of the machine's by the duration of the last call of ahead. Without
// libfaketime the test is skipped, or fails if PostgreSQL is required.
func clocked(t *testing.T) (server *postgrestest.Cluster, ahead func(time.Duration)) {
	t.Helper()
	libraries, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1") // Debian's folder
	if len(libraries) == 0 {
		if os.Getenv("ONCEWARD_POSTGRES") == "required" {
			t.Fatal("no libfaketime: install faketime")
		}
		t.Skip("no libfaketime: install faketime")
	}
	folder, err := os.MkdirTemp("", "onceward-clock-") // only root may enter t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	require.NoError(t, os.Chmod(folder, 0o755))
	clock := filepath.Join(folder, "clock")
	ahead = func(by time.Duration) {
		t.Helper()
		require.NoError(t, os.WriteFile(clock+".next", fmt.Appendf(nil, "%+d\n", int(by.Seconds())), 0o644))
		require.NoError(t, os.Rename(clock+".next", clock))
	}
	ahead(0)
	server = postgrestest.Start(t, postgrestest.Env("LD_PRELOAD", libraries[0]), postgrestest.Env("FAKETIME_TIMESTAMP_FILE", clock),
		postgrestest.Env("FAKETIME_NO_CACHE", "1"), postgrestest.Env("FAKETIME_DISABLE_SHM", "1"), postgrestest.Env("DONT_FAKE_MONOTONIC", "1"))
	return server, ahead
}

// The database's clock leaps ahead by an hour, back again, and to an hour ago, while pods run. They go on, no session
// is buried, and no pod takes over another one's operations.
func TestDatabaseClockLeapsByAnHour(t *testing.T) {
	t.Parallel()
	server, ahead := clocked(t)
	opts := durable(t, server)
	holder := openAt(t, server.URL(), opts)
	s := join(t, holder)
	held, err := holder.Apply(t.Context(), now(holder, begin("held", s)))
	require.NoError(t, err)
	var fleet []*callers
	for i := range 3 {
		fleet = append(fleet, work(t.Context(), openAt(t, server.URL(), opts), fmt.Sprint("pod-", i), 2))
	}
	conn := server.Conn(t)
	for _, by := range []time.Duration{time.Hour, 0, -time.Hour} {
		ahead(by)
		var said time.Time
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&said))
		require.InDelta(t, by.Minutes(), time.Until(said).Minutes(), 1, "it has leapt")
		for beaten := beats(t, server, opts, int64(soak.Times(1, 2))); !beaten(); {
			for _, c := range fleet {
				assert.True(t, c.until(within(t, time.Minute), 1), "it goes on")
			}
		}
		for _, c := range fleet {
			r, err := c.j.Apply(t.Context(), now(c.j, begin("held", join(t, c.j))))
			require.NoError(t, err)
			assert.Equal(t, machine.Wait, r.Decision, "whoever holds it lives")
		}
	}
	endAll(t, fleet)
	assert.False(t, s.Lost())
	completed, err := holder.Apply(t.Context(), now(holder, complete(held.Operation, s)))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, completed.Decision)
	assert.Equal(t, "0", setting(t, conn, `SELECT count(*)::text FROM "`+opts.Schema+`".sessions WHERE buried_at IS NOT NULL AND id = process`))
}
