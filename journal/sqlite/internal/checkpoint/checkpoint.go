// Package checkpoint moves the WAL into the file beside the writer, and keeps the sidecar up to date.
//
// The checkpointer knows two connections (its own and the writer's), the open files, and the sidecar. It must not know
// a batch or an event. The writer says what it wrote, and learns when an epoch begins.
package checkpoint

import (
	"database/sql/driver"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	sqlite "modernc.org/sqlite"

	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/inplace"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

const (
	// checkpointAfter is how many WAL frames are written before the checkpointer
	// is woken.
	checkpointAfter = 250
	// longWAL is the number of frames from which the writer itself moves the rest between two batches. Under
	// constant load, the WAL starts over only then (https://sqlite.org/wal.html, "Avoiding Excessively Large
	// WAL Files").
	longWAL = 1000
)

// MaxWAL is the size in bytes to which the WAL is cut when it starts over after a long delay by a backup or a
// foreign open transaction.
const MaxWAL = 64 << 20

// SidecarAfter is how old a commit may grow that the sidecar knows nothing of. It is a variable for tests.
var SidecarAfter = 5 * time.Second

// Checkpointer moves the WAL into the file, on a connection of its own, beside the
// writer. It keeps the sidecar up to date, too.
type Checkpointer struct {
	path     string
	conn     *conn.Conn
	files    *inplace.Files
	stmt     *conn.Stmt
	external bool // another program moves the WAL
	keep     func() error
	kept     atomic.Bool // a sync has failed: see passive
	wake     chan struct{}
	ended    chan struct{}

	Trusted atomic.Bool   // the journal agrees with its sidecar
	ahead   atomic.Bool   // it has a commit that the sidecar knows nothing of
	commit  chan struct{} // the first such
	latest  func(*conn.Conn) (sidecar.Content, error)
	Marking sync.Mutex // held while conn is used, and while the sidecar, or the journal's identity, changes

	long    atomic.Bool // the WAL has longWAL frames
	written int         // pages by the writer, since the wake-up; the writer's
	own     *conn.Stmt  // the writer's
	look    *conn.Stmt  // likewise
	woken   int64       // how many frames the WAL had at the last wake-up for a transaction of the application's; likewise
}

// New starts a checkpointer of the file at path, on a connection that the checkpointer then owns. If external is set,
// it moves nothing, and only keeps the sidecar. latest reads what the sidecar is to say of the latest commit. keep
// keeps the whole WAL in place, and may be called again. The caller closes the checkpointer.
func New(path string, c *conn.Conn, files *inplace.Files, external bool, latest func(*conn.Conn) (sidecar.Content, error), keep func() error) *Checkpointer {
	p := &Checkpointer{path: path, conn: c, files: files, external: external, latest: latest, keep: keep, wake: make(chan struct{}, 1), ended: make(chan struct{}), commit: make(chan struct{}, 1)}
	go p.run()
	return p
}

func (p *Checkpointer) run() {
	defer close(p.ended)
	var late <-chan time.Time
	for {
		// A failure here is retried after the next commits, and the writer gets the same fault.
		select {
		case _, open := <-p.wake:
			if !open {
				_ = p.Mark()
				return
			}
			p.Marking.Lock()
			frames, err := p.passive(p.conn, &p.stmt)
			p.Marking.Unlock()
			if err == nil && frames >= longWAL {
				p.long.Store(true)
			}
		case <-p.commit:
			late = time.After(SidecarAfter)
		case <-late:
			late = nil
			if p.Mark() != nil {
				late = time.After(SidecarAfter)
			}
		}
	}
}

// Mark records the latest commit in the sidecar. Readable data was synced to the file or the WAL, and is durable
// (https://sqlite.org/pragma.html#pragma_synchronous, FULL). A file without its WAL is therefore behind its sidecar
// too.
func (p *Checkpointer) Mark() error {
	p.Marking.Lock()
	defer p.Marking.Unlock()
	p.ahead.Store(false)
	if !p.Trusted.Load() {
		return nil
	}
	latest, err := p.latest(p.conn)
	if err != nil {
		return err
	}
	return latest.Advance(p.path)
}

// Keep, for a file that is out of place, makes the sidecar name the latest commit, for the next Open to detect.
func (p *Checkpointer) Keep(identity string, number int64) error {
	p.Marking.Lock()
	defer p.Marking.Unlock()
	now, err := sidecar.Read(p.path)
	if err != nil || now.Identity != identity || now.Number >= number || !p.Trusted.Load() {
		return err
	}
	return sidecar.Content{Identity: identity, Number: number}.Write(p.path, true)
}

// passive moves all frames that can be moved without waiting, and returns the number of frames in the WAL. It leaves a
// file that is out of place unchanged. Pages of another file would damage it without a trace.
//
// After a failed sync, the WAL stays until all processes have closed the journal and one opens it again. The kernel
// takes lost pages for written (https://lwn.net/Articles/752063/), and SQLite does not write them again. Its
// walCheckpoint (wal.c) counts pages as moved before they are synced, if the WAL has later frames. A new -shm counts
// none.
func (p *Checkpointer) passive(c *conn.Conn, s **conn.Stmt) (frames int64, err error) {
	if p.kept.Load() {
		return 0, p.keep()
	}
	if err := p.files.InPlace(); err != nil {
		return 0, err
	}
	p.files.Move(func() { frames, err = checkpoint(c, s, "PASSIVE") })
	if conn.IsUnsynced(err) {
		p.kept.Store(true)
		return 0, errors.Join(err, p.keep())
	}
	if err == nil {
		err = p.files.InPlace() // it learns what the file has now: an older copy of it has less
	}
	return frames, err
}

func checkpoint(c *conn.Conn, s **conn.Stmt, mode string) (frames int64, err error) {
	if *s == nil {
		if *s, err = c.Prepare("PRAGMA wal_checkpoint(" + mode + ")"); err != nil {
			return 0, err
		}
	}
	_, err = (*s).First(func(row []driver.Value) error {
		frames, _ = row[1].(int64)
		return nil
	})
	return frames, err
}

// BeforeOthers is called by the writer before a transaction of the application's begins, whose pages it does not count. If
// the WAL is long, it moves the rest: the transaction's commit would keep the WAL from starting over.
func (p *Checkpointer) BeforeOthers(c *conn.Conn) {
	if p.external {
		return
	}
	// That moves nothing (https://sqlite.org/pragma.html#pragma_wal_checkpoint).
	frames, err := checkpoint(c, &p.look, "NOOP")
	if frames < p.woken { // it has started over
		p.woken = 0
	}
	if err != nil || frames-p.woken < checkpointAfter {
		return
	}
	p.woken = frames
	if frames < longWAL {
		p.Wake()
		return
	}
	_, _ = p.passive(c, &p.own)
}

// KeepsWAL reports whether the WAL must stay, since a sync has failed.
func (p *Checkpointer) KeepsWAL() bool { return p.kept.Load() }

// Wake has it move what the WAL has now.
func (p *Checkpointer) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Wrote is called by the writer after each commit.
func (p *Checkpointer) Wrote(c *conn.Conn) {
	if p.long.Swap(false) {
		_, _ = p.passive(c, &p.own)
	}
	// Since the last time: in all it counts up to 2³¹, and begins again. Of an open connection it does not fail.
	pages, _, _ := c.Conn.(sqlite.DBStatus).Status(sqlite.DBStatusCacheWrite, true)
	if pages > 0 {
		p.Committed()
	}
	p.written += pages
	if p.written < checkpointAfter {
		return
	}
	p.written = 0
	if p.external {
		return
	}
	p.Wake()
}

// Committed has the sidecar name a commit within a few seconds.
func (p *Checkpointer) Committed() {
	if p.ahead.Swap(true) {
		return
	}
	select {
	case p.commit <- struct{}{}:
	default:
	}
}

// Close records the latest commit in the sidecar, ends the checkpointer, and closes its connection.
func (p *Checkpointer) Close() error {
	close(p.wake)
	<-p.ended
	return p.conn.Close()
}

// Idle returns once the checkpointer has done its work. Only tests wait for that.
func (p *Checkpointer) Idle() {
	for len(p.wake) > 0 {
		runtime.Gosched()
	}
	p.commit <- struct{}{}
	for len(p.commit) > 0 { // which it sees when it is back
		runtime.Gosched()
	}
}
