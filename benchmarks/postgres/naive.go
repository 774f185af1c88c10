package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// naiveStore is PostgreSQL in the first form that comes to mind: a transaction for every event, which reads the facts
// for the decision, through a pool.
type naiveStore struct {
	pool    *pgxpool.Pool
	session string
}

func prepareNaive(ctx context.Context, url string) error {
	return execute(ctx, url, `
		CREATE SCHEMA naive;
		CREATE TABLE naive.sessions (id text PRIMARY KEY, expires_at timestamptz NOT NULL);
		CREATE TABLE naive.operations (key text PRIMARY KEY, state int NOT NULL, session text, began_at timestamptz NOT NULL, settled_at timestamptz,
			request bytea NOT NULL, request_body bytea NOT NULL, answer bytea, answer_body bytea);
		CREATE INDEX ON naive.operations (session) WHERE session IS NOT NULL;`)
}

func openNaive(ctx context.Context, url string, connections int) (store, error) {
	pool, err := openPool(ctx, url, connections)
	if err != nil {
		return nil, err
	}
	s := &naiveStore{pool, newKey()}
	if _, err := pool.Exec(ctx, "INSERT INTO naive.sessions VALUES ($1, now() + interval '1 day')", s.session); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

func (s *naiveStore) operation(ctx context.Context) error {
	key := newKey()
	if err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var lives bool
		if err := tx.QueryRow(ctx, "SELECT expires_at > clock_timestamp() FROM naive.sessions WHERE id = $1", s.session).Scan(&lives); err != nil || !lives {
			return errors.Join(errors.New("the session is over"), err)
		}
		_, err := tx.Exec(ctx, "INSERT INTO naive.operations (key, state, session, began_at, request, request_body) VALUES ($1, 1, $2, $3, $4, $5)",
			key, s.session, time.Now(), intentHead, intentBody)
		return err
	}); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var state int
		if err := tx.QueryRow(ctx, "SELECT state FROM naive.operations WHERE key = $1 FOR UPDATE", key).Scan(&state); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE naive.operations SET state = 3, session = NULL, settled_at = $2, answer = $3, answer_body = $4 WHERE key = $1",
			key, time.Now(), answerHead, answerBody)
		return err
	})
}

func (s *naiveStore) has(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM naive.operations WHERE state = 3").Scan(&n)
	return n, err
}

func (s *naiveStore) close() error {
	s.pool.Close()
	return nil
}
