package rows

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	codes "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
)

// Options configure Open.
type Options struct {
	Deployment string
	Existing   bool         // a file without a journal is refused
	External   bool         // another program moves the WAL into the file
	Logger     *slog.Logger // nil means slog.Default()
}

// turnTimeout is how long a transaction waits for other processes, and for the application's transaction in this
// process.
const turnTimeout = 10 * time.Second

// ErrLayout means that another release has made the journal in another layout.
var ErrLayout = fmt.Errorf("%w, or in another layout", journal.ErrVersion)

// isTheirs is true for the application's objects in the file, not for the journal's or Litestream's.
const isTheirs = `tbl_name NOT LIKE 'onceward\_%' ESCAPE '\' AND tbl_name NOT LIKE '\_litestream\_%' ESCAPE '\'`

const objects = `SELECT (SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'onceward_head'),
	(SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('onceward_schema', 'onceward_log')),
	(SELECT min(name) FROM sqlite_schema WHERE name LIKE 'onceward\_%' ESCAPE '\'),
	(SELECT encoding FROM pragma_encoding)`

// recognise reports whether the file has a journal. recognise refuses a journal in another layout, and a file that
// can hold no journal. recognise changes nothing, since the file may belong to another program.
func recognise(c *conn.Conn, path string, opts Options) (made bool, err error) {
	var ours, old int64
	var taken, encoding string
	err = eachOnce(context.Background(), c, objects, func(v []driver.Value) error {
		ours, old, encoding = v[0].(int64), v[1].(int64), v[3].(string)
		taken, _ = v[2].(string)
		return nil
	})
	no := func(format string, args ...any) (bool, error) {
		return false, fmt.Errorf("%w: %s "+format+"; give another path", append([]any{location.ErrNotJournal, path}, args...)...)
	}
	switch {
	case conn.Code(err) == codes.SQLITE_NOTADB:
		return no("is not a SQLite database")
	case err != nil:
		return false, err
	case ours > 0:
		return true, sameLayout(c, path)
	case old > 0:
		return false, fmt.Errorf("%w: %s was made by a development version, whose layout is not read any more; give another path", ErrLayout, path)
	case taken != "":
		return no("has no journal in it, but something named %s, and names that begin with onceward_ are the journal's", taken)
	case encoding != "UTF-8": // a name is any bytes, and SQLite would return other ones
		return no("keeps its text in %s, which can't be changed, and a journal needs UTF-8", encoding)
	case opts.Existing:
		return false, fmt.Errorf("%w: %s has no journal in it, and none is made (Options.Existing); check the path", location.ErrNotJournal, path)
	}
	return false, nil
}

// sameLayout refuses a journal in another layout.
func sameLayout(c *conn.Conn, path string) error {
	is, err := c.Value("SELECT version FROM onceward_head")
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("its head is missing: %w", format.ErrDamaged)
	}
	if err == nil && !isKnown(is) {
		err = otherLayout(path, is)
	}
	return err
}

func otherLayout(path string, is any) error {
	return fmt.Errorf("%w: %s has layout %v, and this release knows %d and %d; open it with the release that wrote it, or give another path", ErrLayout, path, is, version, sealedVersion)
}
