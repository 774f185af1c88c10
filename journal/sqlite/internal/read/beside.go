package read

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
)

// stamp shows whether a file was written while it was read without a lock.
type stamp struct {
	info fs.FileInfo
	live bool // it has a -wal and a -shm: a process has it open, or died with it open
}

// look returns the file's stamp.
func (rs *Pool) look() (s stamp, err error) {
	wal, err := SizeOf(rs.path + "-wal")
	if err != nil {
		return s, err
	}
	shm, err := SizeOf(rs.path + "-shm")
	if err != nil {
		return s, err
	}
	if s.info, err = os.Stat(rs.path); err != nil {
		return s, err
	}
	switch {
	case !os.SameFile(s.info, rs.Beside):
		return s, fmt.Errorf("%w: another file was put in the place of %s; open it again", journal.ErrRestored, rs.path)
	case wal > 0 && shm < 0:
		return s, errors.New("its -wal file has no -shm file beside it, and a reader cannot make one: open it once without Options.ReadOnly")
	}
	s.live = wal >= 0 && shm >= 0
	return s, nil
}

// SizeOf is negative for a file that is not there.
func SizeOf(name string) (int64, error) {
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
func (rs *Pool) readBeside(r **Reader, f func(*Reader) error) error {
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
			_ = (*r).Conn.Close() // it has nothing to write
			*r = nil
		}
		alone, err := rs.dial("ro&immutable=1")
		if err != nil {
			return err
		}
		err = errors.Join(alone.as(rs.path, f), alone.Conn.Close())
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
func (r *Reader) as(path string, f func(*Reader) error) error {
	err := r.Each("SELECT count(*) FROM sqlite_schema WHERE name = 'onceward_schema'", func(v []driver.Value) error {
		if v[0] == int64(0) {
			return nil // it is for recognise to say
		}
		return r.Each("SELECT version FROM onceward_schema", func(v []driver.Value) error {
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
