package sqlite

import (
	"context"
	"errors"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/verify"
)

// Violation is a fact in a journal that the state machine or the file's format excludes.
type Violation = journal.Violation

// Verify reads the whole journal and returns its violations, at most 1,000:
//
//   - the findings of SQLite's integrity_check (of the journal's tables alone, if the application has tables in the file);
//   - every operation and flow that breaks an invariant of the state machine (journal.Violations, journal.FlowViolations);
//   - every record that another one contradicts or lacks.
//
// A sound journal has none. A violation is damage: keep a copy of the file, and restore a backup.
//
// It runs beside the use of the journal, on a connection of its own, and changes nothing. It reads operations
// in pages, each as of one moment, so it may miss operations that begin meanwhile. integrity_check reads one
// moment, and the -wal file is not emptied until it is done. It returns an error if the journal could not be
// read to its end.
func (j *logJournal) Verify(ctx context.Context) ([]Violation, error) {
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	var found []Violation
	path, key := j.file.path, j.file.writer.segments.Key
	if j.file.writer.readOnly {
		err := j.file.readers.Read(ctx, func(r *read.Reader) (err error) {
			found, err = verify.Journal(ctx, path, key, r)
			return err
		})
		if err != nil {
			return nil, err
		}
		return found, nil
	}
	c, err := conn.Dial(path, read.Pragmas)
	if err != nil {
		return nil, conn.Explain(path, "open for reading", err)
	}
	found, err = verify.Journal(ctx, path, key, read.New(c))
	return found, errors.Join(conn.Explain(path, "verify", err), c.Close())
}
