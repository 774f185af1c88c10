package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// The old primary is started again, and clients reach it: its journal agrees with it. Whoever has seen the one that took over knows better, though
// it has begun nothing there.
func TestOldPrimaryComesBack(t *testing.T) {
	t.Parallel()
	primary := postgrestest.Start(t)
	opts := durable(t, primary)
	require.NoError(t, postgres.Migrate(t.Context(), primary.URL(), opts.Schema))
	standby := postgrestest.Start(t, postgrestest.StandbyOf(primary))
	at := newAddress(t, primary)
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
		return err == nil && r.Decision == journal.Execute
	}, soon, tick, "it goes on once both have found what they were told of")

	primary.Run(t)
	at.goesTo(primary)
	_, err := answered(t, idle, nil, "order")
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.NotEmpty(t, setting(t, primary.Conn(t), `SELECT coalesce(restored, '') FROM "`+opts.Schema+`".journal`), "for whoever opens it")
}

// The storage is put back to what it was while a process is alive that begins nothing: what it lacks are that one's beats.
func TestIdleProcessTellsACopyPutBack(t *testing.T) {
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(t)
	j := open(t, server, opts)
	sessions := `"` + opts.Schema + `".sessions`
	conn := server.Conn(t)
	require.Eventually(t, func() bool { return setting(t, conn, "SELECT (max(beats) > 3)::text FROM "+sessions) == "true" }, soon, tick)
	server.Exec(t, "UPDATE "+sessions+" SET beats = 1") // as in the copy
	require.Eventually(t, func() bool {
		s, err := j.Join(t.Context())
		if err == nil {
			err = s.End(t.Context())
		}
		return err != nil
	}, soon, tick)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)

	// Adopted, it goes on, and what this process remembered of it is worth nothing.
	require.NoError(t, j.Adopt(t.Context()))
	beats := func() string { return setting(t, conn, "SELECT sum(beats)::text FROM "+sessions) }
	was := beats()
	require.Eventually(t, func() bool { return beats() != was }, soon, tick)
	join(t, j)
}
