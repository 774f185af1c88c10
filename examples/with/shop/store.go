package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/sqlite"
)

// The shop's own tables, in the journal's database. They have no unique keys, so that an effect that is made twice shows.
var tables = []string{
	"CREATE TABLE orders (id VARCHAR(200) NOT NULL, item VARCHAR(200) NOT NULL, cents INTEGER NOT NULL)",
	"CREATE TABLE bookings (event VARCHAR(200) NOT NULL, order_id VARCHAR(200) NOT NULL, cents INTEGER NOT NULL)",
	"CREATE TABLE deliveries (order_id VARCHAR(200) NOT NULL, parcel VARCHAR(200) NOT NULL)",
}

// store is a journal and the shop's tables, in one database.
type store struct {
	journal interface {
		journal.Journal
		Close() error
	}
	begin func(context.Context) (journal.Tx, error)
	pool  *sql.DB             // the application's own, on a server
	sql   func(string) string // a statement in the database's dialect
}

// questionMarks is a statement for SQLite and MySQL. Only SQLite takes numbers behind question marks.
func questionMarks(s string) string {
	for _, number := range []string{"$1", "$2", "$3"} {
		s = strings.ReplaceAll(s, number, "?")
	}
	return s
}

// openStore opens the database on a server, or else the SQLite file in the folder.
func openStore(ctx context.Context, o options) (store, error) {
	switch {
	case o.postgres != "":
		return openPostgres(ctx, o.postgres)
	case o.mysql != "":
		return openMySQL(ctx, o.mysql)
	}
	j, err := sqlite.Open(filepath.Join(o.dir, "shop.db"), sqlite.Options{})
	if err != nil {
		return store{}, err
	}
	return store{journal: j, begin: j.BeginTx, sql: questionMarks}, nil
}

func openMySQL(ctx context.Context, database string) (store, error) {
	pool, err := sql.Open("mysql", database)
	if err != nil {
		return store{}, err
	}
	j, err := mysql.Open(ctx, database, mysql.Options{Deployment: "shop", Durability: mysql.Provider}) // this example's server may lose commits with its machine
	if err != nil {
		return store{}, errors.Join(err, pool.Close())
	}
	return store{journal: j, pool: pool, sql: questionMarks, begin: mysql.Begin(pool, nil)}, nil
}

func openPostgres(ctx context.Context, database string) (store, error) {
	pool, err := sql.Open("pgx", database)
	if err != nil {
		return store{}, err
	}
	j, err := postgres.Open(ctx, database, postgres.Options{
		Deployment: "shop",
		Failover:   postgres.MayLose, // this example has one server; for money, have a synchronous standby, and leave this out
	})
	if err != nil {
		return store{}, errors.Join(err, pool.Close())
	}
	return store{journal: j, pool: pool, sql: func(s string) string { return s }, begin: func(ctx context.Context) (journal.Tx, error) {
		tx, err := pool.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		return postgres.SQL(tx), nil
	}}, nil
}

func (s store) Close() error {
	err := s.journal.Close()
	if s.pool != nil {
		err = errors.Join(err, s.pool.Close())
	}
	return err
}

// makeTables is run once, before the first process.
func makeTables(ctx context.Context, o options) (err error) {
	if o.postgres != "" {
		err = postgres.Migrate(ctx, o.postgres, "")
	} else if o.mysql != "" {
		err = mysql.Migrate(ctx, o.mysql, "")
	}
	if err != nil {
		return err
	}
	s, err := openStore(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	make := func(tx *sql.Tx) error {
		for _, table := range tables {
			if _, err := tx.ExecContext(ctx, table); err != nil {
				return err
			}
		}
		return nil
	}
	if o.mysql == "" {
		return s.inTx(ctx, make)
	}
	tx, err := s.pool.BeginTx(ctx, nil) // MySQL commits each table by itself, which journal.Tx takes for an error
	if err != nil {
		return err
	}
	return errors.Join(make(tx), tx.Commit())
}

func (s store) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after Commit it does nothing
	if err := do(tx.Driver().(*sql.Tx)); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// count counts a table's rows by a column's value.
func (s store) count(ctx context.Context, table, column string) (map[string]int, error) {
	n := map[string]int{}
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT "+column+", count(*) FROM "+table+" GROUP BY "+column)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var of string
			var rowsOf int
			if err := rows.Scan(&of, &rowsOf); err != nil {
				return err
			}
			n[of] = rowsOf
		}
		return rows.Err()
	})
	return n, err
}
