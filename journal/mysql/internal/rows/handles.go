package rows

import (
	"context"

	"github.com/onceward/onceward/journal/internal/leased"
)

// handles are taken from a row.
type handles struct {
	leased.Handles
	name string
}

// take returns a handle. A block is taken in a transaction of its own.
func (h *handles) take(ctx context.Context, d *Driver) (int64, error) {
	return h.Take(d.member.Load().Epoch, func() (int64, error) {
		result, err := d.side.ExecContext(ctx, render(d.in("UPDATE {{s}}.handles SET next = LAST_INSERT_ID(next) + ? WHERE name = ?"), true, []any{leased.BlockOfHandles, h.name}))
		if err != nil {
			return 0, meaning(err)
		}
		return result.LastInsertId()
	})
}
