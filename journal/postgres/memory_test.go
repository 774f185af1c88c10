package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// The old primary starts again, and clients reach it. Its journal is consistent. A process that has seen the newer
// primary detects it, though it has begun nothing there.
func TestOldPrimaryComesBack(t *testing.T) {
	t.Parallel()
	primary, standby, at, opts := withStandby(t)
	idle, other := openAt(t, at.url(primary), opts), openAt(t, at.url(primary), opts)
	for i, j := range []*postgres.Journal{idle, other} {
		_, err := j.Apply(t.Context(), now(j, begin(fmt.Sprint("before it ", i), join(t, j))))
		require.NoError(t, err)
	}
	streaming(t, primary)
	primary.Stop(t, postgrestest.Immediate)
	standby.Promote(t)
	at.goesTo(standby)
	require.Eventually(t, func() bool {
		r, err := answered(t, other, nil, "order")
		return err == nil && r.Decision == machine.Execute
	}, soon, tick, "it goes on once both have found what they were told of")

	primary.Run(t)
	at.goesTo(primary)
	_, err := answered(t, idle, nil, "order")
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.NotEmpty(t, setting(t, primary.Conn(t), `SELECT coalesce(restored, '') FROM "`+opts.Schema+`".journal`), "for whoever opens it")
}

// The storage is put back to an earlier state while a process is alive that begins nothing. Only that process's beats
// are missing.
func TestIdleProcessDetectsARestoredCopy(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	j := open(t, server, opts)
	sessions := `"` + opts.Schema + `".sessions`
	conn := server.Conn(t)
	require.Eventually(t, func() bool { return setting(t, conn, "SELECT (max(beats) > 3)::text FROM "+sessions) == "true" }, soon, tick)
	server.Exec(t, "UPDATE "+sessions+" SET beats = 1") // as in the copy
	refused(t, j)

	// After the adoption the process goes on, and forgets what it remembered of the journal.
	require.NoError(t, j.Adopt(t.Context()))
	beats := func() string { return setting(t, conn, "SELECT sum(beats)::text FROM "+sessions) }
	was := beats()
	require.Eventually(t, func() bool { return beats() != was }, soon, tick)
	join(t, j)
}

// A process joined and ended within the lost commits, so that it can't report the loss. An idle process has seen it
// join.
func TestIdleProcessRemembersEndedOnes(t *testing.T) {
	t.Parallel()
	primary, standby, at, opts := withStandby(t)
	postgres.Hasten(&opts)
	idle := openAt(t, at.url(primary), opts)
	conn := primary.Conn(t)
	require.Eventually(t, func() bool { // it tidies up once an hour, first at its start, and may have given that up on a busy machine
		return setting(t, conn, fmt.Sprintf(`SELECT (EXISTS (SELECT 1 FROM "%[1]s".lanes WHERE batch > 0) OR max(beats) > 5)::text FROM "%[1]s".sessions`, opts.Schema)) == "true"
	}, soon, tick)
	streaming(t, primary)
	leaveBehind(t, primary, standby, "0")
	other := openAt(t, primary.URL(), opts)
	_, err := other.Apply(t.Context(), now(other, begin("order", join(t, other))))
	require.NoError(t, err)
	require.NoError(t, other.Close())
	var joined time.Time
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT max(started_at) FROM "`+opts.Schema+`".sessions`).Scan(&joined))
	require.Eventually(t, func() bool { return postgres.LastJoin(idle).Equal(joined) }, soon, tick)
	primary.Stop(t, postgrestest.Immediate)
	standby.Promote(t)
	at.goesTo(standby)
	_, err = answered(t, idle, nil, "order")
	require.ErrorIs(t, err, journal.ErrRestored)
	conn = standby.Conn(t)
	require.Eventually(t, func() bool { // and this lasts after the answer
		return setting(t, conn, `SELECT (promoted IS NULL OR restored IS NOT NULL)::text FROM "`+opts.Schema+`".journal`) == "true"
	}, soon, tick)
	assert.Contains(t, setting(t, conn, `SELECT coalesce(restored, '') FROM "`+opts.Schema+`".journal`), "nothing of a session")
}

// refused joins until the journal says that it was restored.
func refused(t *testing.T, j *postgres.Journal) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, err := j.Join(t.Context())
		if err == nil {
			err = s.End(t.Context())
		}
		return err != nil
	}, soon, tick)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
}
