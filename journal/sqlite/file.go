package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// open opens a journal. The Journals of a file in this process share its driver, and each has a store of its own.
func open(path string, opts Options) (*Journal, error) {
	p, err := acquire(path, opts)
	if err != nil {
		return nil, err
	}
	s, err := rowstore.Open(context.Background(), onDriver{p.driver, p, opts.rows()}, rowstore.Options{
		Logger: cmp.Or(opts.Logger, slog.Default()),
		Committed: func(requests int, took time.Duration) {
			p.commits.add(requests, took)
			if opts.Committed != nil {
				opts.Committed(requests, took)
			}
		},
	})
	if err != nil {
		return nil, errors.Join(err, p.release())
	}
	return &Journal{engine: s, store: s, file: &p.driver.File, driver: p.driver, commits: p.commits, path: p.path}, nil
}

// openToRead opens an existing file beside its users.
func openToRead(path string, opts Options) (*Journal, error) {
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
	if err := d.Refuses(opts.Deployment); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	s, err := rowstore.OpenToRead(context.Background(), d, fmt.Errorf("%w: %s; open it without Options.ReadOnly", ErrReadOnly, real))
	if err != nil {
		return nil, errors.Join(conn.Explain(real, "open", err), d.Close())
	}
	return &Journal{engine: s, store: s, file: &d.File, commits: new(commits), path: real}, nil
}

// rows returns the options of the driver.
func (o Options) rows() rows.Options {
	return rows.Options{
		Deployment: o.Deployment, Existing: o.Existing, NoMigration: o.NoMigration, External: o.ExternalCheckpointer,
		Logger: o.Logger,
	}
}

// openFile opens a file that is there, and is open nowhere else in this process.
func openFile(path string, opts Options) (*rows.Driver, error) {
	d, err := rows.Open(path, opts.rows())
	if err != nil {
		return nil, err
	}
	if err := d.Own(opts.rows()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	opts.warn(path)
	return d, nil
}

// warn tells of a file system that may lose the journal.
func (o Options) warn(path string) {
	why := osfile.Volatile(filepath.Dir(path))
	if why == "" || o.Volatile {
		return
	}
	cmp.Or(o.Logger, slog.Default()).Warn("onceward: the journal may be lost: it lies on "+why+", or set Options.Volatile", "journal", path)
}

// onDriver is one Journal's use of a driver.
type onDriver struct {
	*rows.Driver
	place *place
	opts  rows.Options
}

// Join starts a session, unless the file is the journal of another deployment.
func (d onDriver) Join(ctx context.Context) (string, error) { return d.JoinAs(ctx, d.opts) }

// Close ends the Journal's use. The last one's closes the file.
func (d onDriver) Close() error { return d.place.release() }
