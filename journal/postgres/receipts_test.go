package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// reserve is a request under a key.
func reserve(key string) machine.ReceiptEvent {
	return machine.ReceiptEvent{
		Kind: machine.ReceiptReserve, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: key}, At: time.Now(), Place: "payments.create", Fingerprint: "f",
		Same: func(r *journal.Receipt) (bool, error) { return r.Fingerprint == "f", nil }, Keep: 24 * time.Hour, Refuse: 48 * time.Hour,
	}
}

func answeredBy(reserved journal.Receipt) machine.ReceiptEvent {
	ev := reserve(reserved.Key)
	ev.Kind, ev.Claim, ev.Reserved, ev.Answer = machine.ReceiptComplete, reserved.Claim, &reserved, &journal.Answer{Status: http.StatusCreated, Body: []byte("paid")}
	return ev
}

// receiving is a journal with receipts, on a schema of its own.
func receiving(t *testing.T) (*postgres.Journal, *postgrestest.Cluster, string) {
	t.Helper()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
	return j, server, `"` + opts.Schema + `"`
}

// withLines is receiving with a table of the application's, of lines.
func withLines(t *testing.T) (j *postgres.Journal, server *postgrestest.Cluster, table string) {
	t.Helper()
	j, server, schema := receiving(t)
	table = schema + ".lines"
	server.Exec(t, "CREATE TABLE "+table+" (line text)")
	return j, server, table
}

func receive(t *testing.T, j *postgres.Journal, tx journal.Tx, ev machine.ReceiptEvent) machine.ReceiptResult {
	t.Helper()
	result, err := j.ReceiveTx(t.Context(), tx, ev)
	require.NoError(t, err)
	return result
}

func decides(t *testing.T, j *postgres.Journal, tx journal.Tx, ev machine.ReceiptEvent, want machine.Decision) {
	t.Helper()
	assert.Equal(t, want.String(), receive(t, j, tx, ev).Decision.String())
}

func stands(t *testing.T, j *postgres.Journal, key string, want machine.Decision) {
	t.Helper()
	looked, err := j.LookReceipt(t.Context(), reserve(key))
	require.NoError(t, err)
	assert.Equal(t, want.String(), looked.Decision.String())
}

// The database itself refuses a second receipt with a tenant's key, by the index that look-ups use. Another tenant may use the
// same key.
func TestUniqueKeyOfATenantByAnIndex(t *testing.T) {
	t.Parallel()
	j, server, schema := receiving(t)
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	for _, tenant := range []string{"t acme", "t globex"} {
		ev := reserve("key-1")
		ev.Scope = tenant
		decides(t, j, tx, ev, machine.Execute)
	}
	require.NoError(t, tx.Commit(t.Context()))
	_, err = server.Conn(t).Exec(t.Context(), "INSERT INTO "+schema+".receipts (handle, identity, scope, key, place, state, ends_at, written_in, facts)"+
		" SELECT handle + 1000, identity, scope, key, place, state, ends_at, written_in, facts FROM "+schema+".receipts WHERE scope = 't acme'")
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "receipts_identity", refused.ConstraintName)
}

// If two transactions reserve a key at once, the second decides Wait, whatever their driver and isolation level are.
// Once the first is committed, a transaction with an older snapshot does not execute either.
func TestReservedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	j, server, _ := receiving(t)
	db, err := sql.Open("pgx", server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	pools := poolAt(t, server.URL(), 1)
	levels := map[string]struct {
		pgx      pgx.TxIsoLevel
		sql      sql.IsolationLevel
		snapshot bool
	}{
		"read committed":  {pgx.ReadCommitted, sql.LevelReadCommitted, false},
		"repeatable read": {pgx.RepeatableRead, sql.LevelRepeatableRead, true},
		"serializable":    {pgx.Serializable, sql.LevelSerializable, true},
	}
	for level, is := range levels {
		drivers := map[string]func(t *testing.T) journal.Tx{
			"pgx": func(t *testing.T) journal.Tx {
				tx, err := server.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: is.pgx})
				require.NoError(t, err)
				_, err = tx.Exec(t.Context(), "SELECT 1 FROM pg_catalog.pg_class LIMIT 1") // this takes its snapshot
				require.NoError(t, err)
				return postgres.Pgx(tx)
			},
			"a pool": func(t *testing.T) journal.Tx {
				cfg := pools.Config()
				cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
				pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
				require.NoError(t, err)
				closes(t, pool)
				tx, err := postgres.Begin(pool)(t.Context())
				require.NoError(t, err)
				_, err = tx.Driver().(pgx.Tx).Exec(t.Context(), "SELECT 1 FROM pg_catalog.pg_class LIMIT 1")
				require.NoError(t, err)
				return tx
			},
			"database/sql": func(t *testing.T) journal.Tx {
				tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: is.sql})
				require.NoError(t, err)
				_, err = tx.ExecContext(t.Context(), "SELECT 1 FROM pg_catalog.pg_class LIMIT 1")
				require.NoError(t, err)
				return postgres.SQL(tx)
			},
		}
		for driver, begin := range drivers {
			t.Run(level+" by "+driver, func(t *testing.T) {
				key := level + driver
				left := begin(t)
				decides(t, j, left, reserve(key), machine.Execute)
				require.NoError(t, left.Rollback(t.Context()))

				first, second, early := begin(t), begin(t), begin(t)
				begun := receive(t, j, first, reserve(key))
				require.Equal(t, machine.Execute, begun.Decision, "what was rolled back has left the key free")
				decides(t, j, second, reserve(key), machine.Wait)
				require.NoError(t, second.Rollback(t.Context()))
				stands(t, j, key, machine.Execute)
				decides(t, j, first, answeredBy(begun.Receipt), machine.Recorded)
				require.NoError(t, first.Commit(t.Context()))
				if is.snapshot {
					decides(t, j, early, reserve(key), machine.Wait)
				} else {
					decides(t, j, early, reserve(key), machine.Replay)
				}
				require.NoError(t, early.Rollback(t.Context()))
				late := begin(t)
				decides(t, j, late, reserve(key), machine.Replay)
				require.NoError(t, late.Rollback(t.Context()))
			})
		}
	}
}

// A handler may end the transaction by a statement of its own. Its answer is not recorded then, and a key whose reservation it has
// committed is not served again.
func TestTransactionThatWasEndedBehindItsBack(t *testing.T) {
	t.Parallel()
	j, server, _ := receiving(t)
	for statement, then := range map[string]machine.Decision{"COMMIT": machine.Stop, "COMMIT; BEGIN": machine.Stop, "ROLLBACK": machine.Execute, "ROLLBACK; BEGIN": machine.Execute} {
		for _, remembers := range []bool{true, false} {
			t.Run(fmt.Sprint(statement, "/remembers=", remembers), func(t *testing.T) {
				conn := server.Conn(t)
				tx, err := conn.Begin(t.Context())
				require.NoError(t, err)
				key := fmt.Sprint(statement, remembers)
				begun := receive(t, j, postgres.Pgx(tx), reserve(key))
				_, err = conn.PgConn().Exec(t.Context(), statement).ReadAll()
				require.NoError(t, err)
				ev := answeredBy(begun.Receipt)
				if !remembers {
					ev.Reserved = nil
				}
				result, err := j.ReceiveTx(t.Context(), postgres.Pgx(tx), ev)
				if then == machine.Stop {
					require.ErrorContains(t, err, "the handler committed the transaction that reserved the key")
				} else {
					require.NoError(t, err)
					assert.Equal(t, machine.Stale, result.Decision)
				}
				_ = tx.Rollback(t.Context())
				stands(t, j, key, then)
			})
		}
	}
}

// A savepoint of the handler's changes nothing. A reservation within a savepoint goes with it.
func TestReceiptsAndSavepoints(t *testing.T) {
	t.Parallel()
	j, server, _ := receiving(t)
	begin := func() (pgx.Tx, pgx.Tx) {
		tx, err := server.Conn(t).Begin(t.Context())
		require.NoError(t, err)
		inner, err := tx.Begin(t.Context())
		require.NoError(t, err)
		return tx, inner
	}
	tx, inner := begin()
	begun := receive(t, j, postgres.Pgx(inner), reserve("kept"))
	require.NoError(t, inner.Commit(t.Context()))
	decides(t, j, postgres.Pgx(tx), answeredBy(begun.Receipt), machine.Recorded)
	require.NoError(t, tx.Commit(t.Context()))
	stands(t, j, "kept", machine.Replay)

	tx, inner = begin()
	begun = receive(t, j, postgres.Pgx(inner), reserve("left"))
	require.NoError(t, inner.Rollback(t.Context()))
	decides(t, j, postgres.Pgx(tx), answeredBy(begun.Receipt), machine.Stale)
	require.NoError(t, tx.Commit(t.Context()))
	stands(t, j, "left", machine.Execute)
}

// A handler may overlook a failed statement, or tell its commit not to wait for the disk.
func TestHandlersThatHarmTheirTransaction(t *testing.T) {
	t.Parallel()
	j, server, _ := receiving(t)
	tx, err := server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	begun := receive(t, j, postgres.Pgx(tx), reserve("failed"))
	_, err = tx.Exec(t.Context(), "SELECT 1 / 0")
	require.Error(t, err)
	_, err = j.ReceiveTx(t.Context(), postgres.Pgx(tx), answeredBy(begun.Receipt))
	require.ErrorContains(t, err, "a statement of the transaction has failed before")
	require.ErrorIs(t, tx.Commit(t.Context()), pgx.ErrTxCommitRollback)
	stands(t, j, "failed", machine.Execute)

	later, err := postgres.Begin(poolAt(t, server.URL(), 1))(t.Context())
	require.NoError(t, err)
	begun = receive(t, j, later, reserve("first"))
	_, err = later.Driver().(pgx.Tx).Exec(t.Context(), "INSERT INTO missing VALUES ($1)", 1)
	require.Error(t, err)
	_, err = j.ReceiveTx(t.Context(), later, answeredBy(begun.Receipt))
	require.ErrorContains(t, err, "a statement of the transaction has failed before")
	require.ErrorIs(t, later.Commit(t.Context()), journal.ErrTxAborted)
	stands(t, j, "first", machine.Execute)

	tx, err = server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	begun = receive(t, j, postgres.Pgx(tx), reserve("hasty"))
	_, err = tx.Exec(t.Context(), "SET LOCAL synchronous_commit = off")
	require.NoError(t, err)
	decides(t, j, postgres.Pgx(tx), answeredBy(begun.Receipt), machine.Recorded)
	var waits string
	require.NoError(t, tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&waits))
	assert.Equal(t, "on", waits)
	require.NoError(t, tx.Commit(t.Context()))
}

// The journal believes nothing of a damaged receipt. It neither executes nor answers the request.
func TestDamagedReceipt(t *testing.T) {
	t.Parallel()
	j, server, schema := receiving(t)
	for _, key := range []string{"sound", "damaged"} {
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		begun := receive(t, j, tx, reserve(key))
		decides(t, j, tx, answeredBy(begun.Receipt), machine.Recorded)
		require.NoError(t, tx.Commit(t.Context()))
	}
	server.Exec(t, "UPDATE "+schema+".receipts SET body = 'not paid' WHERE key = 'damaged'")
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	_, err = j.ReceiveTx(t.Context(), tx, reserve("damaged"))
	require.ErrorContains(t, err, "receipt")
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = j.LookReceipt(t.Context(), reserve("damaged"))
	require.Error(t, err)
	stands(t, j, "sound", machine.Replay)
	violations, err := j.Verify(t.Context())
	require.NoError(t, err)
	require.Len(t, violations, 1)
	assert.True(t, violations[0].Receipt)
	assert.Contains(t, violations[0].String(), "receipt")

	server.Exec(t, "UPDATE "+schema+".receipts SET place = 'elsewhere', ends_at = 0 WHERE key = 'damaged'")
	reap := machine.ReceiptEvent{Kind: machine.ReceiptReap, At: time.Now()}
	_, err = j.ReapReceipts(t.Context(), reap, 10)
	require.ErrorContains(t, err, "receipt")
}

// Damaged receipts that ended first keep no other from being reaped, however many they are.
func TestDamagedReceiptsArePassedOver(t *testing.T) {
	t.Parallel()
	const damaged, sound, limit = 7, 5, 3
	j, server, schema := receiving(t)
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	var last time.Time
	for i := range damaged + sound {
		name := "sound"
		if i < damaged {
			name = "damaged"
		}
		ev := answeredBy(journal.Receipt{ReceiptKey: reserve(fmt.Sprint(name, "-", i)).ReceiptKey})
		ev.Kind, ev.At, ev.Keep, ev.Refuse = machine.ReceiptRecord, j.Now(), time.Millisecond, 0
		last = ev.At
		decides(t, j, tx, ev, machine.Recorded)
	}
	require.NoError(t, tx.Commit(t.Context()))
	server.Exec(t, "UPDATE "+schema+".receipts SET ends_at = 0 WHERE key LIKE 'damaged-%'")
	reap := machine.ReceiptEvent{Kind: machine.ReceiptReap, At: last.Add(time.Second)}
	for _, want := range []int{limit, sound - limit, 0} {
		n, err := j.ReapReceipts(t.Context(), reap, limit)
		assert.Equal(t, want, n)
		if n == limit { // there may be more, and an error would end the pass
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "it is passed over")
	}
	wrong, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Len(t, wrong, damaged, "each is listed")
}

// Another transaction may hold a receipt that is due to be reaped, or raise the number of an entity.
func TestReceiptsBesideOthers(t *testing.T) {
	t.Parallel()
	j, server, schema := receiving(t)
	record := reserve("key")
	record.Kind, record.Answer = machine.ReceiptRecord, &journal.Answer{Status: 200}
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	decides(t, j, tx, record, machine.Recorded)
	require.NoError(t, tx.Commit(t.Context()))
	reap := machine.ReceiptEvent{Kind: machine.ReceiptReap, At: time.Now().Add(23 * time.Hour)}
	n, err := j.ReapReceipts(t.Context(), reap, 10)
	require.NoError(t, err)
	assert.Zero(t, n, "it is not due yet")
	reap.At = reap.At.Add(10 * time.Hour)

	theirs, err := server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = theirs.Exec(t.Context(), "SELECT 1 FROM "+schema+".receipts FOR UPDATE")
	require.NoError(t, err)
	n, err = j.ReapReceipts(t.Context(), reap, 10)
	require.NoError(t, err)
	assert.Zero(t, n, "another transaction holds it")
	require.NoError(t, theirs.Rollback(t.Context()))
	n, err = j.ReapReceipts(t.Context(), reap, 10)
	require.NoError(t, err)
	assert.Equal(t, 1, n)

	first, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	later, err := j.AdvanceTx(t.Context(), first, "queue", "order", 7)
	require.NoError(t, err)
	assert.True(t, later)
	ended := make(chan error, 1)
	go func() {
		second, err := j.BeginTx(context.WithoutCancel(t.Context()))
		if err == nil {
			if later, err = j.AdvanceTx(context.WithoutCancel(t.Context()), second, "queue", "order", 6); later {
				err = errors.New("6 is later than 7")
			}
			_ = second.Rollback(context.WithoutCancel(t.Context()))
		}
		ended <- err
	}()
	require.NoError(t, first.Commit(t.Context()))
	require.NoError(t, <-ended)
}

// Verify names a receipt that the state machine can't have made.
func TestReceiptsAreVerified(t *testing.T) {
	t.Parallel()
	j, server, schema := receiving(t)
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	begun := receive(t, j, tx, reserve("key-1"))
	require.NoError(t, tx.Commit(t.Context()))
	r := begun.Receipt
	r.SettledAt = r.CreatedAt
	facts, _, _ := format.Codec{}.EncodeReceipt(&r, math.MaxInt64, nil)
	server.Exec(t, fmt.Sprintf("UPDATE %s.receipts SET facts = '\\x%x'", schema, facts))
	violations, err := j.Verify(t.Context())
	require.NoError(t, err)
	require.Len(t, violations, 1)
	assert.Equal(t, "it says when its answer was recorded if and only if it is completed", violations[0].Invariant)
}

// A request is reserved in one round trip, and its answer is recorded in one. The row counts, and not the receipt that
// a caller remembers from the reservation.
func TestRoundTripsOfAReceipt(t *testing.T) {
	t.Parallel()
	j, server, _ := receiving(t)
	proxy, url := proxied(t, server)
	pool := poolAt(t, url, 1)
	var trips atomic.Int64
	proxy.Arm(pgproxy.Fault{Match: func(pgproxy.Exchange) bool {
		trips.Add(1)
		return false
	}})
	serve := func(begin func(context.Context) (journal.Tx, error), key string, altered bool) (all int64) {
		t.Helper()
		trips.Store(0)
		tx, err := begin(t.Context())
		require.NoError(t, err)
		all = trips.Swap(0)
		begun := receive(t, j, tx, reserve(key))
		require.Equal(t, machine.Execute, begun.Decision)
		reserved := trips.Swap(0)
		all += reserved
		completes := answeredBy(begun.Receipt)
		if altered {
			completes.Reserved.Fingerprint, completes.Reserved.ExpiresAt = "another", time.Now().Add(time.Hour)
		}
		done := receive(t, j, tx, completes)
		require.Equal(t, machine.Recorded, done.Decision)
		all += trips.Load()
		if altered {
			assert.Equal(t, begun.Receipt.CreatedAt.Add(24*time.Hour), done.Receipt.ExpiresAt)
		} else if key == "second" {
			assert.EqualValues(t, 1, reserved, "round trips of a reservation")
			assert.EqualValues(t, 1, trips.Load(), "round trips of an answer")
		}
		trips.Store(0)
		require.NoError(t, tx.Commit(t.Context()))
		stands(t, j, key, machine.Replay)
		return all + trips.Load()
	}
	serve(begins(pool), "first", false) // its statements are prepared
	assert.EqualValues(t, 4, serve(begins(pool), "second", false))
	serve(begins(pool), "altered", true)
	serve(postgres.Begin(pool), "third", false)
	assert.EqualValues(t, 2, serve(postgres.Begin(pool), "fourth", false), "BEGIN goes with the reservation, and the answer with COMMIT")
	verified(t, j)
}

// waysToWrite are ways to send a statement with one argument as a transaction's first.
func waysToWrite(ctx context.Context, statement, arg string) map[string]func(tx pgx.Tx) error {
	return map[string]func(tx pgx.Tx) error{
		"Exec": func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, statement, arg)
			return err
		},
		"Exec without arguments": func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, strings.ReplaceAll(statement, "$1", "'"+arg+"'"))
			return err
		},
		"Exec in a mode of its own": func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, statement, pgx.QueryExecModeExec, arg)
			return err
		},
		"Query": func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, statement, arg)
			if err == nil {
				rows.Close()
				err = rows.Err()
			}
			return err
		},
		"Query without an end": func(tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, statement, arg)
			for rows.Next() {
				values, err := rows.Values()
				if err != nil || len(values) != len(rows.FieldDescriptions()) || len(values) != len(rows.RawValues()) {
					return fmt.Errorf("%v: %w", values, err)
				}
			}
			if rows.CommandTag().RowsAffected() != 1 && rows.Err() == nil {
				return fmt.Errorf("the tag is %s", rows.CommandTag())
			}
			return rows.Err()
		},
		"collected rows": func(tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, statement, arg)
			_, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOf[string])
			return err
		},
		"a row that is not scanned": func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, statement, arg)
			if err != nil {
				return err
			}
			if rows.Next() && rows.Scan(new(time.Time)) == nil {
				return errors.New("a text was read as a time")
			}
			_, err = tx.Exec(ctx, "SELECT 1") // the driver has closed the rows, so that the connection is free
			return err
		},
		"QueryRow": func(tx pgx.Tx) error {
			var line string
			return tx.QueryRow(ctx, statement, arg).Scan(&line)
		},
		"QueryRow with a result's format": func(tx pgx.Tx) error {
			var line string
			return tx.QueryRow(ctx, statement, pgx.QueryResultFormats{pgx.TextFormatCode}, arg).Scan(&line)
		},
		"SendBatch": func(tx pgx.Tx) error {
			b := new(pgx.Batch)
			b.Queue(statement, arg)
			return tx.SendBatch(ctx, b).Close()
		},
		"Prepare": func(tx pgx.Tx) error {
			_, err := tx.Prepare(ctx, "line", statement)
			if err == nil {
				_, err = tx.Exec(ctx, "line", arg)
			}
			return err
		},
		"Begin": func(tx pgx.Tx) error {
			inner, err := tx.Begin(ctx)
			if err == nil {
				if _, err = inner.Exec(ctx, statement, arg); err == nil {
					err = inner.Commit(ctx)
				}
			}
			return err
		},
		"Conn": func(tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, statement, arg)
			return err
		},
	}
}

// A journal that was restored starts, and gives the answers that it has. It executes nothing before it is adopted, also for a
// transaction of a process that has not noticed yet.
func TestReceiptsOfARestoredJournal(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	unaware := openAt(t, server.URL(), opts)
	require.NoError(t, unaware.MakeReceipts(t.Context(), "keys"))
	at := func(j *postgres.Journal, ev machine.ReceiptEvent) machine.ReceiptEvent {
		ev.At = j.Now()
		return ev
	}
	tx, err := unaware.BeginTx(t.Context())
	require.NoError(t, err)
	begun := receive(t, unaware, tx, at(unaware, reserve("answered")))
	decides(t, unaware, tx, at(unaware, answeredBy(begun.Receipt)), machine.Recorded)
	require.NoError(t, tx.Commit(t.Context()))
	server.Exec(t, `UPDATE "`+opts.Schema+`".journal SET restored = 'a test says so'`)

	refuses := func(j *postgres.Journal) {
		t.Helper()
		tx, err := server.Conn(t).Begin(t.Context())
		require.NoError(t, err)
		_, err = j.ReceiveTx(t.Context(), postgres.Pgx(tx), at(j, reserve("new")))
		require.ErrorIs(t, err, journal.ErrRestored)
		require.NoError(t, tx.Commit(t.Context()), "even if its caller commits")
		_, err = j.GetReceipt(t.Context(), reserve("new").ReceiptKey)
		require.ErrorIs(t, err, journal.ErrNotFound)
	}
	refuses(unaware)
	j := openAt(t, server.URL(), opts)
	require.NoError(t, j.MakeReceipts(t.Context(), "keys"), "a service starts, and answers what it can")
	refuses(j)
	looked, err := j.LookReceipt(t.Context(), at(j, reserve("answered")))
	require.NoError(t, err)
	assert.Equal(t, machine.Replay, looked.Decision)
	other := at(j, reserve("answered"))
	other.Same = func(*journal.Receipt) (bool, error) { return false, nil }
	looked, err = j.LookReceipt(t.Context(), other)
	require.NoError(t, err)
	assert.Equal(t, machine.Misuse, looked.Decision)
	_, err = j.LookReceipt(t.Context(), at(j, reserve("new")))
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	looked, err = j.LookReceipt(t.Context(), at(j, reserve("new")))
	require.NoError(t, err)
	assert.Equal(t, machine.Execute, looked.Decision)
	// A person may have seen receipts that were lost. None has one of their handles.
	tx, err = j.BeginTx(t.Context())
	require.NoError(t, err)
	assert.Greater(t, receive(t, j, tx, at(j, reserve("new"))).Receipt.Handle, int64(1)<<40)
	require.NoError(t, tx.Rollback(t.Context()))
}

// An asker's clock that has leapt ends no key, and moves nothing, until the time has passed for sure.
func TestReceiptsAndAClockThatLeaps(t *testing.T) {
	t.Parallel()
	j, server, _ := receiving(t)
	began := time.Now()
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	begun := receive(t, j, tx, reserve("key"))
	decides(t, j, tx, answeredBy(begun.Receipt), machine.Recorded)
	require.NoError(t, tx.Commit(t.Context()))
	asks := func(at time.Time, want machine.Decision) {
		t.Helper()
		ev := reserve("key")
		ev.At = at
		looked, err := j.LookReceipt(t.Context(), ev)
		require.NoError(t, err)
		assert.Equal(t, want.String(), looked.Decision.String())
		tx, err := server.Conn(t).Begin(t.Context())
		require.NoError(t, err)
		decides(t, j, postgres.Pgx(tx), ev, want)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	leapt := began.Add(31 * 24 * time.Hour)
	asks(began, machine.Replay)
	asks(leapt, machine.Replay)
	asks(leapt.Add(2*time.Minute), machine.Replay)
	n, err := j.ReapReceipts(t.Context(), machine.ReceiptEvent{Kind: machine.ReceiptReap, At: leapt}, 10)
	require.NoError(t, err)
	assert.Zero(t, n)
	asks(began, machine.Replay)
	require.NoError(t, j.ResetClock(t.Context(), leapt), "an operator says that it is so late")
	asks(leapt, machine.Execute)
}

// closes closes a pool at the test's end. Close waits for the transactions that a failed test has left open, so that
// test's pool stays.
func closes(t *testing.T, pool *pgxpool.Pool) {
	t.Cleanup(func() {
		if !t.Failed() {
			pool.Close()
		}
	})
}

// poolAt is a pool with that many connections.
func poolAt(t *testing.T, url string, connections int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.MaxConns = connections
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // by default, one after a second of idleness
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	closes(t, pool)
	return pool
}

// A transaction of Begin is a pgx.Tx like any other, whichever statement comes first.
func TestTransactionOfBegin(t *testing.T) {
	t.Parallel()
	j, server, schema := receiving(t)
	pool := poolAt(t, server.URL(), 1)
	table := schema + ".lines"
	server.Exec(t, "CREATE TABLE "+table+" (line text)")
	ctx := t.Context()
	ways := waysToWrite(ctx, "INSERT INTO "+table+" VALUES ($1) RETURNING line", "a")
	maps.Copy(ways, map[string]func(tx pgx.Tx) error{
		"CopyFrom": func(tx pgx.Tx) error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{strings.Trim(schema, `"`), "lines"}, []string{"line"}, pgx.CopyFromRows([][]any{{"a"}}))
			return err
		},
		"savepoints": func(tx pgx.Tx) error {
			for _, commits := range []bool{true, false} {
				inner, err := tx.Begin(ctx)
				if err != nil {
					return err
				}
				if _, err := inner.Exec(ctx, "INSERT INTO "+table+" VALUES ('a')"); err != nil {
					return err
				}
				if err = inner.Rollback(ctx); commits {
					err = inner.Commit(ctx)
				}
				if commits && !errors.Is(err, pgx.ErrTxClosed) {
					return fmt.Errorf("a savepoint was rolled back, and then committed: %w", err)
				}
			}
			_, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ('a')")
			return err
		},
		"LargeObjects": func(tx pgx.Tx) error {
			objects := tx.LargeObjects()
			id, err := objects.Create(ctx, 0)
			if err == nil {
				err = objects.Unlink(ctx, id)
			}
			if err == nil {
				_, err = tx.Exec(ctx, "INSERT INTO "+table+" VALUES ('a')")
			}
			return err
		},
	})
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for _, commits := range []bool{false, true} {
				server.Exec(t, "DELETE FROM "+table)
				tx, err := postgres.Begin(pool)(ctx)
				require.NoError(t, err)
				own := tx.Driver().(pgx.Tx)
				require.NoError(t, way(own))
				if commits {
					require.NoError(t, tx.Commit(ctx))
				} else {
					require.NoError(t, tx.Rollback(ctx))
				}
				require.NoError(t, tx.Rollback(ctx), "of what is over")
				require.ErrorIs(t, own.Commit(ctx), pgx.ErrTxClosed)
				if name != "Conn" && name != "LargeObjects" {
					require.ErrorIs(t, way(own), pgx.ErrTxClosed, "the connection may be another one's")
				}
				var n int
				require.NoError(t, pool.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n))
				assert.Equal(t, commits, n == 1)
			}
		})
	}

	tx, err := postgres.Begin(pool)(ctx)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx), "nothing was sent")
	tx, err = postgres.Begin(pool)(ctx)
	require.NoError(t, err)
	_, err = j.EnqueueTx(ctx, tx, now(j, enqueue("order")))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	_, err = j.Get(ctx, journal.Ref{ID: "order"})
	require.NoError(t, err)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = postgres.Begin(pool)(ended)
	require.ErrorIs(t, err, context.Canceled)
}

// A handler may overlook that the connection is dead. Nothing of it is there, and the commit says so.
func TestTransactionOfBeginOnADeadConnection(t *testing.T) {
	t.Parallel()
	_, server, table := withLines(t)
	cfg, err := pgxpool.ParseConfig(server.URL())
	require.NoError(t, err)
	cfg.MaxConns, cfg.ShouldPing = 1, func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	closes(t, pool)
	for _, overlooks := range []string{"BEGIN", "a statement"} {
		t.Run(overlooks, func(t *testing.T) {
			var pid int
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
			tx, err := postgres.Begin(pool)(t.Context())
			require.NoError(t, err)
			if overlooks == "a statement" {
				_, err = tx.Driver().(pgx.Tx).Exec(t.Context(), "SELECT 1")
				require.NoError(t, err)
			}
			server.Exec(t, fmt.Sprintf("SELECT pg_terminate_backend(%d, 60000)", pid))
			_, err = tx.Driver().(pgx.Tx).Exec(t.Context(), "INSERT INTO "+table+" VALUES ('a')")
			require.Error(t, err)
			require.Error(t, tx.Commit(t.Context()))
		})
	}
}

// A handler may end the transaction by a statement of its own. Then the answer is not recorded, and the handler's later
// writes are rolled back. If the handler has begun another transaction, COMMIT says so, which takes the answer along.
func TestTransactionOfBeginThatWasEnded(t *testing.T) {
	t.Parallel()
	j, server, table := withLines(t)
	pool := poolAt(t, server.URL(), 1)
	for statement, then := range map[string]machine.Decision{"COMMIT": machine.Stop, "COMMIT; BEGIN": machine.Stop, "ROLLBACK": machine.Execute, "ROLLBACK; BEGIN": machine.Execute} {
		key := statement
		tx, err := postgres.Begin(pool)(t.Context())
		require.NoError(t, err)
		begun := receive(t, j, tx, reserve(key))
		own := tx.Driver().(pgx.Tx)
		_, err = own.Conn().PgConn().Exec(t.Context(), statement).ReadAll()
		require.NoError(t, err)
		if strings.Contains(statement, "BEGIN") {
			_, err = own.Exec(t.Context(), "INSERT INTO "+table+" VALUES ('a')")
			require.NoError(t, err)
		}
		if strings.Contains(statement, "BEGIN") {
			decides(t, j, tx, answeredBy(begun.Receipt), machine.Recorded)
			require.ErrorContains(t, tx.Commit(t.Context()), "was ended before its answer was recorded")
		} else {
			_, err = j.ReceiveTx(t.Context(), tx, answeredBy(begun.Receipt))
			require.ErrorContains(t, err, "a statement has ended the transaction")
			require.NoError(t, tx.Rollback(t.Context()))
		}
		stands(t, j, key, then)
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
		assert.Zero(t, n, key)
	}
}
