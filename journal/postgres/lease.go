package postgres

import (
	"time"
)

// A process that has a lease does some work for all processes: it reaps, or it sweeps.
const (
	takeLease = `INSERT INTO {{schema}}.leases (name, session, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (name) DO UPDATE SET session = excluded.session, expires_at = excluded.expires_at
		WHERE leases.session = excluded.session OR leases.expires_at <= clock_timestamp() OR leases.expires_at > clock_timestamp() + interval '2 minutes'`
	endLease = `DELETE FROM {{schema}}.leases WHERE name = $1 AND session = $2`
)

// leaseFor is how long a lease lasts without another use.
const leaseFor = 30 * time.Second

// The names of the leases.
const (
	reapLease  = "reap"
	sweepLease = "sweep"
)

// reapBatch is how many operations, or flows, are reaped in one commit, so that others commit in between.
const reapBatch = 100
