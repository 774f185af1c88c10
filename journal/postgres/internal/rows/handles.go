package rows

import (
	"context"
	"sync"
)

// handles are taken from a sequence in blocks, which are lost with their process.
type handles struct {
	sequence  string
	mu        sync.Mutex
	next, end int64
	epoch     int64 // of the block. An adoption leaves out what was given before
}

// blockOfHandles is the increment of the sequences.
const blockOfHandles = 256

func (h *handles) take(ctx context.Context, d *Driver) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if epoch := d.fleet.Member().Epoch; h.next == h.end || h.epoch != epoch {
		var next int64
		if err := d.pool.QueryRow(ctx, d.in("SELECT pg_catalog.nextval('{{s}}."+h.sequence+"')")).Scan(&next); err != nil {
			return 0, meaning(err)
		}
		h.next, h.end, h.epoch = next, next+blockOfHandles, epoch
	}
	h.next++
	return h.next - 1, nil
}
