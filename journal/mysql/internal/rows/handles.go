package rows

import (
	"context"
	"sync"
)

// handles are taken from a row in blocks, which are lost with their process.
type handles struct {
	name      string
	mu        sync.Mutex
	next, end int64
	epoch     int64 // of the block. An adoption leaves out what was given before
}

// blockOfHandles is how many handles a block has.
const blockOfHandles = 1024

// take returns a handle, higher than those that it has returned. A block is taken in a transaction of its own, and holds up no
// other caller meanwhile.
func (h *handles) take(ctx context.Context, d *Driver) (int64, error) {
	epoch := d.member.Load().Epoch
	for {
		if handle, is := h.taken(epoch); is {
			return handle, nil
		}
		result, err := d.side.ExecContext(ctx, render(d.in("UPDATE {{s}}.handles SET next = LAST_INSERT_ID(next) + ? WHERE name = ?"), true, []any{blockOfHandles, h.name}))
		if err != nil {
			return 0, meaning(err)
		}
		first, err := result.LastInsertId()
		if err != nil {
			return 0, err
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
