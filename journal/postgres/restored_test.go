package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A lane behind its last acknowledged batch shows that the database has gone back. All open journals refuse until a
// person adopts it, by any of them.
func TestLaneBehindMeansGoneBack(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	j, other := open(t, server, opts), open(t, server, opts)
	s, theirs := join(t, j), join(t, other)
	for _, id := range []string{"a", "b", "c"} {
		_, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		_, err = other.Apply(t.Context(), begin("their-"+id, theirs))
		require.NoError(t, err)
	}
	server.Exec(t, `UPDATE "`+opts.Schema+`".lanes SET batch = batch - 1`)
	_, err := j.Apply(t.Context(), begin("d", s))
	require.ErrorIs(t, err, journal.ErrRestored)
	require.Eventually(t, func() bool {
		_, err := other.Apply(t.Context(), begin("e", theirs))
		return err != nil
	}, soon, tick)
	_, err = other.Apply(t.Context(), begin("e", theirs))
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = other.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)

	require.NoError(t, other.Adopt(t.Context()))
	require.Eventually(t, func() bool { _, err := j.Join(t.Context()); return err == nil }, soon, tick, "others learn of it")
	_, err = j.Apply(t.Context(), begin("f", s))
	require.ErrorIs(t, err, journal.ErrSessionLost, "sessions from before are over")
	again := join(t, j)
	was, err := j.Apply(t.Context(), begin("a", again))
	require.NoError(t, err)
	assert.True(t, was.Operation.MayHaveRun)
	late, err := j.Apply(t.Context(), begin("g", again))
	require.NoError(t, err)
	assert.EqualValues(t, 2, late.Operation.Handle>>40, "handles carry the epoch")
}

// A database that has gone back answers no request, even if the transaction would write nothing. Its rows may say that an
// operation was cancelled which was executed since. A process that was fenced off gets no answer either.
func TestGoneBackAnswersNothing(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for _, row := range []struct {
		name, sql string
		want      error
	}{
		{"its commits are missing", "UPDATE {{s}}.lanes SET batch = batch - 1", journal.ErrRestored},
		{"its row is missing", "DELETE FROM {{s}}.sessions", journal.ErrRestored},
		{"another process has ended its sessions", "UPDATE {{s}}.sessions SET buried_at = clock_timestamp()", journal.ErrSessionLost},
		{"another process knows more", "UPDATE {{s}}.journal SET restored = 'a test says so'", journal.ErrRestored},
	} {
		t.Run(row.name, func(t *testing.T) {
			opts := options(t, server)
			j := open(t, server, opts)
			s := join(t, j)
			begun, err := j.Apply(t.Context(), begin("a", s))
			require.NoError(t, err)
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			require.NoError(t, err)
			again, err := j.Apply(t.Context(), begin("a", s))
			require.NoError(t, err)
			require.Equal(t, machine.Replay, again.Decision)
			server.Exec(t, strings.ReplaceAll(row.sql, "{{s}}", `"`+opts.Schema+`"`))
			again, err = j.Apply(t.Context(), begin("a", s))
			require.ErrorIs(t, err, row.want, "it answered %v", again.Decision)
		})
	}
}

// If the row of a live process is missing, the database has gone back to before it joined.
func TestMissingProcessMeansGoneBack(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	_, err := j.Apply(t.Context(), begin("a", s))
	require.NoError(t, err)
	server.Exec(t, `DELETE FROM "`+opts.Schema+`".sessions`)
	server.Exec(t, `DELETE FROM "`+opts.Schema+`".lanes`)
	_, err = j.Apply(t.Context(), begin("b", s))
	require.ErrorIs(t, err, journal.ErrRestored)
}

// After the promotion of a standby that no commit waited for, every live process first confirms that its acknowledged
// commits are there.
func TestPromotionWaitsForAnswers(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	j, other := open(t, server, opts), open(t, server, opts)
	s := join(t, j)
	_, err := j.Apply(t.Context(), begin("a", s))
	require.NoError(t, err)
	journals := `"` + opts.Schema + `".journal`
	server.Exec(t, "UPDATE "+journals+" SET timeline = '0000007F'") // as if it had been another before
	third := open(t, server, opts)                                  // a new connection sees it
	require.Eventually(t, func() bool {
		for _, j := range []*postgres.Journal{j, other, third} {
			next, err := j.Join(t.Context())
			if err != nil {
				assert.ErrorIs(t, err, journal.ErrRestored)
				return false
			}
			require.NoError(t, next.End(t.Context()))
		}
		return true
	}, soon, tick)
	conn := server.Conn(t)
	assert.Equal(t, "true", setting(t, conn, "SELECT (promoted IS NULL AND restored IS NULL AND timeline <> '0000007F')::text FROM "+journals))

	// Now a process with acknowledged commits is dead.
	server.Exec(t, `INSERT INTO "`+opts.Schema+`".sessions (id, process, epoch, expires_at, timeline) VALUES ('gone', 'gone', 1, clock_timestamp() - interval '1 s', '0000007F')`)
	server.Exec(t, "UPDATE "+journals+" SET timeline = '0000007F'")
	_ = open(t, server, opts)
	require.Eventually(t, func() bool {
		return setting(t, conn, "SELECT (restored IS NOT NULL)::text FROM "+journals) == "true"
	}, soon, tick)
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Confirm(t.Context()))
	next := join(t, j)
	waits, err := j.Apply(t.Context(), begin("b", next))
	require.NoError(t, err)
	assert.Equal(t, machine.Execute, waits.Decision)
	op, err := j.Get(t.Context(), journal.Ref{ID: "a"})
	require.NoError(t, err)
	assert.False(t, op.Adopted, "it touches no operation")
}

// A process that learns of the restore only after Adopt does not make the journal count as restored again.
func TestLateReportAfterAnAdopt(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j, other := open(t, server, opts), open(t, server, opts)
	s := join(t, j)
	for _, id := range []string{"a", "b"} {
		_, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
	}
	server.Exec(t, `UPDATE "`+opts.Schema+`".lanes SET batch = batch - 1 WHERE lane = 0 AND batch > 1`)
	server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET restored = 'a test says so'`)
	require.Eventually(t, func() bool { _, err := other.Join(t.Context()); return err != nil }, soon, tick)
	require.NoError(t, other.Adopt(t.Context()))
	_, err := j.Apply(t.Context(), begin("c", s))
	require.Error(t, err)
	_, err = other.Apply(t.Context(), begin("d", join(t, other)))
	require.NoError(t, err)
	assert.Equal(t, "true", setting(t, server.Conn(t), `SELECT (restored IS NULL)::text FROM "`+opts.Schema+`".journal`))
}

// A process forgets the operations that it has seen once the database has gone back and was adopted. A row may have the
// same handle and revision, and another content.
func TestStateFromBeforeARestoreIsDropped(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	j, other := open(t, server, opts), open(t, server, opts)
	s := join(t, j)
	begun, err := j.Apply(t.Context(), begin("order", s))
	require.NoError(t, err)
	table := func(name string) string { return `"` + opts.Schema + `".` + name }
	server.Exec(t, "CREATE TABLE "+table("backup")+" AS SELECT * FROM "+table("operations"))
	park := machine.Event{Kind: machine.EventPark, Ref: begun.Operation.Ref, Handle: begun.Operation.Handle, At: time.Now(), Session: s.ID(), Claim: 1, Wake: time.Now()}
	_, err = j.Apply(t.Context(), park)
	require.NoError(t, err)
	claimed, err := j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, Session: s.ID(), At: time.Now().Add(time.Second)}, 1)
	require.NoError(t, err)
	require.Len(t, claimed, 1)

	server.Exec(t, "DELETE FROM "+table("operations"))
	server.Exec(t, "INSERT INTO "+table("operations")+" SELECT * FROM "+table("backup"))
	server.Exec(t, "UPDATE "+table("journal")+" SET restored = 'a test says so'")
	require.Eventually(t, func() bool { _, err := other.Join(t.Context()); return err != nil }, soon, tick)
	require.NoError(t, other.Adopt(t.Context()))
	park.Claim = claimed[0].Operation.Claim
	late, err := j.Apply(t.Context(), park)
	require.NoError(t, err)
	assert.Equal(t, machine.Stale, late.Decision)
	op, err := other.Get(t.Context(), begun.Operation.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateUnknown, op.State)
	assert.True(t, op.Adopted)
}

// A process that has detected a copy, by whatever sign, and reports it only after an adoption, does not undo the
// adoption.
func TestReportOfACopyAfterAnAdopt(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for name, seen := range map[string]func(journals string, opts *postgres.Options) string{
		"by its place": func(journals string, _ *postgres.Options) string {
			return "UPDATE " + journals + " SET table_oid = '1'"
		},
		"by its handles": func(journals string, _ *postgres.Options) string {
			return "SELECT setval('" + strings.TrimSuffix(journals, "journal") + "handles', 1)"
		},
		"by its timeline": func(journals string, _ *postgres.Options) string { // and another process has not answered yet
			return "UPDATE " + journals + " SET timeline = '0000007F'; INSERT INTO " + strings.TrimSuffix(journals, "journal") +
				"sessions (id, process, epoch, expires_at, timeline) VALUES ('other', 'other', 1, clock_timestamp() + interval '1 minute', '0000007F')"
		},
		"by a witness": func(journals string, opts *postgres.Options) string {
			witness := postgres.WitnessFile(filepath.Join(t.TempDir(), "witness"))
			require.NoError(t, witness.Store(t.Context(), 77))
			opts.Witness = witness
			return "SELECT 1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := durable(t, server)
			first := openAt(t, server.URL(), opts)
			_, err := first.Apply(t.Context(), now(first, begin("a", join(t, first))))
			require.NoError(t, err)
			require.NoError(t, first.Close())
			journals := `"` + opts.Schema + `".journal`
			server.Exec(t, seen(journals, &opts))

			p, url := proxied(t, server)
			held := p.Arm(pgproxy.Fault{Match: func(ex pgproxy.Exchange) bool {
				return has(ex, "journal set restored") || has(ex, "journal set promoted")
			}, Then: pgproxy.Hold})
			late := make(chan *postgres.Journal, 1)
			go func() {
				j, err := postgres.Open(t.Context(), url, opts)
				assert.NoError(t, err)
				late <- j
			}()
			<-held.Done()
			adopter := openAt(t, server.URL(), opts)
			_, err = adopter.Join(t.Context())
			require.ErrorIs(t, err, journal.ErrRestored)
			require.NoError(t, adopter.Adopt(t.Context()))
			held.Release()
			j := <-late
			require.NotNil(t, j)
			t.Cleanup(func() { _ = j.Close() })
			assert.Equal(t, "true", setting(t, server.Conn(t), "SELECT (restored IS NULL AND promoted IS NULL)::text FROM "+journals))
			for _, j := range []*postgres.Journal{adopter, j} {
				_, err = j.Apply(t.Context(), now(j, begin("b", join(t, j))))
				require.NoError(t, err, "nobody takes it for restored any more")
			}
		})
	}
}

// Outcomes that were delivered before a backup are not delivered again after it is restored and adopted. Later ones
// are. If the application's rows are in the same database, they went back too, so that each outcome is in them once.
func TestDeliveriesAfterARestore(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	server.Exec(t, "CREATE DATABASE shop")
	in := func(database string) string { return strings.Replace(server.URL(), "/postgres?", "/"+database+"?", 1) }
	opts := durable(t, server)
	exec := func(database, sql string) {
		conn, err := pgx.Connect(t.Context(), in(database))
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, errors.Join(err, conn.Close(t.Context())))
	}
	exec("shop", "CREATE TABLE public.told (name text, outcome text)")
	deliver := func(j *postgres.Journal, s machine.Session, op journal.Operation) {
		t.Helper()
		ev := now(j, machine.Event{Kind: machine.EventDeliver, Ref: op.Ref, Handle: op.Handle, Generation: op.Generation, Outcome: op.State, Session: s.ID()})
		result, err := j.DeliverTx(t.Context(), ev, func(ctx context.Context, tx journal.Tx) error {
			_, err := tx.Driver().(pgx.Tx).Exec(ctx, "INSERT INTO public.told VALUES ($1, $2)", op.ID, op.State.String())
			return err
		})
		require.NoError(t, err)
		require.Equal(t, machine.Recorded, result.Decision)
	}
	shop := openAt(t, in("shop"), opts)
	s := join(t, shop)
	ended := make(map[string]journal.Operation)
	for _, id := range []string{"told", "told since", "cancelled"} {
		begun, err := shop.Apply(t.Context(), now(shop, begin(id, s)))
		require.NoError(t, err)
		ev := complete(begun.Operation, s)
		if id == "cancelled" {
			ev.Kind, ev.Unsent, ev.Answer = machine.EventCancel, true, nil
		}
		ev.Delivered = false
		result, err := shop.Apply(t.Context(), now(shop, ev))
		require.NoError(t, err)
		require.Equal(t, machine.Recorded, result.Decision)
		ended[id] = result.Operation
	}
	deliver(shop, s, ended["told"])
	if op := ended["cancelled"]; !op.Delivered {
		deliver(shop, s, op)
	}
	require.NoError(t, shop.Close())
	server.Exec(t, "CREATE DATABASE backup TEMPLATE shop")
	shop = openAt(t, in("shop"), opts)
	s = join(t, shop)
	deliver(shop, s, ended["told since"])
	require.NoError(t, shop.Close())

	backup := openAt(t, in("backup"), opts)
	_, err := backup.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, backup.Adopt(t.Context()))
	s = join(t, backup)
	claim := now(backup, machine.Event{Kind: machine.EventClaim, Session: s.ID()})
	claimed, err := backup.Claim(t.Context(), claim, 10)
	require.NoError(t, err)
	outcomes := make(map[string]journal.State)
	for _, r := range claimed {
		outcomes[r.Operation.ID] = r.Operation.State
		deliver(backup, s, r.Operation)
	}
	assert.Equal(t, map[string]journal.State{"told since": journal.StateCompleted, "cancelled": journal.StateUnknown}, outcomes)
	claimed, err = backup.Claim(t.Context(), now(backup, claim), 10)
	require.NoError(t, err)
	assert.Empty(t, claimed)
	conn, err := pgx.Connect(t.Context(), in("backup"))
	require.NoError(t, err)
	defer conn.Close(context.Background())
	assert.Equal(t, "cancelled cancelled, cancelled unknown, told completed, told since completed",
		setting(t, conn, "SELECT string_agg(name || ' ' || outcome, ', ' ORDER BY name, outcome) FROM public.told"))
}

// No process believes a damaged operation, and it does not block the adoption.
func TestAdoptBesideADamagedOperation(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	doubts(t, j, join(t, j), "", "order-0", "order-1")
	server.Exec(t, fmt.Sprintf(zeroFacts, `"`+opts.Schema+`"`))
	server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET restored = 'a test says so'`)
	j = open(t, server, opts)
	require.ErrorContains(t, j.Adopt(t.Context()), "adopted, but operation ")
	require.NoError(t, j.Adopt(t.Context()))
	join(t, j)
	op, err := j.Get(t.Context(), journal.Ref{ID: "order-1"})
	require.NoError(t, err)
	assert.True(t, op.Adopted)
}
