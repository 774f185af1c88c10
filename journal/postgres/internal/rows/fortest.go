package rows

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/postgres/internal/fleet"
)

// ForTest returns the process's part in the leases, the readers' connections, the schema's quoted name, and a context
// that ends once the driver stops waiting for the server.
func (d *Driver) ForTest() (*fleet.Fleet, *pgxpool.Pool, string, context.Context) {
	return d.fleet, d.pool, d.schema, d.background
}

// CommitIn gives transactions that much time. It is for tests.
func (d *Driver) CommitIn(most time.Duration) { d.opts.Time = most }
