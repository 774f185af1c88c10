package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/journaltest"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// The journal keeps the promises of package journaltest, and no statement that it sends for that reads a whole table.
func TestItKeepsThePromisesOfAJournal(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t) // the tests restart the server
	server.Exec(t, shadows)
	sends := &sent{settings: make(map[*pgx.Conn]statement), all: make(map[statementText]statement)}
	rowstoretest.Conformance(t, func(t *testing.T) journaltest.Harness {
		if !strings.Contains(t.Name(), "/interruptions/") { // these cut off all connections to the server
			t.Parallel()
		}
		opts := options(t, server)
		opts.Seal = rowstoretest.HalfSealed(t)
		opts.BeforeConnect = func(_ context.Context, cfg *pgx.ConnConfig) error {
			cfg.Tracer = ofSchema{to: sends, schema: opts.Schema}
			return nil
		}
		first := open(t, server, opts)
		next := func(t *testing.T) machine.Store { return open(t, server, opts) }
		table := func(name string) string { return pgx.Identifier{opts.Schema, name}.Sanitize() }
		return journaltest.Harness{
			Journal: first,
			Seed:    1,
			Open:    next,
			Reopen: func(t *testing.T) machine.Store {
				_ = first.Close() // the test may have closed it
				return next(t)
			},
			Kill: func(t *testing.T, s machine.Session) { require.NoError(t, postgres.Kill(t.Context(), s)) },
			Freeze: func(t *testing.T, s machine.Session) func() {
				require.NoError(t, postgres.Freeze(t.Context(), first, s))
				return func() {}
			},
			// Committed rows need no living process. Their processes are found dead.
			Crash: func(t *testing.T) machine.Store {
				server.Exec(t, "UPDATE "+table("sessions")+" SET buried_at = clock_timestamp()")
				server.Exec(t, "UPDATE "+table("lanes")+" SET tenure = tenure + 1")
				return next(t)
			},
			Sever: func(t *testing.T) {
				server.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
			},
			Restart: func(t *testing.T) {
				// Otherwise the recovery, of the writes of all earlier tests, takes longer than a lease.
				server.Exec(t, "CHECKPOINT")
				server.Restart(t, postgrestest.Immediate)
			},
			Restored: func(t *testing.T) machine.Store {
				_ = first.Close()
				server.Exec(t, "UPDATE "+table("journal")+" SET table_oid = '1'") // as in a copy made by pg_dump
				return next(t)
			},
		}
	}, nil, 190)
	if !t.Failed() {
		sends.requirePlanned(t, server)
	}
}

// shadows are functions of another schema that match calls by their bare names better than PostgreSQL's own. The role's
// search_path finds them.
const shadows = `CREATE SCHEMA theirs;
	CREATE FUNCTION theirs.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'theirs'; END $$;
	CREATE FUNCTION theirs.unnest(int[]) RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN RAISE 'theirs'; END $$;
	CREATE FUNCTION theirs.unnest(text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RAISE 'theirs'; END $$;
	CREATE FUNCTION theirs.cardinality(text[]) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'theirs'; END $$;
	CREATE FUNCTION theirs.nextval(text) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'theirs'; END $$;
	CREATE FUNCTION theirs.setval(text, bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'theirs'; END $$;
	ALTER ROLE CURRENT_USER SET search_path = theirs, public`
