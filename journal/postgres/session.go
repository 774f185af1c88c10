package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/member"
)

// A session lives while it is renewed: each beat renews its row for ttl by the database's clock. By its process's own
// clocks it is lost that long after it sent the last answered beat. Other processes end it when they have seen no beat
// for ttl by their clocks, and the database agrees that it has expired.
type pace struct {
	ttl     time.Duration
	beat    time.Duration // between two
	again   time.Duration // after one that failed
	lost    time.Duration
	testify time.Duration // between two reports to the witness
	close   time.Duration // how long Close waits for the server: once for commits under way, and once to end the sessions
	// The time of a handler of DeliverTx; the rest of commitTime is for its COMMIT.
	handler time.Duration
}

var usualPace = pace{ttl: 15 * time.Second, beat: 3 * time.Second, again: 300 * time.Millisecond, lost: 12 * time.Second, testify: 10 * time.Second, close: 5 * time.Second, handler: 25 * time.Second}

// session is the session of a caller of Join.
type session struct {
	j     *Journal
	id    string
	m     *member.Member
	lost  atomic.Bool // never revives
	ended atomic.Bool

	joined time.Time
	rank   atomic.Uint64 // its rank in the upper half, and the number of sessions in the lower one

	// The time until which it is not lost, by either of this process's clocks.
	until atomic.Pointer[deadline]
}

// deadline is a time by the monotonic clock and by the wall's: a machine that is suspended stops the former.
type deadline struct{ monotonic, wall time.Time }

func (p pace) deadlineFrom(sent time.Time) *deadline {
	until := sent.Add(p.lost)
	return &deadline{monotonic: until, wall: until.Round(0)}
}

func (d *deadline) passed(now time.Time) bool {
	return now.After(d.monotonic) || now.Round(0).After(d.wall)
}

// ID is random and never used again.
func (s *session) ID() string { return s.id }

// Lost reports whether the session was ended, or may have been ended for want of a renewal. It does no I/O.
func (s *session) Lost() bool {
	if s.lost.Load() {
		return true
	}
	if s.ended.Load() || !s.until.Load().passed(time.Now()) {
		return false
	}
	s.lose()
	return true
}

// Rank returns the position of this session among the live ones, from 0, and their number, as of the latest beat. Zero
// means not known yet. It does no I/O. A session learns its rank once all others count it. Until then their parts of a
// shared limit are larger. After one has gone, the parts are smaller for as long.
func (s *session) Rank() (rank, of int) {
	both := s.rank.Load()
	return int(both >> 32), int(both & (1<<32 - 1))
}

// lose marks the session as lost.
func (s *session) lose() {
	if s.lost.Swap(true) {
		return
	}
	s.j.mu.Lock()
	delete(s.j.sessions, s.id)
	s.j.mu.Unlock()
}

// End ends the session: other processes may claim its operations at once. If the database can't be reached the session
// is dead all the same, but others learn of it only once it has expired.
func (s *session) End(ctx context.Context) error {
	if s.ended.Swap(true) || s.lost.Load() {
		return nil
	}
	leave, err := s.j.enter(context.WithoutCancel(ctx))
	if err != nil {
		return nil // Close has ended it
	}
	defer leave()
	_ = s.j.left.WaitForAll(s.j.background)
	s.j.mu.Lock()
	delete(s.j.sessions, s.id)
	s.j.mu.Unlock()
	return s.j.bury(ctx, []string{s.id}, nil)
}

// Join starts a session. It is renewed in the background until it is ended or the Journal is closed.
func (j *Journal) Join(ctx context.Context) (journal.Session, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if j.opts.Existing {
		return nil, errNoWorker
	}
	s := &session{j: j, id: newSessionID(), joined: time.Now()}
	err = j.tx(ctx, ask{doing: "join", decides: true}, func(t *tx) error {
		m := j.member.Load()
		s.m = m
		s.until.Store(j.pace.deadlineFrom(time.Now()))
		_, err := t.exec("INSERT INTO "+j.schema+".sessions (id, process, epoch, expires_at, host, pid) VALUES ($1, $2, $3, clock_timestamp() + $4::interval, $5, $6)",
			s.id, m.ID, m.Epoch, j.pace.ttl, hostname(), os.Getpid())
		return err
	})
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	j.sessions[s.id] = s
	j.mu.Unlock()
	return s, nil
}

// errNoWorker is explained at Options.Existing.
var errNoWorker = errors.New("postgres: a journal that was opened with Options.Existing has no sessions: open it without Options.Existing to send")

// joined returns an error if the session may not begin or claim anything: the journal counts as restored, or the
// session is not a living one of this process.
func (j *Journal) joined(id string) error {
	if err := j.refusal(); err != nil {
		return err
	}
	_, err := j.mine(id)
	return err
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

// mine returns a session of this process that is alive as far as it knows.
func (j *Journal) mine(id string) (*session, error) {
	j.mu.Lock()
	s := j.sessions[id]
	j.mu.Unlock()
	if s == nil || s.ended.Load() || s.Lost() {
		return nil, journal.ErrSessionLost
	}
	return s, nil
}

// isMine reports whether a session is one of this process's.
func (j *Journal) isMine(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sessions[id] != nil
}

// enroll makes this process a member.
func (j *Journal) enroll(ctx context.Context, conn *pgx.Conn) (*member.Member, error) {
	m := &member.Member{ID: newSessionID()}
	err := connection.Alone(ctx, j.background, conn, func(b *pgx.Batch) {
		b.Queue("INSERT INTO "+j.schema+".sessions (id, process, epoch, expires_at, host, pid, timeline) "+
			"SELECT $1, $1, epoch, clock_timestamp() + $2::interval, $3, $4, $5 FROM "+j.schema+".journal RETURNING epoch", m.ID, j.pace.ttl, hostname(), os.Getpid(), j.timeline.Load()).
			QueryRow(func(r pgx.Row) error { return r.Scan(&m.Epoch) })
	})
	if err != nil {
		return nil, err
	}
	m.Heard.Store(time.Now().UnixNano())
	j.member.Store(m)
	return m, nil
}

// reenroll makes this process a member again, after it was buried or cut off. The sessions that it had are lost.
func (j *Journal) reenroll(ctx context.Context, was *member.Member) (*member.Member, error) {
	j.enrolling.Lock()
	defer j.enrolling.Unlock()
	if m := j.member.Load(); m != was && !m.Gone.Load() {
		return m, nil
	}
	j.mu.Lock()
	for _, s := range j.sessions {
		s.lost.Store(true)
	}
	clear(j.sessions)
	j.mu.Unlock()
	conn, err := j.dial(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer connection.HangUp(conn)
	return j.enroll(ctx, conn)
}

// whyRefused returns why the guard of the lane refused a transaction, on the lane's connection. Nil means that
// another try is due.
func (j *Journal) whyRefused(ctx context.Context, conn *pgx.Conn, m *member.Member, needs []string) error {
	var epoch *int64
	var buried bool
	var sound bool
	err := conn.QueryRow(ctx, "SELECT (SELECT epoch FROM "+j.schema+".sessions WHERE id = $1), coalesce((SELECT buried_at IS NOT NULL FROM "+j.schema+".sessions WHERE id = $1), true), "+
		connection.SoundSettings("$2"), m.ID, true).Scan(&epoch, &buried, &sound)
	if err != nil {
		return err
	}
	if epoch == nil {
		return j.missing(ctx, conn, m)
	}
	if buried || *epoch != m.Epoch {
		m.Gone.Store(true)
		if len(needs) > 0 {
			return journal.ErrSessionLost
		}
		return nil
	}
	rows, err := conn.Query(ctx, "SELECT id, expires_at > clock_timestamp() FROM "+j.schema+".sessions WHERE id = ANY($1) AND epoch = $2 AND buried_at IS NULL", needs, m.Epoch)
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
		if s, err := j.mine(id); err != nil || !there {
			if s != nil {
				s.lose()
			}
			return journal.ErrSessionLost
		}
		if !current { // it was not renewed for a while, and was not buried
			if err := j.renew(ctx, conn); err != nil {
				return err
			}
		}
	}
	return nil
}

// renew renews all of this process's sessions. Those that are not there any more are lost.
func (j *Journal) renew(ctx context.Context, conn *pgx.Conn) error {
	m := j.member.Load()
	j.mu.Lock()
	own := maps.Clone(j.sessions)
	j.mu.Unlock()
	ids := []string{m.ID}
	for id, s := range own {
		if !s.Lost() {
			ids = append(ids, id)
		} else {
			delete(own, id)
		}
	}
	slices.Sort(ids)
	start := "NULL::timestamptz"
	started := j.started.Load()
	if started != nil {
		start = check.StartSQL
	}
	before := j.memory.BeatsOf(m.ID)
	sent := time.Now()
	var heard []string
	var beats int64
	err := j.alone(ctx, conn, "local", func(b *pgx.Batch) {
		b.Queue("UPDATE "+j.schema+".sessions SET beats = beats + 1, expires_at = clock_timestamp() + $1::interval "+
			"WHERE id = ANY($2) AND epoch = $3 AND buried_at IS NULL RETURNING id, beats, "+start, j.pace.ttl, ids, m.Epoch).
			Query(func(rows pgx.Rows) error {
				var id string
				var n int64
				var by *time.Time
				_, err := pgx.ForEachRow(rows, []any{&id, &n, &by}, func() error {
					if heard = append(heard, id); id == m.ID && by != nil && check.SameStart(started, by) {
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
		return j.isOlder(ctx, conn, m.Epoch, fmt.Sprintf("session %s is at beat %d, after %d", m.ID, beats, before))
	}
	j.memory.Beat(m.ID, beats)
	until := j.pace.deadlineFrom(sent)
	for id, s := range own {
		if slices.Contains(heard, id) {
			s.until.Store(until)
		} else {
			s.lose()
		}
	}
	if slices.Contains(heard, m.ID) {
		m.Heard.Store(time.Now().UnixNano())
		return nil
	}
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM "+j.schema+".sessions WHERE id = $1)", m.ID).Scan(&there); err != nil {
		return err
	}
	if !there {
		return j.missing(ctx, conn, m)
	}
	m.Gone.Store(true)
	return nil
}

// alone commits some statements in one round trip, without the guard, by the given synchronous_commit.
func (j *Journal) alone(ctx context.Context, conn *pgx.Conn, durability string, queue func(b *pgx.Batch)) error {
	return connection.Alone(ctx, j.background, conn, func(b *pgx.Batch) {
		b.Queue("SELECT set_config('synchronous_commit', $1, true)", durability)
		queue(b)
	})
}

// bury marks sessions as dead. It first raises the tenure of their processes' lanes, so that a commit that is still
// on its way fails or is seen. Then it calls still for each session, and skips the session if that returns false. If
// still is nil, it skips none.
func (j *Journal) bury(ctx context.Context, ids []string, still func(t *tx, id string) (bool, error)) error {
	lanes := []any{"process IN (SELECT process FROM " + j.schema + ".sessions WHERE id = ANY($1)) AND process <> $2", ids, j.member.Load().ID}
	return j.tx(ctx, ask{doing: "end a session", lanes: lanes}, func(t *tx) error {
		own := j.member.Load().ID
		if _, err := t.exec("UPDATE "+j.schema+".lanes l SET tenure = tenure + 1 FROM (SELECT process, lane FROM "+j.schema+".lanes "+
			"WHERE process IN (SELECT process FROM "+j.schema+".sessions WHERE id = ANY($1)) AND process <> $2 ORDER BY process, lane FOR UPDATE) o "+
			"WHERE l.process = o.process AND l.lane = o.lane", ids, own); err != nil {
			return err
		}
		for _, id := range ids {
			if still != nil {
				dead, err := still(t, id)
				if err != nil {
					return err
				}
				if !dead {
					continue
				}
			}
			if _, err := t.exec("UPDATE "+j.schema+".sessions SET buried_at = clock_timestamp() WHERE (id = $1 OR process = $1) AND buried_at IS NULL", id); err != nil {
				return err
			}
		}
		return nil
	})
}

// resign ends all of this process's sessions, and itself.
func (j *Journal) resign(ctx context.Context) error {
	m := j.member.Load()
	if m.Gone.Load() {
		return nil
	}
	return j.bury(ctx, []string{m.ID}, nil)
}

// beat renews the sessions, and watches over the others', until the Journal is closed.
func (j *Journal) beat(conn *pgx.Conn) {
	defer func() {
		if conn != nil {
			connection.HangUp(conn)
		}
	}()
	failing := false
	for next := j.pace.beat; ; {
		select {
		case <-time.After(next):
		case <-j.background.Done():
			return
		}
		begun := time.Now()
		err := j.beatOnce(&conn)
		if next = max(j.pace.beat-time.Since(begun), 0); err != nil {
			next = j.pace.again
		}
		if err != nil && !failing && !errors.Is(context.Cause(j.background), journal.ErrClosed) {
			j.log.Warn("onceward: the journal's sessions could not be renewed; they are lost if that continues", "after", j.pace.lost, "error", explain("renew the sessions", err))
		}
		failing = err != nil
	}
}

func (j *Journal) beatOnce(conn **pgx.Conn) error {
	ctx, cancel := context.WithTimeout(j.background, j.pace.lost/2)
	defer cancel()
	if *conn == nil || (*conn).IsClosed() {
		c, err := j.dial(ctx, nil)
		if err != nil {
			return err
		}
		*conn = c
	}
	if m := j.member.Load(); m.Gone.Load() {
		if _, err := j.reenroll(ctx, m); err != nil {
			return err
		}
	}
	if err := j.checkRelease(ctx, *conn); err != nil {
		return err
	}
	if err := j.checkAgain(ctx, *conn); err != nil {
		return err
	}
	if err := j.renew(ctx, *conn); err != nil {
		return err
	}
	if len(j.clockJob) == 0 { // else the heart waits for a transaction that sweeps, and the next beat sees what came of it
		if err := j.readClock(ctx, *conn); err != nil {
			return err
		}
	}
	if err := j.answer(ctx, *conn); err != nil || j.opts.Existing {
		return err
	}
	if err := j.testify(ctx, *conn); err != nil {
		return err
	}
	return j.watch(ctx, *conn)
}

// checkRelease returns an error if the journal was migrated to a later release that excludes this one. Then this
// process renews no session, and closes each connection that writes before its next use.
func (j *Journal) checkRelease(ctx context.Context, conn *pgx.Conn) error {
	var version, leastWriter int
	if err := conn.QueryRow(ctx, "SELECT schema_version, least_writer FROM "+j.schema+".journal").Scan(&version, &leastWriter); err != nil {
		return err
	}
	err := checkVersion(version, leastWriter)
	j.outdated.Store(err != nil)
	return err
}

// observer is what this process has seen of others' beats. Only the beating goroutine has it.
type observer struct {
	at              time.Time // when they were looked at last
	upkeep, testify time.Time // when they are due
	seen            map[string]observation
}

type observation struct {
	beats int64
	since time.Time // when it was seen to beat last
	reads int       // since then
}

// leaseOver is true of a lease that is over by the database's clock. It is also true of one that ends later than any
// lease renewed now could. A clock that has gone back since renewed that one, so only the observers' time counts.
const leaseOver = "(expires_at <= clock_timestamp() OR expires_at > clock_timestamp() + interval '2 minutes')"

// watch buries sessions that are not renewed any more. It must have seen no beat in three looks or more, over ttl of
// this process's own time, with no look missed. The session must have expired by the database's clock too. So neither
// an outage of the database nor a leap of its clock buries a session.
func (j *Journal) watch(ctx context.Context, conn *pgx.Conn) error {
	var joined *time.Time
	if err := conn.QueryRow(ctx, "SELECT max(started_at) FROM "+j.schema+".sessions WHERE buried_at IS NULL OR buried_at > clock_timestamp() - interval '12 hours'").Scan(&joined); err != nil {
		return err
	}
	if joined != nil {
		j.memory.JoinedAt(*joined)
	}
	rows, err := conn.Query(ctx, "SELECT id, beats, "+leaseOver+", id <> process FROM "+j.schema+".sessions WHERE buried_at IS NULL ORDER BY started_at, id")
	if err != nil {
		return err
	}
	now := time.Now()
	o := &j.observed
	if now.Sub(o.at) > j.pace.ttl/3 {
		o.seen = make(map[string]observation)
	}
	o.at = now
	seen := make(map[string]observation)
	var dead []string
	var id string
	var beats int64
	var expired, holds bool
	var living []string
	_, err = pgx.ForEachRow(rows, []any{&id, &beats, &expired, &holds}, func() error {
		if holds {
			living = append(living, id)
		}
		was, known := o.seen[id]
		if !known || was.beats != beats {
			was = observation{beats: beats, since: now}
		}
		was.reads++
		seen[id] = was
		if expired && was.reads >= 3 && now.Sub(was.since) >= j.pace.ttl {
			dead = append(dead, id)
		}
		return nil
	})
	if err != nil {
		return err
	}
	o.seen = seen
	j.tellRanks(living)
	if len(dead) == 0 {
		return j.upkeep(ctx)
	}
	if promoted, err := j.silent(ctx, conn, dead); err != nil || promoted {
		return err
	}
	j.log.Warn("onceward: sessions are considered dead, and other processes take over their operations", "sessions", len(dead))
	return j.bury(ctx, dead, func(t *tx, id string) (still bool, err error) {
		err = t.conn.QueryRow(t.ctx, "SELECT count(*) = 1 FROM "+j.schema+".sessions WHERE id = $1 AND beats = $2 AND "+leaseOver+
			" AND NOT EXISTS (SELECT 1 FROM "+j.schema+".journal WHERE promoted IS NOT NULL AND restored IS NULL)", // see silent
			id, seen[id].beats).Scan(&still)
		return still, err
	})
}

// tellRanks gives this process's sessions their ranks among the living ones. A session that joined just now gets none
// yet, as other processes don't know of it.
func (j *Journal) tellRanks(living []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for rank, id := range living {
		if s := j.sessions[id]; s != nil && time.Since(s.joined) > 2*j.pace.beat {
			s.rank.Store(uint64(rank)<<32 | uint64(len(living)))
		}
	}
}

// silent reports whether the journal waits for answers after a promotion. A dead process gives no answer: the commits
// that it saw acknowledged are unknown. If one of the dead is a process without an answer, the journal counts as
// restored.
func (j *Journal) silent(ctx context.Context, conn *pgx.Conn, dead []string) (promoted bool, err error) {
	var silent int
	var epoch int64
	err = conn.QueryRow(ctx, "SELECT epoch, promoted IS NOT NULL AND restored IS NULL, (SELECT count(*) FROM "+j.schema+".sessions s "+
		"WHERE id = ANY($1) AND id = process AND s.timeline IS DISTINCT FROM promoted) FROM "+j.schema+".journal", dead).Scan(&epoch, &promoted, &silent)
	if err != nil || !promoted || silent == 0 {
		return promoted, err
	}
	return true, j.isRestored(ctx, conn, epoch, "the server was promoted, and a process died that could have checked for missing commits")
}

// upkeep removes, once an hour, rows of dead sessions that no process needs any more.
func (j *Journal) upkeep(ctx context.Context) error {
	now := time.Now()
	if now.Before(j.observed.upkeep) {
		return nil
	}
	j.observed.upkeep = now.Add(time.Hour)
	s := j.schema
	return j.tx(ctx, ask{doing: "tidy up"}, func(t *tx) error {
		// The time that the dead processes' lanes have seen stays.
		if _, err := t.exec("WITH gone AS (DELETE FROM " + s + ".lanes WHERE process IN (SELECT id FROM " + s + ".sessions WHERE buried_at < clock_timestamp() - interval '24 hours') " +
			"RETURNING last_at, least_margin), most AS (SELECT max(last_at) AS last_at, min(nullif(least_margin, 0)) AS least_margin FROM gone) " +
			"UPDATE " + s + ".journal j SET last_at = greatest(j.last_at, most.last_at), " +
			"least_margin = CASE WHEN j.least_margin = 0 THEN coalesce(most.least_margin, 0) ELSE least(j.least_margin, most.least_margin) END FROM most WHERE most.last_at IS NOT NULL"); err != nil {
			return err
		}
		_, err := t.exec("DELETE FROM " + s + ".sessions d WHERE buried_at < clock_timestamp() - interval '24 hours' " +
			"AND NOT EXISTS (SELECT 1 FROM " + s + ".operations WHERE holder = d.id) AND NOT EXISTS (SELECT 1 FROM " + s + ".lanes WHERE process = d.id)")
		return err
	})
}
