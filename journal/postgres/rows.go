package postgres

import (
	"fmt"

	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// ofThese is the condition that an operation o is of the providers $1, or of any if that is NULL.
const ofThese = ` AND ($1::bytea[] IS NULL OR o.provider = ANY($1))`

// providers are those of Event.From as a parameter, nil for all.
func providers(from []string) [][]byte {
	if from == nil {
		return nil
	}
	list := make([][]byte, 0, len(from))
	for _, name := range from {
		list = append(list, []byte(name))
	}
	return list
}

// readRow is an operation that was read, or why it could not be.
type readRow struct {
	row *record.Row
	err error
}

// wholeOfThese selects operations whole, the first of them as far as their bodies are that large together, and one at least.
const wholeOfThese = `SELECT ` + record.Columns + `, o.request_body, o.answer, o.answer_body FROM (
		SELECT o.*, r.head AS request, r.body AS request_body, a.head AS answer, a.body AS answer_body,
			sum(coalesce(octet_length(r.body), 0) + coalesce(octet_length(a.body), 0)) OVER (ORDER BY h.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
		FROM pg_catalog.unnest($1::bigint[]) WITH ORDINALITY h (handle, n) CROSS JOIN LATERAL (SELECT * FROM {{schema}}.operations WHERE handle = h.handle OFFSET 0) o` + record.Besides + `) o
	CROSS JOIN LATERAL (SELECT o.request AS head) r WHERE coalesce(o.before, 0) < $2`

// whole reads operations that are locked, in that order; nil for one that is gone. It reads the first of them, as many as are
// had in memory and sent in one transaction: rows are those.
func (t *tx) whole(handles []int64) (rows []readRow, err error) {
	if len(handles) == 0 {
		return nil, nil
	}
	read := make(map[int64]readRow, len(handles))
	err = t.each(func(from record.Scanner) error {
		var handle int64
		r, err := record.ScanWhole(record.KeepFirst(from, &handle))
		if err != nil && !record.IsDamaged(err) {
			return err
		}
		read[handle] = readRow{r, err}
		return nil
	}, wholeOfThese, handles, t.j.readBytes)
	if err != nil {
		return nil, err
	}
	n := len(handles)
	for n > 0 && len(read) > 0 {
		if _, there := read[handles[n-1]]; there {
			break
		}
		n--
	}
	for _, handle := range handles[:n] {
		rows = append(rows, read[handle])
	}
	return rows, nil
}

// deadHolders selects the sessions that hold rows of that table and are not alive, by an index of holders.
const deadHolders = `WITH RECURSIVE h (id) AS (
		SELECT min(holder) FROM {{schema}}.%[1]s WHERE holder IS NOT NULL
		UNION ALL SELECT (SELECT min(holder) FROM {{schema}}.%[1]s WHERE holder > h.id) FROM h WHERE h.id IS NOT NULL)
	SELECT h.id FROM h WHERE h.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {{schema}}.sessions s WHERE s.id = h.id AND s.buried_at IS NULL)`

// deadHolders are the sessions that hold rows of that table and are not alive.
func (t *tx) deadHolders(table string) (dead []string, err error) {
	err = t.each(func(row record.Scanner) error {
		var id string
		err := row.Scan(&id)
		dead = append(dead, id)
		return err
	}, fmt.Sprintf(deadHolders, table))
	return dead, err
}
