package batching

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Writes of a batch that are alike and stand side by side are one statement. More than a third of the server's cost
// of a row is the beginning and the end of its statement. If such a statement fails, the batch goes again with a
// statement for each write, which shows the one that failed.

// Likeness says which writes can be one statement.
type Likeness uint8

const (
	LikeNone     Likeness = iota // it is a statement by itself
	LikeNew                      // new, and in no other's way: it has no name that an index holds
	LikeNamed                    // new, and its name may be taken
	LikeFollowed                 // a row that follows another; one that is given an answer had none
)

// fewTogether is the least number of writes in one statement for several, which takes longer to begin and to end.
// Fewer writes are a statement each.
const fewTogether = 10

// togetherBytes bounds the bodies in one statement, which the server keeps in memory several times.
const togetherBytes = 512 << 10

// Part is some writes of a batch, one after another, that one statement makes.
type Part struct {
	First  int // the index of the first of them in the batch
	writes []*Write
	like   Likeness
}

// Together reports whether one statement makes several writes.
func (p Part) Together() bool { return len(p.writes) > 1 }

// Parts cuts a batch into parts, in its order. If apart is set, each write is a part.
func Parts(batch []*Write, apart bool) (all []Part) {
	for _, p := range runs(batch, apart) {
		if n := len(p.writes); n > 1 && n < fewTogether {
			for i := range n {
				all = append(all, Part{First: p.First + i, writes: p.writes[i : i+1], like: p.like})
			}
			continue
		}
		all = append(all, p)
	}
	return all
}

// runs returns the parts of a batch, however small.
func runs(batch []*Write, apart bool) (all []Part) {
	bytes := 0
	for i, w := range batch {
		size := len(w.Stored.RequestBody) + len(w.Stored.AnswerBody)
		if n := len(all); n > 0 && !apart && w.Like != LikeNone && all[n-1].like == w.Like && bytes+size <= togetherBytes {
			last := all[n-1].writes
			// Of one row, a statement makes one version.
			if before := last[len(last)-1].Before; before == nil || before.Op.Handle != w.Before.Op.Handle {
				all[n-1].writes = batch[all[n-1].First : i+1]
				bytes += size
				continue
			}
		}
		bytes = size
		all = append(all, Part{First: i, writes: batch[i : i+1], like: w.Like})
	}
	return all
}

// The arguments are in the order of record.InsertArgs and record.UpdateArgs.
const (
	newColumns = `identity, alias, scope, parent, id, naming, provider, state, holder, wake_at, settled_at, delivered, tombstone, facts`
	// nextval here gives handles in the order of the writes.
	newRows = `WITH n AS MATERIALIZED (SELECT pg_catalog.nextval('{{schema}}.handles'::pg_catalog.regclass) AS handle, u.* FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::smallint[],
			$7::bytea[], $8::smallint[], $9::text[], $10::bigint[], $11::bigint[], $12::boolean[], $13::boolean[], $14::bytea[], $15::bytea[], $16::bytea[])
			AS u (` + newColumns + `, head, body)),
		o AS (INSERT INTO {{schema}}.operations (handle, ` + newColumns + `) SELECT handle, ` + newColumns + ` FROM n`
	insertNew   = newRows + `) INSERT INTO {{schema}}.requests (handle, head, body) SELECT handle, head, body FROM n RETURNING handle`
	insertNamed = newRows + ` ON CONFLICT DO NOTHING RETURNING handle),
		r AS (INSERT INTO {{schema}}.requests (handle, head, body) SELECT n.handle, n.head, n.body FROM n JOIN o ON o.handle = n.handle)
		SELECT coalesce(o.handle, 0) FROM n LEFT JOIN o ON o.handle = n.handle ORDER BY n.handle`
	// The rows are found by their handles, whatever the server knows of the table's size (see connection.TogetherSettings).
	followRows = `WITH o AS (UPDATE {{schema}}.operations o SET provider = n.provider, state = n.state, holder = n.holder, wake_at = n.wake_at, settled_at = n.settled_at,
			delivered = n.delivered, tombstone = n.tombstone, facts = n.facts, alias = n.alias, revision = o.revision + 1
			FROM unnest($1::bigint[], $2::int[], $3::bytea[], $4::bytea[], $5::smallint[], $6::text[], $7::bigint[], $8::bigint[], $9::boolean[], $10::boolean[],
				$11::bytea[], $12::bytea[], $13::bytea[], $14::bytea[])
				AS n (handle, revision, identity, provider, state, holder, wake_at, settled_at, delivered, tombstone, facts, alias, head, body)
			WHERE o.handle = ANY($1::bigint[]) AND o.handle = n.handle AND o.revision = n.revision AND o.identity IS NOT DISTINCT FROM n.identity
			RETURNING o.handle, n.head, n.body),
		a AS (INSERT INTO {{schema}}.answers (handle, head, body) SELECT handle, head, body FROM o WHERE head IS NOT NULL)
		SELECT handle FROM o ORDER BY handle`
)

// AddTo adds the statement of the part to the pgx.Batch.
func (p Part) AddTo(b *pgx.Batch, s *SQL) {
	w := p.writes
	if !p.Together() {
		if w[0].Object != 0 {
			b.Queue(s.lockObject, w[0].Object)
		}
		sql, args := w[0].statement(s)
		b.Queue(sql, args...)
		return
	}
	var (
		identities = column(w, func(w *Write) []byte { return w.Stored.Identity })
		aliases    = column(w, func(w *Write) []byte { return w.Stored.Alias })
		providers  = column(w, func(w *Write) []byte { return []byte(w.Op.Provider) })
		states     = column(w, func(w *Write) int16 { return int16(w.Op.State) })
		holders    = orNull[string](w, func(w *Write) any { return w.Stored.Holder })
		wakes      = orNull[int64](w, func(w *Write) any { return w.Stored.WakeAt })
		settled    = orNull[int64](w, func(w *Write) any { return w.Stored.SettledAt })
		delivered  = column(w, func(w *Write) bool { return w.Op.Delivered })
		tombstones = column(w, func(w *Write) bool { return w.Op.Tombstone })
		facts      = column(w, func(w *Write) []byte { return w.Stored.Facts })
	)
	if p.like == LikeFollowed {
		b.Queue(s.followRows,
			column(w, func(w *Write) int64 { return w.Before.Op.Handle }), column(w, func(w *Write) int32 { return w.Before.Revision }),
			identities, providers, states, holders, wakes, settled, delivered, tombstones, facts, aliases,
			column(w, func(w *Write) []byte { return w.Stored.Answer }), column(w, func(w *Write) []byte { return w.Stored.AnswerBody }))
		return
	}
	sql := s.insertNew
	if p.like == LikeNamed {
		sql = s.insertNamed
	}
	b.Queue(sql, identities, aliases,
		column(w, func(w *Write) []byte { return []byte(w.Op.Scope) }), column(w, func(w *Write) []byte { return []byte(w.Op.Parent) }),
		column(w, func(w *Write) []byte { return []byte(w.Op.ID) }), column(w, func(w *Write) int16 { return int16(w.Op.Naming) }),
		providers, states, holders, wakes, settled, delivered, tombstones, facts,
		column(w, func(w *Write) []byte { return w.Stored.Request }), column(w, func(w *Write) []byte { return w.Stored.RequestBody }))
}

// column has one argument of each write.
func column[T any](writes []*Write, of func(*Write) T) []T {
	all := make([]T, len(writes))
	for i, w := range writes {
		all[i] = of(w)
	}
	return all
}

// orNull is column for one that may be nil.
func orNull[T any](writes []*Write, of func(*Write) any) []*T {
	all := make([]*T, len(writes))
	values := make([]T, len(writes))
	for i, w := range writes {
		if v, ok := of(w).(T); ok {
			values[i] = v
			all[i] = &values[i]
		}
	}
	return all
}

// Read gives each write of the part the handle that the server gave back, 0 where its row was another.
func (p Part) Read(results pgx.BatchResults) error {
	for _, w := range p.writes {
		w.Handle = 0
	}
	if !p.Together() {
		w := p.writes[0]
		if w.Object != 0 {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		if err := results.QueryRow().Scan(&w.Handle); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return nil
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	next := 0
	for rows.Next() {
		var handle int64
		if err := rows.Scan(&handle); err != nil {
			return err
		}
		if p.like == LikeFollowed {
			for next < len(p.writes) && p.writes[next].Before.Op.Handle != handle {
				next++
			}
		}
		if next == len(p.writes) {
			return fmt.Errorf("postgres: a statement for %d operations gave back handle %d", len(p.writes), handle)
		}
		p.writes[next].Handle = handle
		next++
	}
	return rows.Err()
}
