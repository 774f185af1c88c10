package rows

import (
	"context"

	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
)

// handles are taken from a sequence, whose increment is leased.BlockOfHandles.
type handles struct {
	leased.Handles
	sequence string
}

// take returns a handle. It asks the sequence on the connection.
func (h *handles) take(ctx context.Context, d *Driver, conn apptx.Runner) (int64, error) {
	return h.Take(d.Member().Epoch, func() (first int64, err error) {
		err = conn.QueryRow(ctx, d.in("SELECT pg_catalog.nextval('{{s}}."+h.sequence+"')")).Scan(&first)
		return first, meaning(err)
	})
}
