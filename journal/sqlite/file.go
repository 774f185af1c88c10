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
)

// open opens a journal, or makes one.
func open(path string, opts Options) (*Journal, error) {
	real, err := location.Find(path, !opts.Existing)
	if err != nil {
		return nil, err
	}
	if err := location.OneName(real); err != nil {
		return nil, err
	}
	d, err := rows.Open(real, rows.Options{
		Deployment: opts.Deployment, Existing: opts.Existing, External: opts.ExternalCheckpointer,
		Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	opts.warn(real)
	j := &Journal{file: &d.File, driver: d, commits: new(commits), path: real}
	s, err := rowstore.Open(context.Background(), d, rowstore.Options{
		Seal: opts.Seal, Existing: opts.Existing,
		Logger: cmp.Or(opts.Logger, slog.Default()),
		Committed: func(requests int, took time.Duration) {
			j.commits.add(requests, took)
			if opts.Committed != nil {
				opts.Committed(requests, took)
			}
		},
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	j.engine, j.store = s, s
	return j, nil
}

// openToRead opens an existing file beside its users.
func openToRead(path string, opts Options) (*Journal, error) {
	real, err := location.Find(path, false)
	if err != nil {
		return nil, err
	}
	if err := location.OneName(real); err != nil {
		return nil, err
	}
	d, err := rows.OpenReadOnly(real)
	if err != nil {
		return nil, err
	}
	if err := d.Refuses(opts.Deployment); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	s, err := rowstore.OpenToRead(context.Background(), d, opts.Seal, fmt.Errorf("%w: %s; open it without Options.ReadOnly", ErrReadOnly, real))
	if err != nil {
		return nil, errors.Join(conn.Explain(real, "open", err), d.Close())
	}
	return &Journal{engine: s, store: s, file: &d.File, commits: new(commits), path: real}, nil
}

// warn logs a file system which may lose the journal.
func (o Options) warn(path string) {
	why := osfile.Volatile(filepath.Dir(path))
	if why == "" || o.Volatile {
		return
	}
	cmp.Or(o.Logger, slog.Default()).Warn("onceward: the journal may be lost: it lies on "+why+", or set Options.Volatile", "journal", path)
}
