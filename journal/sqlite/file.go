package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/inplace"
	"github.com/onceward/onceward/journal/sqlite/internal/localdb"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sessions"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
	"github.com/onceward/onceward/journal/sqlite/internal/vfs"
)

// file is one open file, shared by all Journals of this process that are on it.
type file struct {
	path       string // real
	writer     *writer
	checkpoint *checkpoint.Checkpointer
	readers    *read.Pool
	local      localdb.Database
	// leaves is a read-only connection. If it is closed last, the WAL stays in place. It is nil unless
	// another program moves the WAL, or its pages may belong to another file.
	leaves  *conn.Conn
	loading sync.WaitGroup // preload
	unload  context.CancelFunc
	spares  sessions.Spares
	archive *store.Archive // nil: there is none

	catching  atomic.Bool // the writer is about to catch up with others
	takingIn  atomic.Bool // the writer will take in the outbox soon
	ahead     atomic.Pointer[logAhead]
	latest    atomic.Pointer[format.LogRow] // as it was last read for a receipt
	enqueuing sync.Mutex                    // one goroutine at a time looks and writes in the transaction that has the write lock
}

// pageBytes is the size of the pages of a file that we make.
const pageBytes = 8192

const defaultBusyTimeout = 10 * time.Second

// The order matters: some settings are refused, without a word, after others.
var (
	writerPragmas = []conn.Pragma{
		{"journal_mode", "WAL", "wal"},
		{"synchronous", "FULL", "2"},     // NORMAL does not survive the loss of power
		{"wal_autocheckpoint", "0", "0"}, // the checkpointer does it, beside the writer
		{"secure_delete", "ON", "1"},     // reaped data is removed; FAST would leave it in free pages
		{"journal_size_limit", fmt.Sprint(checkpoint.MaxWAL), fmt.Sprint(checkpoint.MaxWAL)},
		{"trusted_schema", "OFF", "0"}, // the file may come from anywhere
	}
	checkpointPragmas = []conn.Pragma{
		conn.Patience,
		{"synchronous", "FULL", "2"}, // pages that a checkpoint removes from the WAL must be in the file
		{"wal_autocheckpoint", "0", "0"},
	}
)

// openFile opens a file that is there, and is open nowhere else in this process.
func openFile(path string, opts Options) (f *file, err error) {
	if opts.BusyTimeout <= 0 {
		opts.BusyTimeout = defaultBusyTimeout
	}
	if err := sidecar.RefuseStale(path); err != nil {
		return nil, err
	}
	main, err := conn.DialMode(path, "rw"+vfs.Parameter(), []conn.Pragma{conn.Patience})
	if err != nil {
		return nil, conn.Explain(path, "open", err)
	}
	defer func() {
		if err != nil {
			_ = main.Close()
		}
	}()
	migrated, err := setUp(main, path, opts)
	if err != nil {
		return nil, err
	}
	files, err := inplace.Open(path)
	if err != nil {
		return nil, conn.Explain(path, "open", err)
	}
	defer func() {
		if err != nil {
			_ = files.Close()
		}
	}()
	if err := sweepLeftBehind(main, path); err != nil {
		return nil, err
	}
	// From here on the writer itself waits for its turn: SQLite's own waiting
	// starves the longest waiter.
	if err := main.Set([]conn.Pragma{{"busy_timeout", "0", "0"}}); err != nil {
		return nil, conn.Explain(path, "open", err)
	}
	if migrated && !opts.ExternalCheckpointer {
		// The first epoch into the file, unless another process is busy already.
		_ = main.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	}
	if f, err = start(main, files, path, opts); err != nil {
		return nil, err
	}
	if opts.Archive != nil {
		f.archive = store.NewArchive(opts.Archive, opts.ArchiveBodies)
	}
	loading, cancel := context.WithCancel(context.Background())
	f.unload = cancel
	f.loading.Go(func() { f.preload(loading) })
	opts.warn(path)
	return f, nil
}

// setUp makes a journal of this release in the file, or rejects the file, and reports whether it was
// migrated.
func setUp(main *conn.Conn, path string, opts Options) (migrated bool, err error) {
	// Before anything is changed: the file may belong to another program.
	version, _, err := schema.Recognise(main, path, opts.schema())
	if err == nil && version == 0 && opts.Existing {
		err = noJournalIn(path)
	}
	if err != nil {
		return migrated, err
	}
	// A row of the log then takes half the frames of the WAL. An existing file keeps its page size.
	if err := main.Exec(fmt.Sprint("PRAGMA page_size=", pageBytes)); err != nil {
		return migrated, conn.Explain(path, "open", err)
	}
	if err := conn.InTurn(opts.BusyTimeout, func() error { return main.Set(writerPragmas) }); err != nil {
		return migrated, conn.Explain(path, "open", err)
	}
	if migrated, err = schema.Migrate(main, path, opts.schema()); err != nil {
		return migrated, err
	}
	receipts, err := schema.MigrateReceipts(main, path)
	if err != nil {
		return migrated, err
	}
	migrated = migrated || receipts
	return migrated, location.Restrict(path)
}

// sweepLeftBehind removes files of dead processes beside the journal.
func sweepLeftBehind(main *conn.Conn, path string) error {
	sidecar.Sweep(path)
	return sessions.Sweep(path, main)
}

// start starts the writer on main, which then has compared the journal with its sidecar, the checkpointer and
// the readers. After an error all of them have ended, and main is open.
func start(main *conn.Conn, files *inplace.Files, path string, opts Options) (*file, error) {
	background, err := conn.DialMode(path, "rw"+vfs.Parameter(), checkpointPragmas)
	if err != nil {
		return nil, conn.Explain(path, "open", err)
	}
	checkpointer := checkpoint.New(path, background, files, opts.ExternalCheckpointer, latestInLog)
	readers := read.NewPool(path)
	w, err := newWriter(path, main, files, checkpointer, opts.BusyTimeout, opts)
	if err != nil {
		return nil, errors.Join(conn.Explain(path, "open", err), checkpointer.Close())
	}
	f := &file{path: path, writer: w, checkpoint: checkpointer, readers: readers}
	// The first batch compares the journal with its sidecar.
	if err := f.own(opts); err != nil {
		_ = w.stop()
		return nil, errors.Join(err, checkpointer.Close(), readers.Close())
	}
	if opts.ExternalCheckpointer {
		if f.leaves, err = dialLeaving(path); err != nil {
			if f.leaves != nil {
				_ = f.leaves.Close()
			}
			_ = w.stop()
			return nil, errors.Join(conn.Explain(path, "open for reading", err), checkpointer.Close(), readers.Close())
		}
	}
	return f, nil
}

// dialLeaving opens the connection that keeps the WAL in place (see file.leaves). It may return a connection
// together with an error.
func dialLeaving(path string) (*conn.Conn, error) {
	c, err := conn.DialMode(path, "ro", read.Pragmas)
	if err != nil {
		return nil, err
	}
	_, err = c.Value("SELECT count(*) FROM onceward_sessions") // only then it is connected to the WAL
	return c, err
}

// warn tells of a file system that may lose the journal.
func (o Options) warn(path string) {
	why := osfile.Volatile(filepath.Dir(path))
	if why == "" || o.Volatile {
		return
	}
	cmp.Or(o.Logger, slog.Default()).Warn("onceward: the journal may be lost: it lies on "+why+", or set Options.Volatile", "journal", path)
}

func (f *file) flush() error { return f.writer.flush() }

func (f *file) close() error {
	f.unload()
	f.loading.Wait()
	f.spares.Close()
	errs := []error{f.local.Close(), f.writer.stop(), f.checkpoint.Close(), f.readers.Close()}
	if f.writer.files.Mixed() {
		_ = f.checkpoint.Keep(f.writer.identity, f.writer.number)
		if f.leaves == nil {
			f.leaves, _ = dialLeaving(f.path) // whatever can be read
		}
	}
	errs = append(errs, f.writer.files.Close())
	// The last connection to the file moves the rest of the WAL, and removes it.
	errs = append(errs, f.writer.conn.Close())
	if f.leaves != nil {
		errs = append(errs, f.leaves.Close())
	}
	return conn.Explain(f.path, "close", errors.Join(errs...))
}

// latestInLog returns the sidecar of the latest commit, without what it says of the file alone.
func latestInLog(c *conn.Conn) (side sidecar.Content, err error) {
	s, err := c.Once("SELECT " + format.LogColumns + ", identity, epoch FROM onceward_log, onceward_journal ORDER BY seq DESC LIMIT 1")
	if err != nil {
		return side, err
	}
	defer s.Close()
	_, err = s.First(func(row []driver.Value) (err error) {
		log, _, err := format.ReadLogRow(row)
		if err != nil {
			return err
		}
		side.Identity, side.Number = row[8].(string), log.Number
		side.Epoch, err = format.DecodeEpoch(side.Identity, row[9].([]byte))
		return err
	})
	return side, err
}
