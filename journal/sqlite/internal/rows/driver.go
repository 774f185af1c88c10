// Package rows is the driver for a journal in a SQLite file. The rows from package rowstore are in tables. The driver
// uses SQLite's own VFS, a WAL, and one writing connection. The driver knows no journal rule.
package rows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/inplace"
	"github.com/onceward/onceward/journal/sqlite/internal/localdb"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

const (
	// yieldToOthers is the pause after a transaction if other processes write too. They check for their turn as often.
	yieldToOthers = 300 * time.Microsecond
	// sharedFor is for how long after another process was seen to write there are pauses.
	sharedFor = 20 * time.Millisecond
	// closeWaits is how long Close waits for the application's transaction. The journal's own transactions end.
	closeWaits = 5 * time.Second
)

// Driver is a rowstore.Driver on one file. Open makes one.
type Driver struct {
	File
	opts   Options
	turn   localdb.Lock // held by the transaction of this process that is open
	theirs atomic.Bool  // the turn is that of an application transaction
	closed atomic.Bool

	waiting atomic.Int32 // transactions that wait for their turn

	writer *conn.Conn
	sql    *statements
	heads  heads
	local  localdb.Database // the application's connections
	inside sync.Mutex       // one goroutine at a time reads and writes in an application transaction

	files      *inplace.Files
	checkpoint *checkpoint.Checkpointer
	keeping    sync.Mutex
	leaves     *conn.Conn // keeps the WAL in place if it is closed last; nil: SQLite moves and removes the WAL
	pinned     bool       // leaves has a transaction open, so that the WAL does not start over

	commits  int64       // the latest that this process has seen; the turn's, like those that follow
	identity string      // of the journal
	enqueued atomic.Bool // an own transaction of the application's has written since
	shared   time.Time   // when another process was last seen to have written
	trusting sync.Mutex
	trust    trust

	reads *pool

	mu     sync.Mutex
	own    map[string]*flock.Flock // sessions of this process. Each lives as long as its lock is held
	lost   sync.Map                // IDs of sessions that another process has taken for dead
	looks  *conn.Conn              // for isMember; nil: not dialled
	member stmt
}

var _ rowstore.Driver = (*Driver)(nil)

// The order matters: some settings are refused, without a word, after others. A commit is durable when it returns.
var (
	writerPragmas = []conn.Pragma{
		{"journal_mode", "WAL", "wal"},
		{"synchronous", "FULL", "2"},     // NORMAL does not survive the loss of power
		{"wal_autocheckpoint", "0", "0"}, // the checkpointer does it, beside the writer
		{"secure_delete", "ON", "1"},     // reaped data is removed; FAST would leave it in free pages
		{"journal_size_limit", fmt.Sprint(checkpoint.MaxWAL), fmt.Sprint(checkpoint.MaxWAL)},
		{"trusted_schema", "OFF", "0"}, // the file may come from anywhere
		{"cache_size", "-65536", "-65536"},
	}
	checkpointPragmas = []conn.Pragma{
		conn.Patience,
		{"synchronous", "FULL", "2"}, // pages that a checkpoint removes from the WAL must be in the file
		{"wal_autocheckpoint", "0", "0"},
	}
)

// Open opens the journal in a file, and makes a missing journal.
func Open(path string, opts Options) (*Driver, error) {
	if err := refuseStale(path); err != nil {
		return nil, err
	}
	d := &Driver{
		opts: opts, turn: make(localdb.Lock, 1), own: make(map[string]*flock.Flock),
		reads: newPool(),
	}
	d.File = File{path, d.use}
	if err := d.open(); err != nil {
		return nil, conn.Explain(path, "open", errors.Join(err, d.close()))
	}
	return d, nil
}

func (d *Driver) open() (err error) {
	if d.writer, err = conn.DialMode(d.path, "rwc", []conn.Pragma{conn.Patience}); err != nil {
		return err
	}
	made, err := prepare(d.writer, d.path, d.opts)
	if err == nil {
		err = location.Restrict(d.path)
	}
	if err != nil {
		return err
	}
	if d.files, err = inplace.Open(d.path); err != nil {
		return err
	}
	sidecar.Sweep(d.path)
	// Other processes wait in turn (conn.InTurn), which SQLite's own waiting would starve.
	if err := d.writer.Set([]conn.Pragma{{"busy_timeout", "0", "0"}}); err != nil {
		return err
	}
	if made && !d.opts.External {
		// The first commit into the file, unless another process is busy already.
		_ = d.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	}
	d.sql = newStatements(on(d.writer, d.path), d.path, &d.heads)
	if err := d.sweep(); err != nil {
		return err
	}
	background, err := conn.Dial(d.path, checkpointPragmas)
	if err != nil {
		return err
	}
	d.checkpoint = checkpoint.New(d.path, background, d.files, d.opts.External, latest, d.pinWAL)
	if d.opts.External {
		if err := d.keepWAL(); err != nil {
			return err
		}
	}
	ctx := context.Background()
	return d.inTransaction(ctx, func(t *tx) error { // once the file was compared with its sidecar
		if err := d.files.Rewrite(); err != nil {
			return err
		}
		return t.own(ctx)
	})
}

// keepWAL opens the connection that keeps the WAL in place, unless the connection is open.
func (d *Driver) keepWAL() (err error) {
	if d.leaves == nil {
		if d.leaves, err = conn.DialMode(d.path, "ro", reading); err != nil {
			return err
		}
	}
	_, err = d.leaves.Value("SELECT count(*) FROM onceward_sessions") // only then it is connected to the WAL
	return err
}

// pinWAL keeps the whole WAL, for all processes, until this process ends.
func (d *Driver) pinWAL() (err error) {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	if d.pinned {
		return nil
	}
	if err = d.keepWAL(); err == nil {
		err = d.leaves.Exec("BEGIN")
	}
	if err == nil {
		err = d.keepWAL()
	}
	if d.pinned = err == nil; d.pinned {
		cmp.Or(d.opts.Logger, slog.Default()).Error("onceward: the disk failed to sync the journal. Nothing is lost, and the -wal file keeps all "+
			"that the journal may lack. It grows until every process has closed the journal and one opens it again: check the disk, and restart", "journal", d.path)
	}
	return err
}

// readConn is a reading connection.
type readConn struct {
	*reader
	c *conn.Conn
}

// reading are a readConn's settings.
var reading = []conn.Pragma{conn.Patience, {"wal_autocheckpoint", "0", "0"}, {"trusted_schema", "OFF", "0"}, {"query_only", "ON", "1"}}

func (d *Driver) dialReader() (*readConn, error) {
	c, err := conn.DialMode(d.path, "rw", reading)
	if err != nil {
		return nil, err
	}
	r := readerOn(c, d.path, &d.heads)
	r.gap = func(ctx context.Context, _ *head) (string, error) { return d.knownGap(ctx), nil }
	return r, nil
}

func readerOn(c *conn.Conn, path string, known *heads) *readConn {
	r := newReader(on(c, path), path, known)
	r.alone()
	return &readConn{reader: r, c: c}
}

// Begin implements rowstore.Driver. This process's transactions wait for each other.
func (d *Driver) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	t, err := d.begin(ctx)
	if err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	found, err := t.Find(ctx, keys)
	if err != nil {
		err = conn.Explain(d.path, "read", cmp.Or(d.outOfPlace(), err))
		t.Rollback()
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	return t, t.told, found, nil
}

// errLeftOpen is a transaction's error after too long a wait.
var errLeftOpen = errors.New("a transaction of the application's has kept the file; look for one that is left open in this process")

// takeTurn waits for this process's earlier transactions. takeTurn waits for the application's transaction no longer
// than for another process.
func (d *Driver) takeTurn(ctx context.Context) error {
	select {
	case d.turn <- struct{}{}:
		return d.hasTurn()
	default:
	}
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	for {
		timer := time.NewTimer(turnTimeout)
		select {
		case d.turn <- struct{}{}:
			timer.Stop()
			return d.hasTurn()
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-d.reads.closed:
			timer.Stop()
			return journal.ErrClosed
		case <-timer.C:
			if d.theirs.Load() {
				return conn.Explain(d.path, "begin", errLeftOpen)
			}
		}
	}
}

func (d *Driver) hasTurn() error {
	if d.closed.Load() {
		d.turn.GiveBack()
		return journal.ErrClosed
	}
	return nil
}

func (d *Driver) begin(ctx context.Context) (*tx, error) {
	if err := d.takeTurn(ctx); err != nil {
		return nil, err
	}
	begin := func() error { _, err := d.sql.begin.Exec(); return err }
	err := conn.InTurn(turnTimeout, begin)
	if err != nil && !conn.IsBusy(err) {
		_, _ = d.sql.rollback.Exec() // the last rollback may have failed too
		err = begin()
	}
	if err != nil {
		err = conn.Explain(d.path, "begin", cmp.Or(d.outOfPlace(), err))
		d.turn.GiveBack()
		return nil, err
	}
	t := &tx{d: d, sql: d.sql, reader: &d.sql.reader}
	if t.head, err = d.sql.readHead(); err == nil {
		err = d.follow(&t.head)
	}
	if err == nil {
		t.told, err = d.compare(&t.head, d.sql.backup)
	}
	if err != nil {
		err = conn.Explain(d.path, "read the head", cmp.Or(d.outOfPlace(), err))
		t.Rollback()
		return nil, err
	}
	return t, nil
}

// follow takes note of other processes' commits.
func (d *Driver) follow(h *head) error {
	if !isKnown(h.version) {
		return otherLayout(d.path, h.version)
	}
	if h.commits < d.commits {
		return d.files.Lost()
	}
	if h.commits != d.commits && d.commits != 0 {
		if !d.enqueued.Swap(false) {
			d.shared = time.Now()
		}
		if err := d.findLost(); err != nil {
			return err
		}
	}
	d.commits, d.identity, h.base = h.commits, h.Identity, d.files.Base(h.commits, h.base)
	return nil
}

// outOfPlace returns an error if the open files are not at their paths any more, and notes that for the next Open.
func (d *Driver) outOfPlace() error {
	gone := d.files.InPlace()
	if gone != nil {
		_ = d.checkpoint.Keep(d.identity, d.commits)
	}
	return gone
}

// pass ends this process's turn. If other processes write too, pass pauses to give them a turn.
func (d *Driver) pass() {
	if !d.shared.IsZero() {
		if time.Since(d.shared) > sharedFor {
			d.shared = time.Time{}
		}
		time.Sleep(yieldToOthers)
	}
	d.turn.GiveBack()
}

// Checkpointer returns the checkpointer, for tests.
func (d *Driver) Checkpointer() *checkpoint.Checkpointer { return d.checkpoint }

// Waiting returns how many transactions wait for their turn, for tests.
func (d *Driver) Waiting() int { return int(d.waiting.Load()) }

// use calls f with a connection.
func (d *Driver) use(ctx context.Context, doing string, f func(*readConn) error) error {
	return d.reads.with(ctx, func(r **readConn) (err error) {
		if *r == nil {
			if *r, err = d.dialReader(); err != nil {
				return conn.Explain(d.path, "open for reading", err)
			}
		}
		if err = f(*r); err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return conn.Explain(d.path, doing, err)
	})
}

// Close implements rowstore.Driver. Close waits for readers, for the journal's transaction, and some seconds for the
// application's transaction. Sessions without an end count as dead.
func (d *Driver) Close() error { return conn.Explain(d.path, "close", d.close()) }

// errStillOpen means that the application has left a transaction open.
var errStillOpen = errors.New("a transaction of the application's is still open: end it before the journal")

func (d *Driver) close() error {
	errs := []error{d.leaveAll()}
	taken := d.turn.Take(context.Background(), closeWaits)
	for !taken && !d.theirs.Load() {
		taken = d.turn.Take(context.Background(), closeWaits)
	}
	if taken {
		defer d.turn.GiveBack()
	} else {
		errs = append(errs, errStillOpen)
	}
	d.closed.Store(true)
	errs = append(errs, d.local.Close())
	if d.checkpoint != nil {
		errs = append(errs, d.checkpoint.Close())
	}
	errs = append(errs, d.reads.close())
	if d.files != nil {
		errs = append(errs, d.files.InPlace())
		if d.checkpoint != nil && d.files.Mixed() {
			_ = d.checkpoint.Keep(d.identity, d.commits)
			_ = d.keepWAL() // whatever can be read
		}
		if d.checkpoint != nil && d.checkpoint.KeepsWAL() {
			_ = d.keepWAL()
		}
		errs = append(errs, d.files.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// The last connection to the file moves the rest of the WAL, and removes the WAL.
	for _, c := range []*conn.Conn{d.looks, d.writer, d.leaves} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
