package server

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
)

// Options say what the database has to be like.
type Options struct {
	fleet.Options
	Pooled     bool
	Durable    bool // commits have to be durable by the server's own disk
	Promotable bool // a promoted standby has all commits
	MayLose    bool // no warning if commits wait for no standby
}

// Server has the statements of this process's part in the journal. It is safe for concurrent use.
type Server struct {
	opts   Options
	schema string // quoted
	dialer *connection.Dialer
	fleet  *fleet.Fleet

	timeline atomic.Pointer[string]    // of the server, when it was last seen
	started  atomic.Pointer[time.Time] // start time of the checked server
	granted  atomic.Bool               // the role's privileges were checked
	awaited  atomic.Bool               // commits wait for a standby

	Identity string // of the journal, from the first check on
	Key      format.HashKey
}

// New returns a Server with the Fleet that works on db, which is not connected yet.
func New(schema string, dialer *connection.Dialer, db fleet.Database, opts Options) (*Server, *fleet.Fleet) {
	s := &Server{opts: opts, schema: schema, dialer: dialer}
	opts.Store, opts.ErrDeployment, opts.LocalBeats, opts.Standbys, opts.Evict = "postgres", ErrDeployment, true, s, s.Evict
	s.fleet = fleet.New(db, opts.Options)
	s.opts.Options = s.fleet.Options()
	return s, s.fleet
}

// in is a statement with the schema's name.
func (s *Server) in(text string) string { return strings.ReplaceAll(text, "{{s}}", s.schema) }

// Started is when the checked server was started.
func (s *Server) Started() time.Time { return *s.started.Load() }

// Unsafe reports whether commits need not be durable by the server's own disk.
func (s *Server) Unsafe() bool { return !s.opts.Durable }

// ErrUnsafe is postgres.ErrUnsafe.
var ErrUnsafe = schema.ErrUnsafe

// checkServer returns an error for a server that a journal is not safe on.
func (s *Server) checkServer(ctx context.Context, conn *pgx.Conn) error {
	var (
		version           int
		encoding          string
		fsync, pages      string
		standbys          string
		standby, readonly bool
	)
	err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), coalesce(current_setting('fsync', true), 'on'), "+
		"coalesce(current_setting('full_page_writes', true), 'on'), coalesce(current_setting('synchronous_standby_names', true), ''), pg_is_in_recovery(), "+
		"current_setting('default_transaction_read_only')::bool").Scan(&version, &encoding, &fsync, &pages, &standbys, &standby, &readonly)
	if err != nil {
		return err
	}
	if s.opts.ReadOnly { // nothing is acknowledged
		standby, readonly = false, false
	}
	local := !s.opts.ReadOnly && s.opts.Durable
	switch {
	case version < 140000:
		return fmt.Errorf("%w: the server has version %d, and 14 is needed", ErrUnsafe, version/10000)
	case encoding != "UTF8":
		return fmt.Errorf("%w: the database's encoding is %s, and UTF8 is needed", ErrUnsafe, encoding)
	case standby:
		return fmt.Errorf("%w: the server is a standby: connect to the primary, for example with target_session_attrs=read-write", ErrUnsafe)
	case readonly:
		return fmt.Errorf("%w: default_transaction_read_only is on", ErrUnsafe)
	case local && fsync != "on":
		return fmt.Errorf("%w: fsync is %s: acknowledged commits are lost with the machine's power; set it on, or see Options.Durability", ErrUnsafe, fsync)
	case local && pages != "on":
		return fmt.Errorf("%w: full_page_writes is %s: a half-written page can't be repaired; set it on, or see Options.Durability", ErrUnsafe, pages)
	}
	s.awaited.Store(standbys != "")
	return nil
}

// checkText returns an error if a setting changes the form of the values that the server sends as text. Behind a pooler
// it sends the settings so, and in another form the journal could not read the records again.
func checkText(ctx context.Context, conn *pgx.Conn) error {
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

// checkTables returns an error for a journal whose tables a crash empties, or whose rows are hidden from this role.
func (s *Server) checkTables(ctx context.Context, conn *pgx.Conn) error {
	var unlogged, policies bool
	err := conn.QueryRow(ctx, "SELECT bool_or(relpersistence <> 'p'), bool_or(row_security_active(c.oid)) FROM pg_class c WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p')",
		s.schema).Scan(&unlogged, &policies)
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

// startOf returns when the server was started. No two servers were started in the same microsecond. So another time
// shows that another server answers, or that the server was restarted. A connection to a pooler outlives both.
func startOf(ctx context.Context, conn *pgx.Conn) (started time.Time, err error) {
	err = conn.QueryRow(ctx, "SELECT "+StartSQL).Scan(&started)
	return started, err
}

// StartSQL is the expression of startOf.
const StartSQL = "pg_postmaster_start_time()"

// Place returns where the journal lies. It asks for each part in a separate statement. A part is "" if the engine lacks
// the function, or the role may not call it.
func (s *Server) Place(ctx context.Context, conn apptx.Runner) leased.Place {
	one := func(sql string, args ...any) (value string) {
		if conn.QueryRow(ctx, sql, args...).Scan(&value) != nil {
			return ""
		}
		return value
	}
	return leased.Place{
		System:   one("SELECT system_identifier::text FROM pg_control_system()"),
		Database: one("SELECT oid::bigint::text FROM pg_database WHERE datname = current_database()"),
		Table:    one("SELECT to_regclass($1)::oid::bigint::text", s.schema+".operations"),
		Timeline: one("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"),
	}
}

// Evict ends the role's connections that hold lanes' rows, and wait for a vanished or stopped client. A stopped client
// learns the commit's result after going on.
func (s *Server) Evict(ctx context.Context) {
	conn, err := s.dialer.Connect(ctx) // a check of the database may be waiting for this
	if err != nil {
		return
	}
	defer connection.HangUp(conn)
	var ended int
	err = conn.QueryRow(ctx, "SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity a WHERE a.usename = current_user AND a.wait_event_type = 'Client' "+
		"AND a.state_change < clock_timestamp() - interval '500 ms' AND a.pid IN (SELECT pid FROM pg_locks WHERE relation = $1::text::regclass)", s.schema+".lanes").Scan(&ended)
	if err == nil && ended > 0 {
		s.opts.Log.Warn("onceward: connections that held lanes of the journal were ended, since their client is gone or stopped", "connections", ended)
	}
}
