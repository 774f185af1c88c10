package known

import (
	"sync"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// Held has the rows of the operations that this process holds, so that it decides their events without a query. A row
// is valid only for the process identity that saw it. After a database has gone back and was adopted, another row may
// have the same handle and revision.
type Held struct {
	mu   sync.Mutex
	rows map[int64]HeldRow
}

// HeldRow is a row with this process as it wrote or read it.
type HeldRow struct {
	*record.Row
	Seen *leased.Member
}

const maxHeld = 16384

// Get returns the row of that operation, or none.
func (h *Held) Get(handle int64) HeldRow {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rows[handle]
}

// Keep remembers the operation as it was written, while a session of this process holds it.
func (h *Held) Keep(r *record.Row, seen *leased.Member, mine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !mine || r.Op.Holder == "" {
		delete(h.rows, r.Op.Handle)
		return
	}
	if was := h.rows[r.Op.Handle]; was.Row != nil && was.Revision > r.Revision {
		return
	}
	if h.rows == nil || len(h.rows) >= maxHeld {
		h.rows = make(map[int64]HeldRow)
	}
	kept := *r
	kept.Op.Request, kept.Op.Answer = journal.Request{}, nil
	h.rows[r.Op.Handle] = HeldRow{&kept, seen}
}

// Forget drops the row of that operation.
func (h *Held) Forget(handle int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rows, handle)
}
