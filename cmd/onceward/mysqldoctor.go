package main

import (
	"context"
	"database/sql"
	"net"
	"strconv"
	"time"

	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/internal/shown"
)

func (m *mySQL) checks() []check {
	return []check{m.examineServer, m.examineConnection, m.examineTables}
}

// pairs returns the names and values that a SHOW statement lists. Each account may run these statements.
func pairs(ctx context.Context, tx *sql.Tx, query string) (map[string]string, error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, rows.Err()
}

func (m *mySQL) examineServer(ctx context.Context, tx *sql.Tx, x *examination) error {
	is, err := pairs(ctx, tx, `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'read_only', 'wsrep_on', 'log_bin', 'binlog_format', 'sync_binlog',
		'innodb_flush_log_at_trx_commit', 'default_storage_engine')`)
	if err != nil {
		return err
	}
	x.judge(is["read_only"] != "ON", "version "+is["version"]+", not read-only", checked{"server", levelWarn,
		"version " + is["version"] + ", read-only, as a replica is: what is said here is as of what the server has replayed", "ask the primary where that matters; nothing can be resolved here", "journal"})
	logs := is["log_bin"] == "ON"
	lost := ": acknowledged commits are lost with the machine's power"
	kept := "; where the provider's storage keeps what it acknowledges, see Options.Durability"
	switch flush := is["innodb_flush_log_at_trx_commit"]; {
	case flush != "1":
		x.finds(levelFail, "durability", "innodb_flush_log_at_trx_commit is "+flush+lost, "set it to 1"+kept, "journal")
	case logs && is["sync_binlog"] != "1":
		x.finds(levelFail, "durability", "sync_binlog is "+is["sync_binlog"]+lost, "set it to 1"+kept, "journal")
	default:
		x.ok("durability", "commits wait for the server's disk")
	}
	unfit := ""
	switch {
	case is["wsrep_on"] == "ON":
		unfit = "the server is a Galera node (wsrep_on)"
	case is["default_storage_engine"] != "InnoDB":
		unfit = "default_storage_engine is " + is["default_storage_engine"]
	case logs && is["binlog_format"] == "STATEMENT":
		unfit = "binlog_format is STATEMENT"
	}
	x.judge(unfit == "", "they suit a journal", checked{"settings", levelFail, unfit + ": no application can open the journal here", "see the settings in docs/mysql.md", "journal"})
	return nil
}

// examineConnection checks this command's connection to the server.
func (m *mySQL) examineConnection(ctx context.Context, tx *sql.Tx, x *examination) error {
	is, err := pairs(ctx, tx, "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_cipher', 'Threads_connected')")
	if err != nil {
		return err
	}
	var most int
	if err := tx.QueryRowContext(ctx, "SELECT @@global.max_connections").Scan(&most); err != nil {
		return err
	}
	used, err := strconv.Atoi(is["Threads_connected"])
	if err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(m.cfg.Addr)
	x.encrypted(is["Ssl_cipher"] != "", m.proven(), m.cfg.Net == "unix" || address.IsLoopback(host), "set tls=true, for the application too")
	x.connections(used, most)
	return nil
}

// proven reports whether a certificate shows which server answers.
func (m *mySQL) proven() bool { return m.cfg.TLS != nil && !m.cfg.TLS.InsecureSkipVerify }

// examineTables looks for transactions that keep the server from purging old rows. An account without the privilege PROCESS
// does not see the transactions.
func (m *mySQL) examineTables(ctx context.Context, tx *sql.Tx, x *examination) error {
	var bytes int64
	err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(data_length + index_length), 0) FROM information_schema.tables WHERE table_schema = ?", m.schema).Scan(&bytes)
	if err != nil {
		return err
	}
	x.ok("tables", "%s", shown.Bytes(bytes))
	var seconds sql.NullInt64
	err = tx.QueryRowContext(ctx, "SELECT max(timestampdiff(SECOND, trx_started, now())) FROM information_schema.innodb_trx").Scan(&seconds)
	if err != nil && m.fault(err) == faultRefused {
		return nil
	}
	if err != nil {
		return err
	}
	x.transactions(time.Duration(seconds.Int64)*time.Second, "find it in information_schema.innodb_trx, by trx_started, and end it")
	return nil
}
