package server

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
)

// Dialect has the differences between MariaDB and MySQL. Other files send only statements that both document.
type Dialect struct {
	MariaDB bool
	Share   string // the clause of a read that locks rows for sharing
	Place   string // an expression with the server's identity; empty on MariaDB, which has none
	Sources string // the statement that lists the servers that the server replicates from
}

// least are the earliest versions with SKIP LOCKED and NOWAIT, and in MySQL with SHOW REPLICA STATUS
// (https://dev.mysql.com/doc/refman/8.0/en/show-replica-status.html).
const leastMariaDB, leastMySQL = 10_06_00, 8_00_22

// dialectOf returns a server's dialect, by @@version.
func dialectOf(version string) (Dialect, error) {
	number := func() int {
		var major, minor, patch int
		_, _ = fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch) // what is missing counts as 0
		return 10000*major + 100*minor + patch
	}
	if strings.Contains(version, "MariaDB") {
		if number() < leastMariaDB {
			return Dialect{}, fmt.Errorf("%w: the server is MariaDB %s, and 10.6 is needed", ErrUnsafe, version)
		}
		return Dialect{MariaDB: true, Share: " LOCK IN SHARE MODE", Place: "''", Sources: "SHOW ALL REPLICAS STATUS"}, nil
	}
	if number() < leastMySQL {
		return Dialect{}, fmt.Errorf("%w: the server is MySQL %s, and 8.0.22 is needed", ErrUnsafe, version)
	}
	return Dialect{Share: " FOR SHARE", Place: "@@global.server_uuid", Sources: "SHOW REPLICA STATUS"}, nil
}

// unknownVariable is the number of MySQL's error for a variable that only MariaDB has.
const unknownVariable = 1193

// InTransaction returns ErrEnded unless a transaction is open on the connection. A statement that commits implicitly, such as
// CREATE TABLE, ends a transaction unnoticed. So does a deadlock.
func InTransaction(ctx context.Context, tx *sql.Tx) error {
	var open bool
	err := tx.QueryRowContext(ctx, "SELECT @@in_transaction").Scan(&open)
	if myerr.Number(err) != unknownVariable {
		if err == nil && !open {
			err = ErrEnded
		}
		return err
	}
	// Without a transaction, a savepoint is gone at once.
	if _, err := tx.ExecContext(ctx, "SAVEPOINT onceward_open"); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT onceward_open")
	if myerr.Number(err) == myerr.NoSavepoint {
		return ErrEnded
	}
	return err
}

// ErrEnded means that the application's transaction has ended unnoticed.
var ErrEnded = fmt.Errorf("%w (a statement that commits by itself, such as CREATE TABLE, or a deadlock has ended the transaction; what a statement committed stays)", journal.ErrTxAborted)

// init is sent on each of the journal's own connections. An idle connection ends after the server has waited for that many
// seconds, so a stopped process holds locks no longer.
func initOf(wait int) string {
	return fmt.Sprintf("SET NAMES utf8mb4; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "+
		"innodb_lock_wait_timeout = 1, lock_wait_timeout = 5, autocommit = 1, completion_type = 0, unique_checks = 1, sql_select_limit = 18446744073709551615, time_zone = '+00:00', wait_timeout = %d", wait)
}

// configure returns the configuration of the journal's own connections.
func configure(cfg *mysql.Config) *mysql.Config {
	cfg = cfg.Clone()
	cfg.MultiStatements, cfg.InterpolateParams, cfg.ClientFoundRows, cfg.ParseTime = true, true, false, false
	cfg.MaxAllowedPacket = 0 // the server's
	cfg.Collation = ""       // see initOf
	cfg.Logger = &mysql.NopLogger{}
	if cfg.Timeout == 0 || cfg.Timeout > DialTime {
		cfg.Timeout = DialTime
	}
	return cfg
}
