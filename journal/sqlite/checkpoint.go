package sqlite

import (
	"database/sql/driver"
	"sync/atomic"

	sqlite "modernc.org/sqlite"
)

const (
	// checkpointAfter is how many WAL frames are written before the checkpointer
	// is woken.
	checkpointAfter = 500
	// longWAL is from how many frames on the writer itself moves what is left,
	// between two batches: under constant load only then does the WAL start over
	// (https://sqlite.org/wal.html, "Avoiding Excessively Large WAL Files").
	longWAL = 2000
)

// checkpointer moves the WAL into the file, on a connection of its own, beside the
// writer.
type checkpointer struct {
	conn  *conn
	stmt  *stmt
	wake  chan struct{}
	ended chan struct{}

	long    atomic.Bool // the WAL has longWAL frames
	written int         // pages by the writer, since the wake-up; the writer's
	total   int
	own     *stmt // the writer's
}

func newCheckpointer(c *conn) *checkpointer {
	p := &checkpointer{conn: c, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go p.run()
	return p
}

func (p *checkpointer) run() {
	defer close(p.ended)
	for range p.wake {
		// What fails here is tried again after the next commits, and the writer
		// sees the same fault.
		if frames, err := passive(p.conn, &p.stmt); err == nil && frames >= longWAL {
			p.long.Store(true)
		}
	}
}

// passive moves what it can without waiting for anybody, and returns how many
// frames the WAL has.
func passive(c *conn, s **stmt) (frames int64, err error) {
	if *s == nil {
		if *s, err = c.prepare("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
			return 0, err
		}
	}
	_, err = (*s).first(func(row []driver.Value) error {
		frames, _ = row[1].(int64)
		return nil
	})
	return frames, err
}

// wrote is called by the writer after each commit.
func (p *checkpointer) wrote(c *conn) {
	if p.long.Swap(false) {
		_, _ = passive(c, &p.own)
	}
	total, _, err := c.Conn.(sqlite.DBStatus).Status(sqlite.DBStatusCacheWrite, false)
	if err != nil {
		return
	}
	p.written += total - p.total
	p.total = total
	if p.written < checkpointAfter {
		return
	}
	p.written = 0
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *checkpointer) close() error {
	close(p.wake)
	<-p.ended
	return p.conn.close()
}
