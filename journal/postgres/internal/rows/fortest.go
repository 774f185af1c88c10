package rows

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/internal/fleet"
)

// ForTest returns the process's part in the leases, the readers' connections, the schema's quoted name, and a context
// that ends once the driver stops waiting for the server.
func (d *Driver) ForTest() (*fleet.Fleet, *pgxpool.Pool, string, context.Context) {
	return d.Fleet, d.pool, d.schema, d.Background()
}
