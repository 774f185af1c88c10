package sqlite

import (
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
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// Backup writes a copy of the journal, with the application's tables, to a new file at path, with mode 0600,
// while the journal is in use. Everything reported before the call is in it, and later records may be. It
// returns once the whole, packed file and its name survive a loss of power. The directory must exist. Backup
// returns fs.ErrExist if a file is at path, or a -journal or -wal beside it, and fs.ErrInvalid if path
// belongs to another file, such as that of a journal with -wal behind it. Other callers do not wait for it,
// but the -wal file is not emptied until it is done.
//
// The copy is marked as one, with its time and the number of its latest commit. To restore it, stop every
// process that uses the journal, remove the journal's -wal and -shm files, put the copy in the journal's
// place, and leave the -sidecar. Then Open it. Until Adopt is called, it can only be read, and other methods
// return journal.ErrRestored, wherever it is opened.
func (j *logJournal) Backup(ctx context.Context, path string) (err error) {
	if err := j.open(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, journal.ErrClosed) {
			err = fmt.Errorf("back up to %s: %w", path, err)
		}
	}()
	to, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := location.BelongsBeside(to); err != nil {
		return err
	}
	// A rollback journal or a WAL that is there already would be taken for the copy's own.
	for _, name := range []string{to, to + "-journal", to + "-wal"} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(&fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}, err)
		}
	}
	dir, base := filepath.Split(to)
	sweepParts(to)
	part, err := os.CreateTemp(dir, base+".part-*") // with mode 0600
	if err != nil {
		return err
	}
	name := part.Name()
	lock := flock.New(name, flock.SetFlag(os.O_RDWR))
	if _, err := lock.TryLock(); err != nil {
		return errors.Join(err, part.Close(), os.Remove(name))
	}
	defer func() {
		_ = lock.Close() // once SQLite has done with it
		for _, suffix := range []string{"", "-journal"} {
			_ = os.Remove(name + suffix) // it is gone if all went well
		}
	}()
	// SQLite opens it next, and would lose its locks if it was closed then.
	if err := part.Close(); err != nil {
		return err
	}
	if j.file.writer.readOnly {
		err = j.copyBeside(ctx, name)
	} else if err = j.file.writer.do(ctx, func(*batch) error { return nil }); err == nil { // commits the noted events
		err = j.copyTo(ctx, name)
	}
	if err != nil {
		return err
	}
	if err := mark(ctx, name, time.Now()); err != nil {
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

// sweepParts removes backups to the same path that a crash interrupted. No process has a lock on them.
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

// copyTo writes one state of the journal to an empty file.
func (j *logJournal) copyTo(ctx context.Context, name string) error {
	c, err := conn.Dial(j.file.path, []conn.Pragma{conn.Patience, {"wal_autocheckpoint", "0", "0"}, {"trusted_schema", "OFF", "0"}})
	if err != nil {
		return conn.Explain(j.file.path, "open for reading", err)
	}
	_, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, "VACUUM INTO ?", []driver.NamedValue{{Ordinal: 1, Value: name}})
	return errors.Join(conn.Explain(j.file.path, "copy", err), c.Close())
}

// mark makes a copy a backup.
func mark(ctx context.Context, name string, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := conn.Dial(name, []conn.Pragma{{"journal_mode", "DELETE", "delete"}, {"synchronous", "FULL", "2"}})
	if err != nil {
		return err
	}
	identity, err := c.Value("SELECT identity FROM onceward_journal")
	if err != nil {
		return errors.Join(err, c.Close())
	}
	// The sessions are not the copy's, and no holder in it is alive. Its epoch is before all others: it is
	// packed, and has no WAL.
	err = c.Exec(fmt.Sprintf(`BEGIN;
		INSERT OR REPLACE INTO onceward_backup SELECT 1, %d, number FROM onceward_log ORDER BY seq DESC LIMIT 1;
		DELETE FROM onceward_sessions;
		UPDATE onceward_journal SET epoch = x'%x';
		COMMIT`, at.UnixMilli(), format.EncodeEpoch(fmt.Sprint(identity), 0)))
	return errors.Join(err, c.Close())
}

// isBackup returns the commit and the time of which the journal is a backup, or nothing.
func (b *batch) isBackup() (says string, err error) {
	_, err = b.sql.ReadBackup.First(func(v []driver.Value) error {
		says = backupOf(v)
		return nil
	})
	return says, err
}

func backupOf(v []driver.Value) string {
	return fmt.Sprintf("is the backup that was made at %s, after commit %d", format.ToTime(v[0]).Format(time.RFC3339), v[1])
}
