// Package rows is the driver of a journal in a SQLite file: the rows of package rowstore in tables, with SQLite's own
// VFS, a WAL, and one connection that writes. It knows no rule of the journal.
package rows

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

const (
	// readers is how many connections read beside the writer.
	readers = 2
	// timeout is how long another process may hold the file before a transaction fails.
	timeout = 5 * time.Second
	// yieldToOthers is the pause after a transaction if other processes write too. They check for their turn as often.
	yieldToOthers = 300 * time.Microsecond
	// sharedFor is for how long after another process was seen to write there are pauses.
	sharedFor = 20 * time.Millisecond
)

// Driver is a rowstore.Driver on one file. Open makes one.
type Driver struct {
	path   string
	turn   chan struct{} // has one value while a transaction of this process is open
	writer *conn.Conn
	sql    *statements
	number int64     // of the latest commit that this process has seen
	shared time.Time // when another process was last seen to have written

	reads chan *readConn
	wal   *checkpointer
	local *local // the application's connections

	mu     sync.Mutex
	own    map[string]*flock.Flock // of this process's sessions
	looks  *conn.Conn              // for Alive
	member *conn.Stmt
}

var _ rowstore.Driver = (*Driver)(nil)

// settings are those of the connection that writes. A commit is durable when it returns.
var settings = []conn.Pragma{{"journal_mode", "WAL", "wal"}, {"synchronous", "FULL", "2"}, {"wal_autocheckpoint", "0", "0"}, {"cache_size", "-65536", "-65536"}}

// Open opens the journal in a file, and makes it if there is none.
func Open(path string, opts Options) (*Driver, error) {
	d := &Driver{path: path, turn: make(chan struct{}, 1), reads: make(chan *readConn, readers), own: make(map[string]*flock.Flock)}
	if err := d.open(opts); err != nil {
		return nil, conn.Explain(path, "open", errors.Join(err, d.close()))
	}
	return d, nil
}

func (d *Driver) open(opts Options) (err error) {
	if d.writer, err = conn.DialMode(d.path, "rwc", []conn.Pragma{conn.Patience}); err != nil {
		return err
	}
	if _, err := recognise(d.writer, d.path, opts); err != nil {
		return err
	}
	if err := conn.InTurn(timeout, func() error { return d.writer.Set(settings) }); err != nil {
		return err
	}
	if err := prepare(d.writer, d.path, opts); err != nil {
		return err
	}
	// Other processes wait in turn (conn.InTurn), which SQLite's own waiting would starve.
	if err := d.writer.Set([]conn.Pragma{{"busy_timeout", "0", "0"}}); err != nil {
		return err
	}
	if d.sql, err = newStatements(on(d.writer), d.path); err != nil {
		return err
	}
	for range readers {
		r, err := dialReader(d.path, "rw")
		if err != nil {
			return err
		}
		d.reads <- r
	}
	if d.looks, err = conn.Dial(d.path, []conn.Pragma{conn.Patience}); err != nil {
		return err
	}
	if d.member, err = d.looks.Prepare("SELECT 1 FROM onceward_members WHERE id = ?"); err != nil {
		return err
	}
	if d.wal, err = newCheckpointer(d.path); err != nil {
		return err
	}
	if d.local, err = newLocal(d); err != nil {
		return err
	}
	return d.removeDead()
}

// readConn is a connection that reads.
type readConn struct {
	*reader
	c *conn.Conn
}

// reading are the settings of one.
var reading = []conn.Pragma{conn.Patience, {"wal_autocheckpoint", "0", "0"}, {"trusted_schema", "OFF", "0"}, {"query_only", "ON", "1"}}

func dialReader(path, mode string) (*readConn, error) {
	c, err := conn.DialMode(path, mode, reading)
	if err != nil {
		return nil, err
	}
	r, err := newReader(on(c), path)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &readConn{r, c}, nil
}

// Begin implements rowstore.Driver. Transactions of this process wait for each other until ctx ends.
func (d *Driver) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	t, err := d.begin(ctx)
	if err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	found, err := t.Find(ctx, keys)
	if err != nil {
		t.Rollback()
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	return t, t.head, found, nil
}

// takeTurn waits for the transactions of this process that came before, those of the application too.
func (d *Driver) takeTurn(ctx context.Context) error {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.sql == nil { // it was closed
		<-d.turn
		return journal.ErrClosed
	}
	d.wal.restart(d.writer)
	return nil
}

func (d *Driver) begin(ctx context.Context) (*tx, error) {
	if err := d.takeTurn(ctx); err != nil {
		return nil, err
	}
	begin := func() error { _, err := d.sql.begin.Exec(); return err }
	err := conn.InTurn(timeout, begin)
	if err != nil && !conn.IsBusy(err) {
		_, _ = d.sql.rollback.Exec() // the last rollback may have failed too
		err = begin()
	}
	if err != nil {
		<-d.turn
		return nil, conn.Explain(d.path, "begin", err)
	}
	t := &tx{d: d, sql: d.sql, reader: &d.sql.reader}
	if t.head, err = readHead(d.sql.head); err != nil {
		t.Rollback()
		return nil, conn.Explain(d.path, "read the head", err)
	}
	if t.head.Number != d.number && d.number != 0 {
		d.shared = time.Now()
	}
	d.number = t.head.Number
	return t, nil
}

// pass ends this process's turn. It pauses if other processes write too, so that they get theirs.
func (d *Driver) pass() {
	if !d.shared.IsZero() {
		if time.Since(d.shared) > sharedFor {
			d.shared = time.Time{}
		}
		time.Sleep(yieldToOthers)
	}
	<-d.turn
}

// Read implements rowstore.Driver.
func (d *Driver) Read(ctx context.Context, f func(rowstore.Reader) error) error {
	select {
	case r, open := <-d.reads:
		if !open {
			return journal.ErrClosed
		}
		defer func() { d.reads <- r }()
		return conn.Explain(d.path, "read", f(r.reader))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements rowstore.Driver. It waits for readers, and some seconds for a transaction that is open.
func (d *Driver) Close() error { return conn.Explain(d.path, "close", d.close()) }

// errStillOpen means that the application has left a transaction open.
var errStillOpen = errors.New("a transaction of the application's is still open, so the file was not closed: end it before the journal")

func (d *Driver) close() error {
	errs := []error{d.leaveAll()}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, errStillOpen)
	defer cancel()
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return errors.Join(append(errs, context.Cause(ctx))...)
	}
	defer func() { <-d.turn }()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.local != nil {
		errs = append(errs, d.local.db.Close())
	}
	if d.wal != nil {
		errs = append(errs, d.wal.close())
		for range readers {
			errs = append(errs, (<-d.reads).c.Close())
		}
		close(d.reads)
	}
	for _, c := range []*conn.Conn{d.looks, d.writer} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	d.sql, d.writer, d.looks, d.wal, d.local = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// leaveAll ends the sessions of this process as its death does.
func (d *Driver) leaveAll() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, lock := range d.own {
		errs = append(errs, lock.Close())
	}
	clear(d.own)
	return errors.Join(errs...)
}
