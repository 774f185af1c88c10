package connection

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Evict ends connections of this role that hold rows of a table for too long, and returns once lock, a statement that
// locks the rows, has got them. Each of the connections waits for a client that is gone or stopped. A stopped client finds
// out the result of its commit once it goes on. Evict calls told with how many it has ended.
func (d *Dialer) Evict(ctx, background context.Context, table string, told func(ended int), lock string, args ...any) {
	watcher, err := d.Connect(ctx, new(Notices)) // a check of the database may be waiting for this
	if err != nil {
		return
	}
	defer HangUp(watcher)
	waiter, err := d.Connect(ctx, new(Notices))
	if err != nil {
		return
	}
	defer HangUp(waiter)
	waits := make(chan error, 1)
	go func() {
		waits <- Alone(ctx, background, waiter, func(b *pgx.Batch) {
			b.Queue(lock, args...)
		})
	}()
	for {
		var ended int
		// By what it waits for: behind a pooler, which connection is whose changes from one transaction to the next.
		err := watcher.QueryRow(ctx, "SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity a WHERE a.usename = current_user "+
			"AND a.state_change < clock_timestamp() - interval '500 ms' AND a.pid IN (SELECT pg_catalog.unnest(pg_blocking_pids(w.pid)) FROM pg_stat_activity w "+
			"WHERE w.usename = current_user AND w.wait_event_type = 'Lock' AND w.query LIKE '%' || $1 || '%')", table).Scan(&ended)
		if err == nil && ended > 0 {
			told(ended)
		}
		select {
		case <-waits:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}
