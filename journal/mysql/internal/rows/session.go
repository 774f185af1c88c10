package rows

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// enroll makes this process a member.
func (d *Driver) enroll(ctx context.Context, conn *sql.Conn) (*leased.Member, error) {
	m := &leased.Member{ID: rand.Text()}
	err := d.alone(ctx, conn, func(p *pipeline) {
		p.queue(nil, "INSERT INTO {{s}}.sessions (id, process, epoch, expires_at, started_at, host, pid) SELECT ?, ?, epoch, "+nowSQL+" + ?, "+nowSQL+", ?, ? FROM {{s}}.journal", m.ID, m.ID, d.ttl(), hostname(), os.Getpid())
		p.queue(func(rows *sql.Rows) error { return rows.Scan(&m.Epoch) }, "SELECT epoch FROM {{s}}.sessions WHERE id = ?", m.ID)
	})
	if err != nil {
		return nil, err
	}
	m.Heard.Store(time.Now().UnixNano())
	d.member.Store(m)
	return m, nil
}

func (d *Driver) ttl() int64 { return d.opts.Pace.TTL.Microseconds() }

// current returns this process's member. If it was buried or cut off, it makes the process a member again. The sessions that
// it had are lost then.
func (d *Driver) current(ctx context.Context) (*leased.Member, error) {
	was := d.member.Load()
	if !was.Gone.Load() {
		return was, nil
	}
	d.enrolling.Lock()
	defer d.enrolling.Unlock()
	if m := d.member.Load(); m != was && !m.Gone.Load() {
		return m, nil
	}
	d.sessions.LoseAll()
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return d.enroll(ctx, conn)
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

// errNoWorker is explained at mysql.Options.Existing.
var errNoWorker = errors.New("mysql: a journal that was opened with Options.Existing has no sessions: open it without Options.Existing to send")

// Join implements rowstore.Driver.
func (d *Driver) Join(ctx context.Context) (string, error) {
	if d.opts.Existing {
		return "", errNoWorker
	}
	s := d.sessions.New(rand.Text())
	err := d.transact(ctx, func(t *tx) error {
		if err := d.refusal(); err != nil {
			return err
		}
		m := d.member.Load()
		s.Renewed(time.Now())
		p := t.pipeline()
		p.queue(nil, "INSERT INTO {{s}}.sessions (id, process, epoch, expires_at, started_at, host, pid) VALUES (?, ?, ?, "+nowSQL+" + ?, "+nowSQL+", ?, ?)", s.ID(), m.ID, m.Epoch, d.ttl(), hostname(), os.Getpid())
		return p.send(t.ctx, t.c)
	})
	if err != nil {
		return "", err
	}
	d.sessions.Add(s)
	return s.ID(), nil
}

// Lost implements rowstore.Driver.
func (d *Driver) Lost(id string) bool {
	_, err := d.sessions.Mine(id)
	return err != nil
}

// Rank implements rowstore.Driver.
func (d *Driver) Rank(id string) (rank, of int) {
	s, err := d.sessions.Mine(id)
	if err != nil {
		return 0, 0
	}
	return s.Rank()
}

// Leave implements rowstore.Driver. If the database can't be reached, the session is dead all the same, but other processes
// learn of it only once it has expired.
func (d *Driver) Leave(ctx context.Context, id string) error {
	s, err := d.sessions.Mine(id)
	if err != nil || !s.End() {
		return nil
	}
	s.Remove()
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	return d.Bury(ctx, []string{id}, nil)
}

// Alive implements rowstore.Driver.
func (d *Driver) Alive(ids []string) []rowstore.Life {
	ctx, cancel := context.WithTimeout(d.background, time.Second)
	defer cancel()
	var living []string
	p := d.primary()
	p.queue(texts(&living), "SELECT id FROM {{s}}.sessions WHERE id IN "+places(len(ids))+" AND buried_at IS NULL", anys(ids)...)
	err := meaning(d.beside(ctx, p))
	lives := make([]rowstore.Life, len(ids))
	for i, id := range ids {
		lives[i] = rowstore.Life{Lives: slices.Contains(living, id), Err: err}
	}
	return lives
}

// texts reads a column of texts.
func texts(all *[]string) answer {
	return func(rows *sql.Rows) error {
		var text string
		err := rows.Scan(&text)
		*all = append(*all, text)
		return err
	}
}

// Bury marks sessions as dead. It first raises the tenure of their processes' lanes, so that a commit that is still on its way
// fails or is seen. Then it calls still for each session, and skips the session if that returns false. If still is nil, it
// skips none.
func (d *Driver) Bury(ctx context.Context, ids []string, still func(t *tx, id string) (bool, error)) error {
	return d.transact(ctx, func(t *tx) error {
		var processes []string
		p := t.pipeline()
		p.queue(texts(&processes), "SELECT DISTINCT process FROM {{s}}.sessions WHERE id IN "+places(len(ids))+" AND process <> ? ORDER BY process", append(anys(ids), d.member.Load().ID)...)
		if err := p.send(t.ctx, t.c); err != nil {
			return err
		}
		p = t.pipeline()
		if len(processes) > 0 {
			p.queue(nil, "UPDATE {{s}}.lanes SET tenure = tenure + 1 WHERE process IN "+places(len(processes))+" ORDER BY process, lane", anys(processes)...)
		}
		if err := p.send(t.ctx, t.c); err != nil {
			return err
		}
		p = t.pipeline()
		for _, id := range ids {
			if still != nil {
				if dead, err := still(t, id); err != nil {
					return err
				} else if !dead {
					continue
				}
			}
			p.queue(nil, "UPDATE {{s}}.sessions SET buried_at = "+nowSQL+" WHERE (id = ? OR process = ?) AND buried_at IS NULL", id, id)
		}
		return p.send(t.ctx, t.c)
	})
}

// resign ends all this process's sessions, and itself. Nothing is left of its lanes but their clock.
func (d *Driver) resign(ctx context.Context) error {
	d.sessions.LoseAll()
	m := d.member.Load()
	if m.Gone.Load() {
		return nil
	}
	return d.Bury(ctx, []string{m.ID}, nil)
}

// AwaitExpired implements machine.Expirer. It waits while another process's session holds something under a lease that is
// over. It waits no longer than the heartbeat needs to end a session that it has not seen before.
func (d *Driver) AwaitExpired(ctx context.Context) error {
	if d.opts.Existing { // it ends no sessions
		return nil
	}
	pace := d.opts.Pace
	for limit := time.Now().Add(pace.TTL + 3*pace.Beat); ; {
		waits := false
		p := d.primary()
		p.queue(func(rows *sql.Rows) error { return rows.Scan(&waits) }, "SELECT EXISTS (SELECT 1 FROM {{s}}.sessions h WHERE buried_at IS NULL AND process <> ? AND "+leaseOver+
			" AND (EXISTS (SELECT 1 FROM {{s}}.operations WHERE holder = h.id) OR EXISTS (SELECT 1 FROM {{s}}.flows WHERE state = 1 AND holder = h.id)))", d.member.Load().ID)
		err := d.beside(ctx, p)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || !waits || time.Now().After(limit):
			return meaning(err)
		}
		select {
		case <-time.After(pace.Beat / 3):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tries limits a transaction's tries if others are in its way. They take about a second.
const tries = 50

// transact runs f in a fenced transaction. If another transaction was in its way, it runs f again.
func (d *Driver) transact(ctx context.Context, f func(*tx) error) error {
	for try := 0; ; try++ {
		err := d.once(ctx, f)
		switch {
		case err == nil || ctx.Err() != nil || d.background.Err() != nil:
			return err
		case errors.Is(err, rowstore.ErrLocked): // its client may be stopped: see laneWait
		case !errors.Is(err, rowstore.ErrMissed), try == tries:
			return err
		}
		select {
		case <-time.After(time.Duration(mathrand.Int64N(int64(min(try+1, 10)) * int64(5*time.Millisecond)))):
		case <-ctx.Done():
			return ctx.Err()
		case <-d.background.Done():
			return journal.ErrClosed
		}
	}
}

func (d *Driver) once(ctx context.Context, f func(*tx) error) error {
	t, err := d.begin(ctx, func(*pipeline) {})
	if err != nil {
		return err
	}
	defer t.Rollback()
	if err := f(t); err != nil {
		return meaning(err)
	}
	return t.commit(ctx, t.pipeline(), commitQuietly)
}

// beatOn renews the sessions, and watches over the others', until the driver is closed. It begins with that connection.
func (d *Driver) beatOn(conn *sql.Conn) {
	d.opts.Pace.Run(d.background, func() error {
		err := d.beat(&conn)
		if err != nil && conn != nil {
			server.HangUp(conn)
			conn = nil
		}
		return err
	}, func(err error) {
		d.log.Warn("onceward: the journal's sessions could not be renewed; they are lost if that continues", "after", d.opts.Pace.Lost, "error", meaning(err))
	})
	if conn != nil {
		server.HangUp(conn)
	}
}

func (d *Driver) beat(conn **sql.Conn) error {
	ctx, cancel := context.WithTimeout(d.background, d.opts.Pace.Lost/2)
	defer cancel()
	if *conn == nil {
		c, err := d.dial(ctx)
		if err != nil {
			return err
		}
		*conn = c
	}
	if _, err := d.current(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context, *sql.Conn) error{d.checkRelease, d.lookAgain, d.renew} {
		if err := step(ctx, *conn); err != nil {
			return err
		}
	}
	if d.opts.Existing {
		return nil
	}
	if err := d.testify(ctx, *conn); err != nil {
		return err
	}
	return d.watch(ctx, *conn)
}

// renew renews all this process's sessions. Those that are not there any more are lost.
func (d *Driver) renew(ctx context.Context, conn *sql.Conn) error {
	m, own := d.member.Load(), d.sessions.Living()
	ids := []string{m.ID}
	for id := range own {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	before, sent := d.memory.BeatsOf(m.ID), time.Now()
	var heard []string
	var beats int64
	there := false
	err := d.alone(ctx, conn, func(p *pipeline) {
		p.queue(nil, "UPDATE {{s}}.sessions SET beats = beats + 1, expires_at = "+nowSQL+" + ? WHERE id IN "+places(len(ids))+" AND epoch = ? AND buried_at IS NULL", append(append([]any{d.ttl()}, anys(ids)...), m.Epoch)...)
		p.queue(func(rows *sql.Rows) error {
			var id string
			var n, epoch int64
			var buried bool
			err := rows.Scan(&id, &n, &epoch, &buried)
			if is := epoch == m.Epoch && !buried; is {
				heard = append(heard, id)
			}
			if id == m.ID {
				there = true
				if epoch == m.Epoch && !buried {
					beats = n
				}
			}
			return err
		}, "SELECT id, beats, epoch, buried_at IS NOT NULL FROM {{s}}.sessions WHERE id IN "+places(len(ids)), anys(ids)...)
	})
	switch {
	case err != nil:
		return err
	case beats > 0 && beats <= before:
		return d.isOlder(ctx, conn, m.Epoch, "a session of this process has fewer beats than before")
	case !there:
		return d.missing(ctx, conn, m)
	}
	d.memory.Beat(m.ID, beats)
	d.sessions.Heard(sent, own, heard)
	if slices.Contains(heard, m.ID) {
		m.Heard.Store(time.Now().UnixNano())
	} else {
		m.Gone.Store(true)
	}
	return nil
}

// leaseOver is true of a lease that is over by the server's clock. It is also true of one that ends later than any lease
// renewed now could. A clock that has gone back since renewed that one, so only the observers' time counts.
const leaseOver = "(expires_at <= " + nowSQL + " OR expires_at > " + nowSQL + " + 120000000)"

// watch buries the sessions of other processes that are not renewed any more.
func (d *Driver) watch(ctx context.Context, conn *sql.Conn) error {
	var joined sql.NullInt64
	var all []leased.Beat
	var living []string
	p := d.pipeline(true)
	p.queue(func(rows *sql.Rows) error { return rows.Scan(&joined) }, "SELECT max(started_at) FROM {{s}}.sessions WHERE buried_at IS NULL OR buried_at > "+nowSQL+" - ?", (12 * time.Hour).Microseconds())
	p.queue(func(rows *sql.Rows) error {
		var is leased.Beat
		var holds bool
		err := rows.Scan(&is.ID, &is.Beats, &is.Over, &holds)
		if all = append(all, is); holds {
			living = append(living, is.ID)
		}
		return err
	}, "SELECT id, beats, "+leaseOver+", id <> process FROM {{s}}.sessions WHERE buried_at IS NULL ORDER BY started_at, id")
	if err := p.send(ctx, conn); err != nil {
		return err
	}
	if joined.Valid {
		d.memory.JoinedAt(time.UnixMicro(joined.Int64))
	}
	found := d.observer.Look(d.opts.Pace, all)
	d.sessions.Rank(living)
	if len(found) == 0 {
		return d.upkeep(ctx)
	}
	var dead []string
	beats := make(map[string]int64)
	for _, b := range found {
		dead, beats[b.ID] = append(dead, b.ID), b.Beats
	}
	d.log.Warn("onceward: sessions are considered dead, and other processes take over their operations", "sessions", len(dead))
	return d.Bury(ctx, dead, func(t *tx, id string) (still bool, err error) {
		p := t.pipeline()
		p.queue(func(rows *sql.Rows) error { return rows.Scan(&still) }, "SELECT count(*) = 1 FROM {{s}}.sessions WHERE id = ? AND beats = ? AND "+leaseOver, id, beats[id])
		return still, p.send(t.ctx, t.c)
	})
}

// upkeep removes, once an hour, rows of dead sessions that no process needs any more. The time that the lanes of dead processes
// have seen stays.
func (d *Driver) upkeep(ctx context.Context) error {
	now := time.Now()
	if now.Before(d.upkeepDue) {
		return nil
	}
	d.upkeepDue = now.Add(time.Hour)
	return d.transact(ctx, func(t *tx) error {
		p := t.pipeline()
		p.queue(nil, foldLanes)
		p.queue(nil, "DELETE FROM {{s}}.lanes WHERE process <> '' AND "+unused)
		p.queue(nil, "DELETE FROM {{s}}.sessions WHERE buried_at < "+nowSQL+" - ? AND NOT EXISTS (SELECT 1 FROM {{s}}.operations WHERE holder = sessions.id) AND NOT EXISTS (SELECT 1 FROM {{s}}.flows WHERE holder = sessions.id) "+
			"AND NOT EXISTS (SELECT 1 FROM {{s}}.lanes WHERE process = sessions.id)", leased.KeepDead.Microseconds())
		return p.send(t.ctx, t.c)
	})
}

const (
	// unused is true of a lane without a living process.
	unused = "(process IN (SELECT id FROM {{s}}.sessions WHERE buried_at < " + nowSQL + " - 86400000000) OR process NOT IN (SELECT id FROM {{s}}.sessions))"
	// foldLanes keeps the clock of such lanes in one row.
	foldLanes = `INSERT INTO {{s}}.lanes (process, lane, seq, last_at, jumped_at, least_margin, ahead_at)
		SELECT '', 0, max(seq), max(last_at), (SELECT jumped_at FROM {{s}}.lanes WHERE ` + unused + ` ORDER BY seq DESC LIMIT 1), coalesce(min(nullif(least_margin, 0)), 0), max(ahead_at)
		FROM {{s}}.lanes WHERE ` + unused + ` HAVING count(*) > 0
		ON DUPLICATE KEY UPDATE seq = VALUES(seq), last_at = VALUES(last_at), jumped_at = VALUES(jumped_at), least_margin = VALUES(least_margin), ahead_at = VALUES(ahead_at)`
)
