package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/member"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// restoration is why the journal counts as restored.
type restoration struct{ why string }

// adoption counts the adoptions and confirmations that this process has ended. After one of them, the process drops all that it had read of the journal
// before.
type adoption struct {
	mu    sync.Mutex
	ended int
}

func (a *adoption) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

// isAdopted ends the restored state in this process.
func (j *Journal) isAdopted() {
	j.adoption.mu.Lock()
	defer j.adoption.mu.Unlock()
	j.adoption.ended++
	j.restored.Store(nil)
}

// refusal returns journal.ErrRestored with the reason if the journal counts as restored, or else nil.
func (j *Journal) refusal() error {
	if r := j.restored.Load(); r != nil {
		return fmt.Errorf("%w: %s; see Adopt and Confirm", journal.ErrRestored, r.why)
	}
	return nil
}

// isRestored makes the journal count as restored, for all processes that have it open. It does so only in the epoch
// of the evidence, so it does not undo an Adopt that it waited for.
func (j *Journal) isRestored(ctx context.Context, conn *pgx.Conn, epoch int64, why string) error {
	if j.restored.Load() == nil { // each connection that is made finds it out again
		j.log.Error("onceward: the journal was restored or copied, or the database has gone back: nothing is sent until it is adopted or confirmed", "why", why)
	}
	return j.mark(ctx, conn, "restored", "(restored IS NULL OR starts_with(restored, '"+adopting+"'))", epoch, why)
}

// mark sets a column of the journal that concerns all processes that have it open, if the condition holds. It raises
// the tenure of every lane, so that each process looks at the journal before its next commit.
func (j *Journal) mark(ctx context.Context, conn *pgx.Conn, column, condition string, epoch int64, value string) error {
	var restored, promoted *string
	condition = "epoch = $1 AND $2::text IS NOT NULL AND " + condition
	mark := func() error {
		return connection.Alone(ctx, j.background, conn, func(b *pgx.Batch) {
			b.Queue("UPDATE "+j.schema+".lanes l SET tenure = tenure + 1 FROM (SELECT process, lane FROM "+j.schema+".lanes "+
				"WHERE EXISTS (SELECT 1 FROM "+j.schema+".journal WHERE "+condition+") ORDER BY process, lane FOR UPDATE) o WHERE l.process = o.process AND l.lane = o.lane", epoch, value)
			b.Queue("UPDATE "+j.schema+".journal SET "+column+" = $2 WHERE "+condition, epoch, value)
			b.Queue("SELECT restored, promoted FROM " + j.schema + ".journal").QueryRow(func(r pgx.Row) error { return r.Scan(&restored, &promoted) })
		})
	}
	ended := j.adoption.count()
	err := mark()
	if pgerr.Code(err) == pgerr.LockNotAvailable {
		j.evict(ctx, "true")
		err = mark()
	}
	if err == nil {
		j.takeRestored(ended, restored, promoted)
	}
	return err
}

// takeRestored takes over the journal's restored state. ended is the number of adoptions when it was read. If another
// one has ended since, the state is outdated.
func (j *Journal) takeRestored(ended int, restored, promoted *string) {
	j.adoption.mu.Lock()
	defer j.adoption.mu.Unlock()
	switch {
	case ended != j.adoption.ended: // the next beat looks again
	case restored != nil:
		j.restored.Store(&restoration{why: *restored})
	case promoted != nil:
		j.restored.Store(&restoration{why: "the server was promoted, and not every live process has checked yet that it has everything"})
	default:
		j.restored.Store(nil)
	}
}

// isPromoted makes the journal wait, on another timeline, until all living processes have found their acknowledged
// commits there. This process looks at once, the others with their next commit or beat. Synchronous commits prove
// nothing here: afterwards it is unknown which standby they waited for, since when, and whether that one was
// promoted.
func (j *Journal) isPromoted(ctx context.Context, conn *pgx.Conn, epoch int64, timeline string) error {
	err := j.mark(ctx, conn, "promoted", "promoted IS DISTINCT FROM $2 AND timeline IS DISTINCT FROM $2", epoch, timeline)
	if err != nil || j.member.Load() == nil {
		return err
	}
	return j.answer(ctx, conn)
}

// notSynchronous resets a column that earlier releases read.
const notSynchronous = "synchronous = false"

// answer records that this process has found its acknowledged commits, if the journal waits for that (isPromoted). If
// some are missing, the journal counts as restored. The journal goes on once all living processes have answered. Each
// beat calls answer too.
func (j *Journal) answer(ctx context.Context, conn *pgx.Conn) error {
	var restored, promoted *string
	var epoch int64
	read := func() error {
		ended := j.adoption.count()
		err := conn.QueryRow(ctx, "SELECT restored, promoted, epoch FROM "+j.schema+".journal").Scan(&restored, &promoted, &epoch)
		if err == nil && (restored != nil || promoted != nil || !j.opts.Existing) { // with Existing, no process writes down what this one saw
			j.takeRestored(ended, restored, promoted)
		}
		return err
	}
	if err := read(); err != nil || restored != nil || promoted == nil {
		return err
	}
	if why, err := j.lacking(ctx, conn); err != nil {
		return err
	} else if why != "" {
		return j.isRestored(ctx, conn, epoch, "the server was promoted, and lacks acknowledged commits: "+why)
	}
	err := connection.Alone(ctx, j.background, conn, func(b *pgx.Batch) {
		b.Queue("UPDATE "+j.schema+".sessions SET timeline = $2 WHERE id = $1", j.member.Load().ID, *promoted)
		b.Queue("UPDATE "+j.schema+".journal SET timeline = promoted, promoted = NULL, "+notSynchronous+
			" WHERE promoted = $1 AND NOT EXISTS (SELECT 1 FROM "+j.schema+".sessions WHERE id = process AND buried_at IS NULL AND timeline IS DISTINCT FROM $1)", *promoted)
	})
	if err != nil {
		return err
	}
	return read()
}

// lacking returns what this process saw acknowledged and the database does not have, or "" for nothing.
func (j *Journal) lacking(ctx context.Context, conn *pgx.Conn) (why string, err error) {
	m := j.member.Load()
	// No other process knows of sessions that joined and ended since that state of the database.
	if joined := j.memory.LastJoin(); !joined.IsZero() {
		var latest time.Time
		if err := conn.QueryRow(ctx, "SELECT coalesce(max(started_at), 'epoch') FROM "+j.schema+".sessions").Scan(&latest); err != nil {
			return "", err
		}
		if latest.Before(joined) {
			return "it has nothing of a session that began at " + joined.UTC().Format(time.RFC3339Nano), nil
		}
	}
	told := j.acknowledged.Of(m)
	rows, err := conn.Query(ctx, "SELECT lane, batch FROM "+j.schema+".lanes WHERE process = $1", m.ID)
	if err != nil {
		return "", err
	}
	var number int
	var batch int64
	_, err = pgx.ForEachRow(rows, []any{&number, &batch}, func() error {
		if batch >= told[number] {
			delete(told, number)
		}
		return nil
	})
	if err != nil || len(told) == 0 {
		return "", err
	}
	// A lane that got another row meanwhile has lost nothing.
	for number, batch := range j.acknowledged.Of(m) {
		if told[number] == batch && batch > 0 {
			return fmt.Sprintf("lane %d of session %s has acknowledged batch %d", number, m.ID, batch), nil
		}
	}
	return "", nil
}

// recall compares what is seen with this process's earlier sighting. It returns the sign that the database has gone
// back, or "" for none.
func (j *Journal) recall(ctx context.Context, conn *pgx.Conn, was, is member.Sighting) (why string, err error) {
	switch {
	case is.Epoch > was.Epoch: // there is no earlier sighting, or the journal was adopted or confirmed since
	case is.Epoch < was.Epoch:
		return fmt.Sprintf("it was adopted or confirmed %d times, and now counts %d times", was.Epoch-1, is.Epoch-1), nil
	case is.Witnessed < was.Witnessed:
		return fmt.Sprintf("it is at %d, after %d", is.Witnessed, was.Witnessed), nil
	case check.Differs(&was.Place.System, is.Place.System), check.Differs(&was.Place.Database, is.Place.Database), check.Differs(&was.Place.Table, is.Place.Table):
		return "it lies elsewhere than this process has seen it", nil
	case member.Older(is.Place, was.Place):
		return fmt.Sprintf("it is on timeline %s, after %s", is.Place.Timeline, was.Place.Timeline), nil
	case is.Beats == nil: // see missing
	case is.Place.Timeline == "", is.Place.Timeline != was.Place.Timeline: // a standby may lack beats, as they don't wait for it
		return j.lacking(ctx, conn)
	case is.Member == was.Member && was.Beats != nil && *is.Beats < *was.Beats:
		return fmt.Sprintf("session %s is at beat %d, after %d", is.Member, *is.Beats, *was.Beats), nil
	}
	return "", nil
}

// isOlder is looksRestored for a database that is behind what this process knows.
func (j *Journal) isOlder(ctx context.Context, conn *pgx.Conn, epoch int64, why string) error {
	err := j.looksRestored(ctx, conn, epoch, "the database has gone back: "+why)
	if err == nil && !j.opts.Existing { // it is written down
		j.memory.Forget()
	}
	return err
}

// missing handles a row of this process's that is not there. The rows of dead sessions stay for member.KeepDead. So the
// database has lost the row of a living session, unless Adopt or Confirm ended all sessions. Then the journal counts
// as restored.
func (j *Journal) missing(ctx context.Context, conn *pgx.Conn, m *member.Member) error {
	var epoch int64
	if err := conn.QueryRow(ctx, "SELECT epoch FROM "+j.schema+".journal").Scan(&epoch); err != nil {
		return err
	}
	if epoch == m.Epoch && time.Since(time.Unix(0, m.Heard.Load())) < member.KeepDead/2 {
		if err := j.isRestored(ctx, conn, epoch, "the database has gone back: it has nothing of session "+m.ID+", which is alive"); err != nil {
			return err
		}
	}
	m.Gone.Store(true)
	return nil
}

// goneBack is isRestored for a lane of m that sees it. If an Adopt or a Confirm has ended m meanwhile, what the lane
// saw does not count, and goneBack returns errLost.
func (j *Journal) goneBack(ctx context.Context, m *member.Member, why string) error {
	conn, err := j.dial(ctx, nil)
	if err == nil {
		defer connection.HangUp(conn)
		err = j.isRestored(ctx, conn, m.Epoch, "the database has gone back: "+why)
		var epoch int64
		if err == nil {
			err = conn.QueryRow(ctx, "SELECT epoch FROM "+j.schema+".journal").Scan(&epoch)
		}
		if err == nil && epoch != m.Epoch {
			j.restored.Store(nil) // or the next beat says otherwise
			m.Gone.Store(true)
			return errLost
		}
	}
	if err != nil {
		return err
	}
	return j.refusal()
}

// adopting begins journal.restored during an adoption. The mark of the adoption follows, which shows whether another process has
// written something else there meanwhile.
const adopting = "its adoption was begun, and is not over: "

// hearWitness makes a journal that is behind its witness count as restored.
func (j *Journal) hearWitness(ctx context.Context, conn *pgx.Conn) error {
	if j.opts.Witness == nil {
		return nil
	}
	told, err := j.opts.Witness.Load(ctx)
	if err != nil {
		return fmt.Errorf("postgres: Options.Witness can't be asked whether the database has gone back: %w", err)
	}
	var number, epoch int64
	if err := conn.QueryRow(ctx, "SELECT witnessed, epoch FROM "+j.schema+".journal").Scan(&number, &epoch); err != nil {
		return err
	}
	if number < told {
		return j.looksRestored(ctx, conn, epoch, fmt.Sprintf("the database has gone back: it is at %d, and the witness has seen %d", number, told))
	}
	return j.testify(ctx, conn)
}

// testify stores a number in the witness that the database has for certain. Before that it loads the witness's
// number. If the database's number is below that, the database has gone back.
func (j *Journal) testify(ctx context.Context, conn *pgx.Conn) error {
	now := time.Now()
	if j.opts.Witness == nil || j.opts.Existing || j.restored.Load() != nil || now.Before(j.observed.testify) {
		return nil
	}
	j.observed.testify = now.Add(j.pace.testify)
	told, err := j.opts.Witness.Load(ctx) // before the number is raised, as others raise it too
	if err != nil {
		j.log.Warn("onceward: the journal's witness does not say whether the database has gone back; it is asked again later", "error", err)
		return nil
	}
	var number, epoch int64
	err = connection.Alone(ctx, j.background, conn, func(b *pgx.Batch) {
		b.Queue("UPDATE " + j.schema + ".journal SET witnessed = witnessed + 1 RETURNING witnessed, epoch").
			QueryRow(func(r pgx.Row) error { return r.Scan(&number, &epoch) })
	})
	if err != nil {
		return err
	}
	if number <= told {
		return j.isOlder(ctx, conn, epoch, fmt.Sprintf("it is at %d, and the witness has seen %d", number-1, told))
	}
	if err := j.opts.Witness.Store(ctx, number); err != nil {
		j.log.Warn("onceward: the journal's position could not be written to the witness", "error", err)
	}
	return nil
}
