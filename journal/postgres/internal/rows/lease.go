package rows

import (
	"context"
	"time"

	"github.com/onceward/onceward/journal"
)

// A process that has a lease does some work for all processes, until it ends or uses the lease no more. A lease that ends
// later than any that is taken now is of a clock that was set back.
const takeLease = `INSERT INTO {{s}}.leases AS l (name, session, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval)
	ON CONFLICT (name) DO UPDATE SET session = excluded.session, expires_at = excluded.expires_at
	WHERE l.session = excluded.session OR l.expires_at <= clock_timestamp() OR l.expires_at > clock_timestamp() + interval '2 minutes'
		OR NOT EXISTS (SELECT 1 FROM {{s}}.sessions WHERE id = l.session AND buried_at IS NULL)`

// leaseFor is how long a lease lasts without another use.
const leaseFor = 30 * time.Second

// Lease takes a lease for this process, and reports whether it has it.
func (d *Driver) Lease(ctx context.Context, name string) (bool, error) {
	tag, err := d.pool.Exec(ctx, d.in(takeLease), name, d.fleet.Member().ID, leaseFor)
	if err != nil && d.background.Err() != nil {
		return false, journal.ErrClosed
	}
	return tag.RowsAffected() == 1, meaning(err)
}
