package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// setup is a server with a ledger, and the contenders that write the ledger.
type setup struct {
	pool       *pgxpool.Pool
	contenders []contender
	describe   string
	postmaster int
	ids        atomic.Int64
	ends       []func()
}

func (s *setup) end() {
	for i := range s.ends {
		s.ends[len(s.ends)-1-i]()
	}
}

func (s *setup) rows(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM ledger").Scan(&n)
	return n, err
}

func open(ctx context.Context, o options) (s *setup, err error) {
	cluster, err := postgrestest.New()
	if err != nil {
		return nil, err
	}
	s = &setup{ends: []func(){cluster.Close}}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	cfg, err := pgxpool.ParseConfig(cluster.URL())
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(o.workers)
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	s.ends = append(s.ends, s.pool.Close)
	if _, err = s.pool.Exec(ctx, `CREATE TABLE ledger (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payee text NOT NULL);
		CREATE TABLE done (source text, id text, at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (source, id))`); err != nil {
		return nil, err
	}
	j, err := postgres.Open(ctx, cluster.URL(), postgres.Options{Deployment: "benchmark", Migrate: true, Readers: o.workers, Failover: postgres.MayLose})
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() { _ = j.Close() })
	consumer := func(together int) (*consume.Consumer, error) {
		return consume.New(ctx, consume.Options{Journal: j, Name: fmt.Sprint("together-", together), Keep: 15 * 24 * time.Hour, Begin: postgres.Begin(s.pool), Together: together})
	}
	one, err := consumer(1)
	if err != nil {
		return nil, err
	}
	many, err := consumer(o.together)
	if err != nil {
		return nil, err
	}
	s.contenders = []contender{
		{"by hand", 1, s.byHand},
		{"Do", 1, func(ctx context.Context, ids []string) error {
			_, err := one.Do(ctx, consume.Message{ID: ids[0], Source: source}, func(ctx context.Context, tx journal.Tx) error { return book(ctx, tx.Driver().(pgx.Tx)) })
			return err
		}},
		{fmt.Sprintf("by hand, %d together", o.together), o.together, s.byHand},
		{fmt.Sprintf("InOrder, %d together", o.together), o.together, func(ctx context.Context, ids []string) error {
			messages := make([]consume.Message, len(ids))
			for i, id := range ids {
				messages[i] = consume.Message{ID: id, Source: source}
			}
			_, err := many.InOrder(ctx, messages, func(ctx context.Context, tx journal.Tx, _ int) error { return book(ctx, tx.Driver().(pgx.Tx)) })
			return err
		}},
	}
	err = s.pool.QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') || ' (fsync ' || current_setting('fsync') || ')', split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int`).
		Scan(&s.describe, &s.postmaster)
	return s, err
}

const source = "orders"

// book is the function's work.
func book(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO ledger (payee) VALUES ($1)", "ada, 120.00 EUR, invoice 2026-11-26")
	return err
}

// byHand marks each message in its own table, and books the new ones.
func (s *setup) byHand(ctx context.Context, ids []string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for _, id := range ids {
			tag, err := tx.Exec(ctx, "INSERT INTO done (source, id) VALUES ($1, $2) ON CONFLICT DO NOTHING", source, id)
			if err == nil && tag.RowsAffected() == 1 {
				err = book(ctx, tx)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
