package sqlite

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

// Nothing in a WAL says which file it belongs to: SQLite applies one that was left behind
// to whatever lies in the file's place, and so mixes a backup with what came long after
// it (https://sqlite.org/howtocorrupt.html, section 1.4). To notice that before it is
// done takes something that can be read of the file alone, and only ever grows: the
// journal's epoch, a number in the one row of the table journal, on a page that holds
// nothing else and never moves. While a checkpoint is under way, or after a crash in
// one, each page of the file is an older or a newer one, and it is one of the two, or
// torn, which its sum tells.
//
// The sidecar has the epoch that the file had come to, synced, before the WAL that it
// names began. That WAL over a file of an earlier epoch is a mixture. Another WAL, or a
// file that can't be read alone, proves nothing.

// note is what a sidecar says of the file alone.
type note struct {
	wal   string // which it was when this was written: see walBeside; "": nothing is said
	epoch int64  // of the journal then, the WAL included
	filed int64  // the epoch that the file alone has come to
}

// noWAL is for one that is empty, or is not there: everything is in the file.
const noWAL = "empty"

// walBeside returns the salts in the header of the WAL beside the file, in hexadecimal.
// Both are random in a new WAL. Where it starts over, which it does once all of it is in
// the file and synced, the first is one higher
// (https://sqlite.org/fileformat2.html, section 4.1).
func walBeside(path string) (string, error) {
	f, err := os.Open(path + "-wal") // SQLite has no locks on it that would be dropped
	if errors.Is(err, fs.ErrNotExist) {
		return noWAL, nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var header [32]byte
	switch _, err := io.ReadFull(f, header[:]); {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return noWAL, nil
	case err != nil:
		return "", err
	}
	return hex.EncodeToString(header[16:24]), nil
}

// maxRestarts is how often a WAL may have started over since the sidecar named it: it
// does so every few megabytes, and the sidecar is written every few seconds.
const maxRestarts = 256

// names tells whether wal is the note's, or what that has become by starting over.
func (n note) names(wal string) bool {
	then, err := strconv.ParseUint(n.wal, 16, 64)
	now, err2 := strconv.ParseUint(wal, 16, 64)
	if err != nil || err2 != nil {
		return false
	}
	restarts := uint32(now>>32) - uint32(then>>32)
	return now == then || 0 < restarts && restarts <= maxRestarts
}

// after takes over what the note before it, of the same journal, knew of the file. Two
// that saw different WALs, no matter in which order: the first of these started over, or
// was removed, with all that was in it synced to the file.
func (n note) after(before note) note {
	switch {
	case n.wal == "":
		return before
	case before.wal == n.wal:
		n.filed = before.filed
	default: // where nothing was said before, that is none
		n.filed = max(before.filed, min(before.epoch, n.epoch))
	}
	return n
}

// refuseStale returns journal.ErrRestored for a file beside which lies the WAL of a newer
// one. It is asked before this process has the file open as a journal, changes nothing,
// and leaves to others what can't be read.
func refuseStale(path string) error {
	for range 10 {
		// In this order: the file only ever gets further.
		wal, _ := walBeside(path) // what can't be read is named by none
		side, err := readSidecar(path)
		if err != nil || side.filed == 0 || !side.names(wal) {
			return nil
		}
		// Whatever the file's identity is: an adoption goes on with the sidecar's epochs,
		// and the sidecar may be one from before it.
		epoch, err := fileAlone(path)
		if err != nil || epoch >= side.filed {
			return nil
		}
		// Another process may have adopted it meanwhile.
		if again, err := readSidecar(path); err != nil || again != side {
			continue
		}
		return fmt.Errorf("%w: %s was removed, or an older file was put in its place, and the -wal of the newer one still lies beside it; "+
			"it was not opened, since SQLite would mix the two: end every process that has it open, remove %[2]s-wal and %[2]s-shm, "+
			"open it again and call Adopt; or put back the file that they belong to", journal.ErrRestored, path)
	}
	return nil
}

// fileAlone reads the epoch from the file without its WAL, and without a lock.
// Through SQLite: closing the file by other means would drop the locks of whoever else
// has it open in this process.
func fileAlone(path string) (epoch int64, err error) {
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
	read, err := c.Prepare("SELECT identity, epoch FROM onceward_journal")
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

// beginEpoch has the batch's commit begin an epoch.
func (b *batch) beginEpoch() error {
	if err := b.write(b.sql.writeIdentity, b.identity, format.EncodeEpoch(b.identity, b.epoch+1)); err != nil {
		return err
	}
	b.epoch++ // after a rollback it is read again
	b.checkpoint.turn = false
	b.abandoned = append(b.abandoned, func() { b.checkpoint.turn = true })
	return nil
}
