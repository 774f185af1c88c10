package rows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// ReadOnly is a rowstore.Source for a file, beside the file's users. ReadOnly makes no file, and no process waits for
// a ReadOnly. OpenReadOnly makes one.
type ReadOnly struct {
	File
	info  fs.FileInfo
	reads *pool
}

var _ rowstore.Source = (*ReadOnly)(nil)

// OpenReadOnly opens a file with a journal.
func OpenReadOnly(path string) (*ReadOnly, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	d := &ReadOnly{info: info, reads: newPool()}
	d.File = File{path, d.use}
	if err := d.with(context.Background(), "open", func(*readConn) error { return nil }); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// use calls f with a connection. use calls f again if a file without users has changed meanwhile.
func (d *ReadOnly) use(ctx context.Context, doing string, f func(*readConn) error) error {
	return d.reads.with(ctx, func(r **readConn) error {
		for range 10 {
			again, err := d.try(r, f)
			if !again {
				return conn.Explain(d.path, doing, err)
			}
		}
		return conn.Explain(d.path, doing, errors.New("it was written again and again while it was read; try again"))
	})
}

// try calls f. SQLite makes missing -wal and -shm files even for a connection that only reads. To make none, try
// reads a file without users without the two files and without a lock.
func (d *ReadOnly) try(r **readConn, f func(*readConn) error) (again bool, err error) {
	before, err := d.look()
	if err != nil {
		return false, err
	}
	if before.live {
		if *r == nil {
			if *r, err = d.dial("ro"); err != nil {
				return false, err
			}
		}
		return false, f(*r)
	}
	d.reads.drop() // the -wal that they go by was taken away
	if *r != nil {
		_ = (*r).c.Close()
		*r = nil
	}
	alone, err := d.dial("ro&immutable=1")
	if err == nil {
		err = errors.Join(f(alone), alone.c.Close())
	}
	after, changed := d.look()
	if changed != nil {
		return false, changed
	}
	return after != before, err
}

func (d *ReadOnly) dial(mode string) (*readConn, error) {
	c, err := conn.DialMode(d.path, mode, reading)
	if err != nil {
		return nil, err
	}
	if mode == "ro" {
		err = staleBeside(c, d.path)
	}
	if err == nil {
		_, err = recognise(c, d.path, Options{Existing: true})
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	r := readerOn(c, d.path, new(heads))
	r.gap = func(_ context.Context, h *head) (string, error) {
		why, _, err := gap(d.path, h, r.backup)
		if errors.Is(err, fs.ErrPermission) { // which only who writes needs
			return d.path + ": " + err.Error(), nil
		}
		return why, err
	}
	return r, nil
}

// stamp shows whether a process wrote a file during a read without a lock.
type stamp struct {
	at   time.Time
	size int64
	live bool // it has a -wal and a -shm: a process has it open, or died with it open
}

func (d *ReadOnly) look() (s stamp, err error) {
	wal, err := sizeOf(d.path + "-wal")
	if err != nil {
		return s, err
	}
	shm, err := sizeOf(d.path + "-shm")
	if err != nil {
		return s, err
	}
	info, err := os.Stat(d.path)
	switch {
	case err != nil:
		return s, err
	case !os.SameFile(info, d.info):
		return s, fmt.Errorf("%w: another file was put in the place of %s; open it again", journal.ErrRestored, d.path)
	case wal > 0 && shm < 0:
		return s, errors.New("its -wal file has no -shm file beside it, and a reader cannot make one: open it once without Options.ReadOnly")
	}
	return stamp{info.ModTime(), info.Size(), wal >= 0 && shm >= 0}, nil
}

// sizeOf returns a negative size for a missing file.
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

// Close waits for readers, and rejects new ones.
func (d *ReadOnly) Close() error { return conn.Explain(d.path, "close", d.reads.close()) }
