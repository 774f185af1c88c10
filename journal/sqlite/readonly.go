package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/nameindex"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// openReadOnly opens an existing file beside its users. It has no writer.
func openReadOnly(path string, opts Options) (*file, error) {
	real, err := location.Existing(path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(location.OneName(real), sidecar.RefuseStale(real)); err != nil {
		return nil, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", real, err)
	}
	rs := read.NewPool(real)
	rs.Beside = info
	w := &writer{path: real, readOnly: true, state: newState()}
	opts.NoMigration = true
	err = rs.Read(context.Background(), func(r *read.Reader) error {
		version, _, err := schema.Recognise(r.Conn, real, opts.schema())
		if err == nil && version == 0 {
			err = noJournalIn(real)
		}
		if err == nil {
			w.segments.Key, err = nameindex.ReadKey(r.Conn)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, rs.Close())
	}
	return &file{path: real, writer: w, readers: rs}, nil
}

func noJournalIn(path string) error {
	return fmt.Errorf("%w: %s has no journal in it, and none is made (Options.Existing); check the path", ErrNotJournal, path)
}

// writable is open for methods that change the journal.
func (j *logJournal) writable(ctx context.Context) error {
	if err := j.open(ctx); err != nil {
		return err
	}
	if j.file.writer.readOnly {
		return fmt.Errorf("%w: %s; open it without Options.ReadOnly", ErrReadOnly, j.file.path)
	}
	return nil
}

// getBeside is Get without a writer, which knows the places.
func (j *logJournal) getBeside(ctx context.Context, ref journal.Ref) (op journal.Operation, err error) {
	var found bool
	err = j.file.readers.Read(ctx, func(r *read.Reader) error {
		return r.Snapshot(func() error {
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
			if op, found, err = read.Row(r, "identified = 1 AND id = ? AND scope = ? AND parent = ?", ref.ID, ref.Scope, ref.Parent); err != nil || found {
				return err
			}
			handles, err := j.file.writer.segments.CandidatesIn(r, ref)
			for _, handle := range handles {
				if err != nil || found {
					break
				}
				op, found, err = r.At(handle, ref)
			}
			return err
		})
	})
	return orNotFound(j.file.path, op, found, err)
}

// findBeside is FindBy without a writer.
func (j *logJournal) findBeside(ctx context.Context, provider string, by journal.By, value string) (matches []journal.Match, err error) {
	err = j.file.readers.Read(ctx, func(r *read.Reader) error {
		return r.Snapshot(func() error {
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
			var err error
			for _, hash := range hashes(&j.file.writer.segments.Key, by, store.MarkValue(by, value), value) {
				query, args := sealed.FindMarks, []any{hash}
				if by == store.ByFound {
					query, args = "SELECT handle FROM onceward_marks WHERE bucket = ? AND hash = ?", []any{int64(sealed.FoundBucket), hash}
				}
				err = cmp.Or(err, r.Each(query, func(v []driver.Value) error {
					handles = append(handles, v[0].(int64))
					return nil
				}, args...))
			}
			slices.Sort(handles)
			for _, handle := range slices.Compact(handles) {
				if err == nil {
					err = r.Record(handle, add)
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

// copyBeside is copyTo without a writer.
func (j *logJournal) copyBeside(ctx context.Context, name string) error {
	return j.file.readers.Read(ctx, func(r *read.Reader) error {
		if err := os.Truncate(name, 0); err != nil {
			return err
		}
		// The connection still cannot write the journal.
		if err := r.Conn.Exec("PRAGMA query_only=OFF"); err != nil {
			return err
		}
		_, err := r.Conn.Conn.(driver.ExecerContext).ExecContext(ctx, "VACUUM INTO ?", []driver.NamedValue{{Ordinal: 1, Value: name}})
		return errors.Join(err, r.Conn.Exec("PRAGMA query_only=ON"))
	})
}
