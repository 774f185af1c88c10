package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/verify"
)

// Violation is a fact in a journal that the state machine or the file's format excludes.
type Violation struct {
	Handle    int64       // of the operation or flow; 0: it is of the file
	Flow      bool        // of a flow
	Ref       journal.Ref // of either; zero if unreadable
	Invariant string      // the broken invariant
}

// String shortens names, which may be keys.
func (v Violation) String() string {
	if v.Handle == 0 {
		return "the file: " + v.Invariant
	}
	kind := "operation"
	if v.Flow {
		kind = "flow"
	}
	id := v.Ref.ID
	if len(id) > 12 {
		id = strings.ToValidUTF8(id[:8], "") + "…"
	}
	return fmt.Sprintf("%s %d %q: %s", kind, v.Handle, id, v.Invariant)
}

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
func (j *Journal) Verify(ctx context.Context) ([]Violation, error) {
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	var found []Violation
	path, key := j.file.path, j.file.writer.segments.Key
	if j.file.writer.readOnly {
		err := j.file.readers.Read(ctx, func(r *read.Reader) (err error) {
			found, err = violations(verify.Journal(ctx, path, key, r))
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
	found, err = violations(verify.Journal(ctx, path, key, read.New(c)))
	return found, errors.Join(conn.Explain(path, "verify", err), c.Close())
}

// violations are those of the public type.
func violations(found []verify.Violation, err error) ([]Violation, error) {
	var public []Violation
	for _, v := range found {
		public = append(public, Violation(v))
	}
	return public, err
}
