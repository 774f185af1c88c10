package rows

import (
	"context"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/leased"
)

// handles are taken from a row.
type handles struct {
	leased.Handles
	name string
}

// take returns a handle. A block is taken in a transaction of its own.
func (h *handles) take(ctx context.Context, d *Driver) (int64, error) {
	return h.Take(d.Member().Epoch, func() (first int64, err error) {
		p := d.primary()
		p.queue(nil, "UPDATE {{s}}.handles SET next = LAST_INSERT_ID(next) + ? WHERE name = ?", leased.BlockOfHandles, h.name)
		p.queue(columns.One(&first), "SELECT LAST_INSERT_ID()")
		err = meaning(d.beside(ctx, p))
		return first, err
	})
}
