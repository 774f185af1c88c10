package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// rowJournal is a Journal whose operations have a row each.
type rowJournal struct {
	*rowstore.Store
	driver *rows.Driver // nil: it only reads
	reads  *rows.ReadOnly
	path   string
}

// openRows opens a journal of rows. The Journals of a file in this process share its driver.
func openRows(path string, opts Options) (engine, error) {
	if opts.ReadOnly {
		return openRowsToRead(path)
	}
	p, err := acquire(path, opts, func(real string) (opened, error) { return openDriver(real, opts) })
	if err != nil {
		return nil, err
	}
	shared := p.file.(sharedDriver)
	d := shared.Driver
	s, err := rowstore.Open(context.Background(), onDriver{d, p, opts.rows()}, rowstore.Options{Logger: cmp.Or(opts.Logger, slog.Default()), Archive: shared.archive, Committed: opts.Committed})
	if err != nil {
		return nil, errors.Join(err, p.release())
	}
	return &rowJournal{Store: s, driver: d, path: p.path}, nil
}

func openRowsToRead(path string) (engine, error) {
	real, err := location.Existing(path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(location.OneName(real), sidecar.RefuseStale(real)); err != nil {
		return nil, err
	}
	d, err := rows.OpenReadOnly(real)
	if err != nil {
		return nil, err
	}
	s, err := rowstore.OpenToRead(context.Background(), d, fmt.Errorf("%w: %s; open it without Options.ReadOnly", ErrReadOnly, real))
	if err != nil {
		return nil, errors.Join(conn.Explain(real, "open", err), d.Close())
	}
	return &rowJournal{Store: s, reads: d, path: real}, nil
}

// rows are the options of the driver.
func (o Options) rows() rows.Options {
	return rows.Options{
		Deployment: o.Deployment, Existing: o.Existing, NoMigration: o.NoMigration, External: o.ExternalCheckpointer,
		BusyTimeout: o.BusyTimeout, Logger: o.Logger,
	}
}

// sharedDriver is the driver of an open file.
type sharedDriver struct {
	*rows.Driver
	archive *store.Archive // nil: none
}

func openDriver(path string, opts Options) (opened, error) {
	d, err := rows.Open(path, opts.rows())
	if err != nil {
		return nil, err
	}
	if err := d.Own(opts.rows()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	opts.warn(path)
	shared := sharedDriver{Driver: d}
	if opts.Archive != nil {
		shared.archive = store.NewArchive(opts.Archive, opts.ArchiveBodies)
	}
	return shared, nil
}

func (d sharedDriver) own(opts Options) error { return d.Own(opts.rows()) }
func (d sharedDriver) close() error           { return d.Close() }
func (d sharedDriver) flush() error           { return nil } // each Journal has recorded its own

// onDriver is one Journal's use of a driver.
type onDriver struct {
	*rows.Driver
	place *place
	opts  rows.Options
}

// Join starts a session, unless the file is the journal of another deployment.
func (d onDriver) Join(ctx context.Context) (string, error) {
	return d.JoinAs(ctx, d.opts)
}

// Close ends the Journal's use. The last one's closes the file.
func (d onDriver) Close() error { return d.place.release() }

// BeginSQL is BeginTx for a caller that knows the driver.
func (j *rowJournal) BeginSQL(ctx context.Context) (*sql.Tx, error) {
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Driver().(*sql.Tx), nil
}

// Stats returns what rows count.
func (j *rowJournal) Stats(ctx context.Context) (Stats, error) {
	s, err := j.ReadStats(ctx)
	return Stats{Stats: s}, err
}

// Backup writes a copy, with everything that was reported before.
func (j *rowJournal) Backup(ctx context.Context, path string) error {
	if j.driver == nil {
		return j.reads.Backup(ctx, path)
	}
	return j.driver.Backup(ctx, path, j.Flush)
}
