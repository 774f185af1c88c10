package rows

import (
	"sync/atomic"

	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

const (
	// moveAfter is after how many written pages, roughly, the WAL is moved into the file.
	moveAfter = 1000
	// pagesOf is roughly how many pages a row dirties.
	pagesOf = 4
)

// checkpointer moves the WAL into the file, on a connection of its own, beside the writer.
type checkpointer struct {
	c       *conn.Conn
	wake    chan struct{}
	stopped chan struct{}
	written int         // pages since the last wake-up; the writer's
	moved   atomic.Bool // nearly all of the WAL: the writer moves the rest, and SQLite begins it anew
}

func newCheckpointer(path string) (*checkpointer, error) {
	c, err := conn.Dial(path, []conn.Pragma{conn.Patience, {"synchronous", "FULL", "2"}})
	if err != nil {
		return nil, err
	}
	p := &checkpointer{c: c, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go p.run()
	return p, nil
}

func (p *checkpointer) run() {
	defer close(p.stopped)
	for range p.wake {
		if _, err := p.c.Value(passive); err == nil { // else the next commits try again
			p.moved.Store(true)
		}
	}
}

// passive waits for no reader and no writer.
const passive = "PRAGMA wal_checkpoint(PASSIVE)"

// wrote is called by the writer after each commit.
func (p *checkpointer) wrote(rows int) {
	if p.written += 1 + pagesOf*rows; p.written < moveAfter {
		return
	}
	p.written = 0
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// restart is called by the writer between two transactions.
func (p *checkpointer) restart(writer *conn.Conn) {
	if p.moved.Swap(false) {
		_, _ = writer.Value(passive)
	}
}

func (p *checkpointer) close() error {
	close(p.wake)
	<-p.stopped
	return p.c.Close()
}
