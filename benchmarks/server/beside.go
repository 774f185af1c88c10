package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// beside is Atomic beside so many receipts. The first is made by a request, and fill makes the others like it.
func beside(ctx context.Context, h http.Handler, rows int, fill func() error) (contender, func(), error) {
	s := httptest.NewServer(h)
	one := contender{name: fmt.Sprintf("beside %d", rows), url: s.URL}
	err := newClient(1).ask(ctx, one, "00000000-0000-4000-9000-000000000000")
	if err == nil && rows > 1 {
		fmt.Fprintf(os.Stderr, "\r\x1b[Kfilling in %d receipts", rows)
		err = fill()
	}
	if err != nil {
		s.Close()
	}
	return one, s.Close, err
}

// The receipts that are filled in have other keys than their sums say. No request asks for them.

func fillSQLite(ctx context.Context, path string, rows int) error {
	// The keys are random, so each goes to another index page.
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)&_pragma=synchronous(OFF)&_pragma=cache_size(-1000000)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // with one cache
	for from := 2; from <= rows; from += 100_000 {
		to := min(from+99_999, rows)
		statement := `WITH RECURSIVE numbers(value) AS (SELECT ?1 UNION ALL SELECT value + 1 FROM numbers WHERE value < ?2)
			INSERT INTO onceward_receipts SELECT n.value, r.scope, lower(hex(randomblob(18))), r.place, r.state, r.ends_at, r.facts, r.answer, r.body FROM numbers n, onceward_receipts r WHERE r.handle = 1`
		if _, err := db.ExecContext(ctx, statement, from, to); err != nil {
			return err
		}
	}
	return nil
}

func fillPostgres(ctx context.Context, pool *pgxpool.Pool, schema string, rows int) error {
	table := pgx.Identifier{schema, "receipts"}.Sanitize()
	for from := 2; from <= rows; from += 1_000_000 { // in the index's order: its pages are written once for each million
		_, err := pool.Exec(ctx, fmt.Sprintf(`INSERT INTO %[1]s (handle, identity, written_in, scope, key, place, state, ends_at, facts, answer, body)
			SELECT (1::bigint << 50) + n, decode(md5(random()::text) || md5(random()::text), 'hex') AS random, written_in, scope, key, place, state, ends_at, facts, answer, body
			FROM (SELECT * FROM %[1]s ORDER BY handle LIMIT 1) r, generate_series(%[2]d, %[3]d) n ORDER BY random`, table, from, min(from+999_999, rows)))
		if err != nil {
			return err
		}
	}
	_, err := pool.Exec(ctx, "VACUUM ANALYZE "+table)
	if err == nil {
		_, err = pool.Exec(ctx, "CHECKPOINT") // else it is done beside the requests
	}
	return err
}
