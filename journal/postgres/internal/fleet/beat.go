package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
)

// Refused returns why the guard refused a transaction of m that needs these sessions. Nil means that another try is due.
func (f *Fleet) Refused(ctx context.Context, conn *pgx.Conn, m *leased.Member, needs []string) error {
	var epoch *int64
	var buried bool
	var sound bool
	err := conn.QueryRow(ctx, "SELECT (SELECT epoch FROM "+f.schema+".sessions WHERE id = $1), coalesce((SELECT buried_at IS NOT NULL FROM "+f.schema+".sessions WHERE id = $1), true), "+
		strings.ReplaceAll(connection.SoundSettings, "$7", "$2"), m.ID, true).Scan(&epoch, &buried, &sound)
	if err != nil {
		return err
	}
	if epoch == nil {
		return f.Missing(ctx, conn, m)
	}
	if buried || *epoch != m.Epoch {
		m.Gone.Store(true)
		if len(needs) > 0 {
			return journal.ErrSessionLost
		}
		return nil
	}
	rows, err := conn.Query(ctx, "SELECT id, expires_at > clock_timestamp() FROM "+f.schema+".sessions WHERE id = ANY($1) AND epoch = $2 AND buried_at IS NULL", needs, m.Epoch)
	if err != nil {
		return err
	}
	alive := make(map[string]bool)
	var id string
	var current bool
	if _, err := pgx.ForEachRow(rows, []any{&id, &current}, func() error { alive[id] = current; return nil }); err != nil {
		return err
	}
	for _, id := range needs {
		current, there := alive[id]
		if s, err := f.Sessions.Mine(id); err != nil || !there {
			if s != nil {
				s.Lose()
			}
			return journal.ErrSessionLost
		}
		if !current { // it was not renewed for a while, and was not buried
			if err := f.renew(ctx, conn); err != nil {
				return err
			}
		}
	}
	return nil
}

// renew renews all this process's sessions. Missing sessions are lost.
func (f *Fleet) renew(ctx context.Context, conn *pgx.Conn) error {
	m := f.member.Load()
	own := f.Sessions.Living()
	ids := append(slices.Collect(maps.Keys(own)), m.ID)
	slices.Sort(ids)
	started := f.Started()
	before := f.Memory.BeatsOf(m.ID)
	sent := time.Now()
	var heard []string
	var beats int64
	err := f.alone(ctx, conn, "local", func(b *pgx.Batch) {
		b.Queue("UPDATE "+f.schema+".sessions SET beats = beats + 1, expires_at = clock_timestamp() + $1::interval "+
			"WHERE id = ANY($2) AND epoch = $3 AND buried_at IS NULL RETURNING id, beats, "+StartSQL, f.opts.Pace.TTL, ids, m.Epoch).
			Query(func(rows pgx.Rows) error {
				var id string
				var n int64
				var by time.Time
				_, err := pgx.ForEachRow(rows, []any{&id, &n, &by}, func() error {
					if heard = append(heard, id); id == m.ID && by.Equal(started) {
						beats = n
					}
					return nil
				})
				return err
			})
	})
	if err != nil {
		return err
	}
	// By the checked server: a promoted standby may lack beats, since beats don't wait for it.
	if beats > 0 && beats <= before {
		return f.isOlder(ctx, conn, m.Epoch, fmt.Sprintf("session %s is at beat %d, after %d", m.ID, beats, before))
	}
	f.Memory.Beat(m.ID, beats)
	f.Sessions.Heard(sent, own, heard)
	if slices.Contains(heard, m.ID) {
		m.Heard.Store(time.Now().UnixNano())
		return nil
	}
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM "+f.schema+".sessions WHERE id = $1)", m.ID).Scan(&there); err != nil {
		return err
	}
	if !there {
		return f.Missing(ctx, conn, m)
	}
	m.Gone.Store(true)
	return nil
}

// alone commits some statements in one round trip, without the guard, by the given synchronous_commit.
func (f *Fleet) alone(ctx context.Context, conn *pgx.Conn, durability string, queue func(b *pgx.Batch)) error {
	return connection.Alone(ctx, f.opts.Background, conn, func(b *pgx.Batch) {
		b.Queue("SELECT set_config('synchronous_commit', $1, true)", durability)
		queue(b)
	})
}

// Bury marks sessions as dead. It first raises the tenure of their processes' lanes, so a commit on its way fails or is
// seen. Then it calls still for each session, and skips the session if still returns false. If still is nil, it skips
// none.
func (f *Fleet) Bury(ctx context.Context, ids []string, still func(ctx context.Context, conn apptx.Runner, id string) (bool, error)) error {
	return f.opts.Transact(ctx, "end a session", func(ctx context.Context, conn apptx.Runner) error {
		own := f.member.Load().ID
		if _, err := conn.Exec(ctx, "UPDATE "+f.schema+".lanes l SET tenure = tenure + 1 FROM (SELECT process, lane FROM "+f.schema+".lanes "+
			"WHERE process IN (SELECT process FROM "+f.schema+".sessions WHERE id = ANY($1)) AND process <> $2 ORDER BY process, lane FOR UPDATE) o "+
			"WHERE l.process = o.process AND l.lane = o.lane", ids, own); err != nil {
			return err
		}
		for _, id := range ids {
			if still != nil {
				dead, err := still(ctx, conn, id)
				if err != nil {
					return err
				}
				if !dead {
					continue
				}
			}
			if _, err := conn.Exec(ctx, "UPDATE "+f.schema+".sessions SET buried_at = clock_timestamp() WHERE (id = $1 OR process = $1) AND buried_at IS NULL", id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Resign ends all this process's sessions, and itself.
func (f *Fleet) Resign(ctx context.Context) error {
	m := f.member.Load()
	if m.Gone.Load() {
		return nil
	}
	return f.Bury(ctx, []string{m.ID}, nil)
}

// Run renews the sessions, and watches over the others', until Options.Background ends. It begins with the given
// connection.
func (f *Fleet) Run(conn *pgx.Conn) {
	defer func() {
		if conn != nil {
			connection.HangUp(conn)
		}
	}()
	f.opts.Pace.Run(f.opts.Background, func() error { return f.beat(&conn) }, func(err error) {
		f.opts.Log.Warn("onceward: the journal's sessions could not be renewed; they are lost if that continues", "after", f.opts.Pace.Lost, "error", pgerr.Explain("renew the sessions", err))
	})
}

func (f *Fleet) beat(conn **pgx.Conn) error {
	ctx, cancel := context.WithTimeout(f.opts.Background, f.opts.Pace.Lost/2)
	defer cancel()
	if *conn == nil || (*conn).IsClosed() {
		c, err := f.Dial(ctx)
		if err != nil {
			return err
		}
		*conn = c
	}
	if _, err := f.Current(ctx); err != nil {
		return err
	}
	if err := f.checkRelease(ctx, *conn); err != nil {
		return err
	}
	if err := f.checkAgain(ctx, *conn); err != nil {
		return err
	}
	if err := f.renew(ctx, *conn); err != nil {
		return err
	}
	if err := f.answer(ctx, *conn); err != nil || f.opts.Existing {
		return err
	}
	if err := f.testify(ctx, *conn); err != nil {
		return err
	}
	return f.watch(ctx, *conn)
}

// checkRelease returns an error if a migration to a later release excludes this release. Then the process renews no
// session, and closes each writing connection before its next use. It also reads the database's time.
func (f *Fleet) checkRelease(ctx context.Context, conn *pgx.Conn) error {
	var version, leastWriter int
	var sealed string
	var now time.Time
	sent := time.Now()
	if err := conn.QueryRow(ctx, "SELECT schema_version, least_writer, sealed, clock_timestamp() FROM "+f.schema+".journal").Scan(&version, &leastWriter, &sealed, &now); err != nil {
		return err
	}
	f.Time.HeardAt(sent, now)
	err := schema.Check(version, leastWriter)
	f.outdated.Store(err != nil)
	f.sealed.Store(&sealed)
	return err
}

// leaseOver is true of a lease that is over by the database's clock. It is also true of a lease that ends later than
// any lease renewed now could. A clock that has gone back since renewed the lease, so only the observers' time counts.
const leaseOver = "(expires_at <= clock_timestamp() OR expires_at > clock_timestamp() + interval '2 minutes')"

// watch buries the sessions of other processes that are not renewed any more.
func (f *Fleet) watch(ctx context.Context, conn *pgx.Conn) error {
	var joined *time.Time
	if err := conn.QueryRow(ctx, "SELECT max(started_at) FROM "+f.schema+".sessions WHERE buried_at IS NULL OR buried_at > clock_timestamp() - interval '12 hours'").Scan(&joined); err != nil {
		return err
	}
	if joined != nil {
		f.Memory.JoinedAt(*joined)
	}
	rows, err := conn.Query(ctx, "SELECT id, beats, "+leaseOver+", id <> process FROM "+f.schema+".sessions WHERE buried_at IS NULL ORDER BY started_at, id")
	if err != nil {
		return err
	}
	var all []leased.Beat
	var living []string
	var is leased.Beat
	var holds bool
	_, err = pgx.ForEachRow(rows, []any{&is.ID, &is.Beats, &is.Over, &holds}, func() error {
		if all = append(all, is); holds {
			living = append(living, is.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	found := f.observer.Look(f.opts.Pace, all)
	f.Sessions.Rank(living)
	if len(found) == 0 {
		return f.upkeep(ctx)
	}
	var dead []string
	beats := make(map[string]int64)
	for _, b := range found {
		dead, beats[b.ID] = append(dead, b.ID), b.Beats
	}
	if promoted, err := f.silent(ctx, conn, dead); err != nil || promoted {
		return err
	}
	f.opts.Log.Warn("onceward: sessions are considered dead, and other processes take over their operations", "sessions", len(dead))
	return f.Bury(ctx, dead, func(ctx context.Context, conn apptx.Runner, id string) (still bool, err error) {
		err = conn.QueryRow(ctx, "SELECT count(*) = 1 FROM "+f.schema+".sessions WHERE id = $1 AND beats = $2 AND "+leaseOver+
			" AND NOT EXISTS (SELECT 1 FROM "+f.schema+".journal WHERE promoted IS NOT NULL AND restored IS NULL)", // see silent
			id, beats[id]).Scan(&still)
		return still, err
	})
}

// AwaitExpired waits while another process's session holds something under a lease that is over. It waits no longer
// than the heartbeat needs to end a newly found session.
func (f *Fleet) AwaitExpired(ctx context.Context, pool *pgxpool.Pool) error {
	pace := f.opts.Pace
	for limit := time.Now().Add(pace.TTL + 3*pace.Beat); ; {
		var waits bool
		err := pool.QueryRow(ctx, f.in("SELECT EXISTS (SELECT 1 FROM {{s}}.sessions h WHERE buried_at IS NULL AND process <> $1 AND "+leaseOver+
			" AND (EXISTS (SELECT 1 FROM {{s}}.operations WHERE holder = h.id) OR EXISTS (SELECT 1 FROM {{s}}.flows WHERE state = 1 AND holder = h.id)))"), f.member.Load().ID).Scan(&waits)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || !waits || time.Now().After(limit):
			return err
		}
		select {
		case <-time.After(pace.Beat / 3):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// silent reports whether the journal waits for answers after a promotion. A dead process gives no answer: its
// acknowledged commits are unknown. If one of the dead is a process without an answer, the journal counts as restored.
func (f *Fleet) silent(ctx context.Context, conn *pgx.Conn, dead []string) (promoted bool, err error) {
	var silent int
	var epoch int64
	err = conn.QueryRow(ctx, "SELECT epoch, promoted IS NOT NULL AND restored IS NULL, (SELECT count(*) FROM "+f.schema+".sessions s "+
		"WHERE id = ANY($1) AND id = process AND s.timeline IS DISTINCT FROM promoted) FROM "+f.schema+".journal", dead).Scan(&epoch, &promoted, &silent)
	if err != nil || !promoted || silent == 0 {
		return promoted, err
	}
	return true, f.isRestored(ctx, conn, epoch, "the server was promoted, and a process died that could have checked for missing commits")
}

// upkeep removes, once an hour, rows of dead sessions that no process needs any more.
func (f *Fleet) upkeep(ctx context.Context) error {
	now := time.Now()
	if now.Before(f.upkeepDue) {
		return nil
	}
	f.upkeepDue = now.Add(time.Hour)
	return f.opts.Transact(ctx, "tidy up", func(ctx context.Context, conn apptx.Runner) error {
		// The time that the dead processes' lanes have seen stays.
		if _, err := conn.Exec(ctx, f.in(foldLanes)); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, f.in(removeDead))
		return err
	})
}
