package rows

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/postgres/internal/fleet"
)

// ForTest returns this process's part in the leases, the readers' connections, and the schema's quoted name.
func (d *Driver) ForTest() (*fleet.Fleet, *pgxpool.Pool, string) { return d.fleet, d.pool, d.schema }

// RotateAfter makes lanes take another row after that many commits. It is for tests.
func (d *Driver) RotateAfter(commits int) { d.rotateAfter = commits }
