package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
)

// An outbox's transaction is the application's: an order and, in the same commit, the call to be sent for it. Sending
// it later is not part of the figure.
const (
	nameOrder    = "order"   // the application's row alone: what any outbox costs is beyond that
	nameEnqueue  = "enqueue" // our EnqueueTx beside it
	nameInsertTx = "inserttx"
)

// outboxes are the contenders that -outbox compares.
var outboxes = []contender{
	{nameEnqueue, nothing, openEnqueue},
	{nameInsertTx, nothing, openInsertTx},
	{nameOrder, prepareOrders, openOrders},
}

// nothing is prepared: the tables are another contender's.
func nothing(context.Context, string) error { return nil }

func prepareOrders(ctx context.Context, url string) error {
	return execute(ctx, url, "CREATE SCHEMA shop; CREATE TABLE shop.orders (id text PRIMARY KEY, cents bigint NOT NULL, ordered_at timestamptz NOT NULL DEFAULT now())")
}

// orders is a shop that enqueues a call for each order.
type orders struct {
	pool    *pgxpool.Pool
	enqueue func(ctx context.Context, tx pgx.Tx, order string) error
	end     func() error
}

func openOrders(ctx context.Context, url string, connections int) (store, error) {
	pool, err := openPool(ctx, url, connections)
	if err != nil {
		return nil, err
	}
	return &orders{pool, func(context.Context, pgx.Tx, string) error { return nil }, func() error { return nil }}, nil
}

func openEnqueue(ctx context.Context, url string, connections int) (store, error) {
	s, err := openOrders(ctx, url, connections)
	if err != nil {
		return nil, err
	}
	o := s.(*orders)
	j, err := openJournal(ctx, url)
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	o.end = j.close
	o.enqueue = func(ctx context.Context, tx pgx.Tx, order string) error {
		_, err := j.journal.EnqueueTx(ctx, postgres.Pgx(tx), machine.Event{
			Kind: machine.EventEnqueue, Ref: journal.Ref{ID: order + "/charge"}, At: j.journal.Now(),
			Intent: intent(journal.Named, newKey()),
		})
		return err
	}
	return o, nil
}

func openInsertTx(ctx context.Context, url string, connections int) (store, error) {
	s, err := openOrders(ctx, url, connections)
	if err != nil {
		return nil, err
	}
	o := s.(*orders)
	client, err := river.NewClient(riverpgxv5.New(o.pool), &river.Config{Schema: "river", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	o.enqueue = func(ctx context.Context, tx pgx.Tx, _ string) error {
		// Base64 makes JSON's bytes a third longer.
		_, err := client.InsertTx(ctx, tx, riverJob{intentHead[:len(intentHead)*3/4], intentBody[:len(intentBody)*3/4]}, nil)
		return err
	}
	return o, nil
}

func (o *orders) operation(ctx context.Context) error {
	order := newKey()
	return pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO shop.orders (id, cents) VALUES ($1, 100)", order); err != nil {
			return err
		}
		return o.enqueue(ctx, tx, order)
	})
}

func (o *orders) has(ctx context.Context) (n int, err error) {
	err = o.pool.QueryRow(ctx, "SELECT count(*) FROM shop.orders").Scan(&n)
	return n, err
}

func (o *orders) close() error {
	err := o.end()
	o.pool.Close()
	return err
}
