package rows

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/sessions"
)

// Join implements rowstore.Driver. A session lives as long as its process holds the lock on its file.
func (d *Driver) Join(ctx context.Context, _ func()) (string, error) {
	var spares sessions.Spares
	id, lock, err := spares.Take(d.path)
	if err != nil {
		return "", conn.Explain(d.path, "begin a session", err)
	}
	if err := d.inTransaction(ctx, func() error { _, err := d.sql.join.Exec(id); return err }); err != nil {
		_ = os.Remove(lock.Path())
		return "", conn.Explain(d.path, "begin a session", errors.Join(err, lock.Close()))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own[id] = lock
	return id, nil
}

// Leave implements rowstore.Driver. The row goes before the file: a row without its file is a copy's.
func (d *Driver) Leave(ctx context.Context, id string) error {
	d.mu.Lock()
	lock := d.own[id]
	delete(d.own, id)
	d.mu.Unlock()
	if lock == nil {
		return nil
	}
	err := d.inTransaction(ctx, func() error { _, err := d.sql.leave.Exec(id); return err })
	if err == nil {
		_ = os.Remove(lock.Path())
	}
	return conn.Explain(d.path, "end a session", errors.Join(err, lock.Close()))
}

// inTransaction runs f in a transaction of its own.
func (d *Driver) inTransaction(ctx context.Context, f func() error) error {
	t, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer t.Rollback()
	if err := f(); err != nil {
		return err
	}
	return t.Commit(ctx, t.head, nil)
}

// Alive implements rowstore.Driver.
func (d *Driver) Alive(id string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own[id] != nil {
		return true, nil
	}
	found, err := d.member.First(func([]driver.Value) error { return nil }, id)
	if err != nil || !found {
		return false, conn.Explain(d.path, "read the sessions", err)
	}
	lock, err := sessions.Lock(d.path, id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%w: the file of session %s, which holds the operation, is missing, or a copy was put in its place", journal.ErrRestored, id)
	case err != nil:
		return false, fmt.Errorf("journal %s: can't tell whether session %s is alive: %w", d.path, id, err)
	case lock == nil:
		return true, nil
	}
	return false, lock.Close()
}

// removeDead removes sessions that died. Their operations count as left by the dead, as before.
func (d *Driver) removeDead() error {
	var ids []string
	err := d.sql.members.Each(func(v []driver.Value) error {
		ids = append(ids, v[0].(string))
		return nil
	})
	for _, id := range ids {
		if lock, failed := sessions.Lock(d.path, id); failed == nil && lock != nil {
			gone := d.inTransaction(context.Background(), func() error { _, err := d.sql.leave.Exec(id); return err })
			if gone == nil {
				_ = os.Remove(lock.Path())
			}
			err = errors.Join(err, gone, lock.Close())
		}
	}
	return err
}
