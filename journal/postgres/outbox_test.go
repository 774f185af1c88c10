package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func enqueue(id string) machine.Event {
	return machine.Event{
		Kind: machine.EventEnqueue, Ref: journal.Ref{ID: id}, At: time.Now(),
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id,
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
		},
	}
}

// application shares the journal's database, by one driver or the other.
type application struct {
	orders string // its table
	begin  func() journal.Tx
	insert func(tx journal.Tx, order string) error
}

func applications(t *testing.T, server *postgrestest.Cluster, opts postgres.Options) map[string]application {
	t.Helper()
	orders := pgx.Identifier{opts.Schema, "orders"}.Sanitize()
	server.Exec(t, "CREATE TABLE "+orders+" (name text)")
	db, err := sql.Open("pgx", server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return map[string]application{
		"pgx": {orders, func() journal.Tx {
			tx, err := server.Conn(t).Begin(t.Context())
			require.NoError(t, err)
			return postgres.Pgx(tx)
		}, func(tx journal.Tx, order string) error {
			_, err := tx.Driver().(pgx.Tx).Exec(t.Context(), "INSERT INTO "+orders+" VALUES ($1)", order)
			return err
		}},
		"database/sql": {orders, func() journal.Tx {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			return postgres.SQL(tx)
		}, func(tx journal.Tx, order string) error {
			_, err := tx.Driver().(*sql.Tx).ExecContext(t.Context(), "INSERT INTO "+orders+" VALUES ($1)", order)
			return err
		}},
	}
}

// An order and the charge for it are one commit, by either driver.
func TestEnqueueBesideAnOrder(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	for name, app := range applications(t, server, opts) {
		t.Run(name, func(t *testing.T) {
			for _, commits := range []bool{false, true} {
				tx := app.begin()
				require.NoError(t, app.insert(tx, name))
				for _, want := range []machine.Decision{machine.Recorded, machine.Ignored} {
					result, err := j.EnqueueTx(t.Context(), tx, enqueue(name))
					require.NoError(t, err)
					require.Equal(t, want, result.Decision)
					assert.Equal(t, "key-of-"+name, result.Operation.Key)
				}
				other := enqueue(name)
				other.Intent.Fingerprint = "v1:another"
				result, err := j.EnqueueTx(t.Context(), tx, other)
				require.NoError(t, err)
				assert.Equal(t, machine.Misuse, result.Decision)
				_, err = j.Get(t.Context(), journal.Ref{ID: name})
				require.ErrorIs(t, err, journal.ErrNotFound)
				if commits {
					require.NoError(t, tx.Commit(t.Context()))
				}
				require.NoError(t, tx.Rollback(t.Context()), "after a commit it does nothing")
				var orders int
				require.NoError(t, server.Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM "+app.orders+" WHERE name = $1", name).Scan(&orders))
				_, err = j.Get(t.Context(), journal.Ref{ID: name})
				if commits {
					assert.Equal(t, 1, orders)
					require.NoError(t, err)
				} else {
					assert.Zero(t, orders)
					require.ErrorIs(t, err, journal.ErrNotFound)
				}
				_, err = j.EnqueueTx(t.Context(), tx, enqueue(name+" late"))
				require.ErrorContains(t, err, "committed or rolled back before")
			}
		})
	}
}

// An order and the flow that goes on from it are one commit, by either driver. A transaction that enqueues the same flow
// meanwhile waits, and then finds it.
func TestEnqueueAFlowBesideAnOrder(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	for name, app := range applications(t, server, opts) {
		t.Run(name, func(t *testing.T) {
			ev := func(digest string) machine.FlowEvent {
				return machine.FlowEvent{Kind: machine.FlowEventEnqueue, Ref: journal.Ref{ID: name}, At: j.Now(), Function: journal.FlowFunction{Name: "ride", Version: 1},
					Key: "key-of-" + name, Input: []byte("{}"), InputDigest: digest}
			}
			decides := func(tx journal.Tx, digest string, want machine.Decision) {
				t.Helper()
				result, err := j.ApplyFlowTx(t.Context(), tx, ev(digest))
				require.NoError(t, err)
				require.Equal(t, want.String(), result.Decision.String())
			}
			tx := app.begin()
			require.NoError(t, app.insert(tx, name))
			decides(tx, "v1:a", machine.Recorded)
			require.NoError(t, tx.Rollback(t.Context()))
			_, err := j.GetFlow(t.Context(), journal.Ref{ID: name})
			require.ErrorIs(t, err, journal.ErrNotFound)

			tx, other := app.begin(), app.begin()
			require.NoError(t, app.insert(tx, name))
			decides(tx, "v1:a", machine.Recorded)
			decides(tx, "v1:a", machine.Ignored)
			waits := make(chan machine.FlowResult, 1)
			go func() {
				result, err := j.ApplyFlowTx(t.Context(), other, ev("v1:a"))
				assert.NoError(t, err)
				waits <- result
			}()
			require.NoError(t, tx.Commit(t.Context()))
			assert.Equal(t, machine.Ignored, (<-waits).Decision)
			decides(other, "v1:b", machine.Misuse)
			require.NoError(t, other.Commit(t.Context()))
			f, err := j.GetFlow(t.Context(), journal.Ref{ID: name})
			require.NoError(t, err)
			assert.Equal(t, journal.FlowStateWaiting, f.State)
			var orders int
			require.NoError(t, server.Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM "+app.orders+" WHERE name = $1", name).Scan(&orders))
			assert.Equal(t, 1, orders)
			_, err = j.ApplyFlowTx(t.Context(), tx, ev("v1:a"))
			require.ErrorContains(t, err, "committed or rolled back before")
		})
	}
	violations, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, violations)
}

// A rollback to a savepoint undoes the enqueues since then, and frees their names.
func TestEnqueueWithinASavepoint(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	own := func() journal.Tx {
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		return tx
	}
	apps := applications(t, server, opts)
	for name, begin := range map[string]func() journal.Tx{"pgx": apps["pgx"].begin, "database/sql": apps["database/sql"].begin, "BeginTx": own} {
		t.Run(name, func(t *testing.T) {
			tx := begin()
			exec := func(statement string) {
				var err error
				if driver, ok := tx.Driver().(pgx.Tx); ok {
					_, err = driver.Exec(t.Context(), statement)
				} else {
					_, err = tx.Driver().(*sql.Tx).ExecContext(t.Context(), statement)
				}
				require.NoError(t, err)
			}
			for _, as := range []string{"first", "second"} {
				exec("SAVEPOINT a")
				ev := enqueue(name)
				ev.Intent.Fingerprint, ev.Intent.Key = "v1:"+as, as
				result, err := j.EnqueueTx(t.Context(), tx, ev)
				require.NoError(t, err)
				require.Equal(t, machine.Recorded, result.Decision)
				require.Equal(t, as, result.Operation.Key)
				if as == "first" {
					exec("ROLLBACK TO SAVEPOINT a")
				}
			}
			exec("RELEASE SAVEPOINT a")
			require.NoError(t, tx.Commit(t.Context()))
			got, err := j.Get(t.Context(), journal.Ref{ID: name})
			require.NoError(t, err)
			assert.Equal(t, "second", got.Key)
			begun, err := j.Apply(t.Context(), func() machine.Event {
				ev := enqueue(name)
				ev.Intent.Fingerprint = "v1:first"
				ev.Kind, ev.Session = machine.EventBegin, join(t, j).ID()
				return ev
			}())
			require.NoError(t, err)
			assert.Equal(t, machine.Misuse, begun.Decision, "the first was never there")
		})
	}
}

// Steps that are recorded in simultaneous transactions do not wait for each other.
func TestLocalStepsBesideEachOther(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	flow, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "order"}, At: time.Now(), Session: s.ID(), InputDigest: "d"})
	require.NoError(t, err)
	var open []journal.Tx
	for _, app := range applications(t, server, opts) {
		tx := app.begin()
		open = append(open, tx)
		result, err := j.ApplyFlowTx(t.Context(), tx, machine.FlowEvent{
			Kind: machine.FlowEventRecord, Handle: flow.Flow.Handle, Claim: flow.Flow.Claim, At: time.Now(),
			Steps: []journal.StepRecord{{Seq: len(open), Kind: journal.StepLocal, Name: fmt.Sprint("step ", len(open)), At: time.Now()}},
		})
		require.NoError(t, err)
		assert.Equal(t, machine.Recorded, result.Decision)
	}
	for _, tx := range open {
		require.NoError(t, tx.Commit(t.Context()))
	}
	got, err := j.GetFlow(t.Context(), journal.Ref{ID: "order"})
	require.NoError(t, err)
	assert.Len(t, got.Steps, 2)
}

// A transaction of another database is refused: that database has no journal, or another one.
func TestTransactionsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := open(t, server, options(t, server))
	begin := func() journal.Tx {
		tx, err := server.Conn(t).Begin(t.Context())
		require.NoError(t, err)
		return postgres.Pgx(tx)
	}
	schema := options(t, server).Schema
	server.Exec(t, "CREATE DATABASE "+schema)
	t.Cleanup(func() { server.Exec(t, "DROP DATABASE "+schema+" WITH (FORCE)") })
	elsewhere, err := pgx.Connect(t.Context(), strings.Replace(server.URL(), "/postgres?", "/"+schema+"?", 1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = elsewhere.Close(context.Background()) })
	tx, err := elsewhere.Begin(t.Context())
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), postgres.Pgx(tx), enqueue("a"))
	require.ErrorContains(t, err, "42P01")
	for _, tx := range []journal.Tx{postgres.Pgx(nil), postgres.SQL(nil), nil} {
		_, err := j.EnqueueTx(t.Context(), tx, enqueue("a"))
		require.ErrorContains(t, err, "postgres.Pgx")
		_, err = j.ApplyFlowTx(t.Context(), tx, machine.FlowEvent{Kind: machine.FlowEventRecord, At: time.Now()})
		require.ErrorContains(t, err, "postgres.Pgx")
	}
	broken := begin()
	_, err = broken.Driver().(pgx.Tx).Exec(t.Context(), "SELECT 1/0")
	require.Error(t, err)
	_, err = j.EnqueueTx(t.Context(), broken, enqueue("a"))
	require.ErrorContains(t, err, "roll it back")
}

// A handler that ends or breaks the delivery's transaction delivers nothing. The journal's later calls work as before.
func TestHandlerThatEndsItsTransaction(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := open(t, server, options(t, server))
	s := join(t, j)
	begun, err := j.Apply(t.Context(), begin("order", s))
	require.NoError(t, err)
	ev := complete(begun.Operation, s)
	ev.Delivered = false
	completed, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	op := completed.Operation
	deliver := func(f func(ctx context.Context, tx pgx.Tx) error) (machine.Decision, error) {
		result, err := j.DeliverTx(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: op.Ref, Handle: op.Handle, Generation: op.Generation,
			Outcome: op.State, At: time.Now(), Session: s.ID()}, func(ctx context.Context, tx journal.Tx) error { return f(ctx, tx.Driver().(pgx.Tx)) })
		return result.Decision, err
	}
	for name, f := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"rolls back": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"hides a failed statement": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT 1/0")
			assert.Error(t, err)
			return nil
		},
		"fails":  func(context.Context, pgx.Tx) error { return errors.New("no driver") },
		"leaves": func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 { // on each connection
				_, err := deliver(f)
				require.Error(t, err)
			}
			got, err := j.Get(t.Context(), op.Ref)
			require.NoError(t, err)
			assert.False(t, got.Delivered)
		})
	}
	decision, err := deliver(func(context.Context, pgx.Tx) error { return nil })
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, decision)
}

// A handler that sends its own COMMIT has committed its writes once, and gets an error that says so. Every connection
// stays usable.
func TestHandlerThatCommitsByItself(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := open(t, server, options(t, server))
	s := join(t, j)
	for i := range 5 { // one more than there are connections
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		ev := complete(begun.Operation, s)
		ev.Delivered = false
		completed, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		op := completed.Operation
		calls := 0
		for range 2 {
			_, err = j.DeliverTx(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: op.Ref, Handle: op.Handle, Generation: op.Generation,
				Outcome: op.State, At: time.Now(), Session: s.ID()}, func(ctx context.Context, tx journal.Tx) error {
				calls++
				_, err := tx.Driver().(pgx.Tx).Exec(ctx, "COMMIT")
				return err
			})
			if calls == 1 && err != nil {
				require.ErrorContains(t, err, "has ended the transaction")
			}
		}
		require.NoError(t, err)
		assert.Equal(t, 1, calls)
	}
}

// undelivered is a completed operation whose outcome is still to be delivered.
func undelivered(t *testing.T, j *postgres.Journal, s machine.Session, name string) journal.Operation {
	t.Helper()
	begun, err := j.Apply(t.Context(), begin(name, s))
	require.NoError(t, err)
	ev := complete(begun.Operation, s)
	ev.Delivered = false
	completed, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	return completed.Operation
}

func deliver(j *postgres.Journal, s machine.Session, op journal.Operation, f func(context.Context, journal.Tx) error) (machine.Result, error) {
	return j.DeliverTx(context.Background(), machine.Event{Kind: machine.EventDeliver, Ref: op.Ref, Handle: op.Handle, Generation: op.Generation,
		Outcome: op.State, At: time.Now(), Session: s.ID()}, f)
}

// A handler gets its time, whatever the role's timeout for idle transactions is.
func TestHandlerOutlastsTheRolesPatience(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := openAt(t, server.URL()+"&idle_in_transaction_session_timeout=1s", options(t, server))
	s := join(t, j)
	var patience string
	_, err := deliver(j, s, undelivered(t, j, s, "order"), func(ctx context.Context, tx journal.Tx) error {
		return tx.Driver().(pgx.Tx).QueryRow(ctx, "SELECT current_setting('idle_in_transaction_session_timeout')").Scan(&patience)
	})
	require.NoError(t, err)
	assert.Equal(t, "1min", patience)
}

// A handler that takes longer than its time records nothing, even if it succeeds. Its error says what to do.
func TestHandlerThatIsTooSlow(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	j := open(t, server, opts)
	s := join(t, j)
	op := undelivered(t, j, s, "order")
	table := `"` + opts.Schema + `".booked`
	server.Exec(t, "CREATE TABLE "+table+" (name text)")
	_, err := deliver(j, s, op, func(ctx context.Context, tx journal.Tx) error {
		_, err := tx.Driver().(pgx.Tx).Exec(ctx, "INSERT INTO "+table+" VALUES ('order')")
		<-ctx.Done()
		return err
	})
	require.ErrorContains(t, err, "let it only write, and do slow work elsewhere")
	found, err := j.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.False(t, found.Delivered)
	assert.Equal(t, "0", setting(t, server.Conn(t), "SELECT count(*)::text FROM "+table))
}

// However many handlers take their time, no other caller waits for a connection: claims, begins of known names,
// sessions.
func TestSlowHandlersBlockNoOther(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := open(t, server, options(t, server))
	s := join(t, j)
	known := undelivered(t, j, s, "known")
	const handlers = 8 // twice as many as run at a time
	started, release := make(chan struct{}, handlers), make(chan struct{})
	var delivering sync.WaitGroup
	for i := range handlers {
		op := undelivered(t, j, s, fmt.Sprint("order-", i))
		delivering.Go(func() {
			result, err := deliver(j, s, op, func(context.Context, journal.Tx) error {
				started <- struct{}{}
				<-release
				return nil
			})
			assert.NoError(t, err)
			assert.Equal(t, machine.Recorded, result.Decision)
		})
	}
	for range 4 {
		<-started
	}
	for range 10 {
		_, err := j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: time.Now(), Session: s.ID()}, 10)
		require.NoError(t, err)
		again, err := j.Apply(t.Context(), begin("known", s))
		require.NoError(t, err)
		assert.Equal(t, known.Handle, again.Operation.Handle)
		require.NoError(t, join(t, j).End(t.Context()))
	}
	assert.Empty(t, started, "the others wait for one of four")
	close(release)
	delivering.Wait()
}

// Close waits for a handler, even longer than for a server. The handler's writes and the delivery are both there, or
// neither is.
func TestCloseBesideAHandler(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	other := open(t, server, opts)
	postgres.Hasten(&opts)
	j := openAt(t, server.URL(), opts)
	s := join(t, j)
	op := undelivered(t, j, s, "order")
	table := `"` + opts.Schema + `".booked`
	server.Exec(t, "CREATE TABLE "+table+" (name text)")
	started, told, closed := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	stopped := postgres.Background(j)
	go func() {
		_, err := deliver(j, s, op, func(ctx context.Context, tx journal.Tx) error {
			close(started)
			<-stopped
			_, err := tx.Driver().(pgx.Tx).Exec(ctx, "INSERT INTO "+table+" VALUES ('order')")
			return err
		})
		told <- err
	}()
	<-started
	go func() { closed <- j.Close() }()
	err := <-told
	require.NoError(t, <-closed)
	found, getting := other.Get(t.Context(), op.Ref)
	require.NoError(t, getting)
	booked := setting(t, server.Conn(t), "SELECT count(*)::text FROM "+table)
	assert.Equal(t, found.Delivered, booked == "1")
	assert.Equal(t, err == nil, found.Delivered, "who delivers is told: %v", err)
}

// A handler's settings for its transaction do not weaken the commit. The handler's savepoints are undone or kept as it
// asks.
func TestHandlerDoesNotWeakenItsCommit(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	schema := `"` + opts.Schema + `".`
	server.Exec(t, "CREATE TABLE "+schema+"booked (name text)")
	server.Exec(t, "CREATE TABLE "+schema+"seen (committed text)")
	server.Exec(t, "CREATE FUNCTION "+schema+`look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO `+schema+`seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$`)
	server.Exec(t, "CREATE CONSTRAINT TRIGGER look AFTER INSERT ON "+schema+"booked DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "+schema+"look()")
	op := undelivered(t, j, s, "order")
	result, err := deliver(j, s, op, func(ctx context.Context, tx journal.Tx) error {
		own := tx.Driver().(pgx.Tx)
		if _, err := own.Exec(ctx, "SET LOCAL synchronous_commit = off; INSERT INTO "+schema+"booked VALUES ('kept')"); err != nil {
			return err
		}
		inner, err := own.Begin(ctx)
		if err != nil {
			return err
		}
		_, err = inner.Exec(ctx, "INSERT INTO "+schema+"booked VALUES ('undone'); SELECT 1/0")
		assert.Error(t, err)
		return inner.Rollback(ctx)
	})
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, result.Decision)
	conn := server.Conn(t)
	assert.Equal(t, "kept", setting(t, conn, "SELECT string_agg(name, ',') FROM "+schema+"booked"))
	assert.Equal(t, "on", setting(t, conn, "SELECT committed FROM "+schema+"seen"))

	own, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	_, err = own.Driver().(pgx.Tx).Exec(t.Context(), "SET synchronous_commit = off; INSERT INTO "+schema+"booked VALUES ('own')")
	require.NoError(t, err)
	require.NoError(t, own.Commit(t.Context()))
	assert.Equal(t, "on, on", setting(t, conn, "SELECT string_agg(committed, ', ') FROM "+schema+"seen"), "nor does a transaction of BeginTx")
}

// If a handler uses SET instead of SET LOCAL, the setting ends once the handler returns. The next user of that
// connection may be another tenant. The same holds for BeginTx.
func TestHandlersLeaveNoSettings(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	role := opts.Schema + "_tenant"
	server.Exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() { server.Exec(t, "DROP ROLE "+role) })
	cfg, err := pgxpool.ParseConfig(server.URL())
	require.NoError(t, err)
	cfg.ConnConfig.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		_, err := conn.Exec(ctx, "SET search_path = of_the_application; SET TIME ZONE 'Europe/Rome'").ReadAll()
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	closes(t, pool)
	plain := open(t, server, opts)
	configured, err := postgres.OpenPool(t.Context(), pool, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = configured.Close() })

	const settings = "SELECT concat_ws(' ', current_user, current_setting('search_path'), current_setting('statement_timeout'), " +
		"current_setting('synchronous_commit'), current_setting('TimeZone'))"
	var ofConfigured string
	require.NoError(t, pool.QueryRow(t.Context(), settings).Scan(&ofConfigured))
	for name, c := range map[string]struct {
		j      *postgres.Journal
		begins string
	}{
		"as it connects":         {plain, setting(t, server.Conn(t), settings)},
		"as AfterConnect has it": {configured, ofConfigured},
	} {
		t.Run(name, func(t *testing.T) {
			s := join(t, c.j)
			sets := func(ctx context.Context, tx pgx.Tx) error {
				var began string
				err := tx.QueryRow(ctx, settings).Scan(&began)
				assert.Equal(t, c.begins, began)
				if err == nil {
					_, err = tx.Exec(ctx, "SET search_path = tenant_42; SET statement_timeout = '1min'; SET synchronous_commit = off; SET TIME ZONE 'Asia/Tokyo'")
				}
				if err == nil && c.j == plain { // otherwise the delivery, which uses the same settings, would be refused
					_, err = tx.Exec(ctx, "SET ROLE "+role)
				}
				return err
			}
			for n := range 2 * 4 { // on each connection, and again
				op := undelivered(t, c.j, s, fmt.Sprint(name, n))
				result, err := deliver(c.j, s, op, func(ctx context.Context, tx journal.Tx) error { return sets(ctx, tx.Driver().(pgx.Tx)) })
				require.NoError(t, err)
				require.Equal(t, machine.Recorded, result.Decision)
			}
			for range 2 * 4 {
				tx, err := c.j.BeginTx(t.Context())
				require.NoError(t, err)
				require.NoError(t, sets(t.Context(), tx.Driver().(pgx.Tx)))
				require.NoError(t, tx.Commit(t.Context()))
			}
			failed, err := c.j.BeginTx(t.Context())
			require.NoError(t, err)
			_, err = failed.Driver().(pgx.Tx).Exec(t.Context(), "SELECT 1/0")
			require.Error(t, err)
			require.ErrorIs(t, failed.Commit(t.Context()), pgx.ErrTxCommitRollback)
		})
	}
}

// A handler that takes too long gets an error, and is called once.
func TestHandlerThatTakesTooLong(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	postgres.Hasten(&opts)
	j := open(t, server, opts)
	s := join(t, j)
	begun, err := j.Apply(t.Context(), begin("order", s))
	require.NoError(t, err)
	ev := complete(begun.Operation, s)
	ev.Delivered = false
	completed, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	op, calls := completed.Operation, 0
	_, err = j.DeliverTx(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: op.Ref, Handle: op.Handle, Generation: op.Generation,
		Outcome: op.State, At: time.Now(), Session: s.ID()}, func(ctx context.Context, _ journal.Tx) error {
		calls++
		<-ctx.Done()
		return nil
	})
	require.ErrorContains(t, err, "took longer")
	assert.Equal(t, 1, calls)
	got, err := j.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.False(t, got.Delivered)
}

// An enqueue that is rolled back, or a begin that is refused, gives no reason to doubt a clock that is behind.
func TestUnrecordedEventsDoNotMoveTheClock(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := open(t, server, options(t, server))
	s := join(t, j)
	_, err := j.Apply(t.Context(), begin("taken", s))
	require.NoError(t, err)
	guarded := journal.Terms{Remembers: memory.Everything, Retention: 2 * time.Hour, Handling: 10 * time.Minute}
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	ev := enqueue("undone")
	ev.Intent.Terms = guarded
	_, err = j.EnqueueTx(t.Context(), tx, ev)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	misuse := begin("taken", s)
	misuse.Intent.Fingerprint, misuse.Intent.Terms = "v1:another", guarded
	refused, err := j.Apply(t.Context(), misuse)
	require.NoError(t, err)
	require.Equal(t, machine.Misuse, refused.Decision)
	behind := func(id string) machine.Result {
		ev := begin(id, s)
		ev.At = time.Now().Add(-time.Hour)
		r, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		return r
	}
	assert.Zero(t, behind("behind").Unconfirmed)

	tx, err = j.BeginTx(t.Context())
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), tx, ev)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	assert.NotZero(t, behind("behind it").Unconfirmed, "what is recorded is one")
}

// Names and a provider's texts may be any bytes, of any length.
func TestNamesAreAnyBytes(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	apps := applications(t, server, opts)
	for name, text := range map[string]string{"NUL": "a\x00b", "no UTF-8": "\xff\xfe\x80", "long": strings.Repeat("nä\x00", 2_500), "empty": ""} {
		t.Run(name, func(t *testing.T) {
			ev := begin("order "+text, s)
			ev.Ref.Scope, ev.Ref.Parent = "scope "+text, text
			ev.Intent.Provider, ev.Intent.Reference, ev.Intent.Alias = "provider "+text, "reference "+text, journal.Ref{ID: "alias " + text, Scope: text}
			begun, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			require.Equal(t, machine.Execute, begun.Decision)
			doubt := machine.Event{Kind: machine.EventMarkUnknown, Ref: ev.Ref, Handle: begun.Operation.Handle, Claim: begun.Operation.Claim, At: time.Now(), Session: s.ID(), Cause: text}
			_, err = j.Apply(t.Context(), doubt)
			require.NoError(t, err)
			for _, ref := range []journal.Ref{ev.Ref, ev.Intent.Alias} {
				op, err := j.Get(t.Context(), ref)
				require.NoError(t, err)
				assert.Equal(t, ev.Ref, op.Ref)
				assert.Equal(t, text, op.Cause)
			}
			matches, err := j.FindBy(t.Context(), "provider "+text, machine.ByReference, "reference "+text)
			require.NoError(t, err)
			assert.Len(t, matches, 1)
			listed := 0
			for op, err := range j.List(t.Context(), journal.Filter{Scope: &ev.Ref.Scope, Provider: "provider " + text}) {
				require.NoError(t, err)
				assert.Equal(t, ev.Ref, op.Ref)
				listed++
			}
			assert.Equal(t, 1, listed)
			for driver, app := range apps {
				tx := app.begin()
				ev := enqueue(driver + text)
				_, err := j.EnqueueTx(t.Context(), tx, ev)
				require.NoError(t, err)
				require.NoError(t, tx.Commit(t.Context()))
				op, err := j.Get(t.Context(), ev.Ref)
				require.NoError(t, err)
				assert.Equal(t, driver+text, op.ID)
			}
			flow := machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: text, Scope: text}, Function: journal.FlowFunction{Name: text}, At: time.Now(),
				Session: s.ID(), InputDigest: text + "d"}
			began, err := j.ApplyFlow(t.Context(), flow)
			require.NoError(t, err)
			_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventRecord, Handle: began.Flow.Handle, Claim: began.Flow.Claim, At: time.Now(),
				Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone, Name: text, At: time.Now(), Result: []byte(text)}}})
			require.NoError(t, err)
			got, err := j.GetFlow(t.Context(), flow.Ref)
			require.NoError(t, err)
			assert.Equal(t, text, got.Steps[0].Name)
			assert.Equal(t, text, got.Function.Name)
		})
	}
}

// The application connects by itself, and may reach another server before the journal's connections do. The journal
// checks that server first.
func TestEnqueueOnAnUncheckedServer(t *testing.T) {
	t.Parallel()
	for name, goneBack := range map[string]bool{"a copy": true, "as it was": false} {
		t.Run(name, func(t *testing.T) {
			server := postgrestest.Start(t)
			opts := options(t, server)
			p, url := proxied(t, server)
			j := openAt(t, url, opts)
			p.CutOff()
			server.Restart(t, postgrestest.Immediate)
			if goneBack {
				server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET system_identifier = '1'`)
			}
			tx, err := server.Conn(t).Begin(t.Context())
			require.NoError(t, err)
			p.Heal()
			result, err := j.EnqueueTx(t.Context(), postgres.Pgx(tx), enqueue("order"))
			if goneBack {
				require.ErrorIs(t, err, journal.ErrRestored)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, machine.Recorded, result.Decision)
		})
	}
}
