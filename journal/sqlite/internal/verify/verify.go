// Package verify reads a whole journal, and finds what the state machine or the file's format excludes.
//
// It knows every table, the sidecar, and the files of sessions. It must not know the writer. It changes nothing, and reads
// on a connection that its caller gives it.
package verify

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	codes "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/internal/sessionfile"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sessions"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// maxViolations is how many Verify names at most.
const maxViolations = 1000

// Journal reads the journal at path by r, and returns the violations that it found until an error.
func Journal(ctx context.Context, path string, key format.HashKey, r *read.Reader) ([]journal.Violation, error) {
	v := &verification{ctx: ctx, path: path, key: key, Reader: *r}
	err := v.all()
	return v.found, err
}

// verification is one run of Verify.
type verification struct {
	read.Reader
	ctx   context.Context
	path  string
	key   format.HashKey
	found []journal.Violation
	names []named // of all operations
}

// flowsAPage is how many flows are read at a time, and receiptsAPage how many receipts.
const (
	flowsAPage    = 200
	receiptsAPage = 500
)

// named is a hash of an operation's identity.
type named struct {
	hash   uint64
	handle int64
}

func (v *verification) all() error {
	for _, step := range []func() error{v.integrity, v.schema, v.sidecar, v.log, v.operations, v.outbox, v.sweeps, v.sessions, v.flows, v.verifyHeard, v.receipts} {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if err := v.tolerate(step()); err != nil {
			return err
		}
	}
	return nil
}

// tolerate turns a damage error into a violation.
func (v *verification) tolerate(err error) error {
	if conn.Code(err) == codes.SQLITE_CORRUPT || errors.Is(err, format.ErrDamaged) {
		v.file("it can be read: %v", err)
		return nil
	}
	return err
}

func (v *verification) add(found journal.Violation) {
	if len(v.found) < maxViolations {
		v.found = append(v.found, found)
	}
}

func (v *verification) file(format string, args ...any) {
	v.add(journal.Violation{Invariant: fmt.Sprintf(format, args...)})
}

// integrity has SQLite check the whole file, or only the journal's tables if the application has some. Those
// may break constraints of their own, and have indices by functions that only the application knows.
func (v *verification) integrity() error {
	checks := []string{"PRAGMA integrity_check"}
	theirs, err := v.Conn.Value("SELECT count(*) FROM sqlite_schema WHERE " + schema.IsTheirs)
	if err == nil && theirs != int64(0) {
		checks = nil
		err = v.Each("SELECT name FROM sqlite_schema WHERE type = 'table' AND NOT ("+schema.IsTheirs+")", func(row []driver.Value) error {
			checks = append(checks, fmt.Sprintf("PRAGMA integrity_check(%q)", row[0]))
			return nil
		})
	}
	for _, check := range checks {
		if err == nil {
			err = v.integrityOf(check)
		}
	}
	return err
}

func (v *verification) integrityOf(pragma string) error {
	check, err := v.Conn.Prepare(pragma)
	if err == nil {
		err = check.EachContext(v.ctx, func(row []driver.Value) error {
			if row[0] != "ok" {
				v.file("integrity_check finds nothing, but: %v", row[0])
			}
			return nil
		})
	}
	return err
}

const schemaObjects = "SELECT name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"

// schema finds changes to the journal's own tables. Other tables may be the application's.
func (v *verification) schema() error {
	fresh, err := conn.DialMode(":memory:", "memory", nil)
	if err != nil {
		return err
	}
	defer fresh.Close()
	for _, migration := range schema.Migrations {
		if err := fresh.Exec(migration); err != nil {
			return err
		}
	}
	want, ours := make(map[string]string), make(map[string]bool)
	objects, err := fresh.Prepare(schemaObjects)
	if err == nil {
		err = objects.Each(func(row []driver.Value) error {
			want[row[0].(string)], _ = row[2].(string)
			ours[row[1].(string)] = true
			return nil
		})
	}
	if err != nil {
		return err
	}
	err = v.Each(schemaObjects, func(row []driver.Value) error {
		name := row[0].(string)
		sql, expected := want[name]
		delete(want, name)
		switch {
		case !ours[row[1].(string)]:
		case !expected:
			v.file("the table %[2]s has %[1]s, which onceward did not create", name, row[1])
		case sql != row[2]:
			v.file("the definition of %s is as it was made", name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name := range want {
		v.file("%s is there", name)
	}
	return nil
}

// sidecar comes before the log is read, which then is no older.
func (v *verification) sidecar() error {
	side, err := sidecar.Read(v.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, sidecar.ErrUnclear) {
		return nil // Open rejects a journal that may not be whole
	}
	if err != nil {
		return err
	}
	// A backup, and nothing after it, is before all epochs.
	return v.Each(`SELECT identity, latest, epoch, EXISTS (SELECT 1 FROM onceward_backup WHERE number = latest)
		FROM onceward_journal, (SELECT number AS latest FROM onceward_log ORDER BY seq DESC LIMIT 1)`, func(row []driver.Value) error {
		epoch, err := format.DecodeEpoch(row[0].(string), row[2].([]byte))
		if err != nil {
			return err
		}
		switch number, _ := row[1].(int64); {
		case row[0] != side.Identity:
		case number < side.Number:
			v.file("it has come as far as its sidecar says: it ends with commit %d, not %d", number, side.Number)
		case epoch < side.Filed && row[3] == int64(0):
			v.file("it has come as far as its sidecar says: to epoch %d, not %d", epoch, side.Filed)
		}
		return nil
	})
}

// log checks the rows of the log, but not their records.
func (v *verification) log() error {
	var before []driver.Value
	err := v.Each("SELECT seq, last_at, newest, folded, number, least_margin, records, jumped_at FROM onceward_log ORDER BY seq", func(row []driver.Value) error {
		if _, _, err := format.ReadLogRow([]driver.Value{row[0], row[1], row[7], row[5], row[2], row[3], row[4], row[6]}); err != nil {
			v.file("it is as it was written: log row %v", row[0])
		}
		n := func(row []driver.Value, i int) int64 { i64, _ := row[i].(int64); return i64 }
		if n(row, 3) > n(row, 2) {
			v.file("no more is folded than was begun: log row %d", n(row, 0))
		}
		if before != nil {
			if n(row, 0) != n(before, 0)+1 {
				v.file("a row of the log follows upon every other: log row %d", n(row, 0))
			}
			for i, name := range map[int]string{2: "the latest handle", 3: "what is folded", 4: "the commit number"} {
				if n(row, i) < n(before, i) {
					v.file("%s never goes back: log row %d", name, n(row, 0))
				}
			}
		}
		before = slices.Clone(row)
		return nil
	})
	if err == nil && before == nil {
		v.file("the log has a row")
	}
	return err
}

// unique compares the names of all operations.
func (v *verification) unique() {
	slices.SortFunc(v.names, func(a, b named) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.handle, b.handle)) })
	for i := 1; i < len(v.names); i++ {
		a, b := v.names[i-1], v.names[i]
		if a.hash == b.hash && a.handle != b.handle {
			v.add(journal.Violation{Handle: b.handle, Invariant: fmt.Sprintf("no other operation has its name: operation %d", a.handle)})
		}
	}
}

// sessions finds sessions without a file. A session that ends loses its row first.
func (v *verification) sessions() error {
	var missing []string
	err := v.Each("SELECT id FROM onceward_sessions", func(row []driver.Value) error {
		id := row[0].(string)
		is, err := os.Stat(sessions.Path(v.path, id))
		if errors.Is(err, fs.ErrNotExist) || err == nil && sessionfile.IsCopy(v.path, sessions.Path(v.path, id), is) {
			missing = append(missing, id)
		}
		return nil
	})
	for _, id := range missing {
		if err != nil {
			break
		}
		err = v.Each("SELECT 1 FROM onceward_sessions WHERE id = ?", func([]driver.Value) error {
			v.file("session %s has its file", id)
			return nil
		}, id)
	}
	return err
}

// asWritten makes a violation of format.ErrSum.
func (v *verification) asWritten(f *journal.Flow, err error) error {
	if errors.Is(err, format.ErrSum) {
		v.add(journal.Violation{Handle: f.Handle, Flow: true, Ref: f.Ref, Invariant: "its rows are as they were written"})
		return nil
	}
	return err
}

func (v *verification) flows() error {
	for last, more := int64(0), true; more; {
		more = false
		err := v.Snapshot(func() error {
			var page []journal.Flow
			err := v.Each(read.SelectFlow+" WHERE handle > ? ORDER BY handle LIMIT ?", func(row []driver.Value) error {
				last, more = row[0].(int64), true
				f, err := format.ReadFlow(row)
				if errors.Is(err, format.ErrDamaged) && !errors.Is(err, format.ErrSum) {
					v.add(journal.Violation{Handle: last, Flow: true, Invariant: "it can be read"})
					return nil // the others are looked at, with their steps
				}
				page = append(page, f)
				return v.asWritten(&f, err)
			}, last, int64(flowsAPage))
			for i := range page {
				if err == nil {
					err = v.Each(read.SelectSteps, func(row []driver.Value) error {
						step, err := format.ReadStep(page[i].Handle, row)
						page[i].Steps = append(page[i].Steps, step)
						return v.asWritten(&page[i], err)
					}, page[i].Handle)
				}
				for _, broken := range journal.FlowViolations(page[i]) {
					v.add(journal.Violation{Handle: page[i].Handle, Flow: true, Ref: page[i].Ref, Invariant: broken})
				}
			}
			return err
		})
		if err := v.tolerate(err); err != nil {
			return err
		}
		if err := v.ctx.Err(); err != nil {
			return err
		}
	}
	return v.Each("SELECT DISTINCT flow FROM onceward_flow_steps WHERE flow NOT IN (SELECT handle FROM onceward_flows)", func(row []driver.Value) error {
		v.add(journal.Violation{Handle: row[0].(int64), Flow: true, Invariant: "its steps are of a flow that is there"})
		return nil
	})
}
