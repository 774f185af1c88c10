package rows_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func enqueue(id string) machine.Event {
	return machine.Event{
		Kind: machine.EventEnqueue, Ref: journal.Ref{ID: id}, At: time.Now(),
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id, Naming: journal.Named,
			Terms:   journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
		},
	}
}

// An application may enqueue in a transaction of any of its drivers, and find its own operation there again.
func TestEnqueueByTheApplicationsDrivers(t *testing.T) {
	server := postgrestest.Shared(t)
	j := open(t, server, server.Schema(t))
	db, err := sql.Open("pgx", server.URL())
	require.NoError(t, err)
	defer db.Close()
	ways := map[string]func() journal.Tx{
		"pgx": func() journal.Tx {
			tx, err := server.Conn(t).Begin(t.Context())
			require.NoError(t, err)
			return apptx.FromPgx(tx)
		},
		"simple protocol": func() journal.Tx {
			cfg, err := pgx.ParseConfig(server.URL())
			require.NoError(t, err)
			cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			c, err := pgx.ConnectConfig(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			tx, err := c.Begin(t.Context())
			require.NoError(t, err)
			return apptx.FromPgx(tx)
		},
		"database/sql": func() journal.Tx {
			tx, err := db.Begin()
			require.NoError(t, err)
			return apptx.FromSQL(tx)
		},
	}
	for way, begin := range ways {
		t.Run(way, func(t *testing.T) {
			tx := begin()
			for _, want := range []machine.Decision{machine.Recorded, machine.Ignored} {
				result, err := j.EnqueueTx(t.Context(), tx, enqueue(way))
				require.NoError(t, err)
				require.Equal(t, want, result.Decision)
			}
			require.NoError(t, tx.Commit(t.Context()))
			got, err := j.Get(t.Context(), journal.Ref{ID: way})
			require.NoError(t, err)
			assert.Equal(t, []byte(way), got.Request.Body)
		})
	}
}

// The server refuses a transaction of repeatable reads whose name another one has taken since. Nothing is recorded twice.
func TestEnqueueInARepeatableRead(t *testing.T) {
	server := postgrestest.Shared(t)
	j := open(t, server, server.Schema(t))
	for _, id := range []string{"new", "there before"} {
		first, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		if id == "there before" {
			_, err = j.EnqueueTx(t.Context(), first, enqueue(id))
			require.NoError(t, err)
			require.NoError(t, first.Commit(t.Context()))
			first, err = j.BeginTx(t.Context())
			require.NoError(t, err)
		}
		theirs, err := server.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		require.NoError(t, err)
		_, err = theirs.Exec(t.Context(), "SELECT 1 FROM pg_class LIMIT 1") // it has its snapshot now
		require.NoError(t, err)
		changed := enqueue(id)
		if id == "there before" {
			require.NoError(t, first.Rollback(t.Context()))
			op, err := j.Get(t.Context(), journal.Ref{ID: id})
			require.NoError(t, err)
			_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventResolve, At: time.Now(), Ref: op.Ref, Handle: op.Handle, Resolution: journal.NotExecuted, Cause: "a test"})
			require.NoError(t, err)
		} else {
			_, err = j.EnqueueTx(t.Context(), first, changed)
			require.NoError(t, err)
			require.NoError(t, first.Commit(t.Context()))
		}
		_, err = j.EnqueueTx(t.Context(), apptx.FromPgx(theirs), changed)
		require.Equal(t, pgerr.SerializationFailure, pgerr.Code(err), "%v", err)
		require.NoError(t, theirs.Rollback(t.Context()))
	}
}

func TestTransactionsOfOtherDatabasesAreRefused(t *testing.T) {
	server, other := postgrestest.Shared(t), postgrestest.Start(t, postgrestest.Setting("fsync", "off"))
	schema := server.Schema(t)
	j := open(t, server, schema)
	_ = open(t, other, schema)
	tx, err := other.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), apptx.FromPgx(tx), enqueue("a"))
	require.ErrorContains(t, err, "not one of the journal's database")
	require.NoError(t, tx.Rollback(t.Context()))
}

// A transaction with a snapshot from before a key was settled asks again later.
func TestReceiptInARepeatableRead(t *testing.T) {
	server := postgrestest.Shared(t)
	j := open(t, server, server.Schema(t))
	ev := machine.ReceiptEvent{
		Kind: machine.ReceiptRecord, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: "a"}, At: time.Now(), Place: "payments.create", Fingerprint: "a",
		Same: func(*journal.Receipt) (bool, error) { return true, nil }, Keep: time.Hour, Answer: &journal.Answer{Status: 201},
	}
	theirs, err := server.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = theirs.Exec(t.Context(), "SELECT 1 FROM pg_class LIMIT 1") // it has its snapshot now
	require.NoError(t, err)
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	result, err := j.ReceiveTx(t.Context(), tx, ev)
	require.NoError(t, err)
	require.Equal(t, machine.Recorded, result.Decision)
	require.NoError(t, tx.Commit(t.Context()))
	result, err = j.ReceiveTx(t.Context(), apptx.FromPgx(theirs), ev)
	require.NoError(t, err)
	assert.Equal(t, machine.Wait, result.Decision)
	require.NoError(t, theirs.Rollback(t.Context()))
}

// Two local steps of one flow run at once, and neither waits for the other's transaction.
func TestLocalStepsDoNotWaitForEachOther(t *testing.T) {
	server := postgrestest.Shared(t)
	j := open(t, server, server.Schema(t))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "ride"}, Function: journal.FlowFunction{Name: "ride", Version: 1}, At: time.Now(), Session: s.ID(), InputDigest: "none"})
	require.NoError(t, err)
	record := func(seq int) journal.Tx {
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		result, err := j.ApplyFlowTx(t.Context(), tx, machine.FlowEvent{Kind: machine.FlowEventRecord, Handle: begun.Flow.Handle, Claim: begun.Flow.Claim, At: time.Now(),
			Steps: []journal.StepRecord{{Seq: seq, Kind: journal.StepLocal, Name: "local", Position: seq, At: time.Now()}}})
		require.NoError(t, err)
		require.Equal(t, machine.Recorded, result.Decision)
		return tx
	}
	first, second := record(1), record(2)
	require.NoError(t, second.Commit(t.Context()))
	require.NoError(t, first.Commit(t.Context()))
	f, err := j.GetFlow(t.Context(), journal.Ref{ID: "ride"})
	require.NoError(t, err)
	assert.Len(t, f.Steps, 2)
}

// BEGIN goes with the reservation of a key, and COMMIT with its answer. Another transaction has to wait, and then reads the
// answer.
func TestReceiptOfADeferredTransaction(t *testing.T) {
	server := postgrestest.Shared(t)
	j := open(t, server, server.Schema(t))
	pool, err := pgxpool.New(t.Context(), server.URL())
	require.NoError(t, err)
	defer pool.Close()
	begin := func() *apptx.Pooled {
		c, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		return apptx.NewPooled(t.Context(), c)
	}
	reserve := machine.ReceiptEvent{
		Kind: machine.ReceiptReserve, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: "a"}, At: time.Now(), Place: "payments.create", Fingerprint: "a",
		Same: func(*journal.Receipt) (bool, error) { return true, nil }, Keep: time.Hour,
	}
	receive := func(tx *apptx.Pooled, ev machine.ReceiptEvent, want machine.Decision) journal.Receipt {
		result, err := j.ReceiveTx(t.Context(), tx, ev)
		require.NoError(t, err)
		require.Equal(t, want.String(), result.Decision.String())
		return result.Receipt
	}
	first, second, third := begin(), begin(), begin()
	reserved := receive(first, reserve, machine.Execute)
	receive(second, reserve, machine.Wait)
	require.NoError(t, second.Rollback(t.Context()))

	complete := reserve
	complete.Kind, complete.Claim, complete.Answer, complete.Reserved = machine.ReceiptComplete, reserved.Claim, &journal.Answer{Status: 201}, &reserved
	receive(first, complete, machine.Recorded)
	require.NoError(t, first.Commit(t.Context()))
	receive(third, reserve, machine.Replay)
	require.NoError(t, third.Rollback(t.Context()))
	kept, err := j.GetReceipt(t.Context(), reserve.ReceiptKey)
	require.NoError(t, err)
	assert.Equal(t, reserved.Handle, kept.Handle)
	assert.Equal(t, 201, kept.Answer.Status)
}

// Transactions of the application's and deliveries have four connections each, so that those of one kind do not delay the
// other kind.
func TestDeliveriesAndOtherTransactionsDelayOnlyTheirOwn(t *testing.T) {
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	d := driver(t, server, schema)
	defer d.Close()
	for _, delivery := range []bool{true, false} {
		var open []journal.Tx
		for range 4 {
			tx, err := d.BeginTx(t.Context(), delivery)
			require.NoError(t, err)
			open = append(open, tx)
		}
		one, err := d.BeginTx(t.Context(), !delivery)
		require.NoError(t, err)
		require.NoError(t, one.Rollback(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err = d.BeginTx(ctx, delivery)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, "a fifth waits")
		for _, tx := range open {
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}
