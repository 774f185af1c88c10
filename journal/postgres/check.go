package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// check returns an error for a server that a journal is not safe on, and for a journal other than the one to open. If
// the journal lay in another database before, or the database is older than this process has seen, the journal counts
// as restored. After check, the guard lets this process commit on that server, until it is started again or another
// is in its place.
func (j *Journal) check(ctx context.Context, conn *pgx.Conn, told *connection.Notices) error {
	if err := j.checkText(ctx, conn); err != nil {
		return err
	}
	started, err := j.startOf(ctx, conn)
	if err != nil {
		return err
	}
	if err := j.checkServer(ctx, conn, told); err != nil {
		return err
	}
	if err := j.checkJournal(ctx, conn); err != nil {
		return err
	}
	if again, err := j.startOf(ctx, conn); err != nil {
		return err
	} else if !sameStart(started, again) { // behind a pooler
		return errMoved
	}
	j.started.Store(started)
	return nil
}

// dial connects, and checks whether the database is still the same. told receives the server's notices. Nil means
// that they are not needed.
func (j *Journal) dial(ctx context.Context, told *connection.Notices) (*pgx.Conn, error) {
	if told == nil {
		told = new(connection.Notices)
	}
	ctx, cancel := context.WithTimeout(ctx, connection.DialTime)
	defer cancel()
	defer context.AfterFunc(j.background, cancel)()
	conn, err := j.dialer.Connect(ctx, told)
	if err != nil {
		return nil, err
	}
	if err := j.check(ctx, conn, told); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// checkText returns an error if a setting changes the form of the values that the server sends as text. Behind a
// pooler it sends them so, and in another form the journal could not read its records again. Without Options.Pooled,
// checkText returns nil.
func (j *Journal) checkText(ctx context.Context, conn *pgx.Conn) error {
	if !j.opts.Pooled {
		return nil
	}
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

var errMoved = errors.New("postgres: another server was in the place of the one that was looked at")

// startOf returns when the server was started. No two servers were started in the same microsecond. So another time
// shows that another server answers, or that this one was restarted. A connection to a pooler outlives both. startOf
// returns nil if the engine, or the role, can't tell.
func (j *Journal) startOf(ctx context.Context, conn *pgx.Conn) (*time.Time, error) {
	var started time.Time
	err := conn.QueryRow(ctx, "SELECT "+serverStart).Scan(&started)
	switch {
	case pgerr.Code(err) == pgerr.NoSuchFunction, pgerr.Code(err) == pgerr.LacksPrivilege:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &started, nil
}

const serverStart = "pg_postmaster_start_time()"

func sameStart(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }

// checkAgain repeats check if the connection may have reached another server, or a restarted one: the server's start
// is another, or unknown.
func (j *Journal) checkAgain(ctx context.Context, conn *pgx.Conn) error {
	started, err := j.startOf(ctx, conn)
	if err == nil && (started == nil || !sameStart(started, j.started.Load())) {
		err = j.check(ctx, conn, nil)
	}
	return err
}

func (j *Journal) checkServer(ctx context.Context, conn *pgx.Conn, told *connection.Notices) error {
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
	if j.opts.ReadOnly { // nothing is acknowledged
		standby, readonly, standbys = false, false, ""
	}
	local := !j.opts.ReadOnly && j.opts.Durability == ServersDisk && !j.opts.Unsafe
	switch {
	case version < 140000:
		return fmt.Errorf("%w: the server has version %d, and 14 is needed", ErrUnsafe, version/10000)
	case encoding != "UTF8":
		return fmt.Errorf("%w: the database's encoding is %s, and UTF8 is needed", ErrUnsafe, encoding)
	case standby:
		return fmt.Errorf("%w: the server is a standby: connect to the primary, as by several hosts and target_session_attrs=read-write", ErrUnsafe)
	case readonly:
		return fmt.Errorf("%w: default_transaction_read_only is on", ErrUnsafe)
	case local && fsync != "on":
		return fmt.Errorf("%w: fsync is %s: what was acknowledged is lost with the machine's power; set it on, or see Options.Durability", ErrUnsafe, fsync)
	case local && pages != "on":
		return fmt.Errorf("%w: full_page_writes is %s: a page that was half written can't be mended; set it on, or see Options.Durability", ErrUnsafe, pages)
	}
	if j.awaited.Store(standbys != ""); told == nil {
		return nil
	}
	if told.Looked.Store(false); standbys == "" {
		return nil
	}
	// Only a notice shows that a standby does not have a commit.
	told.Warned.Store(false)
	if err := connection.Alone(ctx, j.background, conn, func(b *pgx.Batch) {
		b.Queue("DO $$ BEGIN RAISE WARNING 'onceward: is this passed on?'; END $$")
	}); err != nil {
		return err
	}
	if !told.Warned.Swap(false) {
		return fmt.Errorf("%w: commits wait for a standby, and a pooler in between keeps the server's notices to itself, "+
			"by which alone it is told that one did not: connect directly", ErrUnsafe)
	}
	told.Looked.Store(true)
	return nil
}

// place is where the journal lies. A part that the engine does not have is "".
type place struct{ system, database, table, timeline string }

func (j *Journal) checkJournal(ctx context.Context, conn *pgx.Conn) error {
	var (
		version, leastWriter int
		unlogged, policies   bool
		deployment           *string
		restored, promoted   *string
		epoch, next, highest int64
		there                bool
	)
	err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", j.schema+".journal").Scan(&there)
	switch {
	case pgerr.Code(err) == pgerr.LacksPrivilege:
		return lacksGrant("open", "USAGE ON SCHEMA "+j.schema)
	case err != nil:
		return err
	case !there:
		return errNoJournal
	}
	if err := j.checkGrants(ctx, conn); err != nil {
		return err
	}
	var id string
	var is sighting
	ended, was := j.adoption.count(), j.memory.last() // before it is looked: others look too
	if m := j.member.Load(); m != nil {
		is.member = m.id
	}
	err = conn.QueryRow(ctx, "SELECT id, schema_version, least_writer, deployment, restored, promoted, epoch, witnessed, (SELECT beats FROM "+j.schema+".sessions WHERE id = $1) FROM "+
		j.schema+".journal", is.member).Scan(&id, &version, &leastWriter, &deployment, &restored, &promoted, &epoch, &is.witnessed, &is.beats)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: the table journal has no row: was it truncated?", ErrUnsafe)
	}
	if err != nil {
		return err
	}
	if err := checkVersion(version, leastWriter); err != nil {
		return err
	}
	j.id.Store(&id)
	err = conn.QueryRow(ctx, "SELECT bool_or(relpersistence <> 'p'), bool_or(row_security_active(c.oid)) FROM pg_class c WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p')",
		j.schema).Scan(&unlogged, &policies)
	if err != nil {
		return err
	}
	switch {
	case unlogged:
		return fmt.Errorf("%w: a table of the journal is unlogged, and is empty after a crash: ALTER TABLE … SET LOGGED", ErrUnsafe)
	case policies:
		return fmt.Errorf("%w: row security hides rows of the journal from this role: disable it for the journal's tables", ErrUnsafe)
	case deployment != nil && j.opts.Deployment != "" && *deployment != j.opts.Deployment:
		return fmt.Errorf("%w: it is that of %q, and Options.Deployment is %q", ErrDeployment, *deployment, j.opts.Deployment)
	}
	j.takeRestored(ended, restored, promoted)
	if err := conn.QueryRow(ctx, "SELECT last_value, (SELECT coalesce(max(handle), 0) FROM "+j.schema+".operations) FROM "+j.schema+".handles").Scan(&next, &highest); err != nil {
		return err
	}
	if restored != nil {
		return nil // and why is known
	}
	if next < highest {
		return j.looksRestored(ctx, conn, epoch, fmt.Sprintf("the sequence of handles is at %d, and %d is taken", next, highest))
	}
	is.epoch, is.place = epoch, j.placeOf(ctx, conn)
	if why, err := j.recall(ctx, conn, was, is); err != nil {
		return err
	} else if why != "" {
		return j.isOlder(ctx, conn, epoch, why)
	}
	err = j.checkPlace(ctx, conn, epoch, is.place)
	if err == nil {
		j.memory.keep(is)
	}
	return err
}

// checkPlace compares where the journal lies with where it lay before.
func (j *Journal) checkPlace(ctx context.Context, conn *pgx.Conn, epoch int64, is place) error {
	j.timeline.Store(&is.timeline)
	var system, database, table, timeline *string
	err := conn.QueryRow(ctx, "SELECT system_identifier, database_oid, table_oid, timeline FROM "+j.schema+".journal").Scan(&system, &database, &table, &timeline)
	switch {
	case err != nil:
		return err
	case system == nil: // it is opened for the first time
		return j.stamp(ctx, conn, is, "AND system_identifier IS NULL")
	case differs(system, is.system):
		return j.looksRestored(ctx, conn, epoch, "it lies on another server than before")
	case differs(database, is.database):
		return j.looksRestored(ctx, conn, epoch, "it lies in another database than before")
	case differs(table, is.table):
		return j.looksRestored(ctx, conn, epoch, "its tables were made anew, as by pg_restore")
	case differs(timeline, is.timeline):
		if j.opts.Failover == LosesNothing {
			return j.stamp(ctx, conn, is, "")
		}
		if j.opts.Existing {
			return j.looksRestored(ctx, conn, epoch, "the server was promoted, and no process of the service has said yet whether it has everything: start one, or see Options.Failover")
		}
		return j.isPromoted(ctx, conn, epoch, is.timeline)
	}
	return nil
}

// or returns p, with the earlier values of the parts that are unknown now.
func (p place) or(was place) place {
	return place{cmp.Or(p.system, was.system), cmp.Or(p.database, was.database), cmp.Or(p.table, was.table), cmp.Or(p.timeline, was.timeline)}
}

// differs reports whether a part has changed. A part that an engine can't tell has not.
func differs(was *string, is string) bool { return was != nil && *was != "" && is != "" && *was != is }

// placeOf asks for each part by itself. A part is "" if the engine lacks the function, or the role may not call it.
func (j *Journal) placeOf(ctx context.Context, conn rowReader) place {
	one := func(sql string, args ...any) (value string) {
		if conn.QueryRow(ctx, sql, args...).Scan(&value) != nil {
			return ""
		}
		return value
	}
	return place{
		system:   one("SELECT system_identifier::text FROM pg_control_system()"),
		database: one("SELECT oid::bigint::text FROM pg_database WHERE datname = current_database()"),
		table:    one("SELECT to_regclass($1)::oid::bigint::text", j.schema+".operations"),
		timeline: one("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"),
	}
}

// looksRestored is isRestored for evidence that is seen from outside. With Options.Existing, only this process counts
// the journal as restored, and writes nothing.
func (j *Journal) looksRestored(ctx context.Context, conn *pgx.Conn, epoch int64, why string) error {
	if j.opts.Existing {
		j.restored.Store(&restoration{why: why})
		return nil
	}
	return j.isRestored(ctx, conn, epoch, why)
}

// stamp records where the journal lies, and its deployment. With Options.Existing it does nothing.
func (j *Journal) stamp(ctx context.Context, conn *pgx.Conn, is place, and string) error {
	if j.opts.Existing {
		return nil
	}
	return connection.Alone(ctx, j.background, conn, func(b *pgx.Batch) {
		b.Queue("UPDATE "+j.schema+".journal SET deployment = coalesce(deployment, $1), system_identifier = $2, database_oid = $3, table_oid = $4, timeline = $5, "+
			notSynchronous+" WHERE one = 1 "+and, j.opts.Deployment, is.system, is.database, is.table, is.timeline)
	})
}
