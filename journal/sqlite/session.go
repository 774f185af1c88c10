package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/gofrs/flock"
	codes "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
)

// errDead says of a session that nobody runs it any more.
var errDead = errors.New("the session is dead")

// session lives as long as its lock is held, which is as long as this process
// lives, unless it is ended.
type session struct {
	journal *Journal
	id      string
	lock    *flock.Flock
	lost    atomic.Bool // never revives
	ended   atomic.Bool

	verified bool // its row was seen in the present data; the writer's
}

func sessionFile(path, id string) string { return path + "-session-" + id }

// newSessionID returns at least 128 random bits.
func newSessionID() string { return rand.Text() }

// isSessionID tells whether it may be one: files of other names beside the journal are
// somebody else's.
func isSessionID(id string) bool {
	return len(id) == len(rand.Text()) && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Join starts a session, which lives until it is ended or this process dies.
func (j *Journal) Join(ctx context.Context) (journal.Session, error) {
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	id, lock, err := lockNewFile(j.file.path)
	if err != nil {
		return nil, fmt.Errorf("journal %s: start a session: %w", j.file.path, err)
	}
	s := &session{journal: j, id: id, lock: lock}
	// Not under the caller's context: the row and the file come and go together.
	err = j.file.writer.do(context.WithoutCancel(ctx), func(b *batch) error {
		if b.restored != nil {
			return b.restored
		}
		if err := b.write(b.sql.addSession, s.id); err != nil {
			return err
		}
		b.own[s.id] = s
		s.verified = true
		return b.removeDeadSessions()
	})
	if err != nil {
		if errors.Is(err, journal.ErrRestored) || code(err) == codes.SQLITE_FULL || isBusy(err) {
			_ = os.Remove(lock.Path()) // it has no row for certain
		}
		// The commit may have landed: without its lock the session is dead.
		_ = lock.Close()
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

// lockNewFile makes a session's file and locks it. Whoever finds a file that
// belongs to no session may lock and remove it: then another one is made.
func lockNewFile(path string) (id string, lock *flock.Flock, err error) {
	for range 10 {
		id = newSessionID()
		name := sessionFile(path, id)
		lock = flock.New(name, flock.SetFlag(os.O_CREATE|os.O_EXCL|os.O_RDWR), flock.SetPermissions(0o600))
		locked, err := lock.TryLock()
		if err != nil {
			return "", nil, err
		}
		if locked {
			held, _ := lock.Stat()
			there, err := os.Stat(name)
			if err == nil && os.SameFile(held, there) {
				if err := likeJournal(path, name); err != nil {
					return "", nil, errors.Join(err, lock.Close())
				}
				// The row must not survive a loss of power that the file doesn't.
				if err := syncDir(filepath.Dir(path)); err != nil {
					return "", nil, errors.Join(err, lock.Close())
				}
				return id, lock, nil
			}
		}
		_ = lock.Close()
	}
	return "", nil, errors.New("its file was taken away, again and again")
}

func (s *session) ID() string { return s.id }

// Lost tells whether the session was seen to be taken over. It does no I/O.
func (s *session) Lost() bool { return s.lost.Load() }

// End ends the session and commits what rides. Even if that fails, the session is
// dead afterwards.
func (s *session) End(ctx context.Context) error {
	if s.ended.Swap(true) || s.lost.Load() {
		return nil
	}
	s.journal.mu.Lock()
	delete(s.journal.sessions, s)
	s.journal.mu.Unlock()
	err := s.journal.file.writer.do(context.WithoutCancel(ctx), func(b *batch) error {
		delete(b.own, s.id)
		return b.write(b.sql.removeSession, s.id)
	})
	if err == nil {
		_ = os.Remove(s.lock.Path()) // nobody needs it any more, nor is harmed by it
	}
	return errors.Join(err, s.lock.Close())
}

// leave drops the session as the end of its process would.
func (s *session) leave() {
	s.lost.Store(true)
	_ = s.lock.Close()
}

// mine refuses a session that is not this process's, or not alive any more.
func (b *batch) mine(id string) error {
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
	found, err := b.sql.hasSession.first(func([]driver.Value) error { return nil }, id)
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

// holds tells whether whoever holds the operation is alive, where that matters to
// an event of this kind.
func (b *batch) holds(op *journal.Operation, kind journal.EventKind) (bool, error) {
	switch {
	case op.Holder == "":
		return false, nil
	case kind == journal.EventClaim:
	case op.State == journal.InFlight && (kind == journal.EventBegin || kind == journal.EventResolve || kind == journal.EventAdopt):
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

// alive returns nil for a session that is alive, errDead for one that is not, and
// journal.ErrRestored for one whose file is missing. It looks once in a batch.
func (b *batch) alive(id string) error {
	err, known := b.liveness[id]
	if !known {
		err = b.probe(id)
		b.liveness[id] = err
	}
	return err
}

func (b *batch) probe(id string) error {
	if b.mine(id) == nil {
		return nil
	}
	found, err := b.sql.hasSession.first(func([]driver.Value) error { return nil }, id)
	if err != nil {
		return b.fail(err)
	}
	lock, err := lockFile(sessionFile(b.path, id))
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
		return fmt.Errorf("%w: the file of session %s, which holds the operation, is missing", journal.ErrRestored, id)
	case err != nil:
		return fmt.Errorf("journal %s: can't tell whether session %s is alive: %w", b.path, id, err)
	case lock == nil:
		return nil
	}
	if err := b.write(b.sql.removeSession, id); err != nil {
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

// removeDeadSessions is for those that held nothing when they died: nobody would
// ever ask for them.
func (b *batch) removeDeadSessions() error {
	var ids []string
	err := b.read(b.sql.sessions, func(v []driver.Value) error {
		ids = append(ids, v[0].(string))
		return nil
	})
	for _, id := range ids {
		_ = b.alive(id) // removes it, if it is dead; who can't be probed is left alone
	}
	return err
}

// lockFile locks a session's file, which must exist. It returns nil if another
// holds the lock.
func lockFile(name string) (*flock.Flock, error) {
	lock := flock.New(name, flock.SetFlag(os.O_RDWR))
	locked, err := lock.TryLock()
	if err != nil || !locked {
		return nil, err
	}
	return lock, nil
}

// sweepSessionFiles removes files whose session is over and has no row, as a
// process leaves one that dies between removing the two, or before its first
// commit. A lock is taken before the row is looked for: what can be locked then
// and has no row will never have one.
func sweepSessionFiles(path string, c *conn) error {
	names, err := filepath.Glob(globEscape(sessionFile(path, "")) + "*")
	if err != nil || len(names) == 0 {
		return err
	}
	has, err := c.prepare("SELECT 1 FROM onceward_sessions WHERE id = ?")
	if err != nil {
		return explain(path, "open", err)
	}
	for _, name := range names {
		if !isSessionID(strings.TrimPrefix(name, sessionFile(path, ""))) {
			continue
		}
		lock, err := lockFile(name)
		if err != nil || lock == nil {
			continue // whoever has to know whether it is alive will find out
		}
		found, err := has.first(func([]driver.Value) error { return nil }, strings.TrimPrefix(name, sessionFile(path, "")))
		if err == nil && !found {
			_ = os.Remove(name)
		}
		_ = lock.Close()
		if err != nil {
			return explain(path, "open", err)
		}
	}
	return nil
}

// globEscape takes the meaning from what filepath.Glob would read as a pattern.
func globEscape(path string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(path)
}
