package fence

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/dbclock"
)

// SQL holds the statements on rows of lanes, for a schema.
type SQL struct{ guard, guardBlindly, raise, add, rotate string }

// NewSQL returns the statements for a schema by its quoted name.
func NewSQL(s string) SQL {
	guard := "WITH g AS (UPDATE " + s + ".lanes SET batch = $3, last_at = greatest(last_at, $6), " +
		"least_margin = CASE WHEN $7::bigint = 0 THEN least_margin WHEN least_margin = 0 THEN $7 ELSE least(least_margin, $7) END " +
		"WHERE process = $1 AND lane = $2 AND batch = $3 - 1 AND tenure = $4 AND {{place}} " +
		"AND EXISTS (SELECT 1 FROM " + s + ".sessions WHERE id = $1 AND epoch = $5 AND buried_at IS NULL) " +
		"AND (SELECT count(*) FROM " + s + ".sessions WHERE id = ANY($8) AND epoch = $5 AND buried_at IS NULL AND expires_at > clock_timestamp()) = pg_catalog.cardinality($8) " +
		// If commits begin to wait for a standby, the client first checks that notices reach it.
		"AND ($11 OR coalesce(current_setting('synchronous_standby_names', true), '') = '') " +
		"AND " + connection.SoundSettings("$9") + " RETURNING 1) SELECT 1 / count(*), clock_timestamp() FROM g"
	return SQL{
		guard: strings.Replace(guard, "{{place}}", check.StartSQL+" = $10::timestamptz", 1),
		// If the server can't report its start, only each beat checks whether it is the same.
		guardBlindly: strings.Replace(guard, "{{place}}", "$10::timestamptz IS NULL", 1),
		raise:        "UPDATE " + s + ".lanes SET tenure = tenure + 1 WHERE process = $1 AND lane = $2 RETURNING batch, tenure",
		add:          "INSERT INTO " + s + ".lanes (process, lane) VALUES ($1, $2) ON CONFLICT (process, lane) DO UPDATE SET tenure = lanes.tenure + 1 RETURNING batch, tenure",
		// The lane's view of the time goes along. A row that lacks batches stays, for the guard to report.
		rotate: "WITH o AS (DELETE FROM " + s + ".lanes WHERE process = $1 AND lane = $2 AND batch = $4 RETURNING tenure, last_at, least_margin) " +
			"INSERT INTO " + s + ".lanes (process, lane, tenure, last_at, least_margin) SELECT $1, $3, tenure, last_at, least_margin FROM o RETURNING batch, tenure",
	}
}

func scan(r pgx.Row, s *leased.RowState) error { return r.Scan(&s.Batch, &s.Tenure) }

// Add queues the statement that makes the row of a member's lane, or takes it over.
func (s *SQL) Add(b *pgx.Batch, m *leased.Member, number int, made *leased.RowState) {
	b.Queue(s.add, m.ID, number).QueryRow(func(r pgx.Row) error { return scan(r, made) })
}

// Guard says what a transaction needs beside its lane's row.
type Guard struct {
	Clock   store.Clock // goes along in the row
	Needs   []string    // sessions that have to be alive
	Unsafe  bool        // the server's disk need not be durable
	Started *time.Time  // when the checked server was started; nil if it does not report that
	Looked  bool        // notices reach the client, so commits may wait for a standby
}

// Guard queues the guard of the row's next batch. It divides by zero if it refuses. Else it returns one row: 1, and the
// database's time.
func (s *SQL) Guard(b *pgx.Batch, r *leased.Row, g Guard) {
	if g.Needs == nil {
		g.Needs = []string{}
	}
	sql := s.guard
	if g.Started == nil {
		sql = s.guardBlindly
	}
	b.Queue(sql, r.Member.ID, r.Number, r.Batch+1, r.Tenure, r.Member.Epoch, dbclock.Millis(g.Clock.Last), int64(g.Clock.LeastMargin), g.Needs, g.Unsafe, g.Started, g.Looked)
}

// Raise queues the statement that raises the tenure of the row. found is set if the row is there.
func (s *SQL) Raise(b *pgx.Batch, r *leased.Row, found *bool, is *leased.RowState) {
	b.Queue(s.raise, r.Member.ID, r.Number).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			*found = true
			if err := scan(rows, is); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// Rotate queues the statement that replaces the row by the one with the next number. It returns no row if the row lacks
// batches.
func (s *SQL) Rotate(b *pgx.Batch, r *leased.Row, made *leased.RowState) {
	b.Queue(s.rotate, r.Member.ID, r.Number, r.Next(), r.Batch).QueryRow(func(r pgx.Row) error { return scan(r, made) })
}
