package mysql_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

func intent(id string) *machine.Intent {
	return &machine.Intent{
		Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id, Naming: journal.Named,
		Terms:   journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
		Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
	}
}

func enqueue(id string) machine.Event {
	return machine.Event{Kind: machine.EventEnqueue, Ref: journal.Ref{ID: id}, At: time.Now(), Intent: intent(id)}
}

// begun begins a named operation in a session of its own.
func begun(t testing.TB, j *mysql.Journal, id string) journal.Operation {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	result, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(), Intent: intent(id)})
	require.NoError(t, err)
	return result.Operation
}

// theirs is a pool of the application's, with settings of its own, and an account with the least privileges.
func theirs(t *testing.T, server *mysqltest.Server, change func(*driver.Config)) *sql.DB {
	t.Helper()
	cfg, err := driver.ParseDSN(server.ServiceDSN())
	require.NoError(t, err)
	if change != nil {
		change(cfg)
	}
	connector, err := driver.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// An application may enqueue with any settings of its driver, and find its own operation there again.
func TestEnqueueByTheApplicationsSettings(t *testing.T) {
	server := mysqltest.Shared(t)
	j := open(t, server, options(t, server))
	for name, change := range map[string]func(*driver.Config){
		"as they are":       nil,
		"interpolated":      func(c *driver.Config) { c.InterpolateParams, c.MultiStatements = true, true },
		"found rows, times": func(c *driver.Config) { c.ClientFoundRows, c.ParseTime = true, true },
		"no backslashes": func(c *driver.Config) {
			c.Params = map[string]string{"sql_mode": "'STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES,ANSI_QUOTES'"}
		},
		"another charset": func(c *driver.Config) { assert.NoError(t, c.Apply(driver.Charset("gbk", ""))) },
	} {
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			t.Run(name+"/"+level.String(), func(t *testing.T) {
				tx, err := theirs(t, server, change).BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
				require.NoError(t, err)
				id := name + level.String() + "'\\\x00\xff\xbf'\x81\\"
				for _, want := range []machine.Decision{machine.Recorded, machine.Ignored} {
					result, err := j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue(id))
					require.NoError(t, err)
					require.Equal(t, want, result.Decision)
				}
				later, err := j.AdvanceTx(t.Context(), mysql.SQL(tx), "source", id, 7)
				require.NoError(t, err)
				assert.True(t, later)
				later, err = j.AdvanceTx(t.Context(), mysql.SQL(tx), "source", id, 7)
				require.NoError(t, err)
				assert.False(t, later)
				require.NoError(t, mysql.SQL(tx).Commit(t.Context()))
				got, err := j.Get(t.Context(), journal.Ref{ID: id})
				require.NoError(t, err)
				assert.Equal(t, []byte(id), got.Request.Body)
			})
		}
	}
}

// Transactions that could spoil rows, or that are not the journal's, are refused.
func TestTransactionsThatAreRefused(t *testing.T) {
	server := mysqltest.Shared(t)
	j := open(t, server, options(t, server))
	tx, err := theirs(t, server, func(c *driver.Config) { c.Params = map[string]string{"sql_mode": "''"} }).Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
	require.ErrorIs(t, err, mysql.ErrUnsafe)
	assert.ErrorContains(t, err, "STRICT_TRANS_TABLES")
	require.NoError(t, tx.Rollback())
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
	require.ErrorContains(t, err, "begin another")

	tx, err = theirs(t, server, func(c *driver.Config) { c.Params = map[string]string{"autocommit": "0"} }).Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
	require.ErrorIs(t, err, mysql.ErrUnsafe)
	assert.ErrorContains(t, err, "autocommit")
	require.NoError(t, tx.Rollback())

	tx, err = theirs(t, server, func(c *driver.Config) { c.Params = map[string]string{"unique_checks": "0"} }).Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
	require.ErrorIs(t, err, mysql.ErrUnsafe)
	assert.ErrorContains(t, err, "unique_checks")
	require.NoError(t, tx.Rollback())

	other := mysqltest.Start(t)
	tx, err = other.DB().Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
	require.ErrorIs(t, err, mysql.ErrDeployment)
	require.NoError(t, tx.Rollback())
}

// A statement that commits by itself ends the transaction. The journal notices that, and writes nothing outside of a
// transaction.
func TestStatementsThatCommitAreNoticed(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	table := "CREATE TABLE " + opts.Schema + ".theirs_"
	tx, err := server.DB().Begin()
	require.NoError(t, err)
	_, err = tx.Exec(table + "a (a INT)")
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
	require.ErrorIs(t, err, journal.ErrTxAborted)
	require.NoError(t, tx.Rollback())
	_, err = j.Get(t.Context(), journal.Ref{ID: "a"})
	require.ErrorIs(t, err, journal.ErrNotFound)

	tx, err = server.DB().Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("b"))
	require.NoError(t, err)
	_, err = tx.Exec(table + "b (a INT)")
	require.NoError(t, err)
	require.ErrorIs(t, mysql.SQL(tx).Commit(t.Context()), journal.ErrTxAborted)

	tx, err = server.DB().Begin()
	require.NoError(t, err)
	_, err = tx.Exec(table + "c (a INT)")
	require.NoError(t, err)
	_, err = j.AdvanceTx(t.Context(), mysql.SQL(tx), "source", "entity", 7)
	require.ErrorIs(t, err, journal.ErrTxAborted)
	require.NoError(t, tx.Rollback())
	tx, err = server.DB().Begin()
	require.NoError(t, err)
	later, err := j.AdvanceTx(t.Context(), mysql.SQL(tx), "source", "entity", 7)
	require.NoError(t, err)
	assert.True(t, later, "it was not done yet")
	require.NoError(t, tx.Rollback())

	// A handler that commits the reservation of its key can't record an answer as if it were in one commit.
	reserve := reservation("a")
	tx, err = server.DB().Begin()
	require.NoError(t, err)
	reserved, err := j.ReceiveTx(t.Context(), mysql.SQL(tx), reserve)
	require.NoError(t, err)
	require.Equal(t, machine.Execute, reserved.Decision)
	_, err = tx.Exec("COMMIT")
	require.NoError(t, err)
	_, err = tx.Exec("START TRANSACTION")
	require.NoError(t, err)
	_, err = j.ReceiveTx(t.Context(), mysql.SQL(tx), completion(reserve, &reserved.Receipt))
	require.ErrorContains(t, err, "committed the transaction that reserved the key")
	require.NoError(t, tx.Rollback())
}

// reservation reserves a key.
func reservation(key string) machine.ReceiptEvent {
	return machine.ReceiptEvent{
		Kind: machine.ReceiptReserve, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: key}, At: time.Now(), Place: "payments.create", Fingerprint: "a",
		Same: func(*journal.Receipt) (bool, error) { return true, nil }, Keep: time.Hour,
	}
}

// completion records the answer to a reserved key.
func completion(ev machine.ReceiptEvent, reserved *journal.Receipt) machine.ReceiptEvent {
	ev.Kind, ev.Claim, ev.Answer, ev.Reserved = machine.ReceiptComplete, reserved.Claim, &journal.Answer{Status: 201}, reserved
	return ev
}

// received receives a request in a transaction of its own, and answers the request if its key is new.
func received(t *testing.T, j *mysql.Journal, tx *sql.Tx, key string) machine.Decision {
	t.Helper()
	ev := reservation(key)
	reserved, err := j.ReceiveTx(t.Context(), mysql.SQL(tx), ev)
	require.NoError(t, err)
	if reserved.Decision == machine.Execute {
		_, err = j.ReceiveTx(t.Context(), mysql.SQL(tx), completion(ev, &reserved.Receipt))
		require.NoError(t, err)
	}
	require.NoError(t, mysql.SQL(tx).Commit(t.Context()))
	return reserved.Decision
}

// A transaction of repeatable reads that has read before another one's commit decides by that commit.
func TestOldSnapshots(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
		t.Run(level.String(), func(t *testing.T) {
			id := level.String()
			old, err := server.DB().BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			require.NoError(t, err)
			defer func() { _ = old.Rollback() }()
			var epoch int
			require.NoError(t, old.QueryRow("SELECT epoch FROM "+opts.Schema+".journal").Scan(&epoch))
			for _, row := range []struct {
				number int64
				later  bool
				key    machine.Decision
			}{{8, true, machine.Execute}, {7, false, machine.Replay}} {
				tx, err := server.DB().Begin()
				require.NoError(t, err)
				later, err := j.AdvanceTx(t.Context(), mysql.SQL(tx), "source", id, row.number)
				require.NoError(t, err)
				assert.Equal(t, row.later, later)
				_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue(id))
				require.NoError(t, err)
				assert.Equal(t, row.key.String(), received(t, j, tx, id).String())
			}
			later, err := j.AdvanceTx(t.Context(), mysql.SQL(old), "source", id, 7)
			require.NoError(t, err)
			assert.False(t, later, "8 was done before")
			result, err := j.EnqueueTx(t.Context(), mysql.SQL(old), enqueue(id))
			require.NoError(t, err)
			assert.Equal(t, machine.Ignored, result.Decision)
			assert.Equal(t, machine.Replay.String(), received(t, j, old, id).String())
		})
	}
}

// The journal begins no snapshot in the application's transaction. A handler that has waited for a lock reads the latest commits.
func TestAHandlerReadsWhatIsCommitted(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	server.Exec(t, "CREATE TABLE "+opts.Schema+".ledger (a INT) ENGINE=InnoDB")
	for name, receive := range map[string]func(tx journal.Tx){
		"a request": func(tx journal.Tx) {
			_, err := j.ReceiveTx(t.Context(), tx, reservation("a"))
			require.NoError(t, err)
		},
		"a numbered message": func(tx journal.Tx) {
			_, err := j.ReserveTx(t.Context(), tx, []machine.ReceiptEvent{reservation("b"), reservation("c")})
			require.NoError(t, err)
			_, err = j.AdvanceTx(t.Context(), tx, "source", "entity", 1)
			require.NoError(t, err)
		},
		"an operation": func(tx journal.Tx) {
			_, err := j.EnqueueTx(t.Context(), tx, enqueue("a"))
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server.Exec(t, "DELETE FROM "+opts.Schema+".ledger")
			tx, err := server.DB().BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			receive(mysql.SQL(tx))
			server.Exec(t, "INSERT INTO "+opts.Schema+".ledger VALUES (1), (2)")
			var n int
			require.NoError(t, tx.QueryRow("SELECT count(*) FROM "+opts.Schema+".ledger").Scan(&n))
			assert.Equal(t, 2, n)
		})
	}
}

// Transactions of repeatable reads that enqueue at once do not deadlock, and a deadlock of the application's own is an
// aborted transaction.
func TestTransactionsThatMeet(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	var all []*sql.Tx
	for i := range 6 { // all names are absent, and in one gap of the index
		tx, err := server.DB().BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		require.NoError(t, err)
		_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue(rand.Text()))
		require.NoError(t, err, i)
		all = append(all, tx)
	}
	for _, tx := range all {
		require.NoError(t, tx.Commit())
	}

	server.Exec(t, "CREATE TABLE "+opts.Schema+".theirs (a INT PRIMARY KEY) ENGINE=InnoDB")
	server.Exec(t, "INSERT INTO "+opts.Schema+".theirs VALUES (1), (2)")
	lock := func(tx *sql.Tx, a int) error {
		_, err := tx.Exec("UPDATE "+opts.Schema+".theirs SET a = a WHERE a = ?", a)
		return err
	}
	first, err := server.DB().Begin()
	require.NoError(t, err)
	second, err := server.DB().Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(first), enqueue("lost"))
	require.NoError(t, err)
	require.NoError(t, lock(first, 1))
	require.NoError(t, lock(second, 2))
	waits := make(chan error, 1)
	go func() { waits <- lock(second, 1) }()
	failed := lock(first, 2)
	tx, other := first, second
	if failed == nil { // the server has chosen the other one
		failed = <-waits
		tx, other = second, first
	} else {
		require.NoError(t, <-waits)
	}
	require.ErrorContains(t, failed, "1213")
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("after"))
	require.ErrorIs(t, err, journal.ErrTxAborted)
	require.ErrorIs(t, mysql.SQL(tx).Commit(t.Context()), journal.ErrTxAborted)
	require.NoError(t, other.Rollback())
	for _, id := range []string{"lost", "after"} {
		_, err = j.Get(t.Context(), journal.Ref{ID: id})
		require.ErrorIs(t, err, journal.ErrNotFound)
	}
}

// A row that the server takes in no packet fails alone, and says what to raise.
func TestBodyOverTheLimitOfPackets(t *testing.T) {
	server := mysqltest.Start(t, mysqltest.Setting("max-allowed-packet", "1M"))
	j := open(t, server, options(t, server))
	body := make([]byte, 2<<20)
	_, err := rand.Read(body) // it does not compress
	require.NoError(t, err)
	large := enqueue("large")
	large.Intent.Request.Body = body
	_, err = j.Apply(t.Context(), large)
	var own *mysql.Error
	require.ErrorAs(t, err, &own)
	assert.Contains(t, own.Reason, "max_allowed_packet")
	tx, err := server.DB().Begin()
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), large)
	require.ErrorAs(t, err, &own)
	_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("small"))
	require.NoError(t, err, "the transaction goes on")
	require.NoError(t, tx.Commit())
	for i := range 3 { // together they are larger than a packet
		ev := enqueue(rand.Text())
		ev.Intent.Request.Body = body[:400<<10]
		_, err := j.Apply(t.Context(), ev)
		require.NoError(t, err, i)
	}
}

// The connection breaks within a commit. The caller learns what became of the commit: the operation is recorded once.
func TestACommitThatIsCutIsResolved(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	direct := open(t, server, opts)
	r := newRelay(t, server.Addr())
	j, err := mysql.Open(t.Context(), server.DSNThrough(r.Addr().String()), opts)
	require.NoError(t, err)
	defer j.Close()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for _, fault := range []int32{dropsRequest, dropsAnswer, dropsAnswer, dropsRequest} {
		id := rand.Text()
		r.armed.Store(fault)
		result, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(), Intent: intent(id)})
		require.NoError(t, err)
		assert.Equal(t, machine.Execute, result.Decision, "no second commit finds the first")
		_, err = direct.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		require.Zero(t, r.armed.Load(), "the commit was cut")
	}
	// A caller that leaves does not learn the result, which stays as the server has it.
	r.armed.Store(dropsAnswer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = j.Apply(ctx, enqueue("left"))
	require.ErrorIs(t, err, context.Canceled)
}

// A database that lacks acknowledged commits of a live process counts as restored.
func TestADatabaseThatHasGoneBackIsNoticed(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	op := begun(t, j, "a")
	server.Exec(t, "UPDATE "+opts.Schema+".lanes SET batch = batch - 1")
	_, err := j.Apply(t.Context(), enqueue("b"))
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	got, err := j.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StatePending.String(), got.State.String(), "it counts as sent, and the provider remembers its key")
	_, err = j.Apply(t.Context(), enqueue("b"))
	require.NoError(t, err)
}
