package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/gofrs/flock"
	codes "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/sessions"
)

// errDead says that no process runs the session any more.
var errDead = errors.New("the session is dead")

// session lives as long as its lock is held, which is as long as this process
// lives, unless it is ended.
type session struct {
	journal *logJournal
	id      string
	lock    *flock.Flock
	lost    atomic.Bool // never revives
	ended   atomic.Bool

	verified bool // its row was seen in the present data; the writer's
}

// Join starts a session. It lives until it is ended or this process dies.
func (j *logJournal) Join(ctx context.Context) (journal.Session, error) {
	if err := j.writable(ctx); err != nil {
		return nil, err
	}
	id, lock, err := j.file.spares.Take(j.file.path)
	if err != nil {
		return nil, fmt.Errorf("journal %s: start a session: %w", j.file.path, err)
	}
	s := &session{journal: j, id: id, lock: lock}
	// Not under the caller's context: the row and the file come and go together.
	err = j.file.writer.do(context.WithoutCancel(ctx), func(b *batch) error {
		if b.restored != nil {
			return b.restored
		}
		if err := b.mayJoin(j.opts); err != nil {
			return err
		}
		if err := b.write(b.sql.AddSession, s.id); err != nil {
			return err
		}
		b.own[s.id] = s
		s.verified = true
		return b.removeDeadSessions()
	})
	if err != nil {
		if errors.Is(err, journal.ErrRestored) || errors.Is(err, ErrDeployment) || conn.Code(err) == codes.SQLITE_FULL || conn.IsBusy(err) {
			_ = os.Remove(lock.Path()) // it has no row for certain
			_ = lock.Close()
			return nil, err
		}
		j.file.spares.Put(id, lock)
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed.Load() {
		s.leave()
		return nil, journal.ErrClosed
	}
	j.sessions[s] = struct{}{}
	return s, nil
}

func (s *session) ID() string { return s.id }

// Lost reports whether the session was seen to be taken over. It does no I/O.
func (s *session) Lost() bool { return s.lost.Load() }

// End ends the session and commits the noted events. The session is dead afterwards, even after an error.
func (s *session) End(ctx context.Context) error {
	if s.ended.Swap(true) || s.lost.Load() {
		return nil
	}
	s.journal.mu.Lock()
	delete(s.journal.sessions, s)
	s.journal.mu.Unlock()
	err := s.journal.file.writer.do(context.WithoutCancel(ctx), func(b *batch) error {
		delete(b.own, s.id)
		return b.write(b.sql.RemoveSession, s.id)
	})
	if err == nil {
		_ = os.Remove(s.lock.Path()) // no process needs it, and a left-over one does no harm
	}
	return errors.Join(err, s.lock.Close())
}

// leave drops the session as the end of its process would.
func (s *session) leave() {
	s.lost.Store(true)
	_ = s.lock.Close()
}

// requireSession refuses a session that is not this process's, or not alive any more.
func (b *batch) requireSession(id string) error {
	s, ok := b.own[id]
	if !ok {
		return journal.ErrSessionLost
	}
	if s.ended.Load() || s.lost.Load() {
		delete(b.own, id)
		return journal.ErrSessionLost
	}
	if s.verified {
		return nil
	}
	found, err := b.sql.HasSession.First(func([]driver.Value) error { return nil }, id)
	if err != nil {
		return b.fail(err)
	}
	if !found {
		s.leave()
		return journal.ErrSessionLost
	}
	s.verified = true
	return nil
}

// holds reports whether the operation's holder is alive, if that matters to an event of this kind.
func (b *batch) holds(op *journal.Operation, kind journal.EventKind) (bool, error) {
	switch {
	case op.Holder == "":
		return false, nil
	case kind == journal.EventClaim:
	case op.State == journal.StateInFlight && (kind == journal.EventBegin || kind == journal.EventResolve || kind == journal.EventAdopt):
	default:
		return false, nil
	}
	switch err := b.alive(op.Holder); err {
	case nil:
		return true, nil
	case errDead:
		return false, nil
	default:
		return false, err
	}
}

// alive returns nil for a live session, errDead for a dead one, and journal.ErrRestored for one whose file is
// missing or a copy. It checks once per batch.
func (b *batch) alive(id string) error {
	err, known := b.liveness[id]
	if !known {
		err = b.probe(id)
		b.liveness[id] = err
	}
	return err
}

func (b *batch) probe(id string) error {
	if b.requireSession(id) == nil {
		return nil
	}
	found, err := b.sql.HasSession.First(func([]driver.Value) error { return nil }, id)
	if err != nil {
		return b.fail(err)
	}
	lock, err := sessions.Lock(b.path, id)
	switch {
	case !found:
		// Its row goes only after it, and then its file, if nothing has damaged the row.
		switch {
		case lock != nil:
			_ = lock.Close()
		case err == nil:
			return nil
		}
		return errDead
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the file of session %s, which holds the operation, is missing, or a copy was put in its place", journal.ErrRestored, id)
	case err != nil:
		return fmt.Errorf("journal %s: can't tell whether session %s is alive: %w", b.path, id, err)
	case lock == nil:
		return nil
	}
	if err := b.write(b.sql.RemoveSession, id); err != nil {
		_ = lock.Close()
		return err
	}
	b.committed = append(b.committed, func() {
		_ = os.Remove(lock.Path())
		_ = lock.Close()
	})
	b.abandoned = append(b.abandoned, func() { _ = lock.Close() })
	return errDead
}

// removeDeadSessions removes the sessions that held nothing when they died. No other code would find them.
func (b *batch) removeDeadSessions() error {
	var ids []string
	err := b.read(b.sql.Sessions, func(v []driver.Value) error {
		ids = append(ids, v[0].(string))
		return nil
	})
	for _, id := range ids {
		_ = b.alive(id) // removes a dead session; one that can't be probed stays
	}
	return err
}
