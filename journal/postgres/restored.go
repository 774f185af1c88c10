package postgres

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/member"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/record"
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
		defer conn.Close(context.WithoutCancel(ctx))
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

// Adopt ends the restored state: the journal no longer returns journal.ErrRestored. If it was not restored, Adopt does
// nothing.
//
// The caller asserts that no other copy of the journal is, or will be, in use. The journal does not know what happened
// after the copy was made. Every operation without an answer counts as sent, from its creation until now. It is
// pending or unknown by the resend rule, and cancelled ones are unknown. Names that were begun after the copy are not
// known, and execute when a caller asks again: adoption can't close that gap.
//
// Outcomes that were delivered after the copy was made are delivered once more, those of cancelled operations as
// unknown. Outcomes delivered before are not.
//
// Adopt ends all sessions, in every process. The processes start others. The journal's history (journal.history)
// records the adoption.
//
// Adopt corrects the operations without an answer in commits of some hundred, so late answers are recorded in between.
// The journal counts as restored until the last of these commits, so a partly adopted journal sends nothing. If Adopt
// returns an error, or its process dies, call it again. It begins anew, and a second adoption changes nothing. If the
// error names a damaged operation, the journal was adopted, and that operation stays as it is.
func (j *Journal) Adopt(ctx context.Context) error {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if j.restored.Load() == nil {
		return nil
	}
	mark := adopting + newSessionID()
	err = j.tx(ctx, ask{doing: "adopt", lanes: []any{"true"}}, func(t *tx) error { return t.cutOff("adopts it", mark) })
	if err != nil {
		return err
	}
	var damaged error
	for after, done := int64(0), false; !done; {
		var last int64
		err := j.tx(ctx, ask{doing: "adopt", indices: true}, func(t *tx) (err error) {
			t.asker = ctx
			if last, done, err = t.adopt(after); err == nil && done {
				err = t.adopted(mark)
			}
			damaged = cmp.Or(damaged, t.damaged)
			return err
		})
		if err != nil {
			return err
		}
		after = last
	}
	j.isAdopted()
	if damaged != nil {
		return fmt.Errorf("adopted, but %w", damaged)
	}
	return nil
}

// adopting begins journal.restored during an adoption. The mark of the adoption follows, which shows whether another process has
// written something else there meanwhile.
const adopting = "its adoption was begun, and is not over: "

// adopt adopts a page of the operations without an answer that come after that handle.
func (t *tx) adopt(after int64) (last int64, done bool, err error) {
	if t.at = t.j.time.Now(); t.at.IsZero() {
		t.at = time.Now()
	}
	if err := t.see(); err != nil {
		return 0, false, err
	}
	ev := journal.Event{Kind: journal.EventAdopt, At: t.at, Last: t.clock.Last, Unconfirmed: t.unconfirmed(t.at)}
	t.puttingOff = true
	last, n, err := t.unansweredAfter(after, func(r *record.Row) error {
		r = t.asSwept(r)
		live, err := t.holds(&r.Op, ev.Kind)
		if err != nil {
			return err
		}
		next, decision, err := journal.Next(r.Op, live, ev)
		if err == nil && store.Changes(r.Op, next, decision) {
			_, err = t.put(r, next)
		}
		return err
	})
	if err == nil {
		err = t.flush()
	}
	return last, n < t.j.sweepPage, err
}

// adopted ends the adoption that has this mark.
func (t *tx) adopted(mark string) error {
	n, err := t.exec("UPDATE "+t.j.schema+".journal SET restored = NULL WHERE restored = $1", mark)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: while it was adopted another process adopted it too, or found that the database has gone back; call Adopt again", journal.ErrRestored)
	}
	if err != nil {
		return err
	}
	return t.note("adopted")
}

// Confirm ends the restored state without changing an operation: after a planned move, a promotion without loss, or an
// upgrade to another major version. The caller asserts that nothing was lost, and that no other copy is, or will be,
// in use. It ends all sessions. If the journal does not count as restored, it does nothing.
func (j *Journal) Confirm(ctx context.Context) error {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if j.restored.Load() == nil {
		return nil
	}
	if err := j.tx(ctx, ask{doing: "confirm", lanes: []any{"true"}}, func(t *tx) error { return t.cutOff("confirmed", "") }); err != nil {
		return err
	}
	j.isAdopted()
	return nil
}

// cutOff begins another epoch: all sessions are over, handles go on above all that any copy has given out, and the
// journal lies where it lies now. It counts as restored from then on for the reason restored, "" for none.
func (t *tx) cutOff(word, restored string) error {
	s := t.j.schema
	is := check.PlaceOf(t.ctx, t.conn, t.j.schema)
	for _, statement := range [...]struct {
		sql  string
		args []any
	}{
		{"UPDATE " + s + ".lanes l SET tenure = tenure + 1 FROM (SELECT process, lane FROM " + s + ".lanes WHERE process <> $1 ORDER BY process, lane FOR UPDATE) o " +
			"WHERE l.process = o.process AND l.lane = o.lane", []any{t.j.member.Load().ID}},
		{"UPDATE " + s + ".sessions SET buried_at = clock_timestamp() WHERE buried_at IS NULL", nil},
		{"UPDATE " + s + ".journal SET epoch = epoch + 1, restored = nullif($6, ''), promoted = NULL, system_identifier = $1, database_oid = $2, table_oid = $3, timeline = $4, " +
			notSynchronous + ", deployment = coalesce(nullif($5, ''), deployment)", []any{is.System, is.Database, is.Table, is.Timeline, t.j.opts.Deployment, restored}},
		{"SELECT pg_catalog.setval('" + s + ".handles'::pg_catalog.regclass, greatest((SELECT epoch << 40 FROM " + s + ".journal), " +
			"(SELECT coalesce(max(handle), 0) FROM " + s + ".operations), (SELECT last_value FROM " + s + ".handles)))", nil},
	} {
		if _, err := t.exec(statement.sql, statement.args...); err != nil {
			return err
		}
	}
	// Above every number given to a witness, by this process or, as far as a tool can know, by the service.
	told := int64(0)
	if w := t.j.opts.Witness; w != nil {
		var err error
		if told, err = w.Load(t.ctx); err != nil {
			return fmt.Errorf("postgres: Options.Witness does not give its position: %w", err)
		}
	}
	if _, err := t.exec("UPDATE "+s+".journal SET witnessed = greatest(witnessed + $2, $1)", told, witnessStep); err != nil {
		return err
	}
	if err := t.note(word); err != nil {
		return err
	}
	m := t.j.member.Load()
	t.onCommit = append(t.onCommit, func() {
		m.Gone.Store(true)
		t.j.memory.Forget()
	})
	clear(t.alive)
	return nil
}

// note adds a line to the journal's history.
func (t *tx) note(what string) error {
	_, err := t.exec("UPDATE "+t.j.schema+".journal SET history = history || clock_timestamp()::text || ' ' || current_user || ' on ' || $1::text || ': ' || $2::text || E'\\n'", hostname(), what)
	return err
}
