package rows

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/schema"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// nowSQL is the server's time in microseconds since 1970, when the statement began.
const nowSQL = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"

// ownConn is a connection of the journal's own. It implements fleet.Conn.
type ownConn struct {
	*sql.Conn
	d    *Driver
	name string // of a lock that the connection holds: after a restart, the server gives the connection's number to another one
}

// Connect implements fleet.Database.
func (d *Driver) Connect(ctx context.Context) (fleet.Conn, error) {
	c, err := d.own.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &ownConn{Conn: c, d: d}, nil
}

// Broken implements fleet.Conn. The driver does not tell.
func (c *ownConn) Broken() bool { return false }

// HangUp implements fleet.Conn.
func (c *ownConn) HangUp() { server.HangUp(c.Conn) }

// Rollback implements fleet.Conn.
func (c *ownConn) Rollback(ctx context.Context) error {
	_, err := c.ExecContext(ctx, "ROLLBACK")
	return err
}

// query sends one statement.
func (c *ownConn) query(ctx context.Context, rows answer, text string, args ...any) error {
	p := c.d.pipeline(true)
	p.queue(rows, text, args...)
	return p.send(ctx, c)
}

// alone commits statements in a transaction that no guard fences.
func (c *ownConn) alone(ctx context.Context, queue func(*pipeline)) error {
	ctx, cancel := c.d.Limited(ctx)
	defer cancel()
	p := c.d.pipeline(true)
	p.queue(nil, "START TRANSACTION")
	queue(p)
	p.queue(nil, "COMMIT")
	err := p.send(ctx, c)
	if err != nil && myerr.IsStatements(err) && c.Rollback(ctx) != nil {
		c.HangUp()
	}
	return err
}

// Check implements fleet.Conn.
func (c *ownConn) Check(ctx context.Context) error {
	d := c.d
	facts, err := server.Check(ctx, c.Conn, server.Needs{Durable: d.opts.Durable, ReadOnly: d.opts.ReadOnly})
	if err != nil {
		return err
	}
	d.packet.Store(int64(facts.MaxPacket))
	d.undoes.Store(facts.Undoes)
	if d.identity == "" { // it is opened
		d.dialect = facts.Dialect
		if err := d.checkTables(ctx, c.Conn); err != nil {
			return err
		}
	} else if d.dialect != facts.Dialect {
		return fmt.Errorf("%w: another kind of server took the place of the one that was checked", server.ErrUnsafe)
	}
	if c.name == "" {
		name := rand.Text()
		if _, err := c.ExecContext(ctx, "DO GET_LOCK(?, 0)", name); err != nil {
			return err
		}
		c.name = name
	}
	return d.CheckJournal(ctx, c)
}

// checkTables returns an error for missing tables, for tables without transactions, and for columns whose collation would fold
// names.
func (d *Driver) checkTables(ctx context.Context, conn *sql.Conn) error {
	var found []string
	var unsafe error
	name := strings.Trim(d.schema, "`")
	p := d.pipeline(true)
	p.queue(func(rows columns.Row) error {
		var table, engine string
		err := rows.Scan(&table, &engine)
		if found = append(found, table); engine != "InnoDB" {
			unsafe = fmt.Errorf("%w: table %s has the engine %s, and InnoDB is needed: ALTER TABLE %[2]s ENGINE=InnoDB", server.ErrUnsafe, table, engine)
		}
		return err
	}, "SELECT table_name, coalesce(engine, '') FROM information_schema.tables WHERE table_schema = CONVERT(? USING utf8mb4)", name)
	p.queue(func(rows columns.Row) error {
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
	for _, table := range schema.Tables {
		if !slices.Contains(found, table) {
			return myerr.NoTable(table)
		}
	}
	return unsafe
}

// selectJournal reads the columns of scanJournal.
const selectJournal = "SELECT " + nowSQL + ", coalesce(restored, ''), epoch, witnessed, sealed, schema_version, least_writer"

// scanJournal reads the columns of selectJournal, and further columns behind them.
func scanJournal(rows columns.Row, is *fleet.Journal, further ...any) error {
	var now int64
	var version, leastWriter int
	if err := rows.Scan(append([]any{&now, &is.Restored, &is.Epoch, &is.Witnessed, &is.Sealed, &version, &leastWriter}, further...)...); err != nil {
		return err
	}
	is.Now = time.UnixMicro(now)
	return schema.Check(version, leastWriter)
}

// Look implements fleet.Conn. It returns an error for a server that is the primary no more, so the heart leaves the server.
func (c *ownConn) Look(ctx context.Context) (is fleet.Journal, err error) {
	var readOnly bool
	err = c.query(ctx, func(rows columns.Row) error { return scanJournal(rows, &is, &readOnly) }, selectJournal+", @@global.read_only FROM {{s}}.journal")
	if readOnly {
		err = myerr.IsReadOnly()
	}
	return is, err
}

// Sight implements fleet.Conn.
func (c *ownConn) Sight(ctx context.Context, member string) (is fleet.Sighting, err error) {
	var identity string
	var key []byte
	var next, highest int64
	handles := ", (SELECT next FROM {{s}}.handles WHERE name = 'operations'), (SELECT coalesce(max(handle), 0) FROM {{s}}.operations)"
	if c.d.identity != "" { // the heart would wait for a lock on operations; what it remembers shows a lack
		handles = ", 1, 0"
	}
	err = c.query(ctx, func(rows columns.Row) error {
		return scanJournal(rows, &is.Journal, &identity, &key, &is.Deployment, &is.Place.System, &is.Beats, &next, &highest)
	}, selectJournal+", id, digest_key, coalesce(deployment, ''), "+c.d.dialect.Place+", (SELECT beats FROM {{s}}.sessions WHERE id = ?)"+handles+" FROM {{s}}.journal", member)
	switch {
	case err != nil:
	case identity == "": // Migrate was interrupted, or the row was deleted
		if err = schema.IsUnused(ctx, c.Conn, c.d.schema); err == nil {
			err = schema.ErrNoJournal
		}
	case c.d.identity == "":
		c.d.key, err = format.UnsealHashKey(key)
		c.d.identity = identity
	case c.d.identity != identity:
		err = fmt.Errorf("%w: another journal took the place of the one that was opened", ErrDeployment)
	}
	if next <= highest {
		is.Because = fmt.Sprintf("the row of handles is at %d, and %d is taken", next, highest)
	}
	return is, err
}

// ErrDeployment is mysql.ErrDeployment.
var ErrDeployment = errors.New("mysql: the journal of another deployment")

// Moved implements fleet.Conn.
func (c *ownConn) Moved(ctx context.Context, is fleet.Sighting) (why string, err error) {
	var was sql.NullString
	if err := c.query(ctx, columns.One(&was), "SELECT place FROM {{s}}.journal"); err != nil {
		return "", err
	}
	differs := leased.Differs(&was.String, is.Place.System)
	switch {
	case differs && !c.d.opts.Movable:
		why = "it lies on another server than before"
	case !c.d.opts.Existing && (is.Deployment == "" || !was.Valid || differs):
		err = c.query(ctx, nil, "UPDATE {{s}}.journal SET deployment = coalesce(deployment, ?), place = ?", c.d.opts.Deployment, is.Place.System)
	}
	return why, err
}

// Mark implements fleet.Conn. It begins with the journal's row, since a new lane waits for that row.
func (c *ownConn) Mark(ctx context.Context, epoch int64, why string) (is fleet.Journal, err error) {
	err = c.alone(ctx, func(p *pipeline) {
		p.queue(nil, "UPDATE {{s}}.journal SET restored = ? WHERE epoch = ? AND (restored IS NULL OR restored LIKE '"+fleet.Adopting+"%')", why, epoch)
		p.queue(nil, "UPDATE {{s}}.lanes SET tenure = tenure + 1 WHERE EXISTS (SELECT 1 FROM {{s}}.journal WHERE epoch = ? AND restored = ?) ORDER BY process, lane", epoch, why)
		p.queue(func(rows columns.Row) error { return scanJournal(rows, &is) }, selectJournal+" FROM {{s}}.journal")
	})
	return is, err
}

// Testify implements fleet.Conn.
func (c *ownConn) Testify(ctx context.Context) (number, epoch int64, err error) {
	err = c.alone(ctx, func(p *pipeline) {
		p.queue(nil, "UPDATE {{s}}.journal SET witnessed = witnessed + 1")
		p.queue(columns.One(&number, &epoch), "SELECT witnessed, epoch FROM {{s}}.journal")
	})
	return number, epoch, err
}

// Commits implements fleet.Conn.
func (c *ownConn) Commits(ctx context.Context, process string) (batches map[int]int64, joined time.Time, err error) {
	latest := int64(0)
	batches = make(map[int]int64)
	p := c.d.pipeline(true)
	p.queue(columns.One(&latest), "SELECT coalesce(max(started_at), 0) FROM {{s}}.sessions")
	p.queue(func(rows columns.Row) error {
		var number int
		var batch int64
		err := rows.Scan(&number, &batch)
		batches[number] = batch
		return err
	}, "SELECT lane, batch FROM {{s}}.lanes WHERE process = ?", process)
	err = p.send(ctx, c)
	return batches, time.UnixMicro(latest), err
}

// Enroll implements fleet.Conn.
func (c *ownConn) Enroll(ctx context.Context, id string) (epoch int64, err error) {
	err = c.alone(ctx, func(p *pipeline) {
		p.queue(ignored, "SELECT one FROM {{s}}.journal{{share}}")
		p.queue(nil, "INSERT INTO {{s}}.sessions (id, process, epoch, expires_at, started_at, host, pid) SELECT ?, ?, epoch, "+nowSQL+" + ?, "+nowSQL+", ?, ? FROM {{s}}.journal", id, id, c.d.ttl(), fleet.Hostname(), os.Getpid())
		p.queue(columns.One(&epoch), "SELECT epoch FROM {{s}}.sessions WHERE id = ?", id)
	})
	return epoch, err
}

func (d *Driver) ttl() int64 { return d.opts.Pace.TTL.Microseconds() }

// Renew implements fleet.Conn.
func (c *ownConn) Renew(ctx context.Context, epoch int64, ids []string) (map[string]fleet.Lease, error) {
	heard := make(map[string]fleet.Lease)
	err := c.alone(ctx, func(p *pipeline) {
		which, args := " WHERE id IN "+places(len(ids))+" AND epoch = ? AND buried_at IS NULL", append(anys(ids), epoch)
		p.queue(nil, "UPDATE {{s}}.sessions SET beats = beats + 1, expires_at = "+nowSQL+" + ?"+which, append([]any{c.d.ttl()}, args...)...)
		p.queue(leasesInto(heard), selectLeases+which, append([]any{epoch}, args...)...)
	})
	return heard, err
}

const selectLeases = "SELECT id, beats, epoch <> ? OR buried_at IS NOT NULL, expires_at <= " + nowSQL + " FROM {{s}}.sessions"

func leasesInto(all map[string]fleet.Lease) answer {
	return func(rows columns.Row) error {
		var id string
		var is fleet.Lease
		err := rows.Scan(&id, &is.Beats, &is.Ended, &is.Over)
		all[id] = is
		return err
	}
}

// Leases implements fleet.Conn.
func (c *ownConn) Leases(ctx context.Context, epoch int64, ids []string) (map[string]fleet.Lease, error) {
	all := make(map[string]fleet.Lease)
	return all, c.query(ctx, leasesInto(all), selectLeases+" WHERE id IN "+places(len(ids)), append([]any{epoch}, anys(ids)...)...)
}

// leaseOver is true of a lease that is over by the server's clock. It is also true of one that ends later than any lease
// renewed now could. A clock that has gone back since renewed that one, so only the observers' time counts.
const leaseOver = "(expires_at <= " + nowSQL + " OR expires_at > " + nowSQL + " + 120000000)"

// Sessions implements fleet.Conn.
func (c *ownConn) Sessions(ctx context.Context) (all []leased.Beat, living []string, joined time.Time, err error) {
	var latest sql.NullInt64
	p := c.d.pipeline(true)
	p.queue(columns.One(&latest), "SELECT max(started_at) FROM {{s}}.sessions WHERE buried_at IS NULL OR buried_at > "+nowSQL+" - ?", (12 * time.Hour).Microseconds())
	p.queue(func(rows columns.Row) error {
		var is leased.Beat
		var holds bool
		err := rows.Scan(&is.ID, &is.Beats, &is.Over, &holds)
		if all = append(all, is); holds {
			living = append(living, is.ID)
		}
		return err
	}, "SELECT id, beats, "+leaseOver+", id <> process FROM {{s}}.sessions WHERE buried_at IS NULL ORDER BY started_at, id")
	if err = p.send(ctx, c); latest.Valid {
		joined = time.UnixMicro(latest.Int64)
	}
	return all, living, joined, err
}

// lane commits statements about a lane's row, without the guard, and reads the row.
func (c *ownConn) lane(ctx context.Context, process string, lane int, queue func(*pipeline)) (is fleet.Row, err error) {
	err = c.alone(ctx, func(p *pipeline) {
		queue(p)
		p.queue(func(rows columns.Row) error {
			is.There = true
			return rows.Scan(&is.Batch, &is.Tenure)
		}, "SELECT batch, tenure FROM {{s}}.lanes WHERE process = ? AND lane = ?", process, lane)
	})
	return is, err
}

// AddLane implements fleet.Conn. It waits for a transaction that fences all lanes, which would not see the new one.
func (c *ownConn) AddLane(ctx context.Context, process string, lane int) (fleet.Row, error) {
	return c.lane(ctx, process, lane, func(p *pipeline) {
		p.queue(ignored, "SELECT one FROM {{s}}.journal{{share}}")
		p.queue(nil, "INSERT INTO {{s}}.lanes (process, lane) VALUES (?, ?) ON DUPLICATE KEY UPDATE tenure = tenure + 1", process, lane)
	})
}

// RaiseLane implements fleet.Conn.
func (c *ownConn) RaiseLane(ctx context.Context, former fleet.Conn, process string, lane int) (fleet.Row, error) {
	if former != nil {
		c.d.kill(ctx, c, former.(*ownConn).name)
	}
	return c.lane(ctx, process, lane, func(p *pipeline) {
		p.queue(nil, "UPDATE {{s}}.lanes SET tenure = tenure + 1 WHERE process = ? AND lane = ?", process, lane)
	})
}

// kill ends the connection that holds a lock, also amid a statement, if the server answers.
func (d *Driver) kill(ctx context.Context, c runner, lock string) {
	var id sql.NullInt64
	p := d.pipeline(true)
	p.queue(columns.One(&id), "SELECT IS_USED_LOCK(?)", lock)
	if p.send(ctx, c) == nil && id.Valid {
		_, _ = c.ExecContext(ctx, "KILL "+strconv.FormatInt(id.Int64, 10)) // it may have ended just now
	}
}
