package sidecar

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// A WAL does not say to which file it belongs. SQLite applies a left-behind WAL to any file in its place, and
// so mixes a backup with much later pages (https://sqlite.org/howtocorrupt.html, section 1.4). To detect that
// before it happens takes a number that can be read from the file alone and only ever grows: the journal's
// epoch, in the one row of onceward_head, on a page of its own that never moves. During a checkpoint, or
// after a crash in one, each page of the file is older or newer. The epoch is one of the two, or torn, which
// its sum shows.
//
// The sidecar has the synced epoch of the file before the WAL that it names began. That WAL over a file of an
// earlier epoch is a mixture. Another WAL, or a file that cannot be read alone, proves nothing.

// note is a sidecar's record of the file alone.
type note struct {
	WAL   string // which it was when this was written: see WALBeside; "": nothing is said
	Epoch int64  // of the journal then, the WAL included
	Filed int64  // the epoch that the file alone has come to
}

// NoWAL stands for an empty or missing WAL: everything is in the file.
const NoWAL = "empty"

// WALBeside returns the salts in the header of the WAL beside the file, in hexadecimal. Both are random in a
// new WAL. When the WAL starts over, after all of it is in the file and synced, the first salt is one higher
// (https://sqlite.org/fileformat2.html, section 4.1).
func WALBeside(path string) (string, error) {
	f, err := os.Open(path + "-wal") // SQLite has no locks on it that would be dropped
	if errors.Is(err, fs.ErrNotExist) {
		return NoWAL, nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var header [32]byte
	switch _, err := io.ReadFull(f, header[:]); {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return NoWAL, nil
	case err != nil:
		return "", err
	}
	return hex.EncodeToString(header[16:24]), nil
}

// maxRestarts bounds the restarts of a WAL since the sidecar named it. It restarts every few megabytes, and
// the sidecar is written every few seconds.
const maxRestarts = 256

// names reports whether wal is the note's WAL, or a restart of it.
func (n note) names(wal string) bool {
	then, err := strconv.ParseUint(n.WAL, 16, 64)
	now, err2 := strconv.ParseUint(wal, 16, 64)
	if err != nil || err2 != nil {
		return false
	}
	restarts := uint32(now>>32) - uint32(then>>32)
	return now == then || 0 < restarts && restarts <= maxRestarts
}

// after takes over the knowledge of the note before it, of the same journal. If they saw different WALs, in
// any order, the first of these started over or was removed, with all its pages synced to the file.
func (n note) after(before note) note {
	switch {
	case n.WAL == "":
		return before
	case before.WAL == n.WAL:
		n.Filed = before.Filed
	default: // an empty note has none
		n.Filed = max(before.Filed, min(before.Epoch, n.Epoch))
	}
	return n
}

// RefuseStale returns journal.ErrRestored for a file beside the WAL of a newer one. It runs before this
// process has the file open as a journal, changes nothing, and ignores unreadable files.
func RefuseStale(path string) error {
	for range 10 {
		// In this order: the file only ever gets further.
		wal, _ := WALBeside(path) // no note names an unreadable WAL
		side, err := Read(path)
		if err != nil || side.Filed == 0 || !side.names(wal) {
			return nil
		}
		// The file's identity does not matter: an adoption continues with the sidecar's epochs, and the
		// sidecar may be older than it.
		epoch, err := EpochAlone(path)
		if err != nil || epoch >= side.Filed {
			return nil
		}
		// Another process may have adopted it meanwhile.
		if again, err := Read(path); err != nil || again != side {
			continue
		}
		return fmt.Errorf("%w: %s was removed or replaced by an older file, and the -wal beside it belongs to the newer one, which SQLite would mix. "+
			"Put back the newer file; or end every process that has it open, remove %[2]s-wal and %[2]s-shm, "+
			"open it again and call Adopt", journal.ErrRestored, path)
	}
	return nil
}

// EpochAlone reads the epoch from the file without its WAL and without a lock. It uses SQLite, because closing
// the file by other means would drop all locks of this process.
func EpochAlone(path string) (epoch int64, err error) {
	// Nothing is filed in an empty file, whose WAL SQLite would remove, or in none.
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil || info.Size() == 0:
		return 0, err
	}
	c, err := conn.DialMode(path, "ro&immutable=1", []conn.Pragma{{"trusted_schema", "OFF", "0"}})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	read, err := c.Prepare("SELECT identity, epoch FROM onceward_head")
	if err != nil {
		return 0, err
	}
	found, err := read.First(func(row []driver.Value) error {
		epoch, err = format.DecodeEpoch(row[0].(string), row[1].([]byte))
		return err
	})
	if err == nil && !found {
		err = io.ErrUnexpectedEOF
	}
	return epoch, err
}
