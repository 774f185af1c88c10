package fleet

// A role needs all privileges on the tables. The sequences give handles.
var (
	tables    = []string{"sessions", "lanes", "operations", "names", "requests", "answers", "marks", "heard", "flows", "flow_steps", "receipts", "heads", "bookmarks"}
	sequences = []string{"handles", "receipt_handles", "flow_handles"}
)

const (
	// foldLanes keeps the clock of lanes that are not used any more in one row. A lane without a process has a margin only.
	foldLanes = `WITH gone AS (DELETE FROM {{s}}.lanes WHERE process IN (SELECT id FROM {{s}}.sessions WHERE buried_at < clock_timestamp() - interval '24 hours') OR process <> '' AND process NOT IN (SELECT id FROM {{s}}.sessions)
			RETURNING seq, last_at, jumped_at, least_margin, ahead_at)
		INSERT INTO {{s}}.lanes AS l (process, lane, seq, last_at, jumped_at, least_margin, ahead_at)
		SELECT '', 0, max(seq), max(last_at), (array_agg(jumped_at ORDER BY seq DESC))[1], coalesce(min(nullif(least_margin, 0)), 0), max(ahead_at) FROM gone HAVING count(*) > 0
		ON CONFLICT (process, lane) DO UPDATE SET seq = greatest(l.seq, excluded.seq), last_at = greatest(l.last_at, excluded.last_at),
			ahead_at = greatest(l.ahead_at, excluded.ahead_at), jumped_at = CASE WHEN excluded.seq > l.seq THEN excluded.jumped_at ELSE l.jumped_at END,
			least_margin = coalesce(least(nullif(l.least_margin, 0), nullif(excluded.least_margin, 0)), 0)`
	// removeDead removes sessions of the dead that no row names any more.
	removeDead = `DELETE FROM {{s}}.sessions d WHERE buried_at < clock_timestamp() - interval '24 hours'
		AND NOT EXISTS (SELECT 1 FROM {{s}}.operations WHERE holder = d.id) AND NOT EXISTS (SELECT 1 FROM {{s}}.lanes WHERE process = d.id)`
	// cutHandles raises a sequence above all handles that a copy can have given.
	cutHandles = "SELECT pg_catalog.setval('{{s}}.{{q}}'::pg_catalog.regclass, greatest((SELECT (epoch << 40) + 1 FROM {{s}}.journal), (SELECT last_value FROM {{s}}.{{q}}) + 1024), false)"
)
