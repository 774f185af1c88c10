package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/schema"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// nowSQL is the server's time in microseconds since 1970, when the statement began.
const nowSQL = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"

// dial connects, and checks whether the database is still the same.
func (d *Driver) dial(ctx context.Context) (*sql.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, server.DialTime)
	defer cancel()
	defer context.AfterFunc(d.background, cancel)()
	conn, err := d.own.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.check(ctx, conn); err != nil {
		server.HangUp(conn)
		return nil, err
	}
	return conn, nil
}

// check returns an error for a server that a journal is not safe on, and for a journal other than the one to open. If the
// journal lay on another server before, or the database is older than this process has seen, the journal counts as
// restored.
func (d *Driver) check(ctx context.Context, conn *sql.Conn) error {
	facts, err := server.Check(ctx, conn, server.Needs{Durable: d.opts.Durable, ReadOnly: d.opts.ReadOnly})
	if err != nil {
		return err
	}
	d.packet.Store(int64(facts.MaxPacket))
	d.undoes.Store(facts.Undoes)
	if d.identity == "" { // it is opened
		d.dialect = facts.Dialect
	} else if d.dialect != facts.Dialect {
		return fmt.Errorf("%w: another kind of server took the place of the one that was checked", server.ErrUnsafe)
	}
	return d.checkJournal(ctx, conn, facts.Place)
}

// ErrDeployment is mysql.ErrDeployment.
var ErrDeployment = errors.New("mysql: the journal of another deployment")

func (d *Driver) checkJournal(ctx context.Context, conn *sql.Conn, place string) error {
	if d.identity == "" { // it is opened
		if err := d.checkTables(ctx, conn); err != nil {
			return err
		}
	}
	var (
		identity             string
		key                  []byte
		version, leastWriter int
		sealed               string
		deployment, restored sql.NullString
		epoch, now           int64
		next, highest        int64
	)
	is := leased.Sighting{Place: leased.Place{System: place}}
	ended, was := d.adoption.count(), d.memory.Last() // before it is looked: others look too
	if m := d.member.Load(); m != nil {
		is.Member = m.ID
	}
	sent := time.Now()
	err := conn.QueryRowContext(ctx, render(d.in("SELECT "+nowSQL+", id, digest_key, schema_version, least_writer, sealed, deployment, restored, epoch, witnessed, (SELECT beats FROM {{s}}.sessions WHERE id = ?), "+
		"(SELECT next FROM {{s}}.handles WHERE name = 'operations'), (SELECT coalesce(max(handle), 0) FROM {{s}}.operations) FROM {{s}}.journal"), true, []any{is.Member})).
		Scan(&now, &identity, &key, &version, &leastWriter, &sealed, &deployment, &restored, &epoch, &is.Witnessed, &is.Beats, &next, &highest)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return schema.ErrNoJournal
	case err != nil:
		return err
	}
	d.time.HeardAt(sent, time.UnixMicro(now))
	if err := schema.Check(version, leastWriter); err != nil {
		return err
	}
	d.sealed.Store(&sealed)
	switch {
	case d.identity == "":
		if d.key, err = format.UnsealHashKey(key); err != nil {
			return err
		}
		d.identity = identity
	case d.identity != identity:
		return fmt.Errorf("%w: another journal took the place of the one that was opened", ErrDeployment)
	}
	if deployment.Valid && d.opts.Deployment != "" && deployment.String != d.opts.Deployment {
		return fmt.Errorf("%w: it is the journal of %q, and Options.Deployment is %q", ErrDeployment, deployment.String, d.opts.Deployment)
	}
	d.takeRestored(ended, restored)
	if restored.Valid {
		return nil // and why is known
	}
	if next <= highest {
		return d.looksRestored(ctx, conn, epoch, fmt.Sprintf("the row of handles is at %d, and %d is taken", next, highest))
	}
	is.Epoch = epoch
	if why, err := d.recall(ctx, conn, was, is); err != nil {
		return err
	} else if why != "" {
		return d.isOlder(ctx, conn, epoch, why)
	}
	if err = d.checkPlace(ctx, conn, epoch, place, deployment.Valid); err == nil {
		d.memory.Keep(is)
	}
	return err
}

// checkPlace compares where the journal lies with where it lay before.
func (d *Driver) checkPlace(ctx context.Context, conn *sql.Conn, epoch int64, place string, owned bool) error {
	var was sql.NullString
	if err := conn.QueryRowContext(ctx, d.in("SELECT place FROM {{s}}.journal")).Scan(&was); err != nil {
		return err
	}
	differs := leased.Differs(&was.String, place)
	if differs && !d.opts.Movable {
		return d.looksRestored(ctx, conn, epoch, "it lies on another server than before")
	}
	if d.opts.Existing || owned && was.Valid && !differs {
		return nil
	}
	_, err := conn.ExecContext(ctx, render(d.in("UPDATE {{s}}.journal SET deployment = coalesce(deployment, ?), place = ?"), true, []any{d.opts.Deployment, place}))
	return err
}

// looksRestored is isRestored for evidence that is seen from outside. With Options.Existing, only this process counts the
// journal as restored, and writes nothing.
func (d *Driver) looksRestored(ctx context.Context, conn *sql.Conn, epoch int64, why string) error {
	if d.opts.Existing {
		d.restored.Store(&restoration{why})
		return nil
	}
	return d.isRestored(ctx, conn, epoch, why)
}

// tables are the journal's tables.
var tables = []string{"journal", "identity", "handles", "sessions", "lanes", "margins", "operations", "names", "requests", "answers", "marks", "mark_slots", "heard", "flows", "flow_steps", "receipts", "heads", "bookmarks"}

// checkTables returns an error for missing tables, for tables without transactions, and for columns whose collation would fold
// names.
func (d *Driver) checkTables(ctx context.Context, conn *sql.Conn) error {
	var found []string
	var unsafe error
	name := strings.Trim(d.schema, "`")
	p := d.pipeline(true)
	p.queue(func(rows *sql.Rows) error {
		var table, engine string
		err := rows.Scan(&table, &engine)
		if found = append(found, table); engine != "InnoDB" {
			unsafe = fmt.Errorf("%w: table %s has the engine %s, and InnoDB is needed: ALTER TABLE %[2]s ENGINE=InnoDB", server.ErrUnsafe, table, engine)
		}
		return err
	}, "SELECT table_name, coalesce(engine, '') FROM information_schema.tables WHERE table_schema = CONVERT(? USING utf8mb4)", name)
	p.queue(func(rows *sql.Rows) error {
		var table, column string
		err := rows.Scan(&table, &column)
		unsafe = fmt.Errorf("%w: column %s of table %s is text with a collation, which may take two names for one: make the column binary, as in mysql.Migrations", server.ErrUnsafe, column, table)
		return err
	}, "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = CONVERT(? USING utf8mb4) AND collation_name IS NOT NULL", name)
	if err := p.send(ctx, conn); err != nil {
		return err
	}
	if !slices.Contains(found, "journal") {
		return schema.ErrNoJournal
	}
	for _, table := range tables {
		if !slices.Contains(found, table) {
			return myerr.NoTable(table)
		}
	}
	return unsafe
}

// checkRelease returns an error if the journal was migrated to a later release that excludes this one. Then this process
// renews no session, and closes each connection that writes before its next use. It also returns an error for a server
// that is the primary no more, so the heart leaves the server. checkRelease also reads the server's time.
func (d *Driver) checkRelease(ctx context.Context, conn *sql.Conn) error {
	var version, leastWriter int
	var sealed string
	var now int64
	var readOnly bool
	sent := time.Now()
	if err := conn.QueryRowContext(ctx, d.in("SELECT schema_version, least_writer, sealed, @@global.read_only, "+nowSQL+" FROM {{s}}.journal")).Scan(&version, &leastWriter, &sealed, &readOnly, &now); err != nil {
		return err
	}
	if readOnly {
		return myerr.IsReadOnly()
	}
	d.time.HeardAt(sent, time.UnixMicro(now))
	err := schema.Check(version, leastWriter)
	d.outdated.Store(err != nil)
	d.sealed.Store(&sealed)
	return err
}

// alone commits statements in a transaction that no guard fences.
func (d *Driver) alone(ctx context.Context, conn *sql.Conn, queue func(*pipeline)) error {
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	defer context.AfterFunc(d.background, cancel)()
	p := d.pipeline(true)
	p.queue(nil, "START TRANSACTION")
	queue(p)
	p.queue(nil, "COMMIT")
	err := p.send(ctx, conn)
	if err != nil && myerr.IsStatements(err) {
		if _, ends := conn.ExecContext(ctx, "ROLLBACK"); ends != nil {
			server.HangUp(conn)
		}
	}
	return err
}
