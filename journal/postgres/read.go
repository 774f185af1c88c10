package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// in returns a statement with the journal's schema in the place of {{schema}}.
func (j *laneJournal) in(sql string) string { return strings.ReplaceAll(sql, "{{schema}}", j.schema) }

// readTries limits the tries of a read whose connection fails. After a restart of the server, all connections of a
// pool do.
const readTries = 5

// read calls f for each row of a statement that changes nothing, on one of the readers' connections. If the
// connection breaks before the first row, read tries again, up to readTries times.
func (j *laneJournal) read(ctx context.Context, f func(record.Scanner) error, sql string, args ...any) error {
	leave, err := j.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for try := 1; ; try++ {
		rows := 0
		err = j.query(ctx, func(row record.Scanner) error {
			rows++
			return f(row)
		}, sql, args...)
		fate := pgerr.FateOf(err)
		passes := fate == pgerr.Outage || j.opts.ReadOnly && fate == pgerr.Again // the standby's replay may be in its way
		if err == nil || rows > 0 || try == readTries || ctx.Err() != nil || isJournals(err) || !passes {
			return explain("read", err)
		}
	}
}

func (j *laneJournal) query(ctx context.Context, f func(record.Scanner) error, sql string, args ...any) error {
	if j.opts.ReadOnly {
		return pgx.BeginTxFunc(ctx, j.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			return eachOf(tx.Query(ctx, j.in(sql), args...))(f)
		})
	}
	return eachOf(j.pool.Query(ctx, j.in(sql), args...))(f)
}

// fromOperations returns the FROM clause of columns.
func (j *laneJournal) fromOperations() string {
	return " FROM " + j.schema + ".operations o LEFT JOIN " + j.schema + ".requests r ON r.handle = o.handle "
}

// eachOf returns a function that calls f for each row of a query.
func eachOf(rows pgx.Rows, err error) func(f func(record.Scanner) error) error {
	return func(f func(record.Scanner) error) error {
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := f(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// each calls f for each row of a statement. f asks nothing of the transaction.
func (t *tx) each(f func(record.Scanner) error, sql string, args ...any) error {
	return eachOf(t.conn.Query(t.ctx, t.j.in(sql), args...))(f)
}

// do runs a statement and returns the number of rows that it affected.
func (t *tx) do(sql string, args ...any) (int64, error) { return t.exec(t.j.in(sql), args...) }

// one returns the single row of a statement.
func (t *tx) one(sql string, args ...any) record.Scanner {
	return t.conn.QueryRow(t.ctx, t.j.in(sql), args...)
}

// numbers returns the rows of a statement with one column, of numbers.
func (t *tx) numbers(sql string, args ...any) (all []int64, err error) {
	err = t.each(func(row record.Scanner) error {
		var n int64
		err := row.Scan(&n)
		all = append(all, n)
		return err
	}, sql, args...)
	return all, err
}
