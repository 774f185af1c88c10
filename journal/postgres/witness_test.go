package postgres_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A copy of the storage that is put back while nobody is alive is behind what the witness was told.
func TestWitnessTellsOfACopyPutBack(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	witness := postgres.WitnessFile(filepath.Join(t.TempDir(), "witness"))
	opts.Witness = witness
	for range 3 {
		j := open(t, server, opts)
		join(t, j)
		require.NoError(t, j.Close())
	}
	number, err := witness.Load(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, number)

	server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET witnessed = 2`) // as in the copy
	j := open(t, server, opts)
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	join(t, j)
	require.NoError(t, j.Close())
	join(t, open(t, server, opts))

	// A witness that can't be asked is no reason to believe the database.
	opts.Witness = postgres.WitnessFile(t.TempDir())
	_, err = postgres.Open(t.Context(), server.URL(), opts)
	require.ErrorContains(t, err, "Witness")
}

// What a tool adopts that knows of no witness is not behind the service's from then on, though nobody was alive meanwhile.
func TestToolAdoptsWhatHasAWitness(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	witness := postgres.WitnessFile(filepath.Join(t.TempDir(), "witness"))
	opts.Witness = witness
	require.NoError(t, witness.Store(t.Context(), 1000))
	down := open(t, server, opts)
	_, err := down.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, down.Close())
	tool := open(t, server, postgres.Options{Schema: opts.Schema, Existing: true, Unsafe: true})
	require.NoError(t, tool.Adopt(t.Context()))
	require.NoError(t, tool.Close())
	j := open(t, server, opts)
	join(t, j)
	number, err := witness.Load(t.Context())
	require.NoError(t, err)
	require.Greater(t, number, int64(1000))

	// A copy from before is behind it still.
	require.NoError(t, j.Close())
	server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET witnessed = 999`)
	_, err = open(t, server, opts).Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
}

// A copy that is put back beside a process which is alive is behind the witness too, and that is not told of less than it knows.
func TestWitnessBesideALiveProcess(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	witness := postgres.WitnessFile(filepath.Join(t.TempDir(), "witness"))
	opts.Witness = witness
	j := open(t, server, opts)
	const told = 1000 // by another process, that is dead
	require.NoError(t, witness.Store(t.Context(), told))
	refused(t, j)
	number, err := witness.Load(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, told, number)
}
