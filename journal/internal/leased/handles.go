package leased

import "sync"

// BlockOfHandles is how many handles the database gives out at once.
const BlockOfHandles = 1024

// Handles are taken from the database in blocks, which are lost with their process. The zero value has none.
type Handles struct {
	mu        sync.Mutex
	next, end int64
	epoch     int64 // of the block. An adoption leaves out what was given before
}

// Take returns a handle, higher than all that it has returned in the epoch. block gets the first handle of another block,
// and holds up no other caller meanwhile.
func (h *Handles) Take(epoch int64, block func() (first int64, err error)) (int64, error) {
	for {
		if handle, is := h.taken(epoch); is {
			return handle, nil
		}
		first, err := block()
		if err != nil {
			return 0, err
		}
		h.follow(epoch, first)
	}
}

func (h *Handles) taken(epoch int64) (handle int64, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == h.end || h.epoch != epoch {
		return 0, false
	}
	h.next++
	return h.next - 1, true
}

// follow goes on with another block, unless another caller has got one meanwhile.
func (h *Handles) follow(epoch, first int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch != epoch || h.next == h.end && first >= h.end {
		h.next, h.end, h.epoch = first, first+BlockOfHandles, epoch
	}
}
