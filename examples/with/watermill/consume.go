package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
)

const topic = "orders"

// The program's own table has no unique key, so that a message that is done twice shows.
const ledgerTable = "CREATE TABLE ledger (id text NOT NULL, cents bigint NOT NULL)"

// ledger writes each message once.
type ledger struct {
	journal  *postgres.Journal
	pool     *pgxpool.Pool
	consumer *consume.Consumer
}

func openLedger(ctx context.Context, database string, pool *pgxpool.Pool) (*ledger, error) {
	j, err := postgres.Open(ctx, database, postgres.Options{
		Deployment: "watermill",
		Failover:   postgres.MayLose, // this example has one server; for money, have a synchronous standby, and leave this out
	})
	if err != nil {
		return nil, err
	}
	c, err := consume.New(ctx, consume.Options{
		Journal: j,
		Name:    "ledger",            // the same for every consumer group that writes this ledger
		Keep:    90 * 24 * time.Hour, // Watermill's table keeps messages until they are deleted: keep longer than that
		Begin:   postgres.Begin(pool),
	})
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return &ledger{j, pool, c}, nil
}

// consume writes a message to the ledger, unless that was done before. An error has Watermill deliver it again.
func (l *ledger) consume(m *message.Message) (consume.Result, error) {
	return l.consumer.Do(m.Context(), consume.Message{ID: m.UUID, Source: topic, Fingerprint: m.Payload},
		func(ctx context.Context, tx journal.Tx) error {
			cents, err := strconv.Atoi(string(m.Payload))
			if err != nil {
				return err
			}
			_, err = tx.Driver().(pgx.Tx).Exec(ctx, "INSERT INTO ledger VALUES ($1, $2)", m.UUID, cents)
			return err
		})
}

func (l *ledger) count(ctx context.Context) (rows, distinct int, err error) {
	err = l.pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT id) FROM ledger").Scan(&rows, &distinct)
	return rows, distinct, err
}

func (l *ledger) close() { _ = l.journal.Close() }
