package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// undelivered is a completed operation whose outcome is still to be delivered, and the event of its delivery.
func undelivered(t *testing.T, j *mysql.Journal, id string) machine.Event {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(), Intent: intent(id)})
	require.NoError(t, err)
	op := begun.Operation
	completed, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: time.Now(), Session: s.ID(), Claim: op.Claim, Attempts: 1, Answer: &journal.Answer{Status: 201}})
	require.NoError(t, err)
	op = completed.Operation
	return machine.Event{Kind: machine.EventDeliver, Ref: op.Ref, Handle: op.Handle, Generation: op.Generation, Outcome: op.State, At: time.Now(), Session: s.ID()}
}

// execs returns a handler that runs statements one by one.
func execs(statements ...string) func(context.Context, journal.Tx) error {
	return func(ctx context.Context, tx journal.Tx) error {
		for _, statement := range statements {
			if _, err := tx.Driver().(*sql.Tx).ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
}

// mighty is open for an account that may do all, also change tables.
func mighty(t *testing.T, server *mysqltest.Server, opts mysql.Options) *mysql.Journal {
	t.Helper()
	j, err := mysql.Open(t.Context(), server.DSN(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// A handler's session goes with its transaction. The next handler may be another tenant's.
func TestHandlersLeaveNothingInTheirSession(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := mighty(t, server, opts)
	leaves := execs("USE "+opts.Schema, "SET @tenant = 42", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET SESSION sql_mode = '', time_zone = '+09:00', foreign_key_checks = 0",
		"CREATE TEMPORARY TABLE "+opts.Schema+".tenants (id INT)")
	finds := func(tx journal.Tx) {
		var found string
		require.NoError(t, tx.Driver().(*sql.Tx).QueryRow("SELECT CONCAT_WS(' ', COALESCE(DATABASE(), 'none'), COALESCE(@tenant, 'none'), @@session.time_zone, @@session.foreign_key_checks + 0)").Scan(&found))
		assert.Equal(t, "none none +00:00 1", found)
	}
	for n := range 5 { // one more than there are connections
		result, err := j.DeliverTx(t.Context(), undelivered(t, j, fmt.Sprint("order-", n)), func(ctx context.Context, tx journal.Tx) error {
			finds(tx)
			return leaves(ctx, tx)
		})
		require.NoError(t, err)
		require.Equal(t, machine.Recorded, result.Decision)
		for _, ends := range []func(journal.Tx) error{func(tx journal.Tx) error { return tx.Commit(t.Context()) }, func(tx journal.Tx) error { return tx.Rollback(t.Context()) }} {
			tx, err := j.BeginTx(t.Context())
			require.NoError(t, err)
			finds(tx)
			require.NoError(t, leaves(t.Context(), tx))
			require.NoError(t, ends(tx))
		}
	}
}

// A handler may change how its session reads texts, and then enqueue.
func TestHandlersThatEnqueue(t *testing.T) {
	server := mysqltest.Shared(t)
	j := open(t, server, options(t, server))
	for i, setting := range []string{"SET NAMES gbk", "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES,ANSI_QUOTES,ONLY_FULL_GROUP_BY'"} {
		t.Run(setting, func(t *testing.T) {
			ev := enqueue(fmt.Sprint("next ", i, "'\\"))
			ev.Intent.Request.Body = []byte("\xbf' \x81' \x81\\ ' \\")
			reserve := reservation(fmt.Sprint("\xbf' ", i, " \\"))
			_, err := j.DeliverTx(t.Context(), undelivered(t, j, fmt.Sprint(i)), func(ctx context.Context, tx journal.Tx) error {
				if err := execs(setting)(ctx, tx); err != nil {
					return err
				}
				if _, err := j.EnqueueTx(ctx, tx, ev); err != nil {
					return err
				}
				if _, err := j.AdvanceTx(ctx, tx, "source\xbf'", "entity", 7); err != nil {
					return err
				}
				reserved, err := j.ReceiveTx(ctx, tx, reserve)
				if err == nil {
					_, err = j.ReceiveTx(ctx, tx, completion(reserve, &reserved.Receipt))
				}
				return err
			})
			require.NoError(t, err)
			got, err := j.Get(t.Context(), ev.Ref)
			require.NoError(t, err)
			assert.Equal(t, ev.Intent.Request.Body, got.Request.Body)
			_, err = j.GetReceipt(t.Context(), reserve.ReceiptKey)
			require.NoError(t, err)
		})
	}
}

// A handler that ends its transaction by a statement gets an error. The outcome does not count as delivered, even if the handler
// begins another transaction and writes there.
func TestHandlersThatEndTheirTransaction(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := mighty(t, server, opts)
	booked := opts.Schema + ".booked"
	server.Exec(t, "CREATE TABLE "+booked+" (id INT) ENGINE=InnoDB")
	book := "INSERT INTO " + booked + " VALUES (1)"
	for name, row := range map[string]struct {
		handler   func(context.Context, journal.Tx) error
		delivered bool
		booked    int
	}{
		"rolls back":                {execs(book, "ROLLBACK"), false, 0},
		"rolls back by the driver":  {func(_ context.Context, tx journal.Tx) error { return tx.Driver().(*sql.Tx).Rollback() }, false, 0},
		"rolls back, begins, books": {execs("ROLLBACK", "START TRANSACTION", book), false, 0},
		"commits":                   {execs(book, "COMMIT"), true, 1},
		"commits, begins, books":    {execs(book, "COMMIT", "BEGIN", book), true, 1},
		"makes a table":             {execs(book, "CREATE TABLE "+opts.Schema+".other (id INT)"), true, 1},
		"fails":                     {func(context.Context, journal.Tx) error { return errors.New("fails") }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server.Exec(t, "DELETE FROM "+booked)
			ev := undelivered(t, j, name)
			_, err := j.DeliverTx(t.Context(), ev, row.handler)
			require.Error(t, err)
			got, err := j.Get(t.Context(), ev.Ref)
			require.NoError(t, err)
			assert.Equal(t, row.delivered, got.Delivered)
			var n int
			require.NoError(t, server.DB().QueryRow("SELECT count(*) FROM "+booked).Scan(&n))
			assert.Equal(t, row.booked, n)
		})
	}
}

// A handler that takes longer than its time records nothing, even if it succeeds. Its error says what to do.
func TestHandlersThatAreTooSlow(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	mysql.Hasten(&opts)
	j := open(t, server, opts)
	server.Exec(t, "CREATE TABLE "+opts.Schema+".booked (id INT) ENGINE=InnoDB")
	const works = "DO BENCHMARK(2000000000, SHA2('a', 512))" // the server does not look whether its client is there
	for name, waits := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"and succeed": func(ctx context.Context, _ *sql.Tx) error { <-ctx.Done(); return nil },
		"in a statement": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, works)
			return err
		},
		"in a statement that no context ends": func(_ context.Context, tx *sql.Tx) error {
			_, err := tx.Exec(works)
			assert.Error(t, err, "the server has ended the statement")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			ev, calls := undelivered(t, j, name), 0
			_, err := j.DeliverTx(t.Context(), ev, func(ctx context.Context, tx journal.Tx) error {
				calls++
				_, err := tx.Driver().(*sql.Tx).Exec("INSERT INTO " + opts.Schema + ".booked VALUES (1)")
				require.NoError(t, err)
				return waits(ctx, tx.Driver().(*sql.Tx))
			})
			require.ErrorContains(t, err, "let it only write, and do slow work elsewhere")
			assert.Equal(t, 1, calls)
			tx, err := theirs(t, server, func(c *driver.Config) { c.Params = map[string]string{"innodb_lock_wait_timeout": "10"} }).Begin()
			require.NoError(t, err)
			_, err = tx.Exec("UPDATE "+opts.Schema+".operations SET tombstone = tombstone WHERE handle = ?", ev.Handle)
			require.NoError(t, err, "the server holds the operation no longer")
			require.NoError(t, tx.Rollback())
			got, err := j.Get(t.Context(), ev.Ref)
			require.NoError(t, err)
			assert.False(t, got.Delivered)
			var n int
			require.NoError(t, server.DB().QueryRow("SELECT count(*) FROM "+opts.Schema+".booked").Scan(&n))
			assert.Zero(t, n)
		})
	}
}
