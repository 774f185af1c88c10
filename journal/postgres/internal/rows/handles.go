package rows

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/check"
)

// handles are taken from a sequence in blocks, which are lost with their process.
type handles struct {
	sequence  string
	mu        sync.Mutex
	next, end int64
	then      int64 // the first of the block that follows; 0 means none
	epoch     int64 // of the blocks. An adoption leaves out what was given before
}

// blockOfHandles is the increment of the sequences.
const blockOfHandles = 256

// text is the statement that returns the first handle of another block.
func (h *handles) text() string {
	return "SELECT pg_catalog.nextval('{{s}}." + h.sequence + "')"
}

// take returns a handle, higher than those that it has returned. It asks the sequence on that connection, and holds up no
// other caller meanwhile.
func (h *handles) take(ctx context.Context, d *Driver, conn check.RowReader) (int64, error) {
	epoch := d.fleet.Member().Epoch
	for {
		if handle, is := h.taken(epoch); is {
			return handle, nil
		}
		var first int64
		if err := conn.QueryRow(ctx, d.in(h.text())).Scan(&first); err != nil {
			return 0, meaning(err)
		}
		h.follow(epoch, first)
	}
}

// queue queues a statement for another block, if fewer than n handles are left. So the next transaction that needs as many
// as this one need not ask.
func (h *handles) queue(p *pipeline, n int) {
	epoch := p.d.fleet.Member().Epoch
	if h.left(epoch) >= n {
		return
	}
	p.queue(func(rows pgx.Rows) error {
		var first int64
		err := rows.Scan(&first)
		h.follow(epoch, first)
		return err
	}, h.text())
}

func (h *handles) left(epoch int64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.epoch != epoch:
		return 0
	case h.then != 0:
		return int(h.end-h.next) + blockOfHandles
	}
	return int(h.end - h.next)
}

func (h *handles) taken(epoch int64) (handle int64, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch == epoch && h.next == h.end && h.then != 0 {
		h.next, h.end, h.then = h.then, h.then+blockOfHandles, 0
	}
	if h.next == h.end || h.epoch != epoch {
		return 0, false
	}
	h.next++
	return h.next - 1, true
}

// follow goes on with a block after those that are left, unless another caller has got one meanwhile.
func (h *handles) follow(epoch, first int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.epoch != epoch:
		h.next, h.end, h.then, h.epoch = first, first, first, epoch
	case h.then == 0 && first >= h.end:
		h.then = first
	}
}
