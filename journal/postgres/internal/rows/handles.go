package rows

import (
	"context"
	"sync"

	"github.com/onceward/onceward/journal/postgres/internal/apptx"
)

// handles are taken from a sequence in blocks, which are lost with their process.
type handles struct {
	sequence  string
	mu        sync.Mutex
	next, end int64
	epoch     int64 // of the block. An adoption leaves out what was given before
}

// blockOfHandles is the increment of the sequences.
const blockOfHandles = 1024

// take returns a handle, higher than all that take has returned. It asks the sequence on the connection, and holds up
// no other caller meanwhile.
func (h *handles) take(ctx context.Context, d *Driver, conn apptx.Runner) (int64, error) {
	epoch := d.fleet.Member().Epoch
	for {
		if handle, is := h.taken(epoch); is {
			return handle, nil
		}
		var first int64
		if err := conn.QueryRow(ctx, d.in("SELECT pg_catalog.nextval('{{s}}."+h.sequence+"')")).Scan(&first); err != nil {
			return 0, meaning(err)
		}
		h.follow(epoch, first)
	}
}

func (h *handles) taken(epoch int64) (handle int64, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == h.end || h.epoch != epoch {
		return 0, false
	}
	h.next++
	return h.next - 1, true
}

// follow goes on with another block, unless another caller has got one meanwhile.
func (h *handles) follow(epoch, first int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch != epoch || h.next == h.end && first >= h.end {
		h.next, h.end, h.epoch = first, first+blockOfHandles, epoch
	}
}
