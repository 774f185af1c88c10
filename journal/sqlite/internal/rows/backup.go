package rows

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// Backup writes a copy of the file, with the application's tables, to a new file at path, and marks it as a copy. It
// returns once the copy and its name survive a loss of power. No process waits for it. first, if any, is called before the
// file is copied, once the copy has its place.
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

// backUp has copies write to a file beside path, which then takes its place.
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
		err = cmp.Or(location.BelongsBeside(to), isFree(to))
	}
	if err != nil {
		return err
	}
	sweepParts(to)
	name, release, err := makePart(to)
	if err != nil {
		return err
	}
	defer release()
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

// makePart makes an empty file with mode 0600 beside path. A lock on it shows that its process lives.
func makePart(path string) (name string, release func(), err error) {
	dir, base := filepath.Split(path)
	part, err := os.CreateTemp(dir, base+".part-*")
	if err != nil {
		return "", nil, err
	}
	name = part.Name()
	lock := flock.New(name, flock.SetFlag(os.O_RDWR))
	if _, err := lock.TryLock(); err != nil {
		return "", nil, errors.Join(err, part.Close(), os.Remove(name))
	}
	release = func() {
		_ = lock.Close() // once SQLite has done with it
		for _, suffix := range []string{"", "-journal"} {
			_ = os.Remove(name + suffix) // it is gone if all went well
		}
	}
	// SQLite opens it next, and would lose its locks if it was closed then.
	if err := part.Close(); err != nil {
		release()
		return "", nil, err
	}
	return name, release, nil
}

// sweepParts removes copies to the same path that a crash interrupted. No process has a lock on them.
func sweepParts(path string) {
	names, _ := filepath.Glob(osfile.GlobEscape(path+".part-") + "*")
	for _, name := range names {
		rest := strings.TrimPrefix(name, path+".part-")
		if strings.Trim(strings.TrimSuffix(rest, "-journal"), "0123456789") != "" {
			continue
		}
		if strings.HasSuffix(rest, "-journal") {
			if _, err := os.Lstat(strings.TrimSuffix(name, "-journal")); errors.Is(err, fs.ErrNotExist) {
				_ = os.Remove(name)
			}
			continue
		}
		if lock, err := osfile.Lock(name); err == nil && lock != nil {
			_ = os.Remove(name)
			_ = os.Remove(name + "-journal")
			_ = lock.Close()
		}
	}
}

// markCopy marks a file as a backup. The sessions are not the copy's, and no holder in it is alive. It counts no commits: it
// is before all that a WAL beside it may have, and has none of its own.
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
	h.commits = 0
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
