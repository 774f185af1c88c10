package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// withReplica starts a primary with a journal, and a replica that follows by GTID, or by its file's position.
func withReplica(t *testing.T, position string) (primary, replica *mysqltest.Server, opts mysql.Options) {
	t.Helper()
	start := func(id int) *mysqltest.Server {
		return mysqltest.Start(t, mysqltest.Setting("server-id", strconv.Itoa(id)), mysqltest.Setting("log-bin", "binlog"), mysqltest.Setting("log-slave-updates", "ON"), mysqltest.Setting("rpl-semi-sync-slave-enabled", "1"))
	}
	primary, replica = start(1), start(2)
	opts = options(t, primary)
	opts.Unsafe, opts.Durability, opts.Logger = false, mysql.Provider, slog.New(slog.NewTextHandler(io.Discard, nil))
	require.NoError(t, mysql.Migrate(t.Context(), primary.DSN(), opts.Schema))
	opts.Migrate = false
	follow(t, primary, replica, position)
	return primary, replica, opts
}

const (
	byGTID     = "MASTER_USE_GTID = slave_pos"
	byPosition = "MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4, MASTER_USE_GTID = no"
)

// follow makes a server a replica, and waits until it has what the primary has now.
func follow(t *testing.T, primary, replica *mysqltest.Server, position string) {
	t.Helper()
	replica.Exec(t, "SET GLOBAL read_only = 1")
	cfg, err := driver.ParseDSN(primary.DSN())
	require.NoError(t, err)
	host, port, _ := strings.Cut(cfg.Addr, ":")
	replica.Exec(t, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = '%s', MASTER_PASSWORD = '%s', MASTER_CONNECT_RETRY = 1, %s", host, port, cfg.User, cfg.Passwd, position))
	replica.Exec(t, "START SLAVE")
	catchUp(t, primary, replica)
}

// catchUp waits until the replica has what the primary has now.
func catchUp(t *testing.T, primary, replica *mysqltest.Server) {
	t.Helper()
	var file, ignored1, ignored2 string
	var position int64
	require.NoError(t, primary.DB().QueryRow("SHOW MASTER STATUS").Scan(&file, &position, &ignored1, &ignored2))
	var events sql.NullInt64
	require.NoError(t, replica.DB().QueryRow("SELECT MASTER_POS_WAIT(?, ?, 60)", file, position).Scan(&events))
	require.True(t, events.Valid && events.Int64 >= 0, "the replica runs: %v", events)
}

// promote makes a replica the primary.
func promote(t *testing.T, replica *mysqltest.Server) {
	t.Helper()
	replica.Exec(t, "STOP SLAVE")
	replica.Exec(t, "RESET SLAVE ALL")
	replica.Exec(t, "SET GLOBAL read_only = 0")
}

// account makes an account on servers, with these privileges, and returns its DSN on the first one.
func account(t *testing.T, grants string, servers ...*mysqltest.Server) string {
	t.Helper()
	cfg, err := driver.ParseDSN(servers[0].DSN())
	require.NoError(t, err)
	cfg.User = servers[0].Schema(t)
	name := cfg.User + "@'%'"
	for _, server := range servers {
		server.Exec(t, strings.ReplaceAll("SET sql_log_bin = 0; CREATE USER {{account}} IDENTIFIED BY '"+cfg.Passwd+"'; "+grants+"; SET sql_log_bin = 1", "{{account}}", name))
		t.Cleanup(func() { _, _ = server.DB().Exec("DROP USER IF EXISTS " + name) })
	}
	return cfg.FormatDSN()
}

// load is callers at work behind an address that can lead to another server.
type load struct {
	callers  []*caller
	told     atomic.Int64
	restored atomic.Bool
	stop     context.CancelFunc
	group    sync.WaitGroup
}

func startLoad(t *testing.T, server *mysqltest.Server, dsn string, opts mysql.Options) *load {
	t.Helper()
	l := new(load)
	table := opts.Schema + ".theirs"
	server.Exec(t, "CREATE TABLE IF NOT EXISTS "+table+" (id VARBINARY(100) NOT NULL) ENGINE=InnoDB")
	j, err := mysql.Open(t.Context(), dsn, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	cfg, err := driver.ParseDSN(dsn)
	require.NoError(t, err)
	cfg.RejectReadOnly, cfg.Logger = true, &driver.NopLogger{} // as an application does whose server may become a replica
	connector, err := driver.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	for i := range 6 {
		c := &caller{told: &l.told, restored: &l.restored, j: j, db: db, table: table, prefix: fmt.Sprint("p-", i)}
		l.callers = append(l.callers, c)
		l.group.Go(func() { c.run(ctx, t) })
	}
	t.Cleanup(l.end)
	return l
}

// goesOn waits for further commits.
func (l *load) goesOn(t *testing.T) {
	t.Helper()
	until := l.told.Load() + 20
	require.Eventually(t, func() bool { return l.told.Load() >= until }, time.Minute, time.Millisecond, "the callers go on")
}

func (l *load) end() {
	l.stop()
	l.group.Wait()
}

// A replica is refused by name, unless the journal is only read. A promoted replica with all commits raises no
// alarm, whether the former primary still serves its old connections or has died.
func TestPromotionThatLosesNothing(t *testing.T) {
	t.Parallel()
	primary, replica, opts := withReplica(t, byPosition)
	rights := "GRANT SELECT, INSERT, UPDATE, DELETE ON " + opts.Schema + ".* TO {{account}}"
	refused(t, primary, replica, opts, rights)

	at := newRelay(t, primary.Addr())
	dsn := account(t, rights, primary, replica)
	cfg, err := driver.ParseDSN(dsn)
	require.NoError(t, err)
	cfg.Addr = at.Addr().String()
	l := startLoad(t, primary, cfg.FormatDSN(), opts)
	heart, hasty := new(heartLog), opts
	mysql.Hasten(&hasty)
	hasty.Logger = slog.New(slog.NewTextHandler(heart, nil))
	root, err := mysql.Open(t.Context(), primary.DSNThrough(at.Addr().String()), hasty) // its account may write to a read-only server
	require.NoError(t, err)
	defer root.Close()
	_, err = root.Join(t.Context())
	require.NoError(t, err)
	l.goesOn(t)
	primary.Exec(t, "SET GLOBAL read_only = 1")
	require.Eventually(t, heart.failed.Load, time.Minute, time.Millisecond, "it writes nothing there any more")
	catchUp(t, primary, replica)
	promote(t, replica)
	at.leads(replica.Addr())
	l.goesOn(t)
	leftBehind(t, l.callers[0].j, replica, opts)
	_, err = root.Join(t.Context())
	require.NoError(t, err)

	follow(t, replica, primary, strings.Replace(byGTID, "slave_pos", "current_pos", 1))
	replica.Exec(t, "SET GLOBAL rpl_semi_sync_master_timeout = 60000, GLOBAL rpl_semi_sync_master_enabled = 1")
	l.goesOn(t)
	assert.Equal(t, "ON", status(t, replica, "Rpl_semi_sync_master_status"), "each commit waits for the replica")
	replica.Kill9(t)
	primary.Exec(t, "STOP SLAVE IO_THREAD")
	require.Eventually(t, func() bool { return applied(t, primary) }, time.Minute, 10*time.Millisecond)
	promote(t, primary)
	at.goesTo(primary.Addr())
	l.goesOn(t)
	l.end()
	assert.False(t, l.restored.Load())
	assert.Zero(t, lost(t, primary, l.callers, l.callers[0].j))
}

// heartLog notices that a journal could not renew its sessions.
type heartLog struct{ failed atomic.Bool }

func (l *heartLog) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "could not be renewed") {
		l.failed.Store(true)
	}
	return len(line), nil
}

// leftBehind looks for connections that still read from a server that is no primary any more.
func leftBehind(t *testing.T, j *mysql.Journal, primary *mysqltest.Server, opts mysql.Options) {
	t.Helper()
	other := open(t, primary, opts)
	for i := range 10 {
		id := fmt.Sprint("since ", i)
		_, err := other.Apply(t.Context(), enqueue(id))
		require.NoError(t, err)
		_, err = j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		tx, err := primary.DB().Begin()
		require.NoError(t, err)
		result, err := j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue(id))
		require.NoError(t, err)
		require.Equal(t, machine.Ignored, result.Decision, "it is known")
		require.NoError(t, tx.Rollback())
	}
}

func refused(t *testing.T, primary, replica *mysqltest.Server, opts mysql.Options, rights string) {
	op := begun(t, open(t, primary, opts), "a")
	catchUp(t, primary, replica)
	none, monitor := account(t, rights, replica), account(t, rights+"; GRANT REPLICA MONITOR ON *.* TO {{account}}", replica)
	const isReplica = "the server is a replica: connect to the primary"
	for _, row := range []struct{ name, dsn, set, says string }{
		{"read-only, without REPLICA MONITOR", none, "SET GLOBAL read_only = 1", isReplica},
		{"without REPLICA MONITOR", none, "SET GLOBAL read_only = 0", isReplica},
		{"with REPLICA MONITOR", monitor, "SET GLOBAL read_only = 0", isReplica},
		{"stopped, with REPLICA MONITOR", monitor, "STOP SLAVE", isReplica},
		{"stopped, read-only, without REPLICA MONITOR", none, "SET GLOBAL read_only = 1", "read_only is on: connect to the primary"},
	} {
		t.Run(row.name, func(t *testing.T) {
			replica.Exec(t, row.set)
			_, err := mysql.Open(t.Context(), row.dsn, opts)
			require.ErrorIs(t, err, mysql.ErrUnsafe)
			require.ErrorContains(t, err, row.says)
			reader := opts
			reader.ReadOnly = true
			r, err := mysql.Open(t.Context(), row.dsn, reader)
			require.NoError(t, err)
			got, err := r.Get(t.Context(), op.Ref)
			require.NoError(t, err)
			assert.Equal(t, op.Request.Body, got.Request.Body)
			require.NoError(t, r.Close())
		})
	}
	replica.Exec(t, "START SLAVE")
	var n int
	require.NoError(t, replica.DB().QueryRow("SELECT count(*) FROM "+opts.Schema+".sessions").Scan(&n))
	assert.Equal(t, 2, n, "no attempt has left a session")
}

// status returns a status of a server.
func status(t *testing.T, server *mysqltest.Server, name string) (value string) {
	t.Helper()
	require.NoError(t, server.DB().QueryRow("SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&name, &value))
	return value
}

// applied reports whether a replica has applied all that it has received.
func applied(t *testing.T, replica *mysqltest.Server) bool {
	t.Helper()
	var state string
	require.NoError(t, replica.DB().QueryRow("SELECT COALESCE(MAX(state), '') FROM information_schema.processlist WHERE command = 'Slave_SQL'").Scan(&state))
	return strings.HasPrefix(state, "Slave has read all relay log")
}

// A replica that lags takes over. The journal notices what it lacks before it sends anything.
func TestPromotionThatLoses(t *testing.T) {
	t.Parallel()
	primary, replica, opts := withReplica(t, byGTID)
	at := newRelay(t, primary.Addr())
	dsn := primary.DSNThrough(at.Addr().String())
	l := startLoad(t, primary, dsn, opts)
	idle, err := mysql.Open(t.Context(), dsn, opts) // begins nothing meanwhile
	require.NoError(t, err)
	defer idle.Close()
	l.goesOn(t)
	replica.Exec(t, "STOP SLAVE")
	l.goesOn(t)
	primary.Kill9(t)
	promote(t, replica)
	at.goesTo(replica.Addr())
	require.Eventually(t, l.restored.Load, time.Minute, time.Millisecond, "it is noticed")
	l.end()
	_, err = idle.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	fresh := open(t, replica, opts)
	_, err = fresh.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, fresh.Adopt(t.Context()))
	result, err := fresh.Apply(t.Context(), enqueue("after"))
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, result.Decision)
	assert.Positive(t, lost(t, replica, l.callers, fresh), "the replica lagged, else this shows nothing")
}
