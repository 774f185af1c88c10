package rows

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/sessions"
)

// Join implements rowstore.Driver. A session lives as long as the process holds the lock on the session's file.
func (d *Driver) Join(ctx context.Context) (string, error) {
	id, lock, err := sessions.Make(d.path)
	if err != nil {
		return "", fmt.Errorf("journal %s: start a session: %w", d.path, err)
	}
	defer func() { _ = d.sweep() }() // else the next one does
	// Not under the caller's context: the row and the file come and go together.
	err = d.inTransaction(context.WithoutCancel(ctx), func(t *tx) error {
		if t.told.Restored != "" {
			return fmt.Errorf("%w: %s; no session starts until it is adopted", journal.ErrRestored, t.told.Restored)
		}
		if err := d.opts.mayJoin(d.path, t.head.Deployment); err != nil {
			return err
		}
		if err := t.bury(false); err != nil {
			return err
		}
		if _, err := t.sql.join.Exec(id); err != nil {
			return err
		}
		return t.Commit(ctx, t.told, nil)
	})
	if err != nil {
		_ = lock.Close() // without it the session is dead
		return "", conn.Explain(d.path, "start a session", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own[id] = lock
	return id, nil
}

// sweep removes session files without a row.
func (d *Driver) sweep() error {
	return sessions.Sweep(d.path, func(id string) (bool, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.isMember(id)
	})
}

const selectMember = "SELECT 1 FROM onceward_sessions WHERE id = ?"

// isMember reports whether a session has a row. The caller holds d.mu.
func (d *Driver) isMember(id string) (bool, error) {
	if d.closed.Load() {
		return false, journal.ErrClosed
	}
	if d.looks == nil {
		if err := d.dialLooks(); err != nil {
			return false, conn.Explain(d.path, "read the sessions", err)
		}
	}
	found, err := d.member.First(func([]driver.Value) error { return nil }, id)
	return found, conn.Explain(d.path, "read the sessions", err)
}

// dialLooks dials the connection for isMember. A file that has taken the open file's place has other sessions.
func (d *Driver) dialLooks() error {
	c, err := conn.Dial(d.path, reading)
	if err != nil {
		return err
	}
	if err := d.files.InPlace(); err != nil {
		return errors.Join(err, c.Close())
	}
	d.looks, d.member = c, on(c, d.path)(selectMember)
	return nil
}

// Now implements rowstore.Driver. A file has no clock.
func (d *Driver) Now() time.Time { return time.Time{} }

// Lost implements rowstore.Driver.
func (d *Driver) Lost(id string) bool {
	_, lost := d.lost.Load(id)
	return lost
}

// Rank implements rowstore.Driver. Processes on one file share no limits.
func (d *Driver) Rank(string) (rank, of int) { return 0, 1 }

// Leave implements rowstore.Driver. The row goes before the file, because a row without a file belongs to a copy.
func (d *Driver) Leave(ctx context.Context, id string) error {
	lock := d.forget(id)
	if lock == nil {
		return nil
	}
	err := d.inTransaction(context.WithoutCancel(ctx), func(t *tx) error {
		if _, err := t.sql.leave.Exec(id); err != nil {
			return err
		}
		return t.Commit(ctx, t.told, nil)
	})
	if err == nil {
		_ = os.Remove(lock.Path()) // no process needs it, and a left-over one does no harm
	}
	return conn.Explain(d.path, "end a session", errors.Join(err, lock.Close()))
}

// Drop ends this process's session like the process's death.
func (d *Driver) Drop(id string) error {
	if lock := d.forget(id); lock != nil {
		return lock.Close()
	}
	return nil
}

func (d *Driver) forget(id string) *flock.Flock {
	d.mu.Lock()
	defer d.mu.Unlock()
	lock := d.own[id]
	delete(d.own, id)
	return lock
}

// leaveAll ends this process's sessions like the process's death.
func (d *Driver) leaveAll() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, lock := range d.own {
		errs = append(errs, lock.Close())
	}
	clear(d.own)
	return errors.Join(errs...)
}

// inTransaction runs f in a separate transaction. f commits the transaction.
func (d *Driver) inTransaction(ctx context.Context, f func(*tx) error) error {
	t, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer t.Rollback()
	return f(t)
}

// findLost finds the process's sessions that another process has taken for dead.
func (d *Driver) findLost() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, lock := range d.own {
		found, err := d.sql.member.First(func([]driver.Value) error { return nil }, id)
		if err != nil {
			return err
		}
		if !found {
			delete(d.own, id)
			_ = lock.Close()
			d.lost.Store(id, true)
		}
	}
	return nil
}

// Alive implements rowstore.Driver.
func (d *Driver) Alive(ids []string) []rowstore.Life {
	lives := make([]rowstore.Life, len(ids))
	for i, id := range ids {
		lives[i].Lives, lives[i].Err = d.lives(id)
	}
	return lives
}

func (d *Driver) lives(id string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own[id] != nil {
		return true, nil
	}
	found, err := d.isMember(id)
	if err != nil {
		return false, err
	}
	lock, err := sessions.Lock(d.path, id)
	switch {
	case lock != nil:
		return false, lock.Close()
	case !found:
		return err == nil, nil // its row goes only after it, and then its file, if nothing has damaged the row
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%w: the file of session %s, which holds the operation, is missing, or a copy was put in its place", journal.ErrRestored, id)
	case err != nil:
		return false, fmt.Errorf("journal %s: can't tell whether session %s is alive: %w", d.path, id, err)
	}
	return true, nil
}

// bury removes dead sessions' rows. Their operations count as left by the dead, as before. A session without a file
// was copied or restored with the journal, or the file was removed. bury removes such a session if the session holds
// nothing, or if strangers is set, as in an adoption: the process runs elsewhere, or not any more.
func (t *tx) bury(strangers bool) error {
	var ids []string
	err := t.sql.members.Each(func(v []driver.Value) error {
		ids = append(ids, v[0].(string))
		return nil
	})
	for _, id := range ids {
		lock, is := sessions.Lock(t.d.path, id)
		dead := lock != nil
		switch {
		case dead:
			_ = lock.Close() // another process may only remove the file
		case errors.Is(is, fs.ErrNotExist):
			holds := false
			if !strangers && err == nil {
				holds, err = t.sql.holds.First(func([]driver.Value) error { return nil }, id)
			}
			dead = !holds
		case is != nil && strangers:
			return fmt.Errorf("can't tell whether session %s is alive: %w", id, is)
		}
		if dead && err == nil {
			_, err = t.sql.leave.Exec(id)
		}
	}
	return err
}
