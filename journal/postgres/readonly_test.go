package postgres_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// served makes a journal with a completed, a pending and an unknown operation, and a flow, and closes it.
func served(t *testing.T, server *postgrestest.Cluster, opts postgres.Options) {
	t.Helper()
	j := openAt(t, server.URL(), opts)
	s := join(t, j)
	for _, id := range []string{"completed", "pending", "unknown"} {
		begun, err := j.Apply(t.Context(), now(j, begin(id, s)))
		require.NoError(t, err)
		end := machine.Event{Kind: machine.EventPark, Ref: begun.Operation.Ref, Handle: begun.Operation.Handle, Session: s.ID(), Claim: begun.Operation.Claim, Attempts: 1}
		switch id {
		case "completed":
			end = complete(begun.Operation, s)
		case "pending":
			end.Due = j.Now().Add(time.Hour)
		case "unknown":
			end.Kind = machine.EventMarkUnknown
		}
		ended, err := j.Apply(t.Context(), now(j, end))
		require.NoError(t, err)
		require.Equal(t, machine.Recorded, ended.Decision, id)
	}
	_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "ride"}, At: j.Now(), Session: s.ID(), InputDigest: "d"})
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

// kept returns all rows of the journal, and their places: even an update that changes nothing moves a row.
func kept(t *testing.T, server *postgrestest.Cluster, schema string) (all string) {
	t.Helper()
	conn := server.Conn(t)
	for _, table := range []string{"journal", "sessions", "lanes", "operations", "names", "requests", "answers", "flows", "marks", "heard"} {
		all += table + ": " + setting(t, conn, fmt.Sprintf(`SELECT coalesce(string_agg(ctid::text || xmin::text || r::text, E'\n' ORDER BY r::text), '') FROM "%s".%s r`, schema, table)) + "\n"
	}
	return all
}

// reads calls everything that reads.
func reads(t *testing.T, j *postgres.Journal) {
	t.Helper()
	n := 0
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		whole, err := j.Get(t.Context(), op.Ref)
		require.NoError(t, err)
		assert.Equal(t, []byte(op.ID), whole.Request.Body)
		found, err := j.FindBy(t.Context(), "ledger", machine.ByKey, op.Key)
		require.NoError(t, err)
		if op.State != journal.StateCompleted {
			assert.Len(t, found, 1)
		}
		n++
	}
	assert.Equal(t, 3, n)
	for f, err := range j.ListFlows(t.Context(), journal.FlowFilter{}) {
		require.NoError(t, err)
		assert.Equal(t, "ride", f.ID)
	}
	_, err := j.GetFlow(t.Context(), journal.Ref{ID: "ride"})
	require.NoError(t, err)
	_, err = j.Get(t.Context(), journal.Ref{ID: "there is none"})
	require.ErrorIs(t, err, journal.ErrNotFound)
	_, err = j.Bookmark(t.Context(), "feed")
	require.NoError(t, err)
	for _, err := range j.ListBookmarks(t.Context()) {
		require.NoError(t, err)
	}
	stats, err := j.ReadStats(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, stats.Unknown)
	wrong, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, wrong)
	assert.WithinDuration(t, time.Now(), j.Now(), time.Minute)
}

// writes calls everything that writes, and returns each call's error.
func writes(t *testing.T, j *postgres.Journal) map[string]error {
	ctx, at := t.Context(), j.Now()
	said := make(map[string]error)
	_, said["Apply"] = j.Apply(ctx, machine.Event{Kind: machine.EventCancel, Ref: journal.Ref{ID: "pending"}, At: at})
	_, said["Claim"] = j.Claim(ctx, machine.Event{Kind: machine.EventClaim, At: at, Session: "s"}, 1)
	_, said["Join"] = j.Join(ctx)
	_, said["Reap"] = j.Reap(ctx, machine.Event{Kind: machine.EventReap, At: at}, 1)
	_, said["Looks"] = j.Looks(ctx, machine.Event{Kind: machine.EventLook, At: at}, 1)
	_, _, said["RecordEvent"] = j.RecordEvent(ctx, machine.Heard{Provider: "ledger", ID: "evt"}, nil)
	_, said["ApplyFlow"] = j.ApplyFlow(ctx, machine.FlowEvent{Kind: machine.FlowEventGiveUp, Ref: journal.Ref{ID: "ride"}, At: at})
	_, said["ClaimFlows"] = j.ClaimFlows(ctx, machine.FlowEvent{Kind: machine.FlowEventClaim, At: at, Session: "s"}, 1)
	_, said["ReapFlows"] = j.ReapFlows(ctx, machine.FlowEvent{Kind: machine.FlowEventReap, At: at}, 1)
	_, said["BeginTx"] = j.BeginTx(ctx)
	_, said["EnqueueTx"] = j.EnqueueTx(ctx, nil, machine.Event{})
	_, said["DeliverTx"] = j.DeliverTx(ctx, machine.Event{}, nil)
	_, said["ApplyFlowTx"] = j.ApplyFlowTx(ctx, nil, machine.FlowEvent{})
	_, said["SetBookmark"] = j.SetBookmark(ctx, journal.Bookmark{Name: "feed", At: at})
	said["Adopt"], said["Confirm"], said["ResetClock"] = j.Adopt(ctx), j.Confirm(ctx), j.ResetClock(ctx, at)
	return said
}

// A role with nothing but read rights can read everything, of any deployment, and leaves no trace.
func TestReadOnlyLeavesNoTrace(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t) // roles belong to the server
	opts := durable(t, server)
	served(t, server, opts)
	quoted := `"` + opts.Schema + `"`
	server.Exec(t, "CREATE ROLE reader LOGIN PASSWORD 'secret-of-reader'")
	server.Exec(t, "GRANT USAGE ON SCHEMA "+quoted+" TO reader")
	server.Exec(t, "GRANT SELECT ON ALL TABLES IN SCHEMA "+quoted+" TO reader")
	server.Exec(t, "GRANT SELECT ON ALL SEQUENCES IN SCHEMA "+quoted+" TO reader")
	before := kept(t, server, opts.Schema)
	for name, at := range map[string]string{"as a reader": "postgres://reader:secret-of-reader@" + server.Addr() + "/postgres", "as the owner": server.URL()} {
		t.Run(name, func(t *testing.T) {
			j := openAt(t, at, postgres.Options{Schema: opts.Schema, ReadOnly: true, Migrate: true})
			reads(t, j)
			for what, err := range writes(t, j) {
				require.ErrorIs(t, err, postgres.ErrReadOnly, what)
			}
			require.NoError(t, j.Close())
			require.ErrorIs(t, j.Close(), journal.ErrClosed)
			_, err := j.Get(t.Context(), journal.Ref{ID: "completed"})
			require.ErrorIs(t, err, journal.ErrClosed)
		})
	}
	_, err := postgres.Open(t.Context(), server.URL(), postgres.Options{Schema: opts.Schema, ReadOnly: true, Deployment: "another"})
	require.ErrorIs(t, err, postgres.ErrDeployment)
	assert.Equal(t, before, kept(t, server, opts.Schema))

	// A reader of a copy learns that it is one, and changes nothing in it.
	server.Exec(t, "UPDATE "+quoted+".journal SET table_oid = '1'")
	before = kept(t, server, opts.Schema)
	copied := openAt(t, server.URL(), postgres.Options{Schema: opts.Schema, ReadOnly: true})
	stats, err := copied.ReadStats(t.Context())
	require.NoError(t, err)
	assert.Contains(t, stats.Restored, "pg_restore")
	assert.Equal(t, before, kept(t, server, opts.Schema))

	for _, none := range []postgres.Options{{Schema: "nothing_here", ReadOnly: true, Migrate: true}, {Schema: "nothing_here", Existing: true, Migrate: true}} {
		_, err = postgres.Open(t.Context(), server.URL(), none)
		require.ErrorIs(t, err, journal.ErrVersion)
	}
	assert.Equal(t, "0", setting(t, server.Conn(t), "SELECT count(*)::text FROM pg_namespace WHERE nspname = 'nothing_here'"), "none is made")
}

// A journal that is only read works on a standby too.
func TestReadOnlyOnAStandby(t *testing.T) {
	t.Parallel()
	primary := postgrestest.Start(t)
	opts := durable(t, primary)
	served(t, primary, opts)
	standby := postgrestest.Start(t, postgrestest.StandbyOf(primary))
	streaming(t, primary)
	j := openAt(t, standby.URL(), postgres.Options{Schema: opts.Schema, ReadOnly: true})
	reads(t, j)
	stats, err := j.ReadStats(t.Context())
	require.NoError(t, err)
	assert.Empty(t, stats.Restored)
	_, err = postgres.Open(t.Context(), standby.URL(), postgres.Options{Schema: opts.Schema, Existing: true})
	require.ErrorContains(t, err, "read-only", "nothing can be changed there")
}

// A pooler passes on no parameter of a connection. Statements are read-only by themselves.
func TestReadOnlyBehindPgBouncer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	opts := durable(t, server)
	served(t, server, opts)
	pool := behindPgBouncer(t, server.URL(), 2)
	reads(t, openAt(t, pool.url, postgres.Options{Schema: opts.Schema, ReadOnly: true, Pooled: true}))
}

// An operator's program makes its changes while the service runs, and the service goes on as before.
func TestExistingChangesBesideAService(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	postgres.Hasten(&opts)
	served(t, server, opts)
	// Close may have left its sessions to expire.
	server.Exec(t, `UPDATE "`+opts.Schema+`".sessions SET buried_at = clock_timestamp() WHERE buried_at IS NULL`)
	service := openAt(t, server.URL(), opts)
	s := join(t, service)
	held, err := service.Apply(t.Context(), now(service, begin("held", s)))
	require.NoError(t, err)

	existing := postgres.Options{Schema: opts.Schema, Existing: true}
	postgres.Hasten(&existing)
	tool := openAt(t, server.URL(), existing)
	_, err = tool.Join(t.Context())
	require.ErrorContains(t, err, "Options.Existing")
	before, err := tool.Get(t.Context(), journal.Ref{ID: "unknown"})
	require.NoError(t, err)
	resolved, err := tool.Apply(t.Context(), executed(tool, before))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, resolved.Decision)
	waits, err := tool.Apply(t.Context(), executed(tool, held.Operation))
	require.NoError(t, err)
	assert.NotEqual(t, machine.Recorded, waits.Decision, "somebody is at it")
	stats, err := tool.ReadStats(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, stats.Sessions, "it is no worker")
	require.NoError(t, tool.Close())
	conn := server.Conn(t)
	require.Eventually(t, func() bool { // at once, or once it has expired
		return setting(t, conn, `SELECT count(*)::text FROM "`+opts.Schema+`".sessions WHERE id = process AND buried_at IS NULL`) == "1"
	}, soon, tick, "only the service is left")

	completed, err := service.Apply(t.Context(), now(service, complete(held.Operation, s)))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, completed.Decision)
	told, err := service.Get(t.Context(), before.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateCompleted, told.State)
}

// An operator's program leaves dead sessions to the service's processes. It also leaves a suspected copy to them, until
// a person adopts it.
func TestExistingTakesNothingOver(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	postgres.Hasten(&opts)
	require.NoError(t, postgres.Migrate(t.Context(), server.URL(), opts.Schema))
	conn := server.Conn(t)
	journals := `"` + opts.Schema + `".journal`
	existing := postgres.Options{Schema: opts.Schema, Existing: true}
	postgres.Hasten(&existing)
	require.NoError(t, openAt(t, server.URL(), existing).Close())
	assert.Equal(t, "true", setting(t, conn, "SELECT (deployment IS NULL AND system_identifier IS NULL)::text FROM "+journals), "it is nobody's still")

	served(t, server, opts)
	server.Exec(t, `INSERT INTO "`+opts.Schema+`".sessions (id, process, epoch, expires_at) VALUES ('dead', 'dead', 1, now() - interval '1 day')`)
	server.Exec(t, "UPDATE "+journals+" SET timeline = '0000007F'") // as after a promotion
	tool := openAt(t, server.URL(), existing)
	op, err := tool.Get(t.Context(), journal.Ref{ID: "unknown"})
	require.NoError(t, err)
	_, err = tool.Apply(t.Context(), executed(tool, op))
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.ErrorContains(t, err, "promoted")
	beats := setting(t, conn, `SELECT max(beats)::text FROM "`+opts.Schema+`".sessions`)
	require.Eventually(t, func() bool { // longer than a service's process watches before it buries
		return setting(t, conn, `SELECT (max(beats) > 15 + `+beats+`)::text FROM "`+opts.Schema+`".sessions`) == "true"
	}, 4*soon, tick)
	assert.Equal(t, "true", setting(t, conn, `SELECT (buried_at IS NULL)::text FROM "`+opts.Schema+`".sessions WHERE id = 'dead'`))
	assert.Equal(t, "true", setting(t, conn, "SELECT (promoted IS NULL AND restored IS NULL AND timeline = '0000007F')::text FROM "+journals))
	_, err = tool.Apply(t.Context(), executed(tool, op))
	require.ErrorIs(t, err, journal.ErrRestored, "it has not forgotten")

	require.NoError(t, tool.Adopt(t.Context()))
	assert.Equal(t, "true", setting(t, conn, "SELECT (deployment = 'test' AND timeline <> '0000007F')::text FROM "+journals))
	_, err = tool.Apply(t.Context(), executed(tool, op))
	require.NoError(t, err)
}

// executed is an operator's decision that an operation took effect.
func executed(j *postgres.Journal, op journal.Operation) machine.Event {
	return machine.Event{Kind: machine.EventResolve, Ref: op.Ref, Handle: op.Handle, Generation: op.Generation, At: j.Now(),
		Resolution: journal.Executed, By: "an operator", Answer: &journal.Answer{Status: 200, ByHand: true}}
}

// No error contains the reader's password.
func TestReadOnlyRefusals(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	open(t, server, opts)
	at, err := url.Parse(server.URL())
	require.NoError(t, err)
	at.User = url.UserPassword("nobody", "hunter2")
	_, err = postgres.Open(t.Context(), at.String(), postgres.Options{Schema: opts.Schema, ReadOnly: true})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "hunter2")
}
