package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// existing returns the real path of a file that is there. Nothing is made.
func existing(path string) (real string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("journal %s: %w", path, err)
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := sidecar.RefuseStale(abs); err != nil {
			return "", err
		}
		return "", fmt.Errorf("journal %s: %w, and none is made (Options.Existing); check the path", abs, fs.ErrNotExist)
	case err != nil:
		return "", fmt.Errorf("journal %s: %w", abs, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s is %s; give the path of a file", ErrNotJournal, abs, describe(info.Mode()))
	}
	real, err = filepath.EvalSymlinks(abs)
	if err == nil {
		err = osfile.CheckFilesystem(filepath.Dir(real))
	}
	if err != nil {
		return "", fmt.Errorf("journal %s: %w", abs, err)
	}
	return real, nil
}

// openReadOnly opens an existing file beside its users. It has no writer.
func openReadOnly(path string, opts Options) (*file, error) {
	real, err := existing(path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(oneName(real), sidecar.RefuseStale(real)); err != nil {
		return nil, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", real, err)
	}
	rs := newReaders(real)
	rs.beside = info
	w := &writer{path: real, readOnly: true, state: newState()}
	opts.NoMigration = true
	err = rs.read(context.Background(), func(r *reader) error {
		version, _, err := schema.Recognise(r.conn, real, opts.schema())
		if err == nil && version == 0 {
			err = noJournalIn(real)
		}
		if err == nil {
			w.segments.key, err = readHashKey(r.conn)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, rs.close())
	}
	return &file{path: real, writer: w, readers: rs}, nil
}

func noJournalIn(path string) error {
	return fmt.Errorf("%w: %s has no journal in it, and none is made (Options.Existing); check the path", ErrNotJournal, path)
}

// writable is open for methods that change the journal.
func (j *Journal) writable(ctx context.Context) error {
	if err := j.open(ctx); err != nil {
		return err
	}
	if j.file.writer.readOnly {
		return fmt.Errorf("%w: %s; open it without Options.ReadOnly", ErrReadOnly, j.file.path)
	}
	return nil
}

// stamp shows whether a file was written while it was read without a lock.
type stamp struct {
	info fs.FileInfo
	live bool // it has a -wal and a -shm: a process has it open, or died with it open
}

// look returns the file's stamp.
func (rs *readers) look() (s stamp, err error) {
	wal, err := sizeOf(rs.path + "-wal")
	if err != nil {
		return s, err
	}
	shm, err := sizeOf(rs.path + "-shm")
	if err != nil {
		return s, err
	}
	if s.info, err = os.Stat(rs.path); err != nil {
		return s, err
	}
	switch {
	case !os.SameFile(s.info, rs.beside):
		return s, fmt.Errorf("%w: another file was put in the place of %s; open it again", journal.ErrRestored, rs.path)
	case wal > 0 && shm < 0:
		return s, errors.New("its -wal file has no -shm file beside it, and a reader cannot make one: open it once without Options.ReadOnly")
	}
	s.live = wal >= 0 && shm >= 0
	return s, nil
}

// sizeOf is negative for a file that is not there.
func sizeOf(name string) (int64, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return -1, nil
	case err != nil:
		return 0, err
	}
	return info.Size(), nil
}

// readBeside calls f with a read-only connection. SQLite makes missing -wal and -shm files even for one of
// these. To make none, a file that no process has open is read without them and without a lock. If a process
// opened it meanwhile, f is called again.
func (rs *readers) readBeside(r **reader, f func(*reader) error) error {
	for range 10 {
		before, err := rs.look()
		if err != nil {
			return err
		}
		if before.live {
			if *r == nil {
				if *r, err = rs.dial("ro"); err != nil {
					return err
				}
			}
			return (*r).as(rs.path, f)
		}
		if *r != nil { // the -wal that it goes by was taken away
			_ = (*r).conn.Close() // it has nothing to write
			*r = nil
		}
		alone, err := rs.dial("ro&immutable=1")
		if err != nil {
			return err
		}
		err = errors.Join(alone.as(rs.path, f), alone.conn.Close())
		after, changed := rs.look()
		switch {
		case changed != nil:
			return changed
		case !after.live && after.info.ModTime().Equal(before.info.ModTime()) && after.info.Size() == before.info.Size():
			return err
		}
	}
	return errors.New("it was written again and again while it was read; try again")
}

// as has f read a file of this release's schema: another process may have migrated it.
func (r *reader) as(path string, f func(*reader) error) error {
	err := r.each("SELECT count(*) FROM sqlite_schema WHERE name = 'onceward_schema'", func(v []driver.Value) error {
		if v[0] == int64(0) {
			return nil // it is for recognise to say
		}
		return r.each("SELECT version FROM onceward_schema", func(v []driver.Value) error {
			if version := v[0].(int64); version > int64(len(schema.Migrations)) {
				return schema.TooNew(path, version)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return f(r)
}

// getBeside is Get without a writer, which knows the places.
func (j *Journal) getBeside(ctx context.Context, ref journal.Ref) (op journal.Operation, err error) {
	var found bool
	err = j.file.readers.read(ctx, func(r *reader) error {
		return r.snapshot(func() error {
			recent, err := j.file.writer.unfolded(r)
			if err != nil {
				return err
			}
			for _, k := range recent {
				if store.IsNamed(&k.Op, ref) {
					found = true
					op, err = k.Operation()
					return err
				}
			}
			if op, found, err = getRow(r, "identified = 1 AND id = ? AND scope = ? AND parent = ?", ref.ID, ref.Scope, ref.Parent); err != nil || found {
				return err
			}
			handles, err := j.file.writer.segments.candidatesIn(r, ref)
			for _, handle := range handles {
				if err != nil || found {
					break
				}
				op, found, err = r.getAt(handle, ref)
			}
			return err
		})
	})
	return orNotFound(j.file.path, op, found, err)
}

// getAt reads the operation with this handle, if ref names it.
func (r *reader) getAt(handle int64, ref journal.Ref) (op journal.Operation, found bool, err error) {
	var k *format.Record
	err = r.each(blockOf, func(v []driver.Value) error {
		k, err = format.FindInBlock(v, handle)
		return err
	}, handle)
	switch {
	case err != nil:
	case k != nil && store.IsNamed(&k.Op, ref):
		op, err = k.Operation()
		return op, err == nil, err
	case k == nil:
		op, found, err = getRow(r, "o.handle = ?", handle)
		found = found && store.IsNamed(&op, ref)
	}
	return op, found, err
}

// candidatesIn returns the possible handles of the operation by a snapshot: by the hashes of all segments,
// and by name outside of segments.
func (s *segments) candidatesIn(r *reader, ref journal.Ref) (handles []int64, err error) {
	hash, through := s.key.Of(ref), int64(-1)
	low := entry(hash, 0)
	err = r.each("SELECT "+format.SegmentColumns+" FROM onceward_segments ORDER BY first", func(v []driver.Value) error {
		run, first, err := runAfter(through, v)
		for _, e := range run {
			if e>>handleBits == low>>handleBits {
				handles = append(handles, int64(e&(1<<handleBits-1)))
			}
		}
		through = first
		return err
	})
	if err != nil {
		return nil, err
	}
	if through >= 0 {
		through += format.SegmentSize
	}
	add := func(k *format.Record) error {
		if store.IsNamed(&k.Op, ref) {
			handles = append(handles, k.Op.Handle)
		}
		return nil
	}
	err = r.each("SELECT "+format.Columns+" FROM onceward_operations WHERE handle >= ?", func(v []driver.Value) error {
		row, err := format.ReadRow(v)
		if err != nil {
			return err
		}
		return add(&format.Record{Row: row})
	}, through)
	if err == nil {
		err = r.each("SELECT first, data FROM onceward_blocks WHERE first >= ? ORDER BY first", func(v []driver.Value) error {
			data, _ := v[1].([]byte)
			return format.EachOfBlock(v[0].(int64), data, format.All, add)
		}, through)
	}
	return handles, err
}

// findBeside is FindBy without a writer.
func (j *Journal) findBeside(ctx context.Context, provider string, by journal.By, value string) (matches []journal.Match, err error) {
	err = j.file.readers.read(ctx, func(r *reader) error {
		return r.snapshot(func() error {
			matches = nil
			add := func(k *format.Record) error {
				if _, is := k.Op.RoundBy(by, value); !is || k.Op.Provider != provider {
					return nil
				}
				op, err := k.WithoutBodies()
				matches = append(matches, store.Match(op, by, value))
				return err
			}
			var handles []int64
			query, args := findMarks, []any{j.file.writer.segments.key.OfMark(byte(by), value)}
			if by == store.ByFound {
				query, args = "SELECT handle FROM onceward_marks WHERE bucket = ? AND hash = ?", []any{int64(foundBucket), args[0]}
			}
			err := r.each(query, func(v []driver.Value) error {
				handles = append(handles, v[0].(int64))
				return nil
			}, args...)
			slices.Sort(handles)
			for _, handle := range slices.Compact(handles) {
				if err == nil {
					err = r.recordAt(handle, add)
				}
			}
			if err != nil {
				return err
			}
			recent, err := j.file.writer.unfolded(r)
			for _, k := range recent {
				if err == nil {
					err = add(k)
				}
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return matches, nil
}

// recordAt reads an operation that is not in the log, without its bodies.
func (r *reader) recordAt(handle int64, f func(*format.Record) error) error {
	var k *format.Record
	err := r.each(blockOf, func(v []driver.Value) (err error) {
		k, err = format.FindInBlock(v, handle)
		return err
	}, handle)
	if err != nil {
		return err
	}
	if k != nil {
		return f(k)
	}
	return r.each("SELECT "+qualified+`, a.answer FROM onceward_operations o
		LEFT JOIN onceward_answers a ON a.handle = o.handle AND o.state = 3 AND o.tombstone = 0 WHERE o.handle = ?`, func(v []driver.Value) error {
		k, err := bodiless(v)
		if err != nil {
			return err
		}
		return f(k)
	}, handle)
}

// copyBeside is copyTo without a writer.
func (j *Journal) copyBeside(ctx context.Context, name string) error {
	return j.file.readers.read(ctx, func(r *reader) error {
		if err := os.Truncate(name, 0); err != nil {
			return err
		}
		// The connection still cannot write the journal.
		if err := r.conn.Exec("PRAGMA query_only=OFF"); err != nil {
			return err
		}
		_, err := r.conn.Conn.(driver.ExecerContext).ExecContext(ctx, "VACUUM INTO ?", []driver.NamedValue{{Ordinal: 1, Value: name}})
		return errors.Join(err, r.conn.Exec("PRAGMA query_only=ON"))
	})
}
