package inplace

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// A WAL does not say to which file it belongs. SQLite applies a left-behind WAL to any file in its place, and so mixes
// a backup with much later pages (https://sqlite.org/howtocorrupt.html, section 1.4). Detection in advance takes a
// number that only grows and can be read from the file alone: the number of commits, in the one row of onceward_head,
// on a page that never moves. During a checkpoint, or after a crash in one, each page of the file is older or newer.
// The number is one of the two, or torn, which its sum shows.
//
// The head has the base of the WAL too: the latest commit that was in the file, and synced, before the WAL began. Each
// commit into the WAL writes it. The WAL over a file that has not come to the base is a mixture.

// Stale returns journal.ErrRestored for a file that has not come to the base of the WAL beside the file. It ignores a
// file that can't be read alone.
func Stale(path string, base int64) error {
	if alone, err := Alone(path); err != nil || alone >= base {
		return nil
	}
	return fmt.Errorf("%w: %s was removed or replaced by an older file, and the -wal beside it belongs to the newer one, which SQLite would mix. "+
		"Put back the newer file; or end every process that has it open, remove %[2]s-wal and %[2]s-shm, "+
		"open it again and call Adopt", journal.ErrRestored, path)
}

// HasWAL reports whether there are commits beside a file.
func HasWAL(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

// Alone reads the latest commit from the file without its WAL and without a lock. It uses SQLite, because closing the
// file by other means would drop all locks of the process.
func Alone(path string) (commits int64, err error) {
	// An empty file, whose WAL SQLite would remove, has none.
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
		commits, err = format.DecodeEpoch(row[0].(string), row[1].([]byte))
		return err
	})
	if err == nil && !found {
		err = io.ErrUnexpectedEOF
	}
	return commits, err
}
