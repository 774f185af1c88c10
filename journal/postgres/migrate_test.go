package postgres_test

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// later are the migrations of a later release.
func later(t *testing.T, files map[string]string) fs.FS {
	t.Helper()
	all := make(fstest.MapFS)
	names, err := fs.Glob(postgres.Migrations(), "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(postgres.Migrations(), name)
		require.NoError(t, err)
		all[name] = &fstest.MapFile{Data: text}
	}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// A later release expands the schema while pods of this one run. They go on, keep their sessions, and more of them
// start. Once the schema has contracted, they are refused with a named error.
func TestMigrationBesideRunningPods(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	a, b := openAt(t, server.URL(), opts), openAt(t, server.URL(), opts)
	s := join(t, a)
	held, err := a.Apply(t.Context(), now(a, begin("held", s)))
	require.NoError(t, err)
	pods := []*callers{work(t.Context(), a, "a", 4), work(t.Context(), b, "b", 4)}
	for _, c := range pods {
		require.True(t, c.until(within(t, 40*time.Second), 40))
	}
	expands := map[string]string{
		"9001_expand.sql": `ALTER TABLE {{schema}}.operations ADD COLUMN lane_hint int NOT NULL DEFAULT 0;
			ALTER TABLE {{schema}}.sessions ADD COLUMN release text NOT NULL DEFAULT '';
			ALTER TABLE {{schema}}.lanes ADD COLUMN note text;
			ALTER TABLE {{schema}}.journal ADD COLUMN note text;
			ALTER TABLE {{schema}}.flows ADD COLUMN note text;
			UPDATE {{schema}}.journal SET schema_version = 9001;`,
		"9002_backfill.sql": `CREATE TABLE {{schema}}.hints (handle bigint PRIMARY KEY, hint bytea);
			INSERT INTO {{schema}}.hints SELECT handle, facts FROM {{schema}}.operations;
			UPDATE {{schema}}.journal SET schema_version = 9002;`,
	}
	require.NoError(t, postgres.MigrateBy(t.Context(), server.URL(), opts.Schema, later(t, expands)), "it gives way to others' locks, and is tried again")
	for _, c := range pods {
		assert.True(t, c.until(within(t, 40*time.Second), 40), "it goes on")
	}
	assert.False(t, s.Lost())
	completed, err := a.Apply(t.Context(), now(a, complete(held.Operation, s)))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, completed.Decision)
	for _, j := range []*postgres.Journal{a, b, openAt(t, server.URL(), opts)} { // a pod of this release that starts meanwhile
		_, err := j.Get(t.Context(), held.Operation.Ref)
		require.NoError(t, err)
		for range 10 { // on each connection
			for op, err := range j.List(t.Context(), journal.Filter{Limit: 20}) {
				require.NoError(t, err)
				_, err = j.FindBy(t.Context(), "ledger", machine.ByKey, op.Key)
				require.NoError(t, err)
			}
		}
		_, err = j.Claim(t.Context(), now(j, machine.Event{Kind: machine.EventClaim, Session: join(t, j).ID()}), 10)
		require.NoError(t, err)
		_, err = j.ReadStats(t.Context())
		require.NoError(t, err)
	}
	endAll(t, pods)
	violations, err := a.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, violations)

	expands["9003_contract.sql"] = "UPDATE {{schema}}.journal SET schema_version = 9003, least_writer = 9000;"
	require.NoError(t, postgres.MigrateBy(t.Context(), server.URL(), opts.Schema, later(t, expands)))
	_, err = postgres.Open(t.Context(), server.URL(), opts)
	require.ErrorIs(t, err, journal.ErrVersion)
	assert.ErrorContains(t, err, "9000")
	for i, j := range []*postgres.Journal{a, b} { // pods that still run
		require.Eventually(t, func() bool {
			_, err := j.Claim(t.Context(), now(j, machine.Event{Kind: machine.EventClaim, Session: s.ID()}), 10)
			_, resolving := j.Apply(t.Context(), now(j, machine.Event{Kind: machine.EventHint, Ref: held.Operation.Ref}))
			return errors.Is(resolving, journal.ErrVersion) && (errors.Is(err, journal.ErrVersion) || errors.Is(err, journal.ErrSessionLost))
		}, soon, tick, "pod %d writes no more", i)
	}
	require.Eventually(t, s.Lost, soon, tick, "what it held is left to the later release")
}

// A keyword of SQL can't be a schema's name. The error says so.
func TestSchemaNamedByAKeywordIsRefused(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for _, word := range []string{"user", "order", "left"} {
		err := postgres.Migrate(t.Context(), server.URL(), word)
		require.ErrorContains(t, err, "choose another")
	}
	assert.Equal(t, "0", setting(t, server.Conn(t), "SELECT count(*)::text FROM pg_namespace WHERE nspname IN ('user', 'order', 'left')"), "none is made")
}

// A release that needs more tables than the schema has says so, and makes them if it may.
func TestSchemaOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	earlier := later(t, nil).(fstest.MapFS)
	delete(earlier, "0006_bookmarks.sql")
	delete(earlier, "0007_sealed.sql")
	require.NoError(t, postgres.MigrateBy(t.Context(), server.URL(), opts.Schema, earlier))
	opts.Migrate = false
	_, err := postgres.Open(t.Context(), server.URL(), opts)
	require.ErrorIs(t, err, journal.ErrVersion)
	require.ErrorContains(t, err, "run postgres.Migrate")
	opts.Migrate = true
	j := openAt(t, server.URL(), opts)
	_, err = j.SetBookmark(t.Context(), journal.Bookmark{Name: "feed", At: time.Now()})
	require.NoError(t, err)
}

// A journal whose only row is gone is refused by Migrate too.
func TestMigrationOfAJournalWithoutItsRow(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	require.NoError(t, postgres.Migrate(t.Context(), server.URL(), opts.Schema))
	server.Exec(t, `DELETE FROM "`+opts.Schema+`".journal`)
	err := postgres.Migrate(t.Context(), server.URL(), opts.Schema)
	require.ErrorIs(t, err, postgres.ErrUnsafe)
	assert.ErrorContains(t, err, "was it truncated?")
}

// Migrate changes nothing in another application's schema that has tables by the journal's names. It says which table.
func TestMigrateSparesAnotherApplicationsTables(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for table, columns := range map[string]string{"journal": "id int, amount numeric", "sessions": "id text, data bytea", "migrations": "id serial, migration text, batch int", "handles": "id int"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			opts := durable(t, server)
			server.Exec(t, `CREATE SCHEMA "`+opts.Schema+`"`)
			server.Exec(t, `CREATE TABLE "`+opts.Schema+`".`+table+" ("+columns+")")
			err := postgres.Migrate(t.Context(), server.URL(), opts.Schema)
			require.ErrorIs(t, err, postgres.ErrUnsafe)
			require.ErrorContains(t, err, "has "+table)
			assert.Equal(t, "1", setting(t, server.Conn(t), "SELECT count(*)::text FROM pg_tables WHERE schemaname = '"+opts.Schema+"'"), "nothing is made")
		})
	}
}
