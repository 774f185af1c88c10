package rows

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// lane is a connection for one transaction after another, and the row that fences their commits. Each commit raises the row's
// batch, if the row has the tenure that the lane knows. So the row shows what became of a commit whose answer was lost. Once the
// tenure is raised, a commit that is still on its way fails. One goroutine at a time uses a lane.
type lane struct {
	d    *Driver
	conn *sql.Conn
	name string // of a lock that the connection holds: after a restart, the server gives the connection's number to another one

	member *leased.Member // whose row it is; nil if it has none yet
	number int
	batch  int64    // the latest that is known to be committed
	tenure int64    // a row with another one is not this process's any more
	living []string // sessions that lived under this tenure; nil if they have to be asked for
}

// rowState is what the database has of a lane's row.
type rowState struct {
	there         bool
	Batch, Tenure int64
}

// step is how far the numbers of one lane's rows lie apart.
const step = 100_000

// leave leaves the row as it is: the lane's next user starts a row of its own.
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
		server.HangUp(l.conn)
		l.conn = nil
	}
}

// ready connects the lane and makes its row, if it has none.
func (l *lane) ready(ctx context.Context) error {
	if l.conn != nil && l.d.outdated.Load() {
		l.hangUp()
	}
	m, err := l.d.current(ctx)
	if err != nil {
		return err
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	if l.member == m {
		return nil
	}
	var made rowState
	// The lock waits for a transaction that fences all lanes (see setLeaps), which would not see the new one.
	err = l.alone(ctx, m, &made, func(p *pipeline) {
		p.queue(ignored, "SELECT one FROM {{s}}.journal{{share}}")
		p.queue(nil, "INSERT INTO {{s}}.lanes (process, lane) VALUES (?, ?) ON DUPLICATE KEY UPDATE tenure = tenure + 1", m.ID, l.number)
	})
	if err != nil {
		l.hangUp()
		return err
	}
	l.member, l.batch, l.tenure, l.living = m, made.Batch, made.Tenure, nil
	return nil
}

func (l *lane) connect(ctx context.Context) (err error) {
	if l.conn != nil {
		return nil
	}
	if l.conn, err = l.d.dial(ctx); err != nil {
		return err
	}
	name := rand.Text()
	if _, err = l.conn.ExecContext(ctx, "DO GET_LOCK(?, 0)", name); err != nil {
		l.hangUp()
		return err
	}
	l.name = name
	return nil
}

// alone commits statements about the lane's row, without the guard, and reads the row.
func (l *lane) alone(ctx context.Context, m *leased.Member, is *rowState, queue func(*pipeline)) error {
	return l.d.alone(ctx, l.conn, func(p *pipeline) {
		queue(p)
		p.queue(func(rows *sql.Rows) error {
			is.there = true
			return rows.Scan(&is.Batch, &is.Tenure)
		}, "SELECT batch, tenure FROM {{s}}.lanes WHERE process = ? AND lane = ?", m.ID, l.number)
	})
}

// acknowledge records that the next batch was committed.
func (l *lane) acknowledge() {
	l.batch++
	l.d.acknowledged.Set(l, l.member, l.number, l.batch)
}

// rollback ends a failed transaction, or closes the connection if it can't.
func (l *lane) rollback() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTime)
	defer cancel()
	defer context.AfterFunc(l.d.background, cancel)()
	if _, err := l.conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		l.hangUp()
	}
}

// committed finds out the result of a COMMIT that failed with err. It goes on until ctx ends or the driver is closed. ErrMissed
// means that the commit did not land.
func (l *lane) committed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		l.acknowledge()
		return nil
	case myerr.IsStatements(err):
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
	case errors.Is(err, context.DeadlineExceeded): // less at once may be in time
		return fmt.Errorf("%w: %w", rowstore.ErrLocked, myerr.Explain(err))
	}
	return fmt.Errorf("%w: %w", rowstore.ErrMissed, myerr.Explain(err))
}

// inDoubt is the error of a commit whose fate can't be found out, and the reason.
func inDoubt(err error) error { return fmt.Errorf("%w: %w", rowstore.ErrUndecided, err) }

// resolve finds out whether the lane's next batch, whose connection broke, was committed. It raises the lane's tenure, so that
// a transaction that is still on its way fails. Then it reads the number of the last batch. If the answer to that is lost, it
// asks again.
func (l *lane) resolve(ctx context.Context) (landed bool, err error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		is, err := l.raise(ctx)
		switch {
		case err == nil && !is.there:
			return false, inDoubt(errors.Join(errNoLane, l.d.missing(ctx, l.conn, l.member)))
		case err == nil && is.Batch < l.batch:
			return false, l.lacks(ctx, is.Batch)
		case err == nil:
			l.tenure, l.living = is.Tenure, nil
			return is.Batch == l.batch+1, nil
		case errors.Is(err, journal.ErrVersion): // later releases alone ask the database: it stays in doubt
			l.leave()
			return false, inDoubt(err)
		}
		select {
		case <-time.After(pause):
			continue
		case <-ctx.Done():
		case <-l.d.background.Done():
		}
		l.leave()
		return false, inDoubt(l.d.ended(ctx))
	}
}

var errNoLane = errors.New("the row of the commit is gone")

// lacks records that the database lacks commits of this lane. If that is known already, the lane goes on with another row:
// this process may adopt the journal.
func (l *lane) lacks(ctx context.Context, batch int64) error {
	was := l.d.why()
	err := l.d.goneBack(ctx, l.member, fmt.Sprintf("lane %d of session %s is at batch %d, after %d were acknowledged", l.number, l.member.ID, batch, l.batch))
	if errors.Is(err, errAdopted) || was != "" && errors.Is(err, journal.ErrRestored) {
		l.leave()
		return rowstore.ErrMissed
	}
	return err
}

// raise raises the lane's tenure, once the holder of its row is done. The holder may be this lane's former connection, which the
// server has not seen end yet.
func (l *lane) raise(ctx context.Context) (is rowState, err error) {
	former := l.name
	if err := l.connect(ctx); err != nil {
		return is, err
	}
	if former != "" && former != l.name {
		var id sql.NullInt64
		_ = l.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", former).Scan(&id) // the statements below fail, too
		if id.Valid {
			_, _ = l.conn.ExecContext(ctx, "KILL "+strconv.FormatInt(id.Int64, 10)) // it may have ended just now
		}
	}
	err = l.alone(ctx, l.member, &is, func(p *pipeline) {
		p.queue(nil, "UPDATE {{s}}.lanes SET tenure = tenure + 1 WHERE process = ? AND lane = ?", l.member.ID, l.number)
	})
	if err != nil && myerr.FateOf(err) != myerr.Locked {
		l.hangUp()
	}
	return is, err
}

// diagnose finds out why the guard refused, and mends the cause if it can: nil means that another try is due.
func (l *lane) diagnose(ctx context.Context, needs []string) error {
	is, err := l.raise(ctx)
	if err == nil {
		l.tenure, l.living = is.Tenure, nil
	}
	switch {
	case err != nil:
		return err
	case !is.there:
		return l.d.missing(ctx, l.conn, l.member)
	case is.Batch < l.batch:
		if err = l.lacks(ctx, is.Batch); errors.Is(err, rowstore.ErrMissed) {
			return nil
		}
		return err
	case is.Batch > l.batch: // a commit that landed unheard
		l.leave()
		return nil
	}
	was := l.d.why()
	if err := l.d.check(ctx, l.conn); err != nil {
		return err
	}
	if was == "" && l.d.why() != "" {
		l.hangUp() // this may be a server that the others have left
		return nil
	}
	if why, err := l.d.lacking(ctx, l.conn); err != nil {
		return err
	} else if why != "" {
		if err := l.d.goneBack(ctx, l.d.member.Load(), why); !errors.Is(err, errAdopted) && !(was != "" && errors.Is(err, journal.ErrRestored)) {
			return err
		}
		return nil
	}
	err = l.d.refused(ctx, l.conn, l.member, needs)
	if errors.Is(err, journal.ErrSessionLost) { // the requests of that session fail alone
		return nil
	}
	return err
}

// refused returns why the guard refused a transaction of m that needs these sessions. Nil means that another try is due.
func (d *Driver) refused(ctx context.Context, conn *sql.Conn, m *leased.Member, needs []string) error {
	alive, mine := make(map[string]bool), false
	p := d.pipeline(true)
	p.queue(func(rows *sql.Rows) error {
		var id string
		var current bool
		err := rows.Scan(&id, &current)
		alive[id] = current
		mine = mine || id == m.ID
		return err
	}, "SELECT id, expires_at > "+nowSQL+" FROM {{s}}.sessions WHERE id IN "+places(len(needs)+1)+" AND epoch = ? AND buried_at IS NULL", append(anys(append([]string{m.ID}, needs...)), m.Epoch)...)
	if err := p.send(ctx, conn); err != nil {
		return err
	}
	if !mine {
		m.Gone.Store(true)
		if len(needs) > 0 {
			return journal.ErrSessionLost
		}
		return nil
	}
	for _, id := range needs {
		current, there := alive[id]
		if s, err := d.sessions.Mine(id); err != nil || !there {
			if s != nil {
				s.Lose()
			}
			return journal.ErrSessionLost
		}
		if !current { // it was not renewed for a while, and was not buried
			if err := d.renew(ctx, conn); err != nil {
				return err
			}
		}
	}
	return nil
}
