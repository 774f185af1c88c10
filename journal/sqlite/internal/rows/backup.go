package rows

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// Backup writes a copy of the file, with the application's tables, to a new file at path, and marks the new file as a
// copy. Backup returns once the copy and the copy's name survive a power loss. No process waits for Backup. Backup
// calls first, if not nil, after the copy has a place and before copying.
func (f *File) Backup(ctx context.Context, path string, first func(context.Context) error) error {
	return backUp(ctx, path, func(name string) error {
		if first != nil {
			if err := first(ctx); err != nil {
				return err
			}
		}
		return f.with(ctx, "copy", func(r *readConn) error {
			if err := os.Truncate(name, 0); err != nil { // it may be called again
				return err
			}
			return copyInto(ctx, r.c, name)
		})
	})
}

// copyInto writes one state of a journal to an empty file. The connection still can't write to the journal.
func copyInto(ctx context.Context, c *conn.Conn, name string) error {
	if err := c.Exec("PRAGMA query_only=OFF"); err != nil {
		return err
	}
	_, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, "VACUUM INTO ?", []driver.NamedValue{{Ordinal: 1, Value: name}})
	return errors.Join(err, c.Exec("PRAGMA query_only=ON"))
}

// backUp calls copies to write to a file beside path. The file then takes path's place.
func backUp(ctx context.Context, path string, copies func(name string) error) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, journal.ErrClosed) {
			err = fmt.Errorf("back up to %s: %w", path, err)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	to, err := filepath.Abs(path)
	if err == nil {
		err = isFree(to)
	}
	if err != nil {
		return err
	}
	name, lock, err := makePart(to)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(name)
			_ = os.Remove(name + "-journal")
		}
		_ = lock.Close() // once SQLite has done with it
	}()
	if err := copies(name); err != nil {
		return err
	}
	if err := markCopy(ctx, name, time.Now()); err != nil {
		return err
	}
	if err := osfile.SyncFile(name); err != nil { // VACUUM INTO does not sync
		return err
	}
	if err := os.Rename(name, to); err != nil {
		return err
	}
	return osfile.SyncDir(filepath.Dir(to))
}

// isFree returns fs.ErrExist if a file is at path. A rollback journal or a WAL that is there already would be taken for
// the copy's own.
func isFree(path string) error {
	for _, name := range []string{path, path + "-journal", path + "-wal"} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(&fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}, err)
		}
	}
	return nil
}

// makePart makes an empty file with mode 0600 beside path, or empties the file that a crash left. A lock on the file
// shows that the process lives. Only one copy at a time is made for a path.
func makePart(path string) (name string, lock *flock.Flock, err error) {
	name = path + ".part-copy"
	lock = flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		err = &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	if err == nil {
		_ = os.Remove(name + "-journal") // SQLite would take it for the copy's own
		err = os.Truncate(name, 0)
	}
	if err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return name, lock, nil
}

// markCopy marks a file as a backup. The sessions do not belong to the copy, and no holder in the copy is alive. The
// copy counts no commits: the copy precedes all commits in a WAL beside the file, and has no WAL.
func markCopy(ctx context.Context, name string, at time.Time) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := conn.Dial(name, []conn.Pragma{{"journal_mode", "DELETE", "delete"}, {"synchronous", "FULL", "2"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	h, err := headOf(c)
	if err != nil {
		return err
	}
	write, err := c.Prepare(setHead)
	if err != nil {
		return err
	}
	number := h.commits
	h.commits, h.base = 0, 0
	err = c.Exec(fmt.Sprintf(`BEGIN;
		INSERT OR REPLACE INTO onceward_backup SELECT 1, %d, max(%d, coalesce((SELECT number FROM onceward_backup), 0));
		DELETE FROM onceward_sessions`, at.UnixMilli(), number))
	if err == nil {
		err = one(write.Exec(h.changing()...))
	}
	if err != nil {
		return err
	}
	return c.Exec("COMMIT")
}
