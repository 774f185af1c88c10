package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/member"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// check returns an error for a server that a journal is not safe on, and for a journal other than the one to open. If
// the journal lay in another database before, or the database is older than this process has seen, the journal counts
// as restored. After check, the guard lets this process commit on that server, until it is started again or another
// is in its place.
func (j *Journal) check(ctx context.Context, conn *pgx.Conn, told *connection.Notices) error {
	if j.opts.Pooled {
		if err := check.Text(ctx, conn); err != nil {
			return err
		}
	}
	started, err := check.StartOf(ctx, conn)
	if err != nil {
		return err
	}
	if err := j.checkServer(ctx, conn, told); err != nil {
		return err
	}
	if err := j.checkJournal(ctx, conn); err != nil {
		return err
	}
	if again, err := check.StartOf(ctx, conn); err != nil {
		return err
	} else if !check.SameStart(started, again) { // behind a pooler
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
		connection.HangUp(conn)
		return nil, err
	}
	return conn, nil
}

var errMoved = errors.New("postgres: another server took the place of the one that was checked")

// checkAgain repeats check if the connection may have reached another server, or a restarted one: the server's start
// is another, or unknown.
func (j *Journal) checkAgain(ctx context.Context, conn *pgx.Conn) error {
	started, err := check.StartOf(ctx, conn)
	if err == nil && (started == nil || !check.SameStart(started, j.started.Load())) {
		err = j.check(ctx, conn, nil)
	}
	return err
}

// checkServer returns an error for a server that a journal is not safe on. If told is nil, notices are not needed.
func (j *Journal) checkServer(ctx context.Context, conn *pgx.Conn, told *connection.Notices) error {
	awaits, err := check.Server(ctx, conn, check.Needs{Writes: !j.opts.ReadOnly, Durable: j.opts.Durability == ServersDisk && !j.opts.Unsafe})
	if err != nil {
		return err
	}
	if j.awaited.Store(awaits); told == nil {
		return nil
	}
	return check.Notices(ctx, j.background, conn, told, awaits)
}

func (j *Journal) checkJournal(ctx context.Context, conn *pgx.Conn) error {
	var (
		version, leastWriter int
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
	var is member.Sighting
	ended, was := j.adoption.count(), j.memory.Last() // before it is looked: others look too
	if m := j.member.Load(); m != nil {
		is.Member = m.ID
	}
	err = conn.QueryRow(ctx, "SELECT id, schema_version, least_writer, deployment, restored, promoted, epoch, witnessed, (SELECT beats FROM "+j.schema+".sessions WHERE id = $1) FROM "+
		j.schema+".journal", is.Member).Scan(&id, &version, &leastWriter, &deployment, &restored, &promoted, &epoch, &is.Witnessed, &is.Beats)
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
	if err := check.Tables(ctx, conn, j.schema); err != nil {
		return err
	}
	if deployment != nil && j.opts.Deployment != "" && *deployment != j.opts.Deployment {
		return fmt.Errorf("%w: it is the journal of %q, and Options.Deployment is %q", ErrDeployment, *deployment, j.opts.Deployment)
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
	is.Epoch, is.Place = epoch, check.PlaceOf(ctx, conn, j.schema)
	if why, err := j.recall(ctx, conn, was, is); err != nil {
		return err
	} else if why != "" {
		return j.isOlder(ctx, conn, epoch, why)
	}
	err = j.checkPlace(ctx, conn, epoch, is.Place)
	if err == nil {
		j.memory.Keep(is)
	}
	return err
}

// checkPlace compares where the journal lies with where it lay before.
func (j *Journal) checkPlace(ctx context.Context, conn *pgx.Conn, epoch int64, is check.Place) error {
	j.timeline.Store(&is.Timeline)
	var system, database, table, timeline *string
	err := conn.QueryRow(ctx, "SELECT system_identifier, database_oid, table_oid, timeline FROM "+j.schema+".journal").Scan(&system, &database, &table, &timeline)
	switch {
	case err != nil:
		return err
	case system == nil: // it is opened for the first time
		return j.stamp(ctx, conn, is, "AND system_identifier IS NULL")
	case check.Differs(system, is.System):
		return j.looksRestored(ctx, conn, epoch, "it lies on another server than before")
	case check.Differs(database, is.Database):
		return j.looksRestored(ctx, conn, epoch, "it lies in another database than before")
	case check.Differs(table, is.Table):
		return j.looksRestored(ctx, conn, epoch, "its tables were made anew, as by pg_restore")
	case check.Differs(timeline, is.Timeline):
		if j.opts.Failover == LosesNothing {
			return j.stamp(ctx, conn, is, "")
		}
		if j.opts.Existing {
			return j.looksRestored(ctx, conn, epoch, "the server was promoted, and no process of the service has said yet whether it has everything: start one, or see Options.Failover")
		}
		return j.isPromoted(ctx, conn, epoch, is.Timeline)
	}
	return nil
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
func (j *Journal) stamp(ctx context.Context, conn *pgx.Conn, is check.Place, and string) error {
	if j.opts.Existing {
		return nil
	}
	return connection.Alone(ctx, j.background, conn, func(b *pgx.Batch) {
		b.Queue("UPDATE "+j.schema+".journal SET deployment = coalesce(deployment, $1), system_identifier = $2, database_oid = $3, table_oid = $4, timeline = $5, "+
			notSynchronous+" WHERE one = 1 "+and, j.opts.Deployment, is.System, is.Database, is.Table, is.Timeline)
	})
}

// checkGrants rejects, once, a role that lacks a privilege, before there is something to record.
func (j *Journal) checkGrants(ctx context.Context, conn *pgx.Conn) error {
	if j.granted.Load() {
		return nil
	}
	var g check.Grants
	need := func(of string, all ...string) { g.Need(of, all...) }
	if j.opts.ReadOnly {
		need = func(of string, _ ...string) { g.Need(of, "SELECT") }
	}
	need(j.schema+".journal", "SELECT", "UPDATE")
	for _, table := range [...]string{"sessions", "lanes", "operations", "requests", "answers", "leases", "marks", "heard", "flows", "flow_steps"} {
		need(j.schema+"."+table, "SELECT", "INSERT", "UPDATE", "DELETE")
	}
	need("SEQUENCE "+j.schema+".handles", "USAGE", "SELECT")
	lacks, err := g.Lacking(ctx, conn)
	switch {
	case err != nil:
		return err
	case lacks != "":
		return lacksGrant("open", lacks)
	}
	j.granted.Store(true)
	return nil
}

func lacksGrant(doing, what string) error {
	return &Error{Doing: doing, Code: pgerr.LacksPrivilege, Reason: "the role lacks " + what + ": have the owner GRANT it"}
}

// warnOfLoss warns once of a failover that loses commits, unless Options accept it.
func (j *Journal) warnOfLoss() {
	if j.awaited.Load() || j.opts.Existing || j.opts.Unsafe || j.opts.Durability != ServersDisk || j.opts.Failover != FailoverUnknown {
		return
	}
	j.log.Warn("onceward: commits wait for no standby (synchronous_standby_names is empty): if this server is lost, so are its last commits, " +
		"and nothing is sent until an operator adopts the journal. Set Options.Failover if this is intended")
}
