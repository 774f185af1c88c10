// Package server makes the journal's connections to a server, and says whether a journal is safe on the server.
//
// The package knows the driver, and the server's settings. It must not know the journal's tables.
package server

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/onceward/onceward/journal/mysql/internal/myerr"
)

// DialTime limits the time to connect.
const DialTime = 10 * time.Second

// ErrUnsafe is mysql.ErrUnsafe.
var ErrUnsafe = errors.New("mysql: not safe for a journal")

// Unsafe returns an ErrUnsafe with a text.
func Unsafe(text string, args ...any) error {
	return fmt.Errorf("%w: "+text, append([]any{ErrUnsafe}, args...)...)
}

// Open returns a pool of at most that many connections. The server ends a connection that is idle for wait seconds.
func Open(cfg *mysql.Config, most, wait int) (*sql.DB, error) {
	made, err := mysql.NewConnector(configure(cfg))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector{made, initOf(wait)})
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	db.SetConnMaxIdleTime(time.Duration(wait) * time.Second / 2)
	return db, nil
}

// connector sends statements on each new connection.
type connector struct {
	driver.Connector
	init string
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, c.init, nil); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// HangUp closes a connection instead of giving it back to its pool.
func HangUp(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// Needs say what a journal needs from a server.
type Needs struct {
	Durable  bool // commits have to be durable on the server's own disk
	ReadOnly bool // nothing is written
}

// Facts are what a server says about itself.
type Facts struct {
	Dialect   Dialect
	MaxPacket int
	Undoes    bool // a wait for a lock that takes too long undoes the whole transaction
}

// DurableSQL is true if commits are durable on the server's own disk.
const DurableSQL = "(@@global.innodb_flush_log_at_trx_commit = 1 AND (NOT @@global.log_bin OR @@global.sync_binlog = 1))"

// Check returns ErrUnsafe for a server that a journal is not safe on.
func Check(ctx context.Context, conn *sql.Conn, needs Needs) (f Facts, err error) {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT @@version").Scan(&version); err != nil {
		return f, err
	}
	if f.Dialect, err = dialectOf(version); err != nil {
		return f, err
	}
	var logs, readOnly bool
	var flush, sync int
	var format, engine string
	err = conn.QueryRowContext(ctx, "SELECT @@global.log_bin, @@global.read_only, @@global.innodb_flush_log_at_trx_commit, @@global.sync_binlog, @@session.binlog_format, @@session.default_storage_engine, @@max_allowed_packet, @@global.innodb_rollback_on_timeout").
		Scan(&logs, &readOnly, &flush, &sync, &format, &engine, &f.MaxPacket, &f.Undoes)
	if err != nil || needs.ReadOnly {
		return f, err
	}
	refuse := func(text string, args ...any) (Facts, error) { return f, Unsafe(text, args...) }
	switch galera, replica, err := around(ctx, conn, f.Dialect.Sources); {
	case err != nil:
		return f, err
	case galera:
		return refuse("the server is a Galera node (wsrep_on): Galera may refuse a commit that another node has prepared, and the journal has no tests there; use a server with asynchronous or semi-synchronous replicas")
	case replica:
		return refuse("the server is a replica: connect to the primary")
	}
	switch {
	case readOnly:
		return refuse("read_only is on: connect to the primary")
	case engine != "InnoDB":
		return refuse("default_storage_engine is %s: InnoDB is needed, as the application's tables take part in the journal's transactions", engine)
	case logs && format == "STATEMENT":
		return refuse("binlog_format is STATEMENT, which can't log transactions of READ COMMITTED: set binlog_format to ROW")
	case needs.Durable && flush != 1:
		return refuse("innodb_flush_log_at_trx_commit is %d, so a power loss loses acknowledged commits: set it to 1, or see Options.Durability", flush)
	case needs.Durable && logs && sync != 1:
		return refuse("sync_binlog is %d, so a power loss loses acknowledged commits: set it to 1, or see Options.Durability", sync)
	}
	return f, nil
}

// around reports whether the server is a Galera node, and whether it replicates from another server. An account without the
// privilege to ask for sources learns only of MariaDB's replication that runs. Otherwise, read_only has to tell.
func around(ctx context.Context, conn *sql.Conn, sources string) (galera, replica bool, err error) {
	node, err := shown(ctx, conn, "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
	if err != nil {
		return false, false, err
	}
	running, err := shown(ctx, conn, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")
	if err != nil {
		return false, false, err
	}
	galera, replica = node == "ON", running != "" && running != "0"
	rows, err := conn.QueryContext(ctx, sources)
	if err != nil {
		if myerr.IsStatements(err) {
			err = nil
		}
		return galera, replica, err
	}
	defer rows.Close()
	return galera, rows.Next() || replica, rows.Err()
}

// shown returns the value of a SHOW statement for one name, or "" if the server does not know the name.
func shown(ctx context.Context, conn *sql.Conn, statement string) (value string, err error) {
	var name string
	err = conn.QueryRowContext(ctx, statement).Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value, err
}
