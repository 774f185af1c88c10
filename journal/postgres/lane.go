package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/fence"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// lane is a connection for this process's commits, one transaction at a time, and the row that fences it. Each
// transaction begins with the guard, which moves the row from batch n-1 to n, if it has the tenure that the lane
// knows. So the row shows the result of a COMMIT without an answer. Once the tenure is raised, a transaction that is
// still on its way fails. One goroutine at a time uses it.
type lane struct {
	j    *laneJournal
	conn *pgx.Conn

	leased.Row
	connection.Notices
}

// The numbers of lanes: those of batches come first.
const firstSlow = 1000

const (
	batchLock = "100ms" // below deadlock_timeout, so that we are the victim of a deadlock with the application
	heldLock  = "10ms"  // for a batch, while names are known to be held
	txLock    = "50ms"  // for a transaction that waits alone, and leaves the connection to others in between
)

func (j *laneJournal) newLane(number int) *lane { return &lane{j: j, Row: leased.Row{Number: number}} }

// hangUp closes the connection.
func (l *lane) hangUp() {
	if l.conn != nil {
		connection.HangUp(l.conn)
		l.conn = nil
	}
}

// transact runs f in a transaction behind the guard. It calls f once for each time that the guard passes. Before f,
// ctx ends the wait. From then on the transaction has its own time, which ends a grace.Period after ctx. The handler of
// an application has its own time, whether ctx has ended or not.
//
// It returns the server's errors unchanged. If ctx has ended or the journal was closed, and the commit may have
// landed, the error says so.
func (l *lane) transact(ctx context.Context, a ask, f func(*allowance, *pgx.Conn) error) error {
	for {
		if err := l.j.ended(ctx); err != nil {
			return err
		}
		fresh := l.conn == nil || l.conn.IsClosed()
		// It may have broken while it was idle. Nothing runs on it until the guard has passed: retry once on another.
		broken := func(err error) bool {
			return err != nil && !fresh && l.conn == nil && pgerr.FateOf(err) == pgerr.Outage
		}
		if err := l.ready(ctx); broken(err) {
			continue
		} else if err != nil {
			return err
		}
		if err := l.rotate(ctx); err != nil {
			return err
		}
		if a.decides { // a connection that was just made may have shown it
			if err := l.j.fleet.Refusal(); err != nil {
				return err
			}
		}
		passed, err := l.begin(ctx, a)
		if broken(err) {
			continue
		}
		if err != nil {
			return err
		}
		if !passed {
			if err := l.diagnose(ctx, a); err != nil {
				return err
			}
			continue
		}
		return l.finish(ctx, a, f)
	}
}

// ready connects the lane and makes its row, if it has none.
func (l *lane) ready(ctx context.Context) error {
	if l.conn != nil && (l.conn.IsClosed() || l.j.fleet.Outdated()) {
		l.hangUp()
	}
	m, err := l.j.fleet.Current(ctx)
	if err != nil {
		return err
	}
	if l.conn == nil {
		conn, err := l.j.fleet.Dial(ctx, &l.Notices)
		if err != nil {
			return err
		}
		l.conn = conn
	}
	if l.Member != m {
		return l.start(ctx, m)
	}
	return nil
}

// start makes the lane's row for a member.
func (l *lane) start(ctx context.Context, m *leased.Member) error {
	var made leased.RowState
	err := l.alone(ctx, func(b *pgx.Batch) { l.j.sql.fence.Add(b, m, l.Number, &made) })
	if err != nil {
		l.hangUp()
		return err
	}
	l.Start(m, made)
	return l.j.readClock(ctx, l.conn) // as the row knows of no reset
}

// alone commits some statements in one round trip, without the guard.
func (l *lane) alone(ctx context.Context, queue func(b *pgx.Batch)) error {
	return connection.Alone(ctx, l.j.background, l.conn, queue)
}

// begin starts a transaction and reports whether the guard lets it go on. If not, the transaction is ended.
func (l *lane) begin(ctx context.Context, a ask) (passed bool, err error) {
	whole, leave := grace.After(ctx)
	defer leave()
	ctx, cancel := context.WithTimeout(whole, connection.CommitTime)
	defer cancel()
	defer context.AfterFunc(l.j.background, cancel)()
	b := new(pgx.Batch)
	b.Queue(connection.BeginSQL)
	lock := txLock
	if a.lanes != nil {
		lock = connection.SlowLock
	}
	settings := connection.Settings
	if a.indices {
		settings = connection.IndexSettings
	}
	b.Queue(settings, lock)
	l.queueGuard(b, a.needs)
	l.Warned.Store(false)
	sent := time.Now()
	results := l.conn.SendBatch(ctx, b)
	for range 2 {
		if _, err = results.Exec(); err != nil {
			break
		}
	}
	guard := err == nil
	if guard {
		var one int64
		var now time.Time
		if err = results.QueryRow().Scan(&one, &now); err == nil {
			l.j.fleet.Time.HeardAt(sent, now)
		}
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	switch {
	case err == nil:
		return true, nil
	case guard && pgerr.FateOf(err) == pgerr.Guard:
		l.rollback()
		return false, nil
	}
	l.rollback()
	return false, err
}

func (l *lane) queueGuard(b *pgx.Batch, needs []string) {
	l.j.sql.fence.Guard(b, &l.Row, fence.Guard{Clock: l.j.clock.Get(), Needs: needs, Unsafe: l.j.fleet.Unsafe(),
		Started: l.j.fleet.Started(), Looked: l.Looked.Load()})
}

// rollback ends a failed transaction, or closes the connection if it can't.
func (l *lane) rollback() {
	if l.conn == nil || l.conn.IsClosed() {
		l.hangUp()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), connection.CommitTime)
	defer cancel()
	if _, err := l.conn.Exec(ctx, "ROLLBACK"); err != nil {
		l.hangUp()
	}
}

// allowance is the time that a transaction has, and anew for each page of a sweep.
type allowance struct {
	whole, ctx context.Context
	time       time.Duration
	cancel     context.CancelFunc
}

func allow(whole context.Context, time time.Duration) *allowance {
	own := &allowance{whole: whole, time: time, cancel: func() {}}
	own.renew()
	return own
}

func (a *allowance) renew() {
	a.cancel()
	a.ctx, a.cancel = context.WithTimeout(a.whole, a.time)
}

// finish runs f behind the guard, and commits.
func (l *lane) finish(ctx context.Context, a ask, f func(*allowance, *pgx.Conn) error) error {
	whole := context.WithoutCancel(ctx)
	if !a.handles {
		ending, cancel := grace.After(ctx)
		defer cancel()
		defer context.AfterFunc(l.j.background, cancel)()
		whole = ending
	}
	own := allow(whole, l.j.commitTime)
	defer func() { own.cancel() }()
	if err := f(own, l.conn); err != nil {
		l.rollback()
		return err
	}
	tag, err := l.conn.Exec(own.ctx, "COMMIT")
	return l.committed(ctx, tag.String(), err, new(bool))
}

// committed finds out the result of a COMMIT. An error means that nothing was recorded, unless it says that the
// commit is in doubt or that ctx has ended. resolved is set if the server's answer itself was lost.
func (l *lane) committed(ctx context.Context, tag string, err error, resolved *bool) error {
	switch {
	case err == nil && tag == "COMMIT" && !l.Warned.Load():
		l.Committed()
		l.j.fleet.Acknowledged.Set(l, l.Member, l.Number, l.Batch)
		return nil
	case err == nil && tag == "COMMIT":
		l.Committed()
		l.j.fleet.Acknowledged.Set(l, l.Member, l.Number, l.Batch)
		return l.replicate(ctx)
	case err == nil: // the server rolled it back
		return errLost
	case pgerr.IsStatements(err) && !l.conn.IsClosed() && !l.Warned.Load():
		l.rollback()
		return err
	}
	l.hangUp()
	landed, resolving := l.resolve(ctx, l.Batch+1)
	switch {
	case resolving != nil:
		return resolving
	case landed:
		*resolved = true
		l.Committed()
		l.j.fleet.Acknowledged.Set(l, l.Member, l.Number, l.Batch)
		return l.replicate(ctx)
	}
	return errLost
}

// errInDoubt means that the result of the commit is unknown.
var errInDoubt = errors.New("postgres: the connection broke at the commit, which may have succeeded")

// resolve finds out whether batch n of the lane, whose connection broke, was committed. It raises the lane's tenure,
// so that a transaction that is still on its way fails at its guard. Then it reads the number of the last batch. If
// the answer to that is lost, it asks again. It goes on until ctx ends or the journal is closed.
func (l *lane) resolve(ctx context.Context, n int64) (landed bool, err error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		var batch, tenure int64
		batch, tenure, err = l.raise(ctx)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return false, errors.Join(errInDoubt, l.j.fleet.Missing(ctx, l.conn, l.Member))
		case err == nil && batch < l.Batch:
			return false, l.j.fleet.GoneBack(ctx, l.Member, fmt.Sprintf("lane %d of session %s is at batch %d, after %d were acknowledged", l.Number, l.Member.ID, batch, l.Batch))
		case err == nil:
			l.Raised(tenure)
			return batch == n, nil
		case errors.Is(err, journal.ErrVersion): // later releases alone ask the database: it stays in doubt
			l.Leave()
			return false, errors.Join(errInDoubt, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			l.Leave()
			return false, errors.Join(errInDoubt, l.j.ended(ctx))
		case <-l.j.background.Done():
			return false, errors.Join(errInDoubt, journal.ErrClosed)
		}
	}
}

// rotate gives the lane another row, if it is time.
func (l *lane) rotate(ctx context.Context) error {
	if !l.IsWorn(l.j.rotateAfter) {
		return nil
	}
	var made leased.RowState
	err := l.alone(ctx, func(b *pgx.Batch) { l.j.sql.fence.Rotate(b, &l.Row, &made) })
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		l.hangUp()
		l.LeaveBoth() // it may have been done
		return err
	}
	l.Rotated(made)
	l.j.fleet.Acknowledged.Set(l, l.Member, l.Number, l.Batch)
	return nil
}

// retry runs f, which reads, until it succeeds.
func (l *lane) retry(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := l.ready(ctx)
		if err == nil {
			if err = f(ctx, l.conn); err == nil || record.IsDamaged(err) {
				return err
			}
			l.hangUp()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(errInDoubt, l.j.ended(ctx))
		}
	}
}

// raise raises the lane's tenure, once the holder of its row is done.
func (l *lane) raise(ctx context.Context) (batch, tenure int64, err error) {
	if l.conn == nil {
		if l.conn, err = l.j.fleet.Dial(ctx, &l.Notices); err != nil {
			return 0, 0, err
		}
	}
	l.Warned.Store(false)
	found := false
	var is leased.RowState
	err = l.alone(ctx, func(b *pgx.Batch) { l.j.sql.fence.Raise(b, &l.Row, &found, &is) })
	switch {
	case err != nil:
		if pgerr.Code(err) == pgerr.LockNotAvailable {
			l.j.fleet.Evict(ctx, "process = $1 AND lane = $2", l.Member.ID, l.Number)
		} else {
			l.hangUp()
		}
		return 0, 0, err
	case !found:
		return 0, 0, pgx.ErrNoRows
	}
	return is.Batch, is.Tenure, nil
}

// replicate waits until the standbys that the lane should have waited for have its commit. A later, replicated commit
// of the lane proves it, since the log is in order.
func (l *lane) replicate(ctx context.Context) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if !l.Warned.Load() && l.conn != nil {
			return nil
		}
		_, _, err := l.raiseOwn(ctx)
		if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, errLost) {
			return errInDoubt
		}
		if err == nil && !l.Warned.Load() {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(errInDoubt, l.j.ended(ctx))
		case <-l.j.background.Done():
			return errors.Join(errInDoubt, journal.ErrClosed)
		}
	}
}

// raiseOwn is raise for the lane's own use: it keeps the new tenure, and detects lost batches.
func (l *lane) raiseOwn(ctx context.Context) (batch, tenure int64, err error) {
	batch, tenure, err = l.raise(ctx)
	if err == nil {
		l.Raised(tenure)
		if batch < l.Batch {
			return 0, 0, l.j.fleet.GoneBack(ctx, l.Member, "lane "+strconv.Itoa(l.Number)+" lost acknowledged batches")
		}
	}
	return batch, tenure, err
}

// diagnose finds out why the guard refused, and mends the cause if it can: nil means that another try is due.
func (l *lane) diagnose(ctx context.Context, a ask) error {
	batch, _, err := l.raiseOwn(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return l.j.fleet.Missing(ctx, l.conn, l.Member)
	}
	if err != nil {
		return err
	}
	if batch > l.Batch {
		// A handler of DeliverTx has sent a COMMIT of its own, and it succeeded. The lane does not know its row any more.
		l.Leave()
		return nil
	}
	was := l.j.fleet.Why()
	if err := l.j.fleet.Check(ctx, l.conn, &l.Notices); err != nil {
		return err
	}
	if was == "" && l.j.fleet.Why() != "" {
		l.hangUp() // this may be a server that the others have left
		return nil
	}
	if err := l.j.readClock(ctx, l.conn); err != nil { // another process may have reset it
		return err
	}
	return l.j.fleet.Refused(ctx, l.conn, l.Member, a.needs)
}
