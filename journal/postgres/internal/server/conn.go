package server

import (
	"context"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
)

// Conn is a connection of the journal's own. It implements fleet.Conn.
type Conn struct {
	*pgx.Conn
	s *Server
}

// Connect implements fleet.Database.
func (s *Server) Connect(ctx context.Context) (fleet.Conn, error) {
	c, err := s.dialer.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &Conn{c, s}, nil
}

// Broken implements fleet.Conn.
func (c *Conn) Broken() bool { return c.IsClosed() }

// HangUp implements fleet.Conn.
func (c *Conn) HangUp() { connection.HangUp(c.Conn) }

// Rollback implements fleet.Conn.
func (c *Conn) Rollback(ctx context.Context) error {
	_, err := c.Exec(ctx, "ROLLBACK")
	return err
}

// alone commits statements without the guard.
func (c *Conn) alone(ctx context.Context, queue func(b *pgx.Batch)) error {
	ctx, cancel := c.s.fleet.Limited(ctx)
	defer cancel()
	return connection.Alone(ctx, c.Conn, queue)
}

const (
	selectJournal = "SELECT clock_timestamp(), coalesce(restored, ''), coalesce(promoted, ''), epoch, witnessed, sealed, schema_version, least_writer"
	fromJournal   = " FROM {{s}}.journal"
)

// scanJournal reads the columns of selectJournal, and further columns behind them.
func scanJournal(row pgx.Row, further ...any) (is fleet.Journal, err error) {
	var version, leastWriter int
	if err := row.Scan(append([]any{&is.Now, &is.Restored, &is.Promoted, &is.Epoch, &is.Witnessed, &is.Sealed, &version, &leastWriter}, further...)...); err != nil {
		return is, err
	}
	return is, schema.Check(version, leastWriter)
}

// read reads the journal's row, and further columns.
func (c *Conn) read(ctx context.Context, columns string, args []any, into ...any) (fleet.Journal, error) {
	return scanJournal(c.QueryRow(ctx, c.s.in(selectJournal+columns+fromJournal), args...), into...)
}

// Look implements fleet.Conn.
func (c *Conn) Look(ctx context.Context) (fleet.Journal, error) { return c.read(ctx, "", nil) }

// Mark implements fleet.Conn.
func (c *Conn) Mark(ctx context.Context, epoch int64, why string) (fleet.Journal, error) {
	return c.mark(ctx, "restored", "(restored IS NULL OR starts_with(restored, '"+fleet.Adopting+"'))", epoch, why)
}

// mark sets a column of the journal that concerns all processes with the journal open, if the condition holds. Then it raises
// the tenure of every lane. Each change commits by itself, so mark holds no row while it waits for another: a transaction
// locks its lane before the journal's row. A lane that is made meanwhile begins with the column set (see addLane).
func (c *Conn) mark(ctx context.Context, column, condition string, epoch int64, value string) (is fleet.Journal, err error) {
	marked := false
	err = c.evicting(ctx, func(b *pgx.Batch) {
		b.Queue(c.s.in("UPDATE {{s}}.journal SET "+column+" = $2 WHERE epoch = $1 AND $2::text IS NOT NULL AND "+condition), epoch, value).
			Exec(func(tag pgconn.CommandTag) error { marked = tag.RowsAffected() > 0; return nil })
	})
	if err == nil && marked {
		err = c.evicting(ctx, func(b *pgx.Batch) {
			b.Queue(c.s.in("UPDATE {{s}}.lanes l SET tenure = tenure + 1 FROM (SELECT process, lane FROM {{s}}.lanes ORDER BY process, lane FOR UPDATE) o " +
				"WHERE l.process = o.process AND l.lane = o.lane"))
		})
	}
	if err != nil {
		return is, err
	}
	return c.Look(ctx)
}

// evicting is alone. If others' connections hold a row for too long, it ends these connections, and tries once more.
func (c *Conn) evicting(ctx context.Context, queue func(b *pgx.Batch)) error {
	err := c.alone(ctx, queue)
	if pgerr.Code(err) == pgerr.LockNotAvailable {
		c.s.Evict(ctx)
		err = c.alone(ctx, queue)
	}
	return err
}

// Testify implements fleet.Conn.
func (c *Conn) Testify(ctx context.Context) (number, epoch int64, err error) {
	err = c.alone(ctx, func(b *pgx.Batch) {
		b.Queue(c.s.in("UPDATE {{s}}.journal SET witnessed = witnessed + 1 RETURNING witnessed, epoch")).
			QueryRow(func(r pgx.Row) error { return r.Scan(&number, &epoch) })
	})
	return number, epoch, err
}

// Commits implements fleet.Conn.
func (c *Conn) Commits(ctx context.Context, process string) (batches map[int]int64, joined time.Time, err error) {
	if err := c.QueryRow(ctx, c.s.in("SELECT coalesce(max(started_at), 'epoch') FROM {{s}}.sessions")).Scan(&joined); err != nil {
		return nil, joined, err
	}
	batches = make(map[int]int64)
	rows, err := c.Query(ctx, c.s.in("SELECT lane, batch FROM {{s}}.lanes WHERE process = $1"), process)
	if err != nil {
		return nil, joined, err
	}
	var number int
	var batch int64
	_, err = pgx.ForEachRow(rows, []any{&number, &batch}, func() error { batches[number] = batch; return nil })
	return batches, joined, err
}

// Enroll implements fleet.Conn.
func (c *Conn) Enroll(ctx context.Context, id string) (epoch int64, err error) {
	err = c.alone(ctx, func(b *pgx.Batch) {
		b.Queue(c.s.in("INSERT INTO {{s}}.sessions (id, process, epoch, expires_at, host, pid, timeline) SELECT $1, $1, epoch, clock_timestamp() + $2::interval, $3, $4, $5 FROM {{s}}.journal FOR SHARE RETURNING epoch"),
			id, c.s.opts.Pace.TTL, fleet.Hostname(), os.Getpid(), c.s.timeline.Load()).QueryRow(func(r pgx.Row) error { return r.Scan(&epoch) })
	})
	return epoch, err
}

// Renew implements fleet.Conn. Beats wait for no standby. Those of a server that was not checked say nothing: a promoted
// standby may lack some.
func (c *Conn) Renew(ctx context.Context, epoch int64, ids []string) (map[string]fleet.Lease, error) {
	heard, started := make(map[string]fleet.Lease), c.s.Started()
	err := c.alone(ctx, func(b *pgx.Batch) {
		b.Queue("SELECT set_config('synchronous_commit', 'local', true)")
		b.Queue(c.s.in("UPDATE {{s}}.sessions SET beats = beats + 1, expires_at = clock_timestamp() + $1::interval "+
			"WHERE id = ANY($2) AND epoch = $3 AND buried_at IS NULL RETURNING id, beats, "+StartSQL), c.s.opts.Pace.TTL, ids, epoch).
			Query(func(rows pgx.Rows) error {
				var id string
				var beats int64
				var by time.Time
				_, err := pgx.ForEachRow(rows, []any{&id, &beats, &by}, func() error {
					if !by.Equal(started) {
						beats = 0
					}
					heard[id] = fleet.Lease{Beats: beats}
					return nil
				})
				return err
			})
	})
	return heard, err
}

// Leases implements fleet.Conn.
func (c *Conn) Leases(ctx context.Context, epoch int64, ids []string) (map[string]fleet.Lease, error) {
	rows, err := c.Query(ctx, c.s.in("SELECT id, beats, epoch <> $1 OR buried_at IS NOT NULL, expires_at <= clock_timestamp() FROM {{s}}.sessions WHERE id = ANY($2)"), epoch, ids)
	if err != nil {
		return nil, err
	}
	all := make(map[string]fleet.Lease)
	var id string
	var is fleet.Lease
	_, err = pgx.ForEachRow(rows, []any{&id, &is.Beats, &is.Ended, &is.Over}, func() error { all[id] = is; return nil })
	return all, err
}

// LeaseOver is true of a lease that is over by the database's clock. It is also true of a lease that ends later than
// any lease renewed now could. A clock that has gone back since renewed the lease, so only the observers' time counts.
const LeaseOver = "(expires_at <= clock_timestamp() OR expires_at > clock_timestamp() + interval '2 minutes')"

// Sessions implements fleet.Conn.
func (c *Conn) Sessions(ctx context.Context) (all []leased.Beat, living []string, joined time.Time, err error) {
	var latest *time.Time
	err = c.QueryRow(ctx, c.s.in("SELECT max(started_at) FROM {{s}}.sessions WHERE buried_at IS NULL OR buried_at > clock_timestamp() - interval '12 hours'")).Scan(&latest)
	if err != nil {
		return nil, nil, joined, err
	}
	if latest != nil {
		joined = *latest
	}
	rows, err := c.Query(ctx, c.s.in("SELECT id, beats, "+LeaseOver+", id <> process FROM {{s}}.sessions WHERE buried_at IS NULL ORDER BY started_at, id"))
	if err != nil {
		return nil, nil, joined, err
	}
	var is leased.Beat
	var holds bool
	_, err = pgx.ForEachRow(rows, []any{&is.ID, &is.Beats, &is.Over, &holds}, func() error {
		if all = append(all, is); holds {
			living = append(living, is.ID)
		}
		return nil
	})
	return all, living, joined, err
}

// addLane waits for a transaction that fences all lanes, which would not see the new one.
const (
	addLane   = "INSERT INTO {{s}}.lanes (process, lane) SELECT $1, $2 FROM {{s}}.journal FOR SHARE ON CONFLICT (process, lane) DO UPDATE SET tenure = lanes.tenure + 1 RETURNING batch, tenure"
	raiseLane = "UPDATE {{s}}.lanes SET tenure = tenure + 1 WHERE process = $1 AND lane = $2 RETURNING batch, tenure"
)

// AddLane implements fleet.Conn.
func (c *Conn) AddLane(ctx context.Context, process string, lane int) (fleet.Row, error) {
	return c.lane(ctx, addLane, process, lane)
}

// RaiseLane implements fleet.Conn. A former connection is evicted.
func (c *Conn) RaiseLane(ctx context.Context, _ fleet.Conn, process string, lane int) (fleet.Row, error) {
	return c.lane(ctx, raiseLane, process, lane)
}

// lane commits one statement on a lane's row, without the guard.
func (c *Conn) lane(ctx context.Context, text, process string, lane int) (is fleet.Row, err error) {
	err = c.alone(ctx, func(b *pgx.Batch) {
		b.Queue(c.s.in(text), process, lane).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&is.Batch, &is.Tenure}, func() error { is.There = true; return nil })
			return err
		})
	})
	return is, err
}
