package reader

import (
	"context"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// counts counts the operations that are not over, by their indices. Handles count the begun operations, in each epoch
// from its beginning.
const counts = `SELECT
	(SELECT count(*) FROM {{schema}}.operations WHERE state = 1),
	(SELECT count(*) FROM {{schema}}.operations WHERE state = 2),
	(SELECT count(*) FROM {{schema}}.operations WHERE state = 4),
	(SELECT count(*) FROM {{schema}}.operations WHERE state = 5),
	(SELECT count(*) FROM {{schema}}.operations WHERE state = 1 AND wake_at BETWEEN -$1::bigint AND $1),
	(SELECT count(*) FROM {{schema}}.operations WHERE wake_at = 0 AND state <> 4)
		+ (SELECT count(*) FROM {{schema}}.operations WHERE state = 4 AND (wake_at IS NULL OR wake_at <= settled_at OR wake_at <= $2))
		+ (SELECT count(*) FROM {{schema}}.operations WHERE state = 1 AND wake_at <= $3)
		+ (SELECT count(*) FROM {{schema}}.operations WHERE state = 2 AND wake_at <= $2)
		+ (SELECT count(*) FROM {{schema}}.flows WHERE state = 2 AND due_at <= $2),
	(SELECT min(settled_at) FROM {{schema}}.operations WHERE state = 4),
	u.n, u.earliest,
	(SELECT count(*) FROM {{schema}}.sessions WHERE id <> process AND buried_at IS NULL),
	(SELECT greatest(last_at, (SELECT coalesce(max(last_at), 0) FROM {{schema}}.lanes)) FROM {{schema}}.journal),
	(SELECT restored FROM {{schema}}.journal),
	(SELECT CASE WHEN is_called THEN last_value - (last_value >> 40 << 40) ELSE 0 END FROM {{schema}}.handles),
	(SELECT count(*) FROM {{schema}}.flows WHERE state = 1),
	(SELECT count(*) FROM {{schema}}.flows WHERE state = 2),
	(SELECT count(*) FROM {{schema}}.flows WHERE state = 5),
	(SELECT coalesce(max(handle), 0) FROM {{schema}}.flows)
	FROM (SELECT count(*) AS n, min(settled_at) AS earliest FROM {{schema}}.operations
		WHERE state > 2 AND NOT delivered AND (state <> 4 OR wake_at IS NULL OR wake_at <= settled_at)) u`

// Stats returns the Stats at that time by the database's clock, as far as the tables record them. A damaged operation
// is counted, but has no age.
func (read Reader) Stats(ctx context.Context, now time.Time) (journal.Stats, error) {
	var s journal.Stats
	var unknown, undelivered *int64
	var last int64
	var restored *string
	err := read(ctx, func(row record.Scanner) error {
		return row.Scan(&s.Pending, &s.InFlight, &s.Unknown, &s.Cancelled, &s.Due, &s.NeedsAttention, &unknown, &s.Undelivered, &undelivered,
			&s.Sessions, &last, &restored, &s.Begun, &s.FlowsRunning, &s.FlowsWaiting, &s.FlowsSetAside, &s.FlowsBegun)
	}, counts, now.UnixMilli(), now.Add(-journal.AttentionAfter).UnixMilli(), now.Add(-journal.PendingAttentionAfter).UnixMilli())
	if err != nil {
		return journal.Stats{}, err
	}
	s.OldestUnknown, s.OldestUndelivered = record.TimeOf(unknown), record.TimeOf(undelivered)
	if last > 0 {
		s.Last = time.UnixMilli(last).UTC()
	}
	if restored != nil {
		s.Restored = *restored
	}
	for after, sought := int64(0), true; sought && err == nil; {
		sought = false
		err = read(ctx, func(row record.Scanner) error {
			r, err := record.Scan(record.KeepFirst(row, &after))
			if sought = record.IsDamaged(err); sought {
				return nil
			}
			if err == nil {
				s.OldestPending = r.Op.CreatedAt
			}
			return err
		}, "SELECT "+record.Columns+" FROM (SELECT * FROM {{schema}}.operations o WHERE o.state = 1 AND o.handle > $1 ORDER BY o.handle LIMIT 1) o"+record.Besides, after)
	}
	if err == nil && s.FlowsSetAside+s.FlowsRunning > 0 {
		err = read(ctx, func(row record.Scanner) error {
			f, err := record.ScanFlow(row)
			if record.IsDamaged(err) {
				return nil
			}
			if f.State == journal.FlowStateSetAside {
				s.OldestSetAside = store.Earlier(s.OldestSetAside, f.UpdatedAt)
			}
			if f.NeedsAttention(now) != "" {
				s.NeedsAttention++
			}
			return err
		}, record.SelectFlow+" WHERE state = 5 OR state = 1")
	}
	if err != nil {
		return journal.Stats{}, err
	}
	return s, nil
}
