package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	_ "modernc.org/sqlite" // the driver that the journal uses too: another one would drop its locks

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
)

// file is a journal in a SQLite file.
type file struct {
	*sqlite.Journal
	path string // real
}

var _ store = (*file)(nil)

// look runs read on one file state, on a read-only connection. If no process has the file open, it reads
// without a lock, since SQLite would make a -wal and a -shm beside it. It reads anew if a process came meanwhile.
func (f *file) look(ctx context.Context, read func(*sql.Tx) error) error {
	for try := 1; ; try++ {
		before, live := f.stamp()
		uri := "file:" + (&url.URL{Path: f.path}).EscapedPath() + "?mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)"
		if !live {
			uri += "&immutable=1"
		}
		err := f.lookBy(ctx, uri, read)
		after, _ := f.stamp()
		switch {
		case !live && after != before && try < 5:
			continue
		case !live && after != before:
			return fmt.Errorf("journal %s: it was opened and closed again each of the %d times that it was read; try once more", f.path, try)
		case err != nil:
			return fmt.Errorf("journal %s: %w", f.path, err)
		}
		return nil
	}
}

// hasWAL reports whether another process uses the file's WAL: a process that has it open, or died so, or a Litestream
// whose tables are there. Otherwise there is none, and this command leaves none.
func (f *file) hasWAL(ctx context.Context) bool {
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(f.path + suffix); !isGone(err) {
			return true
		}
	}
	litestream := 1
	err := f.look(ctx, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, litestreamTables).Scan(&litestream) })
	return err != nil || litestream > 0
}

const litestreamTables = `SELECT count(*) FROM sqlite_schema WHERE name LIKE '\_litestream\_%' ESCAPE '\'`

// stamp reports whether the file was written meanwhile, and whether a process has it open, or died so.
func (f *file) stamp() (stamp string, live bool) {
	live = true
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(f.path + suffix)
		if err != nil {
			live = false
			stamp += " none"
			continue
		}
		stamp += fmt.Sprint(" ", info.Size(), info.ModTime().UnixNano())
	}
	return stamp, live
}

func (f *file) lookBy(ctx context.Context, uri string, read func(*sql.Tx) error) error {
	db, err := sql.Open("sqlite", uri)
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return errors.Join(read(tx), tx.Rollback())
}

func (f *file) clock(ctx context.Context, now time.Time) (last, unconfirmed time.Time, err error) {
	var lastAt, jumpedAt sql.NullInt64
	err = f.look(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT nullif(last_at, 0), nullif(jumped_at, 0) FROM onceward_head").Scan(&lastAt, &jumpedAt)
	})
	if err != nil {
		return last, unconfirmed, err
	}
	last, unconfirmed = believed(now, lastAt, jumpedAt)
	return last, unconfirmed, nil
}

// believed returns the same as store.clock, from a journal's columns: milliseconds since 1970.
func believed(now time.Time, lastAt, jumpedAt sql.NullInt64) (last, unconfirmed time.Time) {
	if lastAt.Valid {
		last = time.UnixMilli(lastAt.Int64).UTC()
	}
	switch {
	case jumpedAt.Valid:
		unconfirmed = time.UnixMilli(jumpedAt.Int64).UTC().Add(machine.Confirmation)
	case !last.IsZero() && now.Sub(last) > machine.Leap:
		unconfirmed = now.Add(machine.Confirmation) // no process has used the journal for so long
	}
	return last, unconfirmed
}

func (f *file) backup(ctx context.Context, path string) error { return f.Backup(ctx, path) }

func (f *file) adopt(ctx context.Context, deployment *string) error {
	if deployment != nil {
		return f.AdoptAs(ctx, *deployment)
	}
	return f.Adopt(ctx)
}

// isSQLite opens and closes the file, which drops this process's locks on it: none may be open. It checks the
// the file's beginning (https://sqlite.org/fileformat.html, section 1.3).
func isSQLite(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 16)
	_, err = f.Read(magic)
	return err == nil && string(magic) == "SQLite format 3\x00"
}

// isGone reports whether the file does not exist.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
