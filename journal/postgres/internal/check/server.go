package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrUnsafe means that the server's settings lose acknowledged commits, or are not those that a journal needs.
var ErrUnsafe = errors.New("postgres: not safe for a journal")

// RowReader runs a statement with one row.
type RowReader interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Needs says what a journal needs of its server.
type Needs struct {
	Writes  bool // commits are acknowledged; false for a reader
	Durable bool // they are durable by the server's own disk
}

// Server returns an error for a server that does not do. It reports whether commits wait for a standby.
func Server(ctx context.Context, conn RowReader, needs Needs) (awaits bool, err error) {
	var (
		version           int
		encoding          string
		fsync, pages      string
		standbys          string
		standby, readonly bool
	)
	err = conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), coalesce(current_setting('fsync', true), 'on'), "+
		"coalesce(current_setting('full_page_writes', true), 'on'), coalesce(current_setting('synchronous_standby_names', true), ''), pg_is_in_recovery(), "+
		"current_setting('default_transaction_read_only')::bool").Scan(&version, &encoding, &fsync, &pages, &standbys, &standby, &readonly)
	if err != nil {
		return false, err
	}
	if !needs.Writes { // nothing is acknowledged
		standby, readonly, standbys = false, false, ""
	}
	local := needs.Writes && needs.Durable
	switch {
	case version < 140000:
		return false, fmt.Errorf("%w: the server has version %d, and 14 is needed", ErrUnsafe, version/10000)
	case encoding != "UTF8":
		return false, fmt.Errorf("%w: the database's encoding is %s, and UTF8 is needed", ErrUnsafe, encoding)
	case standby:
		return false, fmt.Errorf("%w: the server is a standby: connect to the primary, for example with target_session_attrs=read-write", ErrUnsafe)
	case readonly:
		return false, fmt.Errorf("%w: default_transaction_read_only is on", ErrUnsafe)
	case local && fsync != "on":
		return false, fmt.Errorf("%w: fsync is %s: acknowledged commits are lost with the machine's power; set it on, or see Options.Durability", ErrUnsafe, fsync)
	case local && pages != "on":
		return false, fmt.Errorf("%w: full_page_writes is %s: a half-written page can't be repaired; set it on, or see Options.Durability", ErrUnsafe, pages)
	}
	return standbys != "", nil
}

// Text returns an error if a setting changes the form of the values that the server sends as text. Behind a pooler it
// sends them so, and in another form the journal could not read its records again.
func Text(ctx context.Context, conn RowReader) error {
	var bytea, date, encoding string
	err := conn.QueryRow(ctx, "SELECT current_setting('bytea_output'), current_setting('DateStyle'), current_setting('client_encoding')").Scan(&bytea, &date, &encoding)
	refuse := func(setting, is, want string) error {
		return fmt.Errorf("%w: %s is %s, and behind a pooler (Options.Pooled) it has to be %s: ALTER ROLE … SET %[2]s = '%[4]s', and have the pooler connect anew", ErrUnsafe, setting, is, want)
	}
	switch {
	case err != nil:
		return err
	case bytea != "hex":
		return refuse("bytea_output", bytea, "hex")
	case !strings.HasPrefix(date, "ISO"):
		return refuse("DateStyle", date, "ISO")
	case encoding != "UTF8":
		return refuse("client_encoding", encoding, "UTF8")
	}
	return nil
}

// Tables returns an error for a journal whose tables a crash empties, or whose rows are hidden from this role.
func Tables(ctx context.Context, conn RowReader, schema string) error {
	var unlogged, policies bool
	err := conn.QueryRow(ctx, "SELECT bool_or(relpersistence <> 'p'), bool_or(row_security_active(c.oid)) FROM pg_class c WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p')",
		schema).Scan(&unlogged, &policies)
	switch {
	case err != nil:
		return err
	case unlogged:
		return fmt.Errorf("%w: a table of the journal is unlogged, and is empty after a crash: ALTER TABLE … SET LOGGED", ErrUnsafe)
	case policies:
		return fmt.Errorf("%w: row security hides rows of the journal from this role: disable it for the journal's tables", ErrUnsafe)
	}
	return nil
}

// StartOf returns when the server was started. No two servers were started in the same microsecond. So another time
// shows that another server answers, or that this one was restarted. A connection to a pooler outlives both.
func StartOf(ctx context.Context, conn RowReader) (started time.Time, err error) {
	err = conn.QueryRow(ctx, "SELECT "+StartSQL).Scan(&started)
	return started, err
}

// StartSQL is the expression of StartOf.
const StartSQL = "pg_postmaster_start_time()"
