package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// restoration is why the journal counts as restored.
type restoration struct{ why string }

// adoption counts the adoptions and confirmations that the process has ended. After each, the process drops everything
// read from the journal before.
type adoption struct {
	mu    sync.Mutex
	ended int
}

func (a *adoption) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

// Adopted ends the restored state in this process.
func (f *Fleet) Adopted() {
	f.adoption.mu.Lock()
	defer f.adoption.mu.Unlock()
	f.adoption.ended++
	f.restored.Store(nil)
}

// Refusal returns journal.ErrRestored with the reason if the journal counts as restored, or else nil.
func (f *Fleet) Refusal() error {
	if r := f.restored.Load(); r != nil {
		return fmt.Errorf("%w: %s; see Adopt and Confirm", journal.ErrRestored, r.why)
	}
	return nil
}

// Why returns why the journal counts as restored, or "".
func (f *Fleet) Why() string {
	if r := f.restored.Load(); r != nil {
		return r.why
	}
	return ""
}

// isRestored makes the journal count as restored, for all processes that have the journal open. It does so only in the
// epoch of the evidence, so it undoes no Adopt that it waited for.
func (f *Fleet) isRestored(ctx context.Context, conn *pgx.Conn, epoch int64, why string) error {
	if f.restored.Load() == nil { // each connection that is made finds it out again
		f.opts.Log.Error("onceward: the journal was restored or copied, or the database has gone back: nothing is sent until it is adopted or confirmed", "why", why)
	}
	return f.mark(ctx, conn, "restored", "(restored IS NULL OR starts_with(restored, '"+Adopting+"'))", epoch, why)
}

// mark sets a column of the journal that concerns all processes with the journal open, if the condition holds. It
// raises the tenure of every lane, so each process looks at the journal before the next commit.
func (f *Fleet) mark(ctx context.Context, conn *pgx.Conn, column, condition string, epoch int64, value string) error {
	var restored, promoted *string
	condition = "epoch = $1 AND $2::text IS NOT NULL AND " + condition
	mark := func() error {
		return connection.Alone(ctx, f.opts.Background, conn, func(b *pgx.Batch) {
			b.Queue("UPDATE "+f.schema+".lanes l SET tenure = tenure + 1 FROM (SELECT process, lane FROM "+f.schema+".lanes "+
				"WHERE EXISTS (SELECT 1 FROM "+f.schema+".journal WHERE "+condition+") ORDER BY process, lane FOR UPDATE) o WHERE l.process = o.process AND l.lane = o.lane", epoch, value)
			b.Queue("UPDATE "+f.schema+".journal SET "+column+" = $2 WHERE "+condition, epoch, value)
			b.Queue("SELECT restored, promoted FROM " + f.schema + ".journal").QueryRow(func(r pgx.Row) error { return r.Scan(&restored, &promoted) })
		})
	}
	ended := f.adoption.count()
	err := mark()
	if pgerr.Code(err) == pgerr.LockNotAvailable {
		f.Evict(ctx)
		err = mark()
	}
	if err == nil {
		f.takeRestored(ended, restored, promoted)
	}
	return err
}

// takeRestored takes over the journal's restored state. ended is the number of adoptions when it was read. If another
// one has ended since, the state is outdated.
func (f *Fleet) takeRestored(ended int, restored, promoted *string) {
	f.adoption.mu.Lock()
	defer f.adoption.mu.Unlock()
	switch {
	case ended != f.adoption.ended: // the next beat looks again
	case restored != nil:
		f.restored.Store(&restoration{why: *restored})
	case promoted != nil:
		f.restored.Store(&restoration{why: "the server was promoted, and not every live process has checked yet that it has everything"})
	default:
		f.restored.Store(nil)
	}
}

// isPromoted makes the journal wait, on another timeline, until all living processes have found their acknowledged
// commits there. This process looks at once, the others with their next commit or beat. Synchronous commits prove
// nothing here: afterwards no process knows which standby confirmed the commits, since when, and whether the confirming
// standby was promoted.
func (f *Fleet) isPromoted(ctx context.Context, conn *pgx.Conn, epoch int64, timeline string) error {
	err := f.mark(ctx, conn, "promoted", "promoted IS DISTINCT FROM $2 AND timeline IS DISTINCT FROM $2", epoch, timeline)
	if err != nil || f.member.Load() == nil {
		return err
	}
	return f.answer(ctx, conn)
}

// answer records that the process has found its acknowledged commits, if the journal waits for the answer (isPromoted).
// If some are missing, the journal counts as restored. The journal goes on once all living processes have answered.
// Each beat calls answer too.
func (f *Fleet) answer(ctx context.Context, conn *pgx.Conn) error {
	var restored, promoted *string
	var epoch int64
	read := func() error {
		ended := f.adoption.count()
		err := conn.QueryRow(ctx, "SELECT restored, promoted, epoch FROM "+f.schema+".journal").Scan(&restored, &promoted, &epoch)
		if err == nil && (restored != nil || promoted != nil || !f.opts.Existing) { // with Existing, no process writes down what this one saw
			f.takeRestored(ended, restored, promoted)
		}
		return err
	}
	if err := read(); err != nil || restored != nil || promoted == nil {
		return err
	}
	if why, err := f.lacking(ctx, conn); err != nil {
		return err
	} else if why != "" {
		return f.isRestored(ctx, conn, epoch, "the server was promoted, and lacks acknowledged commits: "+why)
	}
	err := connection.Alone(ctx, f.opts.Background, conn, func(b *pgx.Batch) {
		b.Queue("UPDATE "+f.schema+".sessions SET timeline = $2 WHERE id = $1", f.member.Load().ID, *promoted)
		b.Queue("UPDATE "+f.schema+".journal SET timeline = promoted, promoted = NULL "+
			"WHERE promoted = $1 AND NOT EXISTS (SELECT 1 FROM "+f.schema+".sessions WHERE id = process AND buried_at IS NULL AND timeline IS DISTINCT FROM $1)", *promoted)
	})
	if err != nil {
		return err
	}
	return read()
}

// lacking returns what this process saw acknowledged and the database does not have, or "" for nothing.
func (f *Fleet) lacking(ctx context.Context, conn *pgx.Conn) (why string, err error) {
	m := f.member.Load()
	// No other process knows of sessions that joined and ended since the database's restored state.
	if joined := f.Memory.LastJoin(); !joined.IsZero() {
		var latest time.Time
		if err := conn.QueryRow(ctx, "SELECT coalesce(max(started_at), 'epoch') FROM "+f.schema+".sessions").Scan(&latest); err != nil {
			return "", err
		}
		if latest.Before(joined) {
			return "it has nothing of a session that began at " + joined.UTC().Format(time.RFC3339Nano), nil
		}
	}
	told := f.Acknowledged.Of(m)
	rows, err := conn.Query(ctx, "SELECT lane, batch FROM "+f.schema+".lanes WHERE process = $1", m.ID)
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
	for number, batch := range f.Acknowledged.Of(m) {
		if told[number] == batch && batch > 0 {
			return fmt.Sprintf("lane %d of session %s has acknowledged batch %d", number, m.ID, batch), nil
		}
	}
	return "", nil
}

// Lacks makes the journal count as restored if the database lacks commits of this process. It returns ErrLost if an Adopt
// or a Confirm has ended the process meanwhile.
func (f *Fleet) Lacks(ctx context.Context, conn *pgx.Conn) error {
	why, err := f.lacking(ctx, conn)
	if err != nil || why == "" {
		return err
	}
	return f.GoneBack(ctx, f.member.Load(), why)
}

// recall compares what is seen with this process's earlier sighting. It returns the sign of a database that has gone
// back, or "" for none.
func (f *Fleet) recall(ctx context.Context, conn *pgx.Conn, was, is leased.Sighting) (why string, err error) {
	switch {
	case is.Epoch > was.Epoch: // there is no earlier sighting, or the journal was adopted or confirmed since
	case is.Epoch < was.Epoch:
		return fmt.Sprintf("it was adopted or confirmed %d times, and now counts %d times", was.Epoch-1, is.Epoch-1), nil
	case is.Witnessed < was.Witnessed:
		return fmt.Sprintf("it is at %d, after %d", is.Witnessed, was.Witnessed), nil
	case leased.Differs(&was.Place.System, is.Place.System), leased.Differs(&was.Place.Database, is.Place.Database), leased.Differs(&was.Place.Table, is.Place.Table):
		return "it lies elsewhere than this process has seen it", nil
	case leased.Older(is.Place, was.Place):
		return fmt.Sprintf("it is on timeline %s, after %s", is.Place.Timeline, was.Place.Timeline), nil
	case is.Beats == nil: // see Missing
	case is.Place.Timeline == "", is.Place.Timeline != was.Place.Timeline: // a standby may lack beats, as they don't wait for it
		return f.lacking(ctx, conn)
	case is.Member == was.Member && was.Beats != nil && *is.Beats < *was.Beats:
		return fmt.Sprintf("session %s is at beat %d, after %d", is.Member, *is.Beats, *was.Beats), nil
	}
	return "", nil
}

// isOlder is looksRestored for a database that is behind the process's knowledge.
func (f *Fleet) isOlder(ctx context.Context, conn *pgx.Conn, epoch int64, why string) error {
	err := f.looksRestored(ctx, conn, epoch, "the database has gone back: "+why)
	if err == nil && !f.opts.Existing { // it is written down
		f.Memory.Forget()
	}
	return err
}

// Missing handles a missing row of the process. The rows of dead sessions stay for leased.KeepDead. So the database has
// lost the row of a living session, unless Adopt or Confirm ended all sessions. Then the journal counts as restored.
func (f *Fleet) Missing(ctx context.Context, conn *pgx.Conn, m *leased.Member) error {
	var epoch int64
	if err := conn.QueryRow(ctx, "SELECT epoch FROM "+f.schema+".journal").Scan(&epoch); err != nil {
		return err
	}
	if epoch == m.Epoch && time.Since(time.Unix(0, m.Heard.Load())) < leased.KeepDead/2 {
		if err := f.isRestored(ctx, conn, epoch, "the database has gone back: it has nothing of session "+m.ID+", which is alive"); err != nil {
			return err
		}
	}
	m.Gone.Store(true)
	return nil
}

// GoneBack is isRestored for a lane of m that sees the database gone back. If an Adopt or a Confirm has ended m
// meanwhile, what the lane saw does not count, and GoneBack returns ErrLost.
func (f *Fleet) GoneBack(ctx context.Context, m *leased.Member, why string) error {
	conn, err := f.Dial(ctx)
	if err == nil {
		defer connection.HangUp(conn)
		err = f.isRestored(ctx, conn, m.Epoch, "the database has gone back: "+why)
		var epoch int64
		if err == nil {
			err = conn.QueryRow(ctx, "SELECT epoch FROM "+f.schema+".journal").Scan(&epoch)
		}
		if err == nil && epoch != m.Epoch {
			f.restored.Store(nil) // or the next beat says otherwise
			m.Gone.Store(true)
			return ErrLost
		}
	}
	if err != nil {
		return err
	}
	f.Acknowledged.Forget() // this process has said what the database lacks, and may adopt it
	return f.Refusal()
}

// Adopting begins journal.restored during an adoption. The mark of the adoption follows, which shows whether another process has
// written something else there meanwhile.
const Adopting = "its adoption was begun, and is not over: "

// HearWitness makes a journal that is behind the witness count as restored.
func (f *Fleet) HearWitness(ctx context.Context, conn *pgx.Conn) error {
	if f.opts.Witness == nil {
		return nil
	}
	told, err := f.opts.Witness.Load(ctx)
	if err != nil {
		return fmt.Errorf("postgres: Options.Witness can't be asked whether the database has gone back: %w", err)
	}
	var number, epoch int64
	if err := conn.QueryRow(ctx, "SELECT witnessed, epoch FROM "+f.schema+".journal").Scan(&number, &epoch); err != nil {
		return err
	}
	if number < told {
		return f.looksRestored(ctx, conn, epoch, fmt.Sprintf("the database has gone back: it is at %d, and the witness has seen %d", number, told))
	}
	return f.testify(ctx, conn)
}

// testify stores a number in the witness that the database has for certain. Before the comparison it loads the
// witness's number. If the database's number is below that, the database has gone back.
func (f *Fleet) testify(ctx context.Context, conn *pgx.Conn) error {
	now := time.Now()
	if f.opts.Witness == nil || f.opts.Existing || f.restored.Load() != nil || now.Before(f.testimonyDue) {
		return nil
	}
	f.testimonyDue = now.Add(f.opts.Testify)
	told, err := f.opts.Witness.Load(ctx) // before the number is raised, as others raise it too
	if err != nil {
		f.opts.Log.Warn("onceward: the journal's witness does not say whether the database has gone back; it is asked again later", "error", err)
		return nil
	}
	var number, epoch int64
	err = connection.Alone(ctx, f.opts.Background, conn, func(b *pgx.Batch) {
		b.Queue("UPDATE " + f.schema + ".journal SET witnessed = witnessed + 1 RETURNING witnessed, epoch").
			QueryRow(func(r pgx.Row) error { return r.Scan(&number, &epoch) })
	})
	if err != nil {
		return err
	}
	if number <= told {
		return f.isOlder(ctx, conn, epoch, fmt.Sprintf("it is at %d, and the witness has seen %d", number-1, told))
	}
	if err := f.opts.Witness.Store(ctx, number); err != nil {
		f.opts.Log.Warn("onceward: the journal's position could not be written to the witness", "error", err)
	}
	return nil
}

// CutOff begins another epoch: all sessions are over, handles go on above all handles of any copy, and the journal's
// location is the present one. It counts as restored from then on for the reason restored, "" for none. The caller
// calls done once the transaction has committed.
func (f *Fleet) CutOff(ctx context.Context, conn apptx.Runner, word, restored string) (done func(), err error) {
	s := f.schema
	m := f.member.Load()
	is := f.place(ctx, conn)
	for _, statement := range [...]struct {
		sql  string
		args []any
	}{
		{"UPDATE " + s + ".lanes l SET tenure = tenure + 1 FROM (SELECT process, lane FROM " + s + ".lanes WHERE process <> $1 ORDER BY process, lane FOR UPDATE) o " +
			"WHERE l.process = o.process AND l.lane = o.lane", []any{m.ID}},
		{"UPDATE " + s + ".sessions SET buried_at = clock_timestamp() WHERE buried_at IS NULL", nil},
		{"UPDATE " + s + ".journal SET epoch = epoch + 1, restored = nullif($6, ''), promoted = NULL, system_identifier = $1, database_oid = $2, table_oid = $3, timeline = $4, " +
			"deployment = coalesce(nullif($5, ''), deployment)", []any{is.System, is.Database, is.Table, is.Timeline, f.opts.Deployment, restored}},
	} {
		if _, err := conn.Exec(ctx, statement.sql, statement.args...); err != nil {
			return nil, err
		}
	}
	for _, sequence := range sequences {
		if _, err := conn.Exec(ctx, strings.ReplaceAll(f.in(cutHandles), "{{q}}", sequence)); err != nil {
			return nil, err
		}
	}
	// Above every number given to a witness, by this process or, as far as a tool can know, by the service.
	told := int64(0)
	if w := f.opts.Witness; w != nil {
		var err error
		if told, err = w.Load(ctx); err != nil {
			return nil, fmt.Errorf("postgres: Options.Witness does not give its position: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, "UPDATE "+s+".journal SET witnessed = greatest(witnessed + $2, $1)", told, witnessStep); err != nil {
		return nil, err
	}
	if err := f.Note(ctx, conn, word); err != nil {
		return nil, err
	}
	return func() {
		m.Gone.Store(true)
		f.Memory.Forget()
	}, nil
}

// witnessStep is added to the number by an Adopt or a Confirm. It is more than beats add in any journal's life.
const witnessStep = int64(1) << 32
