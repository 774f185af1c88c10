package postgres_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
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

// saved has the rows of a journal's tables, as a dump of its data alone has them.
type saved struct {
	server *postgrestest.Cluster
	schema string
	tables []string
}

func save(t *testing.T, server *postgrestest.Cluster, schema string) *saved {
	s := &saved{server: server, schema: schema}
	rows, err := server.Conn(t).Query(t.Context(), "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' ORDER BY relname", `"`+schema+`"`)
	require.NoError(t, err)
	s.tables, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Contains(t, s.tables, "operations")
	server.Exec(t, `CREATE SCHEMA "`+schema+`_saved"`)
	t.Cleanup(func() { server.Exec(t, `DROP SCHEMA "`+schema+`_saved" CASCADE`) })
	for _, table := range s.tables {
		server.Exec(t, `CREATE TABLE "`+schema+`_saved".`+table+` AS TABLE "`+schema+`".`+table)
	}
	return s
}

// restore puts the rows back into the same tables, which are emptied first: their identities stay.
func (s *saved) restore(t *testing.T) {
	sql := "BEGIN; TRUNCATE "
	for i, table := range s.tables {
		if i > 0 {
			sql += ", "
		}
		sql += `"` + s.schema + `".` + table
	}
	for _, table := range s.tables {
		sql += `; INSERT INTO "` + s.schema + `".` + table + ` OVERRIDING SYSTEM VALUE TABLE "` + s.schema + `_saved".` + table
	}
	s.server.Exec(t, sql+"; COMMIT")
}

// The data alone of a dump is put back into emptied tables, on the same server and timeline. A process that lives
// misses its commits. While no process is alive, the witness shows it, and nothing else does.
func TestDataPutBackIntoTheSameTables(t *testing.T) {
	t.Parallel()
	t.Run("while a process is alive", func(t *testing.T) {
		server := postgrestest.Shared(t)
		opts := options(t, server)
		postgres.Hasten(&opts)
		j := open(t, server, opts)
		s := join(t, j)
		_, err := j.Apply(t.Context(), begin("a", s))
		require.NoError(t, err)
		was := save(t, server, opts.Schema)
		_, err = j.Apply(t.Context(), begin("b", s))
		require.NoError(t, err)
		was.restore(t)
		_, err = j.Apply(t.Context(), begin("c", s))
		require.ErrorIs(t, err, journal.ErrRestored)
	})
	t.Run("while none is, with a witness", func(t *testing.T) {
		server := postgrestest.Shared(t)
		opts := options(t, server)
		postgres.Still(&opts)
		opts.Witness = postgres.WitnessFile(filepath.Join(t.TempDir(), "witness"))
		live := func(id string) {
			j := open(t, server, opts)
			_, err := j.Apply(t.Context(), begin(id, join(t, j)))
			require.NoError(t, err)
			require.NoError(t, j.Close())
		}
		live("a")
		was := save(t, server, opts.Schema)
		live("b")
		was.restore(t)
		_, err := open(t, server, opts).Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
	})
}
