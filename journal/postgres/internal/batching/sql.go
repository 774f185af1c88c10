package batching

import (
	"strings"
)

// SQL holds the statements that write rows of operations, for a schema.
type SQL struct {
	Insert, insertMarked, Update, updateMarked, lockObject, answer string
	insertNew, insertNamed, followRows                             string // for many rows
}

// NewSQL returns the statements for a schema by its quoted name.
func NewSQL(s string) SQL {
	update := "UPDATE " + s + ".operations SET provider = $4, state = $5, holder = $6, wake_at = $7, settled_at = $8, delivered = $9, tombstone = $10, facts = $11, alias = $12, " +
		"revision = revision + 1 WHERE handle = $1 AND revision = $2 AND identity IS NOT DISTINCT FROM $3 RETURNING handle"
	in := func(sql string) string { return strings.ReplaceAll(sql, "{{schema}}", s) }
	return SQL{
		insertNew: in(insertNew), insertNamed: in(insertNamed), followRows: in(followRows),
		Insert: "WITH o AS (INSERT INTO " + s + ".operations (identity, alias, scope, parent, id, naming, provider, state, holder, wake_at, settled_at, delivered, tombstone, facts) " +
			"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING RETURNING handle) " +
			"INSERT INTO " + s + ".requests (handle, head, body) SELECT handle, $15::bytea, $16::bytea FROM o RETURNING handle",
		insertMarked: "WITH o AS (INSERT INTO " + s + ".operations (identity, alias, scope, parent, id, naming, provider, state, holder, wake_at, settled_at, delivered, tombstone, facts) " +
			"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING RETURNING handle), " +
			"m AS (INSERT INTO " + s + ".marks (hash, handle) SELECT pg_catalog.unnest($17::bigint[]), handle FROM o ON CONFLICT DO NOTHING) " +
			"INSERT INTO " + s + ".requests (handle, head, body) SELECT handle, $15::bytea, $16::bytea FROM o RETURNING handle",
		Update: update,
		// An object of $17, if any, must not be another operation's: callers for it queue (lockObject).
		updateMarked: "WITH o AS (" + strings.Replace(update, " RETURNING", " AND NOT EXISTS (SELECT 1 FROM "+s+".marks WHERE hash = $17::bigint AND handle <> $1) RETURNING", 1) + "), " +
			"a AS (INSERT INTO " + s + ".answers (handle, head, body) SELECT handle, $13::bytea, $14::bytea FROM o WHERE $13::bytea IS NOT NULL " +
			"ON CONFLICT (handle) DO UPDATE SET head = excluded.head, body = excluded.body), " +
			"m AS (INSERT INTO " + s + ".marks (hash, handle) SELECT pg_catalog.unnest($15::bigint[]), handle FROM o ON CONFLICT DO NOTHING), " +
			"d AS (DELETE FROM " + s + ".marks WHERE hash = ANY($16::bigint[]) AND handle IN (SELECT handle FROM o)) SELECT handle FROM o",
		lockObject: "INSERT INTO " + s + ".marks (hash, handle) VALUES ($1, 0) ON CONFLICT (hash, handle) DO UPDATE SET handle = 0",
		answer: "WITH o AS (" + update + ") INSERT INTO " + s + ".answers (handle, head, body) SELECT handle, $13::bytea, $14::bytea FROM o " +
			"ON CONFLICT (handle) DO UPDATE SET head = excluded.head, body = excluded.body RETURNING handle",
	}
}
