package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
)

// Check returns an error for a server that a journal is not safe on, and for a journal other than the one to open. If
// the journal lay in another database before, or the database is older than this process has seen, the journal counts
// as restored. After Check, the guard lets the process commit on the server, until the server restarts or another takes
// its place.
func (f *Fleet) Check(ctx context.Context, conn *pgx.Conn) error {
	if f.opts.Pooled {
		if err := checkText(ctx, conn); err != nil {
			return err
		}
	}
	started, err := startOf(ctx, conn)
	if err != nil {
		return err
	}
	if err := f.checkServer(ctx, conn); err != nil {
		return err
	}
	if err := f.checkJournal(ctx, conn); err != nil {
		return err
	}
	if again, err := startOf(ctx, conn); err != nil {
		return err
	} else if !again.Equal(started) { // behind a pooler
		return errMoved
	}
	f.started.Store(&started)
	return nil
}

// Dial connects, and checks whether the database is still the same.
func (f *Fleet) Dial(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connection.DialTime)
	defer cancel()
	defer context.AfterFunc(f.opts.Background, cancel)()
	conn, err := f.opts.Dialer.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.Check(ctx, conn); err != nil {
		connection.HangUp(conn)
		return nil, err
	}
	return conn, nil
}

var errMoved = errors.New("postgres: another server took the place of the one that was checked")

// checkAgain repeats Check if the connection has reached another server, or a restarted one.
func (f *Fleet) checkAgain(ctx context.Context, conn *pgx.Conn) error {
	started, err := startOf(ctx, conn)
	if err == nil && !started.Equal(f.Started()) {
		err = f.Check(ctx, conn)
	}
	return err
}

// ErrDeployment is postgres.ErrDeployment.
var ErrDeployment = errors.New("postgres: the journal of another deployment")

func (f *Fleet) checkJournal(ctx context.Context, conn *pgx.Conn) error {
	var (
		version, leastWriter int
		deployment           *string
		restored, promoted   *string
		epoch, next, highest int64
		there                bool
	)
	err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", f.schema+".journal").Scan(&there)
	switch {
	case pgerr.Code(err) == pgerr.LacksPrivilege:
		return pgerr.Lacks("USAGE ON SCHEMA " + f.schema)
	case err != nil:
		return err
	case !there:
		return schema.ErrNoJournal
	}
	if err := f.checkGrants(ctx, conn); err != nil {
		return err
	}
	var is leased.Sighting
	ended, was := f.adoption.count(), f.Memory.Last() // before it is looked: others look too
	if m := f.member.Load(); m != nil {
		is.Member = m.ID
	}
	var now time.Time
	sent := time.Now()
	err = conn.QueryRow(ctx, "SELECT clock_timestamp(), schema_version, least_writer, deployment, restored, promoted, epoch, witnessed, (SELECT beats FROM "+f.schema+".sessions WHERE id = $1) FROM "+
		f.schema+".journal", is.Member).Scan(&now, &version, &leastWriter, &deployment, &restored, &promoted, &epoch, &is.Witnessed, &is.Beats)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: the table journal has no row: was it truncated?", ErrUnsafe)
	}
	if err != nil {
		return err
	}
	f.Time.HeardAt(sent, now)
	if err := schema.Check(version, leastWriter); err != nil {
		return err
	}
	if err := f.checkTables(ctx, conn); err != nil {
		return err
	}
	if deployment != nil && f.opts.Deployment != "" && *deployment != f.opts.Deployment {
		return fmt.Errorf("%w: it is the journal of %q, and Options.Deployment is %q", ErrDeployment, *deployment, f.opts.Deployment)
	}
	f.takeRestored(ended, restored, promoted)
	if err := conn.QueryRow(ctx, f.in("SELECT last_value + 1023, (SELECT coalesce(max(handle), 0) FROM {{s}}.operations) FROM {{s}}.handles")).Scan(&next, &highest); err != nil {
		return err
	}
	if restored != nil {
		return nil // and why is known
	}
	if next < highest {
		return f.looksRestored(ctx, conn, epoch, fmt.Sprintf("the sequence of handles is at %d, and %d is taken", next, highest))
	}
	is.Epoch, is.Place = epoch, f.place(ctx, conn)
	if why, err := f.recall(ctx, conn, was, is); err != nil {
		return err
	} else if why != "" {
		return f.isOlder(ctx, conn, epoch, why)
	}
	err = f.checkPlace(ctx, conn, epoch, is.Place)
	if err == nil {
		f.Memory.Keep(is)
	}
	return err
}

// checkPlace compares where the journal lies with where it lay before.
func (f *Fleet) checkPlace(ctx context.Context, conn *pgx.Conn, epoch int64, is leased.Place) error {
	f.timeline.Store(&is.Timeline)
	var system, database, table, timeline *string
	err := conn.QueryRow(ctx, "SELECT system_identifier, database_oid, table_oid, timeline FROM "+f.schema+".journal").Scan(&system, &database, &table, &timeline)
	switch {
	case err != nil:
		return err
	case system == nil: // it is opened for the first time
		return f.stamp(ctx, conn, is, "AND system_identifier IS NULL")
	case leased.Differs(system, is.System):
		return f.looksRestored(ctx, conn, epoch, "it lies on another server than before")
	case leased.Differs(database, is.Database):
		return f.looksRestored(ctx, conn, epoch, "it lies in another database than before")
	case leased.Differs(table, is.Table):
		return f.looksRestored(ctx, conn, epoch, "its tables were made anew, as by pg_restore")
	case leased.Differs(timeline, is.Timeline):
		if f.opts.Promotable {
			return f.stamp(ctx, conn, is, "")
		}
		if f.opts.Existing {
			return f.looksRestored(ctx, conn, epoch, "the server was promoted, and no process of the service has said yet whether it has everything: start one, or see Options.Failover")
		}
		return f.isPromoted(ctx, conn, epoch, is.Timeline)
	}
	return nil
}

// looksRestored is isRestored for evidence that is seen from outside. With Options.Existing, only this process counts
// the journal as restored, and writes nothing.
func (f *Fleet) looksRestored(ctx context.Context, conn *pgx.Conn, epoch int64, why string) error {
	if f.opts.Existing {
		f.restored.Store(&restoration{why: why})
		return nil
	}
	return f.isRestored(ctx, conn, epoch, why)
}

// stamp records where the journal lies, and its deployment. With Options.Existing it does nothing.
func (f *Fleet) stamp(ctx context.Context, conn *pgx.Conn, is leased.Place, and string) error {
	if f.opts.Existing {
		return nil
	}
	return connection.Alone(ctx, f.opts.Background, conn, func(b *pgx.Batch) {
		b.Queue("UPDATE "+f.schema+".journal SET deployment = coalesce(deployment, $1), system_identifier = $2, database_oid = $3, table_oid = $4, timeline = $5 "+
			"WHERE one = 1 "+and, f.opts.Deployment, is.System, is.Database, is.Table, is.Timeline)
	})
}

// checkGrants rejects, once, a role that lacks a privilege, before there is something to record.
func (f *Fleet) checkGrants(ctx context.Context, conn *pgx.Conn) error {
	if f.granted.Load() {
		return nil
	}
	var of, privileges []string
	need := func(relation string, all ...string) {
		if f.opts.ReadOnly {
			all = []string{"SELECT"}
		}
		for _, privilege := range all {
			of, privileges = append(of, relation), append(privileges, privilege)
		}
	}
	need(f.schema+".journal", "SELECT", "UPDATE")
	for _, table := range tables {
		need(f.schema+"."+table, "SELECT", "INSERT", "UPDATE", "DELETE")
	}
	for _, sequence := range append([]string{"commits"}, sequences...) {
		need("SEQUENCE "+f.schema+"."+sequence, "USAGE", "SELECT")
	}
	// The schema's version reports missing tables.
	var lacks string
	err := conn.QueryRow(ctx, `SELECT coalesce(string_agg(lack, ', '), '') FROM (
		SELECT DISTINCT p || ' ON ' || t AS lack FROM unnest($1::text[], $2::text[]) n (t, p)
		WHERE NOT CASE WHEN t LIKE 'SEQUENCE %' THEN has_sequence_privilege(to_regclass(substr(t, 10)), p) ELSE has_table_privilege(to_regclass(t), p) END) l`,
		of, privileges).Scan(&lacks)
	switch {
	case err != nil:
		return err
	case lacks != "":
		return pgerr.Lacks(lacks)
	}
	f.granted.Store(true)
	return nil
}

// WarnOfLoss warns once of a failover that loses commits, unless Options accept such a failover.
func (f *Fleet) WarnOfLoss() {
	if f.awaited.Load() || f.opts.Existing || !f.opts.Durable || f.opts.MayLose || f.opts.Promotable {
		return
	}
	f.opts.Log.Warn("onceward: commits wait for no standby (synchronous_standby_names is empty): if this server is lost, so are its last commits, " +
		"and nothing is sent until an operator adopts the journal. Set Options.Failover if this is intended")
}
