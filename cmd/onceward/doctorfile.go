package main

import (
	"context"
	"database/sql"
	bits "encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// largeWAL is the least size at which a journal cuts its -wal file by itself, if nothing keeps it from that.
const largeWAL = 64 << 20

// leastFree is the least free space on the disk without a warning.
const leastFree = 256 << 20

// examine checks the file, the files beside it and their machine.
func (f *file) examine(ctx context.Context, x *examination) {
	f.examineFiles(x)
	f.examineDisk(x)
	f.examineSQLite(ctx, x)
	f.examineClock(ctx, x)
	f.examineSidecar(ctx, x)
	f.examineSessions(ctx, x)
}

// beside returns the journal's other files.
func (f *file) beside() []string {
	names := []string{f.path}
	for _, suffix := range []string{"-wal", "-shm", "-sidecar"} {
		if _, err := os.Stat(f.path + suffix); err == nil {
			names = append(names, f.path+suffix)
		}
	}
	entries, _ := os.ReadDir(filepath.Dir(f.path))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(f.path)+"-session-") {
			names = append(names, filepath.Join(filepath.Dir(f.path), e.Name()))
		}
	}
	return names
}

func (f *file) examineFiles(x *examination) {
	owner, ok := ownerOf(f.path)
	sound := true
	for _, name := range f.beside() {
		info, err := os.Stat(name)
		if err != nil {
			if !isGone(err) { // a session may have ended meanwhile
				x.failed("files", err)
			}
			continue
		}
		base := filepath.Base(name)
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			sound = false
			x.finds(levelFail, "mode", fmt.Sprintf("%s has mode %04o: others can get at what is recorded", base, mode), "chmod 600 "+base, "journal")
		}
		if its, is := ownerOf(name); ok && is && its != owner {
			sound = false
			x.finds(levelFail, "owner", fmt.Sprintf("%s belongs to user %d, the journal to user %d: the application may not be able to open it", base, its, owner),
				fmt.Sprintf("chown %d %s", owner, base), "journal")
		}
	}
	if sound {
		x.ok("files", "one owner, and no other user has access")
	}
}

// examineSQLite checks the file's own settings.
func (f *file) examineSQLite(ctx context.Context, x *examination) {
	var mode string
	var litestream, version int
	err := f.look(ctx, func(tx *sql.Tx) error {
		for query, into := range map[string]any{
			"PRAGMA journal_mode":               &mode,
			litestreamTables:                    &litestream,
			"SELECT version FROM onceward_head": &version,
		} {
			if err := tx.QueryRowContext(ctx, query).Scan(into); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		x.failed("sqlite", err)
		return
	}
	x.ok("schema", "version %d", version)
	if _, live := f.stamp(); !live { // such a connection does not show the mode; no process has a lock now
		mode = headerMode(f.path)
	}
	backup := f.isBackup(ctx)
	x.judge(strings.EqualFold(mode, "wal") || backup, "journal_mode is "+mode, checked{"sqlite", levelFail, "journal_mode is " + mode + ", and another program has set that",
		"keep other tools from changing the file; the application sets it back when it opens it", "journal"})
	if litestream > 0 {
		x.ok("litestream", "its tables are there: the application has to open the journal with ExternalCheckpointer")
	}
	size := int64(0)
	if info, err := os.Stat(f.path + "-wal"); err == nil {
		size = info.Size()
	}
	x.judge(size <= largeWAL, shown.Bytes(size), checked{"wal", levelWarn, fmt.Sprintf("the -wal file has %s: something keeps it from starting over", shown.Bytes(size)),
		"look for a transaction that is left open, a long backup or verify, or a checkpointer that does not run", "wal"})
}

// headerMode returns the mode in the file's header (https://sqlite.org/fileformat.html, section 1.3.3).
func headerMode(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return "not known"
	}
	defer file.Close()
	header := make([]byte, 20)
	if _, err := io.ReadFull(file, header); err != nil {
		return "not known"
	}
	if header[18] == 2 && header[19] == 2 {
		return "wal"
	}
	return "rollback"
}

func (f *file) isBackup(ctx context.Context) bool {
	n := 0
	_ = f.look(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM onceward_backup").Scan(&n)
	})
	return n > 0
}

func (f *file) examineClock(ctx context.Context, x *examination) {
	last, _, err := f.clock(ctx, x.now)
	if err != nil {
		x.failed("clock", err)
	} else {
		behind := max(0, last.Sub(x.now))
		x.judge(behind <= time.Minute, "not behind the journal", checked{"clock", levelFail,
			fmt.Sprintf("the clock stands %s behind the journal: one of the two is wrong, and nothing is resent meanwhile", shown.Duration(behind)),
			"synchronise the clock; if it was ahead before, see ResetClock", "clock"})
	}
	if synchronised, known := clockSynchronised(); known {
		x.judge(synchronised, "the kernel says that its clock is synchronised",
			checked{"clock-sync", levelWarn, "the kernel says that its clock is not synchronised", "run chrony or systemd-timesyncd", "clock"})
	}
}

func (f *file) examineSidecar(ctx context.Context, x *examination) {
	wrong, toDo, err := f.sidecar(ctx)
	if err != nil {
		x.failed("sidecar", err)
		return
	}
	x.judge(wrong == "", "the journal has come as far as it says", checked{"sidecar", levelFail, wrong, toDo, "restore"})
}

// sidecar compares the sidecar's line with the journal and returns the difference. The journal was then restored or
// copied, and sends nothing.
func (f *file) sidecar(ctx context.Context) (wrong, toDo string, err error) {
	var identity string
	var epoch []byte
	var backups int64
	err = f.look(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT identity, epoch, (SELECT count(*) FROM onceward_backup) FROM onceward_head").Scan(&identity, &epoch, &backups)
	})
	number := commits(epoch)
	if err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(f.path + "-sidecar")
	var version, says int64
	var whose string
	if err == nil {
		_, err = fmt.Sscanf(string(text), "onceward-sidecar %d %s %d", &version, &whose, &says)
	}
	const adopt = "make sure that no other copy is in use, then adopt it"
	switch {
	case backups > 0:
		return "the file is a backup that was not adopted", adopt, nil
	case isGone(err):
		return "there is no sidecar: the journal was copied, or the sidecar was removed", adopt, nil
	case err != nil:
		return "it can't be read: " + err.Error(), "give it back to the journal's owner, mode 0600", nil
	case whose != identity:
		return "it is the sidecar of another journal", adopt, nil
	case says > number && f.comesAsFar(ctx, says):
	case says > number:
		return fmt.Sprintf("the journal ends with commit %d, and had come to %d: it is an older copy", number, says), adopt, nil
	}
	return "", "", nil
}

// comesAsFar reads the journal again: it may have advanced before the sidecar was read.
func (f *file) comesAsFar(ctx context.Context, number int64) bool {
	var epoch []byte
	err := f.look(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT epoch FROM onceward_head").Scan(&epoch)
	})
	return err == nil && commits(epoch) >= number
}

// commits returns how many commits are in a journal's epoch, which a checksum follows.
func commits(epoch []byte) int64 {
	if len(epoch) < 8 {
		return 0
	}
	return int64(bits.LittleEndian.Uint64(epoch))
}

// sessions returns the journal's session IDs.
func (f *file) sessions(ctx context.Context) (ids []string, err error) {
	err = f.look(ctx, func(tx *sql.Tx) error {
		ids = nil
		rows, err := tx.QueryContext(ctx, "SELECT id FROM onceward_sessions ORDER BY id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	return ids, err
}

// examineSessions reports live sessions, and what dead ones hold.
func (f *file) examineSessions(ctx context.Context, x *examination) {
	ids, err := f.sessions(ctx)
	if err != nil {
		x.failed("sessions", err)
		return
	}
	holds := make(map[string]int)
	for op, err := range f.List(ctx, journal.Filter{States: []journal.State{journal.StateInFlight}, Limit: maxExamined}) {
		if err != nil {
			x.failed("sessions", err)
			return
		}
		holds[op.Holder]++
	}
	alive, dead, held := 0, 0, 0
	for _, id := range ids {
		is, missing := sessionAlive(f.path, id)
		switch {
		case missing:
			x.finds(levelFail, "sessions", fmt.Sprintf("the file of session %s is missing, or a copy: the journal was copied, or the file was removed or replaced", id),
				"never remove or replace -session- files; if it was copied, adopt it", "restore")
		case is:
			alive++
		default:
			dead++
			held += holds[id]
		}
	}
	later, err := f.sessions(ctx)
	if err != nil {
		x.failed("sessions", err)
		return
	}
	for id, n := range holds { // a journal that is closed ends its sessions, and leaves what they hold
		if !slices.Contains(ids, id) && !slices.Contains(later, id) {
			dead++
			held += n
		}
	}
	x.judge(held == 0, fmt.Sprintf("%d alive, %d that died hold nothing", alive, dead), checked{"sessions", levelWarn,
		fmt.Sprintf("%d alive; %d that died hold %d operations", alive, dead, held), "start the application: Run or Resume takes them over", "in-flight"})
}
