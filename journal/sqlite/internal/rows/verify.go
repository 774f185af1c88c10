package rows

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"

	codes "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/internal/sessionfile"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/sessions"
)

// Snapshot implements rowstore.Source.
func (f *File) Snapshot(ctx context.Context, read func(rowstore.Reader) error) error {
	return f.with(ctx, "read", func(r *readConn) error { return r.snapshot(read) })
}

// snapshot returns format.ErrDamaged for an unreadable page.
func (r *readConn) snapshot(f func(rowstore.Reader) error) error {
	within := *r.reader
	within.begin, within.end = nil, nil
	err := r.c.Exec("BEGIN")
	if err == nil {
		err = errors.Join(f(&within), r.c.Exec("COMMIT"))
	}
	if conn.Code(err) == codes.SQLITE_CORRUPT {
		err = fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	return err
}

// Check implements rowstore.Source. The WAL is not emptied until Check has ended. If a process writes the file during
// a read without a lock, the earlier findings do not count.
func (f *File) Check(ctx context.Context, found func(journal.Violation)) error {
	var all []journal.Violation
	err := f.with(ctx, "verify", func(r *readConn) error {
		all = nil
		return check(ctx, f.path, r.c, func(v journal.Violation) { all = append(all, v) })
	})
	for _, v := range all {
		found(v)
	}
	return err
}

// checking looks at a file beside its rows.
type checking struct {
	ctx   context.Context
	path  string
	c     *conn.Conn
	found func(journal.Violation)
}

func check(ctx context.Context, path string, c *conn.Conn, found func(journal.Violation)) error {
	k := &checking{ctx, path, c, found}
	for _, step := range []func() error{k.integrity, k.schema, k.head, k.strays, k.heard, k.sessions} {
		err := ctx.Err()
		if err == nil {
			err = step()
		}
		if conn.Code(err) == codes.SQLITE_CORRUPT || errors.Is(err, format.ErrDamaged) {
			k.file("it can be read: %v", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (k *checking) file(format string, args ...any) {
	k.found(journal.Violation{Invariant: fmt.Sprintf(format, args...)})
}

func (k *checking) each(query string, f func(v []driver.Value) error) error {
	return eachOnce(k.ctx, k.c, query, f)
}

// eachOnce calls f for every row of a statement that is not kept.
func eachOnce(ctx context.Context, c *conn.Conn, query string, f func(v []driver.Value) error) error {
	s, err := c.Once(query)
	if err != nil {
		return err
	}
	return errors.Join(s.EachContext(ctx, f), s.Close())
}

// integrity lets SQLite compare the pages, and the indexes with their rows. If the application has tables in the
// file, integrity checks only the journal's tables. The application's tables may break constraints, and have indexes
// by functions that only the application knows.
func (k *checking) integrity() error {
	checks := []string{"PRAGMA integrity_check"}
	theirs, err := k.c.Value("SELECT count(*) FROM sqlite_schema WHERE " + isTheirs)
	if err == nil && theirs != int64(0) {
		checks = nil
		err = k.each("SELECT name FROM sqlite_schema WHERE type = 'table' AND NOT ("+isTheirs+")", func(v []driver.Value) error {
			checks = append(checks, fmt.Sprintf("PRAGMA integrity_check(%q)", v[0]))
			return nil
		})
	}
	for _, check := range checks {
		if err != nil {
			break
		}
		err = k.each(check, func(v []driver.Value) error {
			if v[0] != "ok" {
				k.file("integrity_check finds nothing, but: %v", v[0])
			}
			return nil
		})
	}
	return err
}

const definitions = "SELECT name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"

// madeSchema is what definitions selects in a new journal.
type madeSchema struct {
	texts  map[string]string // by name
	tables map[string]bool
}

// schemaOnce is the same in each call, and SQLite takes milliseconds for the tables.
var schemaOnce = sync.OnceValues(func() (made madeSchema, err error) {
	fresh, err := conn.DialMode(":memory:", "memory", nil)
	if err != nil {
		return made, err
	}
	defer fresh.Close()
	if err := fresh.Exec(tables); err != nil {
		return made, err
	}
	made = madeSchema{make(map[string]string), make(map[string]bool)}
	return made, eachOnce(context.Background(), fresh, definitions, func(v []driver.Value) error {
		made.texts[v[0].(string)], made.tables[v[1].(string)] = v[2].(string), true
		return nil
	})
})

// schema finds changes to the journal's own tables.
func (k *checking) schema() error {
	made, err := schemaOnce()
	if err != nil {
		return err
	}
	want := maps.Clone(made.texts)
	err = k.each(definitions, func(v []driver.Value) error {
		name, table := v[0].(string), v[1].(string)
		sql, expected := want[name]
		delete(want, name)
		switch {
		case !made.tables[table]:
		case !expected:
			k.file("the table %s has %s, which onceward did not create", table, name)
		case sql != v[2]:
			k.file("the definition of %s is as it was made", name)
		}
		return nil
	})
	for name := range want {
		k.file("%s is there", name)
	}
	return err
}

// head checks the head, and looks for handles that the head did not give out.
func (k *checking) head() error {
	_, err := headOf(k.c)
	if errors.Is(err, format.ErrDamaged) {
		k.file("its head is as it was written")
		return nil
	}
	if err != nil {
		return err
	}
	return k.each(`SELECT handle, 0 FROM onceward_rows WHERE handle > (SELECT newest FROM onceward_head) OR handle < 1
		UNION ALL SELECT handle, 1 FROM onceward_flows WHERE handle < 1
		UNION ALL SELECT handle, 2 FROM onceward_receipts WHERE handle < 1`, func(v []driver.Value) error {
		k.found(journal.Violation{Handle: v[0].(int64), Flow: v[1] == int64(1), Receipt: v[1] == int64(2), Invariant: "its handle was given out"})
		return nil
	})
}

// strays finds operations' parts, and flows' steps, without their row.
func (k *checking) strays() error {
	return k.each(`SELECT 0, handle FROM onceward_requests r WHERE NOT EXISTS (SELECT 1 FROM onceward_rows WHERE handle = r.handle)
		UNION SELECT 0, handle FROM onceward_answers a WHERE NOT EXISTS (SELECT 1 FROM onceward_rows WHERE handle = a.handle)
		UNION SELECT 1, flow FROM onceward_steps s WHERE NOT EXISTS (SELECT 1 FROM onceward_flows WHERE handle = s.flow)`, func(v []driver.Value) error {
		found := journal.Violation{Handle: v[1].(int64), Invariant: "its request and its answer are of an operation that is there"}
		if v[0] == int64(1) {
			found.Flow, found.Invariant = true, "its steps are of a flow that is there"
		}
		k.found(found)
		return nil
	})
}

func (k *checking) heard() error {
	return k.each("SELECT digest FROM onceward_heard", func(v []driver.Value) error {
		if !format.IsHeard(format.ToBytes(v[0])) {
			k.file("an event that was heard is as it was written")
		}
		return nil
	})
}

// sessions finds sessions without a file. An ending session loses the row first.
func (k *checking) sessions() error {
	missing, err := k.withoutFile()
	if err != nil || len(missing) == 0 {
		return err
	}
	still, err := k.withoutFile()
	for id := range missing {
		if still[id] {
			k.file("session %s has its file", id)
		}
	}
	return err
}

func (k *checking) withoutFile() (ids map[string]bool, err error) {
	ids = make(map[string]bool)
	return ids, k.each("SELECT id FROM onceward_sessions", func(v []driver.Value) error {
		id := v[0].(string)
		is, err := os.Stat(sessions.Path(k.path, id))
		if errors.Is(err, fs.ErrNotExist) || err == nil && sessionfile.IsCopy(k.path, sessions.Path(k.path, id), is) {
			ids[id] = true
		}
		return nil
	})
}
