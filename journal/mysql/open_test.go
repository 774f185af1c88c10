package mysql_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// Each setting that loses commits or spoils rows is refused by its name.
func TestUnsafeServersAreRefused(t *testing.T) {
	settings, pool := certified(t)
	server := mysqltest.Start(t, append(settings, mysqltest.Durable(), mysqltest.Setting("log-bin", "binlog"), mysqltest.Setting("sync-binlog", "1"), mysqltest.Setting("binlog-format", "ROW"),
		mysqltest.Setting("innodb-rollback-on-timeout", "1"))...)
	opts := options(t, server)
	opts.Unsafe = false
	_ = open(t, server, opts).Close()
	for name, row := range map[string]struct {
		set, reset string
		change     func(*mysql.Options)
		accepted   bool
	}{
		"innodb_flush_log_at_trx_commit is 2": {set: "SET GLOBAL innodb_flush_log_at_trx_commit = 2", reset: "SET GLOBAL innodb_flush_log_at_trx_commit = 1"},
		"sync_binlog is 0":                    {set: "SET GLOBAL sync_binlog = 0", reset: "SET GLOBAL sync_binlog = 1"},
		"sync_binlog by a provider":           {set: "SET GLOBAL sync_binlog = 0", reset: "SET GLOBAL sync_binlog = 1", change: func(o *mysql.Options) { o.Durability = mysql.Provider }, accepted: true},
		"read_only is on":                     {set: "SET GLOBAL read_only = 1", reset: "SET GLOBAL read_only = 0"},
		"read_only for a reader":              {set: "SET GLOBAL read_only = 1", reset: "SET GLOBAL read_only = 0", change: func(o *mysql.Options) { o.ReadOnly = true }, accepted: true},
		"binlog_format is STATEMENT":          {set: "SET GLOBAL binlog_format = 'STATEMENT'", reset: "SET GLOBAL binlog_format = 'ROW'"},
		"default_storage_engine is MyISAM":    {set: "SET GLOBAL default_storage_engine = MyISAM", reset: "SET GLOBAL default_storage_engine = InnoDB"},
		"table heard has the engine Aria":     {set: "ALTER TABLE " + opts.Schema + ".heard ENGINE=Aria", reset: "ALTER TABLE " + opts.Schema + ".heard ENGINE=InnoDB"},
		"column provider of table operations": {set: "ALTER TABLE " + opts.Schema + ".operations MODIFY provider TEXT", reset: "ALTER TABLE " + opts.Schema + ".operations MODIFY provider BLOB NOT NULL"},
		"a replica: connect to the primary":   {set: "CHANGE MASTER TO master_host='127.0.0.1', master_user='none', master_port=1", reset: "RESET SLAVE ALL"},
		"the server is a replica":             {set: "CHANGE MASTER 'named' TO master_host='127.0.0.1', master_user='none', master_port=1", reset: "RESET SLAVE 'named' ALL"},
	} {
		t.Run(name, func(t *testing.T) {
			server.Exec(t, row.set)
			defer server.Exec(t, row.reset)
			changed := opts
			if row.change != nil {
				row.change(&changed)
			}
			j, err := mysql.Open(t.Context(), server.DSN(), changed)
			if row.accepted {
				require.NoError(t, err)
				assert.NoError(t, j.Close())
				return
			}
			require.ErrorIs(t, err, mysql.ErrUnsafe)
			assert.ErrorContains(t, err, name)
		})
	}
	t.Run("encryption", func(t *testing.T) { encrypts(t, server, opts, pool) })
	t.Run("an open journal", func(t *testing.T) {
		j := open(t, server, opts)
		server.Exec(t, "SET GLOBAL sync_binlog = 0")
		defer server.Exec(t, "SET GLOBAL sync_binlog = 1")
		_, err := j.Join(t.Context())
		require.ErrorIs(t, err, mysql.ErrUnsafe, "each commit checks the settings")
		tx, err := server.DB().Begin()
		require.NoError(t, err)
		_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
		require.ErrorIs(t, err, mysql.ErrUnsafe)
		assert.ErrorContains(t, err, "sync_binlog")
		require.NoError(t, tx.Rollback())
	})
	t.Run("innodb_rollback_on_timeout", func(t *testing.T) {
		j := open(t, server, opts)
		begun(t, j, "a")
		holder, err := server.DB().Begin()
		require.NoError(t, err)
		_, err = holder.Exec("SELECT 1 FROM " + opts.Schema + ".operations FOR UPDATE")
		require.NoError(t, err)
		tx, err := theirs(t, server, func(c *driver.Config) { c.Params = map[string]string{"innodb_lock_wait_timeout": "1"} }).Begin()
		require.NoError(t, err)
		_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("a"))
		require.ErrorIs(t, err, journal.ErrTxAborted, "the server has undone what the application wrote")
		require.ErrorIs(t, mysql.SQL(tx).Commit(t.Context()), journal.ErrTxAborted)
		tx, err = theirs(t, server, func(c *driver.Config) { c.Params = map[string]string{"innodb_lock_wait_timeout": "1"} }).Begin()
		require.NoError(t, err)
		_, err = tx.Exec("UPDATE " + opts.Schema + ".operations SET tombstone = tombstone")
		require.ErrorContains(t, err, "1205")
		_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("c"))
		require.ErrorIs(t, err, journal.ErrTxAborted, "of a statement of the application's, which overlooks its error")
		require.ErrorIs(t, mysql.SQL(tx).Commit(t.Context()), journal.ErrTxAborted)
		require.NoError(t, holder.Rollback())
	})
}

// A Galera node is refused.
func TestGaleraIsRefused(t *testing.T) {
	t.Parallel()
	library := "/usr/lib/galera/libgalera_smm.so"
	if _, err := os.Stat(library); err != nil {
		t.Skip("Debian's package galera-4 is needed: ", err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	server := mysqltest.Start(t, mysqltest.Setting("wsrep-on", "ON"), mysqltest.Setting("wsrep-provider", library), mysqltest.Setting("wsrep-cluster-address", "gcomm://"),
		mysqltest.Setting("wsrep-node-address", "127.0.0.1"), mysqltest.Setting("wsrep-provider-options", "gmcast.listen_addr=tcp://"+free.Addr().String()),
		mysqltest.Setting("wsrep-sst-method", "mysqldump"), mysqltest.Setting("binlog-format", "ROW"))
	_, err = mysql.Open(t.Context(), server.DSN(), options(t, server))
	require.ErrorIs(t, err, mysql.ErrUnsafe)
	assert.ErrorContains(t, err, "wsrep_on")
}

func TestOpenSaysWhatToDo(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	for name, row := range map[string]struct {
		dsn    string
		change func(*mysql.Options)
		is     error
		says   string
	}{
		"no DSN":             {"nonsense@", nil, nil, "the DSN can't be parsed"},
		"no deployment":      {server.DSN(), func(o *mysql.Options) { o.Deployment = "" }, nil, "Options.Deployment is needed"},
		"no journal":         {server.DSN(), func(o *mysql.Options) { o.Migrate, o.Schema = false, "t_nothing" }, journal.ErrVersion, "run mysql.Migrate"},
		"a name":             {server.DSN(), func(o *mysql.Options) { o.Schema = "a-b" }, nil, "a name of a-z"},
		"a wrong password":   {"nobody:secret@tcp(" + server.Addr() + ")/", nil, nil, "does not let the account in"},
		"no server":          {"nobody:secret@tcp(127.0.0.1:1)/", nil, nil, "check that the server runs"},
		"another deployment": {server.DSN(), func(o *mysql.Options) { o.Deployment = "staging" }, mysql.ErrDeployment, `it is the journal of "test"`},
	} {
		t.Run(name, func(t *testing.T) {
			_ = open(t, server, opts).Close()
			changed := opts
			if row.change != nil {
				row.change(&changed)
			}
			_, err := mysql.Open(t.Context(), row.dsn, changed)
			require.ErrorContains(t, err, row.says)
			assert.NotContains(t, err.Error(), "secret")
			if row.is != nil {
				assert.ErrorIs(t, err, row.is)
			}
		})
	}
}

// The journal's own connections have the journal's settings, whatever the DSN says. In some charsets, a byte of a body would
// take an escape sign for its second half, and the rest of the body would be read as SQL.
func TestSettingsOfTheDSN(t *testing.T) {
	server := mysqltest.Shared(t)
	for _, setting := range []string{"charset=gbk", "charset=sjis", "collation=gbk_chinese_ci", "sql_select_limit=1", "completion_type=CHAIN"} {
		t.Run(setting, func(t *testing.T) {
			j, err := mysql.Open(t.Context(), server.DSN()+"?"+setting, options(t, server))
			require.NoError(t, err)
			defer j.Close()
			ev := enqueue("a")
			ev.Intent.Request.Body = []byte("\xbf' \x81' \x81\\")
			_, err = j.Apply(t.Context(), ev)
			require.NoError(t, err)
			got, err := j.Get(t.Context(), ev.Ref)
			require.NoError(t, err)
			assert.Equal(t, ev.Intent.Request.Body, got.Request.Body)
			for _, want := range []machine.Decision{machine.Execute, machine.Replay} {
				tx, err := server.DB().Begin()
				require.NoError(t, err)
				result, err := j.EnqueueTx(t.Context(), mysql.SQL(tx), ev)
				require.NoError(t, err)
				assert.Equal(t, machine.Ignored, result.Decision)
				assert.Equal(t, want.String(), received(t, j, tx, "a").String())
			}
		})
	}
}

// leaving is the context of a caller that leaves between two statements.
type leaving struct {
	context.Context
	left int
}

func (c *leaving) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A caller that leaves in the middle of a read leaves no transaction open, which would show later callers an old state.
func TestReadersThatLeave(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	opts.Readers = 1
	j := open(t, server, opts)
	begun(t, j, "a")
	for n := 0; ; n++ {
		_, err := j.Get(&leaving{t.Context(), n}, journal.Ref{ID: "a"})
		if err == nil {
			assert.Greater(t, n, 3)
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		_, err = j.Get(t.Context(), journal.Ref{ID: "a"})
		require.NoError(t, err, n)
	}
}

// A reader reads, and writes nothing.
func TestReadOnly(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	op := begun(t, j, "a")
	reader := opts
	reader.ReadOnly = true
	r := open(t, server, reader)
	got, err := r.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.Equal(t, []byte("a"), got.Request.Body)
	_, err = r.Join(t.Context())
	require.ErrorIs(t, err, mysql.ErrReadOnly)
	_, err = r.Apply(t.Context(), machine.Event{})
	require.ErrorIs(t, err, mysql.ErrReadOnly)
	require.True(t, errors.Is(r.Confirm(t.Context()), mysql.ErrReadOnly))
}

// A journal that lacks a table is none that Migrate could make.
func TestAJournalWithoutATable(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	require.NoError(t, open(t, server, opts).Close())
	server.Exec(t, "DROP TABLE "+opts.Schema+".heads")
	_, err := mysql.Open(t.Context(), server.DSN(), opts)
	require.NotErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "lacks the table heads")
}

// Migrate changes nothing in another application's database whose tables have names of the journal's. It says which table has.
func TestMigrateSparesAnotherApplicationsTables(t *testing.T) {
	server := mysqltest.Shared(t)
	name := server.Schema(t)
	server.Exec(t, "CREATE DATABASE "+name)
	server.Exec(t, "CREATE TABLE "+name+".identity (id INT PRIMARY KEY, email VARCHAR(100))")
	server.Exec(t, "INSERT INTO "+name+".identity VALUES (1, 'a@example.com')")
	err := mysql.Migrate(t.Context(), server.DSN(), name)
	require.ErrorIs(t, err, mysql.ErrUnsafe)
	require.ErrorContains(t, err, "table identity")
	var tables int
	require.NoError(t, server.DB().QueryRow("SELECT count(*) FROM information_schema.tables WHERE table_schema = ?", name).Scan(&tables))
	assert.Equal(t, 1, tables)
	var email string
	require.NoError(t, server.DB().QueryRow("SELECT email FROM "+name+".identity").Scan(&email))
	assert.Equal(t, "a@example.com", email)
}

// A journal whose only row is gone is refused. Another row would have another key, and the journal would find no name.
func TestAJournalWithoutItsRow(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	begun(t, j, "a")
	require.NoError(t, j.Close())
	server.Exec(t, "DELETE FROM "+opts.Schema+".journal")
	err := mysql.Migrate(t.Context(), server.DSN(), opts.Schema)
	require.ErrorIs(t, err, mysql.ErrUnsafe)
	assert.ErrorContains(t, err, "Restore the journal's backup")
	opts.Migrate = false
	_, err = mysql.Open(t.Context(), server.DSN(), opts)
	require.ErrorIs(t, err, mysql.ErrUnsafe)
	require.NotErrorIs(t, err, fs.ErrNotExist, "it is none that Migrate could make")
}

// Two processes that migrate at once finish what a killed one has begun, wherever the kill came.
func TestMigrationsFinishAKilledOne(t *testing.T) {
	server := mysqltest.Shared(t)
	text, err := fs.ReadFile(mysql.Migrations(), "0001_journal.sql")
	require.NoError(t, err)
	statements := strings.SplitAfter(string(text), ";\n")
	for name, done := range map[string]struct {
		statements int
		identity   bool
	}{"none": {}, "handles": {statements: 4}, "identity": {len(statements), true}} {
		t.Run(name, func(t *testing.T) {
			opts := options(t, server)
			server.Exec(t, "CREATE DATABASE "+opts.Schema)
			for _, statement := range statements[:done.statements] {
				if statement = strings.TrimSpace(strings.ReplaceAll(statement, "{{s}}", opts.Schema)); statement != "" {
					server.Exec(t, statement)
				}
			}
			if done.identity {
				server.Exec(t, "INSERT INTO "+opts.Schema+".identity VALUES (1, 'of the killed one')")
			}
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { assert.NoError(t, mysql.Migrate(t.Context(), server.DSN(), opts.Schema)) })
			}
			both.Wait()
			opts.Migrate = false
			j := open(t, server, opts)
			begun(t, j, "a")
			tx, err := server.DB().Begin()
			require.NoError(t, err)
			_, err = j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("b"))
			require.NoError(t, err, "its identity is the journal's")
			require.NoError(t, tx.Commit())
		})
	}
}
