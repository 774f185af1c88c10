package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/connection"
)

// evict ends connections of this role that hold lanes' rows for too long. Each waits for a client that is gone or
// stopped. A stopped client finds out the result of its commit once it goes on.
func (j *Journal) evict(ctx context.Context, where string, args ...any) {
	watcher, err := j.dialer.Connect(ctx, new(connection.Notices)) // a check of the database may be waiting for this
	if err != nil {
		return
	}
	defer watcher.Close(context.WithoutCancel(ctx))
	waiter, err := j.dialer.Connect(ctx, new(connection.Notices))
	if err != nil {
		return
	}
	defer waiter.Close(context.WithoutCancel(ctx))
	waits := make(chan error, 1)
	go func() {
		waits <- connection.Alone(ctx, j.background, waiter, func(b *pgx.Batch) {
			b.Queue("SELECT 1 FROM "+j.schema+".lanes WHERE "+where+" ORDER BY process, lane FOR UPDATE", args...)
		})
	}()
	for {
		var ended int
		// By what it waits for: behind a pooler, which connection is whose changes from one transaction to the next.
		err := watcher.QueryRow(ctx, "SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity a WHERE a.usename = current_user "+
			"AND a.state_change < clock_timestamp() - interval '500 ms' AND a.pid IN (SELECT pg_catalog.unnest(pg_blocking_pids(w.pid)) FROM pg_stat_activity w "+
			"WHERE w.usename = current_user AND w.wait_event_type = 'Lock' AND w.query LIKE '%' || $1 || '.lanes%')", j.schema).Scan(&ended)
		if err == nil && ended > 0 {
			j.log.Warn("onceward: connections that held lanes of the journal were ended, since their client is gone or stopped", "connections", ended)
		}
		select {
		case <-waits:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}
