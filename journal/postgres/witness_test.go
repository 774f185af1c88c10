package postgres_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A copy of the storage is put back while no process is alive. It is behind the number that the witness has.
func TestWitnessDetectsARestoredCopy(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Still(&opts) // each journal stores a number in the witness once
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

	// If the witness can't be read, the journal does not believe the database.
	opts.Witness = postgres.WitnessFile(t.TempDir())
	_, err = postgres.Open(t.Context(), server.URL(), opts)
	require.ErrorContains(t, err, "Witness")
}

// A tool without the witness adopts a journal. Then the journal does not count as behind the service's witness, though
// no process was alive meanwhile.
func TestToolAdoptsAJournalWithAWitness(t *testing.T) {
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

	// An earlier copy is still behind it.
	require.NoError(t, j.Close())
	server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET witnessed = 999`)
	_, err = open(t, server, opts).Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
}

// toldMeanwhile is a witness in which another process stores a number just before the third call.
type toldMeanwhile struct {
	postgres.WitnessFile
	number int64
	asked  atomic.Int64
}

func (w *toldMeanwhile) Load(ctx context.Context) (int64, error) {
	if w.asked.Add(1) == 3 {
		if err := w.Store(ctx, w.number); err != nil {
			return 0, err
		}
	}
	return w.WitnessFile.Load(ctx)
}

// A copy that is put back while a process is alive is behind the witness too. The process does not store a lower number
// in the witness.
func TestWitnessBesideALiveProcess(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	const told = 1000 // stored by another process, which is dead
	witness := &toldMeanwhile{WitnessFile: postgres.WitnessFile(filepath.Join(t.TempDir(), "witness")), number: told}
	opts.Witness = witness
	j := open(t, server, opts) // asks twice, and its heart asks from then on
	refused(t, j)
	number, err := witness.Load(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, told, number)
}
