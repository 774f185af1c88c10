package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Lane is a connection for one transaction after another, and the row that fences their commits. Each commit raises the
// row's batch, if the row has the tenure that the lane knows. So the row shows what became of a commit whose answer was
// lost. Once the tenure is raised, a commit on its way fails. One goroutine at a time uses a Lane.
type Lane struct {
	f      *Fleet
	Conn   Conn // nil if there is none
	former Conn // the latest one, to find its transaction on the server

	Member *leased.Member // whose row it is; nil if it has none yet
	Number int
	Batch  int64 // the latest that is known to be committed
	Tenure int64 // a row with another one is not this process's any more

	Living []string // for a driver: sessions that lived under this tenure; nil if they have to be asked for
}

// step is how far the numbers of one lane's rows lie apart.
const step = 100_000

// leave leaves the row unchanged: the lane's next user starts a new row.
func (l *Lane) leave() { l.Member, l.Number = nil, l.Number+step }

// take returns a lane that no transaction uses, the latest used first.
func (f *Fleet) take(ctx context.Context) (*Lane, error) {
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, f.ended(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.idle); n > 0 {
		l := f.idle[n-1]
		f.idle = f.idle[:n-1]
		return l, nil
	}
	f.made++
	return &Lane{f: f, Number: f.made - 1}, nil
}

// Release gives the lane back. Its transaction has ended.
func (l *Lane) Release() {
	l.f.mu.Lock()
	l.f.idle = append(l.f.idle, l)
	l.f.mu.Unlock()
	<-l.f.slots
}

// Begin returns a lane with a transaction, which start has begun. The transaction needs the sessions needs alive. start
// reports whether the guard has passed. If the guard refuses, Begin finds out why, mends the cause if possible, and calls
// start again. The caller releases the lane.
func (f *Fleet) Begin(ctx context.Context, start func(l *Lane, needs []string) (passed bool, err error)) (*Lane, error) {
	l, err := f.take(ctx)
	if err != nil {
		return nil, err
	}
	for {
		if ctx.Err() != nil || f.background.Err() != nil {
			err = f.ended(ctx)
			break
		}
		fresh := l.Conn == nil || l.Conn.Broken()
		// The connection may have broken while idle. Nothing runs on it until the guard has passed: retry once on
		// another.
		broken := func() bool { return !fresh && l.Conn == nil && f.db.FateOf(err).Outage }
		if err = l.ready(ctx); err != nil {
			if broken() {
				continue
			}
			break
		}
		needs := slices.AppendSeq([]string{}, maps.Keys(f.Sessions.Living()))
		slices.Sort(needs)
		var passed bool
		if passed, err = start(l, needs); err == nil && passed {
			return l, nil
		}
		switch {
		case err != nil && broken():
			continue
		case err == nil:
			if err = l.diagnose(ctx, needs); err == nil {
				continue
			}
		}
		break
	}
	l.Release()
	return nil, f.db.Meaning(err)
}

// Within returns a context for a transaction's statements. It ends a grace.Period after ctx, and at a time, and with the
// Fleet.
func (l *Lane) Within(ctx context.Context, until time.Time) (context.Context, func()) {
	whole, leave := grace.After(ctx)
	within, end := context.WithDeadline(whole, until)
	stop := context.AfterFunc(l.f.background, end)
	return within, func() { stop(); end(); leave() }
}

// HangUp closes the connection.
func (l *Lane) HangUp() {
	if l.Conn != nil {
		l.Conn.HangUp()
		l.former, l.Conn = l.Conn, nil
	}
}

func (l *Lane) connect(ctx context.Context) (err error) {
	if l.Conn == nil {
		l.Conn, err = l.f.Dial(ctx)
	}
	return err
}

// ready connects the lane and makes the row, if there is none.
func (l *Lane) ready(ctx context.Context) error {
	if l.Conn != nil && (l.Conn.Broken() || l.f.outdated.Load()) {
		l.HangUp()
	}
	m, err := l.f.current(ctx)
	if err != nil {
		return err
	}
	if err := l.connect(ctx); err != nil || l.Member == m {
		return err
	}
	made, err := l.Conn.AddLane(ctx, m.ID, l.Number)
	if err != nil {
		l.HangUp()
		return err
	}
	l.Member, l.Batch, l.Tenure, l.Living = m, made.Batch, made.Tenure, nil
	return nil
}

// acknowledge records that the next batch was committed.
func (l *Lane) acknowledge() {
	l.Batch++
	l.f.Acknowledged.Set(l, l.Member, l.Number, l.Batch)
}

// Rollback ends a failed transaction, or closes the connection if it can't.
func (l *Lane) Rollback() {
	if l.Conn == nil || l.Conn.Broken() {
		l.HangUp()
		return
	}
	ctx, cancel := l.f.Limited(context.Background())
	defer cancel()
	if err := l.Conn.Rollback(ctx); err != nil {
		l.HangUp()
	}
}

// Committed finds out the result of a COMMIT that was answered with err. It goes on until ctx ends or the Fleet is closed.
// ErrMissed means that the commit did not land.
func (l *Lane) Committed(ctx context.Context, err error) error {
	if err == nil {
		l.acknowledge()
		return nil
	}
	fate := l.f.db.FateOf(err)
	if fate.Rejected && !l.Conn.Broken() {
		l.Rollback()
		return l.f.db.Meaning(err)
	}
	l.HangUp()
	landed, unresolved := l.resolve(ctx)
	switch {
	case unresolved != nil:
		return unresolved
	case landed:
		l.acknowledge()
		return nil
	case fate.Late: // less at once may be in time
		return fmt.Errorf("%w: %w", rowstore.ErrLocked, l.f.db.Explain("", err))
	}
	return fmt.Errorf("%w: %w", rowstore.ErrMissed, l.f.db.Explain("", err))
}

// inDoubt is the error of a commit whose fate can't be found out, and the reason.
func inDoubt(err error) error { return fmt.Errorf("%w: %w", rowstore.ErrUndecided, err) }

// resolve finds out whether the lane's next batch, whose connection broke, was committed. It raises the lane's tenure, so a
// transaction on its way fails. Then it reads the number of the last batch. If the answer is lost, it asks again.
func (l *Lane) resolve(ctx context.Context) (landed bool, err error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		is, err := l.raise(ctx)
		switch {
		case err == nil && !is.There:
			return false, inDoubt(errors.Join(errNoLane, l.f.missing(ctx, l.Conn, l.Member)))
		case err == nil && is.Batch < l.Batch:
			return false, l.lacks(ctx, is.Batch)
		case err == nil:
			l.Tenure, l.Living = is.Tenure, nil
			return is.Batch == l.Batch+1, nil
		case errors.Is(err, journal.ErrVersion): // later releases alone ask the database: it stays in doubt
			l.leave()
			return false, inDoubt(err)
		}
		select {
		case <-time.After(pause):
			continue
		case <-ctx.Done():
		case <-l.f.background.Done():
		}
		l.leave()
		return false, inDoubt(l.f.ended(ctx))
	}
}

var errNoLane = errors.New("the row of the commit is gone")

// lacks records that the database lacks commits of the lane. If the lack is known already, the lane goes on with another
// row: the process may adopt the journal.
func (l *Lane) lacks(ctx context.Context, batch int64) error {
	was := l.f.Why()
	err := l.f.goneBack(ctx, l.Member, fmt.Sprintf("lane %d of session %s is at batch %d, after %d were acknowledged", l.Number, l.Member.ID, batch, l.Batch))
	if errors.Is(err, errAdopted) || was != "" && errors.Is(err, journal.ErrRestored) {
		l.leave()
		return rowstore.ErrMissed
	}
	return err
}

// raise raises the lane's tenure, once the holder of its row is done.
func (l *Lane) raise(ctx context.Context) (is Row, err error) {
	var former Conn
	if l.Conn == nil {
		former = l.former
	}
	if err := l.connect(ctx); err != nil {
		return is, err
	}
	is, err = l.Conn.RaiseLane(ctx, former, l.Member.ID, l.Number)
	switch {
	case err == nil:
	case l.f.db.FateOf(err).Locked:
		l.f.evict(ctx)
	default:
		l.HangUp()
	}
	return is, err
}

// diagnose finds out why the guard refused, and mends the cause if possible: nil means that another try is due.
func (l *Lane) diagnose(ctx context.Context, needs []string) error {
	f := l.f
	is, err := l.raise(ctx)
	if err == nil {
		l.Tenure, l.Living = is.Tenure, nil
	}
	switch {
	case err != nil:
		return err
	case !is.There:
		return f.missing(ctx, l.Conn, l.Member)
	case is.Batch < l.Batch:
		if err = l.lacks(ctx, is.Batch); errors.Is(err, rowstore.ErrMissed) {
			return nil
		}
		return err
	case is.Batch > l.Batch: // a commit that landed unheard
		l.leave()
		return nil
	}
	was := f.Why()
	if err := l.Conn.Check(ctx); err != nil {
		return err
	}
	if was == "" && f.Why() != "" {
		l.HangUp() // this may be a server that the others have left
		return nil
	}
	if why, err := f.Lacking(ctx, l.Conn); err != nil {
		return err
	} else if why != "" {
		if err := f.goneBack(ctx, f.member.Load(), why); !errors.Is(err, errAdopted) && !(was != "" && errors.Is(err, journal.ErrRestored)) {
			return err
		}
		return nil
	}
	err = f.refused(ctx, l.Conn, l.Member, needs)
	if errors.Is(err, journal.ErrSessionLost) { // the requests of that session fail alone
		return nil
	}
	return err
}
