package rows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// lane is a connection for one transaction after another, and the row that fences their commits. Each commit raises the
// row's batch, if the row has the tenure that the lane knows. So the row shows what became of a commit whose answer was
// lost. Once the tenure is raised, a commit on its way fails. One goroutine at a time uses a lane.
type lane struct {
	d    *Driver
	conn *pgx.Conn

	member *leased.Member // whose row it is; nil if it has none yet
	number int
	batch  int64 // the latest that is known to be committed
	tenure int64 // a row with another one is not this process's any more
}

// rowState is what the database has of a lane's row.
type rowState struct{ Batch, Tenure int64 }

// step is how far the numbers of one lane's rows lie apart.
const step = 100_000

// leave leaves the row unchanged: the lane's next user starts a new row.
func (l *lane) leave() { l.member, l.number = nil, l.number+step }

// take returns a lane that no transaction uses, the latest used first.
func (d *Driver) take(ctx context.Context) (*lane, error) {
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, d.ended(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.idle); n > 0 {
		l := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return l, nil
	}
	d.made++
	return &lane{d: d, number: d.made - 1}, nil
}

func (d *Driver) giveBack(l *lane) {
	d.mu.Lock()
	d.idle = append(d.idle, l)
	d.mu.Unlock()
	<-d.slots
}

// ended returns journal.ErrClosed if the driver was closed, or else why ctx has ended.
func (d *Driver) ended(ctx context.Context) error {
	if d.background.Err() != nil {
		return journal.ErrClosed
	}
	return context.Cause(ctx)
}

// hangUp closes the connection.
func (l *lane) hangUp() {
	if l.conn != nil {
		connection.HangUp(l.conn)
		l.conn = nil
	}
}

// ready connects the lane and makes the row, if there is none.
func (l *lane) ready(ctx context.Context) error {
	if l.conn != nil && (l.conn.IsClosed() || l.d.fleet.Outdated()) {
		l.hangUp()
	}
	m, err := l.d.fleet.Current(ctx)
	if err != nil {
		return err
	}
	if l.conn == nil {
		if l.conn, err = l.d.fleet.Dial(ctx); err != nil {
			return err
		}
	}
	if l.member != m {
		return l.start(ctx, m)
	}
	return nil
}

// start makes the lane's row for a member.
func (l *lane) start(ctx context.Context, m *leased.Member) error {
	var made rowState
	err := l.alone(ctx, &made, addLane, m.ID, l.number)
	if err != nil {
		l.hangUp()
		return err
	}
	l.member, l.batch, l.tenure = m, made.Batch, made.Tenure
	return nil
}

// addLane waits for a transaction that fences all lanes (see setLeaps), which would not see the new one.
const (
	addLane   = "INSERT INTO {{s}}.lanes (process, lane) SELECT $1, $2 FROM {{s}}.journal FOR SHARE ON CONFLICT (process, lane) DO UPDATE SET tenure = lanes.tenure + 1 RETURNING batch, tenure"
	raiseLane = "UPDATE {{s}}.lanes SET tenure = tenure + 1 WHERE process = $1 AND lane = $2 RETURNING batch, tenure"
)

// alone commits one statement on the lane's row, without the guard.
func (l *lane) alone(ctx context.Context, is *rowState, text string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, l.d.opts.Time)
	defer cancel()
	return connection.Alone(ctx, l.d.background, l.conn, func(b *pgx.Batch) {
		b.Queue(l.d.in(text), args...).QueryRow(func(r pgx.Row) error { return r.Scan(&is.Batch, &is.Tenure) })
	})
}

// acknowledge records that the next batch was committed.
func (l *lane) acknowledge() {
	l.batch++
	l.d.fleet.Acknowledged.Set(l, l.member, l.number, l.batch)
}

// rollback ends a failed transaction, or closes the connection if it can't.
func (l *lane) rollback() {
	if l.conn == nil || l.conn.IsClosed() {
		l.hangUp()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.d.opts.Time)
	defer cancel()
	defer context.AfterFunc(l.d.background, cancel)()
	if _, err := l.conn.Exec(ctx, "ROLLBACK"); err != nil {
		l.hangUp()
	}
}

// committed finds out the result of a COMMIT that failed with err, or was answered by tag. It goes on until ctx ends or
// the driver is closed. ErrMissed means that the commit did not land.
func (l *lane) committed(ctx context.Context, tag string, err error) error {
	switch {
	case err == nil && tag == "COMMIT":
		l.acknowledge()
		return nil
	case err == nil: // the server rolled it back
		return rowstore.ErrMissed
	case pgerr.IsStatements(err) && !l.conn.IsClosed():
		l.rollback()
		return meaning(err)
	}
	l.hangUp()
	landed, unresolved := l.resolve(ctx)
	switch {
	case unresolved != nil:
		return unresolved
	case landed:
		l.acknowledge()
		return nil
	case pgerr.IsLate(err): // less at once may be in time
		return fmt.Errorf("%w: %w", rowstore.ErrLocked, pgerr.Explain("", err))
	}
	return fmt.Errorf("%w: %w", rowstore.ErrMissed, pgerr.Explain("", err))
}

// inDoubt is the error of a commit whose fate can't be found out, and the reason.
func inDoubt(err error) error { return fmt.Errorf("%w: %w", rowstore.ErrUndecided, err) }

// resolve finds out whether the lane's next batch, whose connection broke, was committed. It raises the lane's tenure,
// so a transaction on its way fails. Then it reads the number of the last batch. If the answer is lost, it asks again.
func (l *lane) resolve(ctx context.Context) (landed bool, err error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		is, err := l.raise(ctx)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return false, inDoubt(errors.Join(errNoLane, l.d.fleet.Missing(ctx, l.conn, l.member)))
		case err == nil && is.Batch < l.batch:
			return false, l.lacks(ctx, is.Batch)
		case err == nil:
			l.tenure = is.Tenure
			return is.Batch == l.batch+1, nil
		case errors.Is(err, journal.ErrVersion): // later releases alone ask the database: it stays in doubt
			l.leave()
			return false, inDoubt(err)
		}
		if err := l.pause(ctx, pause); err != nil {
			l.leave()
			return false, err
		}
	}
}

var errNoLane = errors.New("the row of the commit is gone")

// pause waits before another try to find out what became of a commit.
func (l *lane) pause(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
	case <-l.d.background.Done():
	}
	return inDoubt(l.d.ended(ctx))
}

// lacks records that the database lacks commits of the lane. If the lack is known already, the lane goes on with
// another row: the process may adopt the journal.
func (l *lane) lacks(ctx context.Context, batch int64) error {
	was := l.d.fleet.Why()
	err := l.d.fleet.GoneBack(ctx, l.member, fmt.Sprintf("lane %d of session %s is at batch %d, after %d were acknowledged", l.number, l.member.ID, batch, l.batch))
	if errors.Is(err, fleet.ErrLost) || was != "" && errors.Is(err, journal.ErrRestored) {
		l.leave()
		return rowstore.ErrMissed
	}
	return err
}

// raise raises the lane's tenure, once the holder of its row is done.
func (l *lane) raise(ctx context.Context) (is rowState, err error) {
	if l.conn == nil {
		if l.conn, err = l.d.fleet.Dial(ctx); err != nil {
			return is, err
		}
	}
	err = l.alone(ctx, &is, raiseLane, l.member.ID, l.number)
	switch {
	case err == nil, errors.Is(err, pgx.ErrNoRows):
	case pgerr.Code(err) == pgerr.LockNotAvailable:
		l.d.fleet.Evict(ctx)
	default:
		l.hangUp()
	}
	return is, err
}

// diagnose finds out why the guard refused, and mends the cause if possible: nil means that another try is due.
func (l *lane) diagnose(ctx context.Context, needs []string) error {
	is, err := l.raise(ctx)
	if err == nil {
		l.tenure = is.Tenure
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return l.d.fleet.Missing(ctx, l.conn, l.member)
	case err != nil:
		return err
	case is.Batch < l.batch:
		if err = l.lacks(ctx, is.Batch); errors.Is(err, rowstore.ErrMissed) {
			return nil
		}
		return err
	case is.Batch > l.batch: // a commit that landed unheard
		l.leave()
		return nil
	}
	was := l.d.fleet.Why()
	if err := l.d.fleet.Check(ctx, l.conn); err != nil {
		return err
	}
	if was == "" && l.d.fleet.Why() != "" {
		l.hangUp() // this may be a server that the others have left
		return nil
	}
	if err := l.d.fleet.Lacks(ctx, l.conn); errors.Is(err, fleet.ErrLost) || was != "" && errors.Is(err, journal.ErrRestored) {
		return nil
	} else if err != nil {
		return err
	}
	err = l.d.fleet.Refused(ctx, l.conn, l.member, needs)
	if errors.Is(err, journal.ErrSessionLost) { // the requests of that session fail alone
		return nil
	}
	return err
}
