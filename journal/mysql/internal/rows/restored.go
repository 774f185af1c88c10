package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// restoration is why the journal counts as restored.
type restoration struct{ why string }

// adoption counts the adoptions and confirmations that this process has ended. After one of them, the process drops all that it
// had read of the journal before.
type adoption struct {
	mu    sync.Mutex
	ended int
}

func (a *adoption) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

// adopted ends the restored state in this process.
func (d *Driver) adopted() {
	d.adoption.mu.Lock()
	defer d.adoption.mu.Unlock()
	d.adoption.ended++
	d.restored.Store(nil)
}

// refusal returns journal.ErrRestored with the reason if the journal counts as restored, or else nil.
func (d *Driver) refusal() error {
	if why := d.why(); why != "" {
		return fmt.Errorf("%w: %s; see Adopt and Confirm", journal.ErrRestored, why)
	}
	return nil
}

// why returns why the journal counts as restored, or "".
func (d *Driver) why() string {
	if r := d.restored.Load(); r != nil {
		return r.why
	}
	return ""
}

// takeRestored takes over the journal's restored state. ended is the number of adoptions when it was read. If another one has
// ended since, the state is outdated.
func (d *Driver) takeRestored(ended int, restored sql.NullString) {
	d.adoption.mu.Lock()
	defer d.adoption.mu.Unlock()
	switch {
	case ended != d.adoption.ended: // the next beat looks again
	case restored.Valid:
		d.restored.Store(&restoration{restored.String})
	default:
		d.restored.Store(nil)
	}
}

// lookAgain takes over the journal's restored state at a beat.
func (d *Driver) lookAgain(ctx context.Context, conn *sql.Conn) error {
	var restored sql.NullString
	ended := d.adoption.count()
	err := conn.QueryRowContext(ctx, d.in("SELECT restored FROM {{s}}.journal")).Scan(&restored)
	if err == nil && (restored.Valid || !d.opts.Existing) { // with Existing, no process writes down what this one saw
		d.takeRestored(ended, restored)
	}
	return err
}

// isRestored makes the journal count as restored, for all processes that have it open. It does so only in the epoch of the
// evidence, so it does not undo an Adopt that it waited for. It raises the tenure of every lane, so that each process looks at
// the journal before its next commit.
func (d *Driver) isRestored(ctx context.Context, conn *sql.Conn, epoch int64, why string) error {
	if d.restored.Load() == nil { // each connection that is made finds it out again
		d.log.Error("onceward: the journal was restored or copied, or the database has gone back: nothing is sent until it is adopted or confirmed", "why", why)
	}
	var restored sql.NullString
	ended := d.adoption.count()
	const condition = "epoch = ? AND (restored IS NULL OR restored LIKE 'its adoption was begun%')"
	err := d.alone(ctx, conn, func(p *pipeline) {
		p.queue(nil, "UPDATE {{s}}.lanes SET tenure = tenure + 1 WHERE EXISTS (SELECT 1 FROM {{s}}.journal WHERE "+condition+") ORDER BY process, lane", epoch)
		p.queue(nil, "UPDATE {{s}}.journal SET restored = ? WHERE "+condition, why, epoch)
		p.queue(func(rows *sql.Rows) error { return rows.Scan(&restored) }, "SELECT restored FROM {{s}}.journal")
	})
	if err == nil {
		d.takeRestored(ended, restored)
	}
	return err
}

// isOlder is looksRestored for a database that is behind what this process knows.
func (d *Driver) isOlder(ctx context.Context, conn *sql.Conn, epoch int64, why string) error {
	err := d.looksRestored(ctx, conn, epoch, "the database has gone back: "+why)
	if err == nil && !d.opts.Existing { // it is written down
		d.memory.Forget()
	}
	return err
}

// lacking returns what this process saw acknowledged and the database does not have, or "" for nothing.
func (d *Driver) lacking(ctx context.Context, conn *sql.Conn) (why string, err error) {
	m := d.member.Load()
	if m == nil {
		return "", nil
	}
	told := d.acknowledged.Of(m)
	latest, batches := int64(0), make(map[int]int64)
	p := d.pipeline(true)
	p.queue(func(rows *sql.Rows) error { return rows.Scan(&latest) }, "SELECT coalesce(max(started_at), 0) FROM {{s}}.sessions")
	p.queue(batchesOf(batches), lanesOf, m.ID)
	if err := p.send(ctx, conn); err != nil {
		return "", err
	}
	// No other process knows of sessions that joined and ended since that state of the database.
	if joined := d.memory.LastJoin(); !joined.IsZero() && time.UnixMicro(latest).Before(joined) {
		return "it has nothing of a session that began at " + joined.UTC().Format(time.RFC3339Nano), nil
	}
	is := d.acknowledged.Of(m) // a lane that got another row meanwhile has lost nothing
	for number, batch := range told {
		if batches[number] < batch && is[number] == batch {
			return fmt.Sprintf("lane %d of session %s has acknowledged batch %d", number, m.ID, batch), nil
		}
	}
	return "", nil
}

// recall compares what is seen with this process's earlier sighting. It returns the sign that the database has gone back, or ""
// for none.
func (d *Driver) recall(ctx context.Context, conn *sql.Conn, was, is leased.Sighting) (why string, err error) {
	switch {
	case is.Epoch > was.Epoch: // there is no earlier sighting, or the journal was adopted or confirmed since
	case is.Epoch < was.Epoch:
		return fmt.Sprintf("it was adopted or confirmed %d times, and now counts %d times", was.Epoch-1, is.Epoch-1), nil
	case is.Witnessed < was.Witnessed:
		return fmt.Sprintf("it is at %d, after %d", is.Witnessed, was.Witnessed), nil
	case leased.Differs(&was.Place.System, is.Place.System) && !d.opts.Movable:
		return "it lies elsewhere than this process has seen it", nil
	case is.Beats == nil: // see missing
	case is.Member == was.Member && was.Beats != nil && *is.Beats < *was.Beats:
		return fmt.Sprintf("session %s is at beat %d, after %d", is.Member, *is.Beats, *was.Beats), nil
	default:
		return d.lacking(ctx, conn)
	}
	return "", nil
}

// missing handles a row of this process's that is not there. The rows of dead sessions stay for leased.KeepDead. So the database
// has lost the row of a living session, unless Adopt or Confirm ended all sessions. Then the journal counts as restored.
func (d *Driver) missing(ctx context.Context, conn *sql.Conn, m *leased.Member) error {
	var epoch int64
	if err := conn.QueryRowContext(ctx, d.in("SELECT epoch FROM {{s}}.journal")).Scan(&epoch); err != nil {
		return err
	}
	if epoch == m.Epoch && time.Since(time.Unix(0, m.Heard.Load())) < leased.KeepDead/2 {
		if err := d.isRestored(ctx, conn, epoch, "the database has gone back: it has nothing of session "+m.ID+", which is alive"); err != nil {
			return err
		}
	}
	m.Gone.Store(true)
	return nil
}

// errAdopted means that an Adopt or a Confirm has ended a member meanwhile.
var errAdopted = errors.New("mysql: the journal was adopted meanwhile")

// goneBack is isRestored for a lane of m that sees it. If an Adopt or a Confirm has ended m meanwhile, what the lane saw does
// not count, and goneBack returns errAdopted.
func (d *Driver) goneBack(ctx context.Context, m *leased.Member, why string) error {
	conn, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer server.HangUp(conn)
	if err := d.isRestored(ctx, conn, m.Epoch, "the database has gone back: "+why); err != nil {
		return err
	}
	var epoch int64
	if err := conn.QueryRowContext(ctx, d.in("SELECT epoch FROM {{s}}.journal")).Scan(&epoch); err != nil {
		return err
	}
	if epoch != m.Epoch {
		d.restored.Store(nil) // or the next beat says otherwise
		m.Gone.Store(true)
		return errAdopted
	}
	d.acknowledged.Forget() // this process has said what the database lacks, and may adopt it
	return d.refusal()
}

// hearWitness makes a journal that is behind its witness count as restored.
func (d *Driver) hearWitness(ctx context.Context, conn *sql.Conn) error {
	if d.opts.Witness == nil {
		return nil
	}
	told, err := d.opts.Witness.Load(ctx)
	if err != nil {
		return fmt.Errorf("mysql: Options.Witness can't be asked whether the database has gone back: %w", err)
	}
	var number, epoch int64
	if err := conn.QueryRowContext(ctx, d.in("SELECT witnessed, epoch FROM {{s}}.journal")).Scan(&number, &epoch); err != nil {
		return err
	}
	if number < told {
		return d.looksRestored(ctx, conn, epoch, fmt.Sprintf("the database has gone back: it is at %d, and the witness has seen %d", number, told))
	}
	return d.testify(ctx, conn)
}

// testify stores a number in the witness that the database has for certain. Before that it loads the witness's number. If the
// database's number is below that, the database has gone back.
func (d *Driver) testify(ctx context.Context, conn *sql.Conn) error {
	now := time.Now()
	if d.opts.Witness == nil || d.opts.Existing || d.restored.Load() != nil || now.Before(d.testimony) {
		return nil
	}
	d.testimony = now.Add(d.opts.Testify)
	told, err := d.opts.Witness.Load(ctx) // before the number is raised, as others raise it too
	if err != nil {
		d.log.Warn("onceward: the journal's witness does not say whether the database has gone back; it is asked again later", "error", err)
		return nil
	}
	var number, epoch int64
	err = d.alone(ctx, conn, func(p *pipeline) {
		p.queue(nil, "UPDATE {{s}}.journal SET witnessed = witnessed + 1")
		p.queue(func(rows *sql.Rows) error { return rows.Scan(&number, &epoch) }, "SELECT witnessed, epoch FROM {{s}}.journal")
	})
	if err != nil {
		return err
	}
	if number <= told {
		return d.isOlder(ctx, conn, epoch, fmt.Sprintf("it is at %d, and the witness has seen %d", number-1, told))
	}
	if err := d.opts.Witness.Store(ctx, number); err != nil {
		d.log.Warn("onceward: the journal's position could not be written to the witness", "error", err)
	}
	return nil
}

// witnessStep is added to the number by an Adopt or a Confirm. It is more than beats add in any journal's life.
const witnessStep = int64(1) << 32

// cutOff begins another epoch: all sessions are over, handles go on above all that any copy has given out, and the journal lies
// where it lies now. It counts as restored from then on for the reason restored, "" for none. The caller calls done once the
// transaction has committed.
func (d *Driver) cutOff(t *tx, word, restored string) (done func(), err error) {
	m, told := t.lane.member, int64(0)
	// Above every number given to a witness, by this process or, as far as a tool can know, by the service.
	if w := d.opts.Witness; w != nil {
		if told, err = w.Load(t.ctx); err != nil {
			return nil, fmt.Errorf("mysql: Options.Witness does not give its position: %w", err)
		}
	}
	p := t.pipeline()
	p.queue(nil, fenceLanes, m.ID, t.lane.number)
	p.queue(nil, "UPDATE {{s}}.sessions SET buried_at = "+nowSQL+" WHERE buried_at IS NULL")
	p.queue(nil, "UPDATE {{s}}.journal SET epoch = epoch + 1, restored = nullif(?, ''), place = "+d.dialect.Place+", deployment = coalesce(nullif(?, ''), deployment), witnessed = greatest(witnessed + ?, ?), history = concat(history, ?)",
		restored, d.opts.Deployment, witnessStep, told, d.note(word))
	p.queue(nil, "UPDATE {{s}}.handles SET next = greatest((SELECT epoch * 1099511627776 + 1 FROM {{s}}.journal), next + 1024)")
	return func() {
		m.Gone.Store(true)
		d.memory.Forget()
	}, p.send(t.ctx, t.c)
}

// note is a line of the journal's history.
func (d *Driver) note(what string) string {
	return time.Now().UTC().Format(time.RFC3339) + " on " + hostname() + ": " + what + "\n"
}

// Confirm ends the restored state without changing an operation. If the journal does not count as restored, it does nothing.
func (d *Driver) Confirm(ctx context.Context) error {
	if d.why() == "" {
		return nil
	}
	var done func()
	err := d.transact(ctx, func(t *tx) (err error) {
		done, err = d.cutOff(t, "confirmed", "")
		return err
	})
	if err == nil {
		done()
		d.adopted()
	}
	return err
}

// adopt adds the begin of an adoption to the transaction, if the journal counts as restored from then on, or its end. The caller
// calls done once the transaction has committed.
func (t *tx) adopt(restored string) (done func(), err error) {
	p, is := t.pipeline(), false
	p.queue(func(rows *sql.Rows) error { return rows.Scan(&is) }, "SELECT coalesce(restored, '') = ? FROM {{s}}.journal FOR UPDATE", t.recorded)
	if err := p.send(t.ctx, t.c); err != nil {
		return nil, err
	}
	if !is {
		return nil, errChanged
	}
	if restored != "" {
		return t.d.cutOff(t, "adopts it", restored)
	}
	p = t.pipeline()
	p.queue(nil, "UPDATE {{s}}.journal SET restored = NULL, history = concat(history, ?)", t.d.note("adopted"))
	return t.d.adopted, p.send(t.ctx, t.c)
}
