// Command watermill consumes a Watermill topic on PostgreSQL, and writes each message once into a separate table, though
// Watermill delivers many messages again:
//
//   - A producer publishes every third message twice, as one whose commit was in doubt.
//   - A consumer fails after every fifth message was done, as one that is killed before it acknowledges.
//   - A second consumer group gets the whole topic again, as after a lost offset.
//
// It starts a separate PostgreSQL server, unless -postgres names a database. consume.go is what a program of your own would
// contain. The exit status is 0 only if there is one row for each message.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

const timeLimit = time.Minute

// quiet has Watermill log errors alone.
var quiet = watermill.NewSlogLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 1})))

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	messages := flag.Int("messages", 60, "how many messages there are")
	database := flag.String("postgres", "", "the URL of an empty database (default: starts a server)")
	flag.Parse()
	if err := run(ctx, *database, *messages, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "watermill:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, database string, messages int, stdout io.Writer) error {
	if database == "" {
		cluster, err := postgrestest.New()
		if err != nil {
			return err
		}
		defer cluster.Close()
		database = cluster.URL()
	}
	if err := postgres.Migrate(ctx, database, ""); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, ledgerTable); err != nil {
		return err
	}
	published, err := publish(ctx, pool, messages)
	if err != nil {
		return err
	}
	l, err := openLedger(ctx, database, pool)
	if err != nil {
		return err
	}
	defer l.close()

	w := &worker{ledger: l, failed: map[string]bool{}}
	again := 0
	for i := range messages {
		if i%5 == 0 {
			again++
		}
	}
	if err := w.work(ctx, pool, "first", published+again); err != nil {
		return err
	}
	if err := w.work(ctx, pool, "second", published); err != nil {
		return err
	}
	rows, distinct, err := l.count(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%-34s%6d\n%-34s%6d\n%-34s%6d\n%-34s%6d\n%-34s%6d\n", "messages", messages, "published, some of them twice", published,
		"deliveries", w.deliveries, "done", w.results["done"], "rows in the ledger", rows)
	if rows != messages || distinct != messages {
		return fmt.Errorf("%d rows for %d messages, of %d", rows, distinct, messages)
	}
	return nil
}

// publish publishes every third message twice.
func publish(ctx context.Context, pool *pgxpool.Pool, messages int) (published int, err error) {
	p, err := watermillsql.NewPublisher(watermillsql.BeginnerFromPgx(pool), watermillsql.PublisherConfig{
		SchemaAdapter: watermillsql.DefaultPostgreSQLSchema{}, AutoInitializeSchema: true,
	}, quiet)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for i := range messages {
		times := 1
		if i%3 == 0 {
			times = 2
		}
		for range times {
			m := message.NewMessage(fmt.Sprintf("order-%04d", i), []byte(fmt.Sprint(1000+i)))
			m.SetContext(ctx)
			if err := p.Publish(topic, m); err != nil {
				return published, err
			}
			published++
		}
	}
	return published, nil
}

// worker is a consumer that fails after its work, once for every fifth message.
type worker struct {
	*ledger
	mu         sync.Mutex
	deliveries int
	results    map[string]int
	failed     map[string]bool
}

var errKilled = errors.New("it is done, and not acknowledged")

// work consumes the topic as a consumer group, until there were so many deliveries.
func (w *worker) work(ctx context.Context, pool *pgxpool.Pool, group string, deliveries int) error {
	s, err := watermillsql.NewSubscriber(watermillsql.BeginnerFromPgx(pool), watermillsql.SubscriberConfig{
		ConsumerGroup: group, SchemaAdapter: watermillsql.DefaultPostgreSQLSchema{}, OffsetsAdapter: watermillsql.DefaultPostgreSQLOffsetsAdapter{},
		InitializeSchema: true, PollInterval: 10 * time.Millisecond, ResendInterval: time.Millisecond, RetryInterval: 10 * time.Millisecond,
	}, quiet)
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, quiet)
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	first := w.deliveries
	router.AddConsumerHandler("ledger", topic, s, func(m *message.Message) error {
		result, err := w.consume(m)
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.results == nil {
			w.results = map[string]int{}
		}
		w.results[string(result)]++
		if w.deliveries++; w.deliveries == first+deliveries {
			defer done()
		}
		var i int
		if _, err := fmt.Sscanf(m.UUID, "order-%d", &i); err != nil {
			return err
		}
		if i%5 == 0 && !w.failed[m.UUID] {
			w.failed[m.UUID] = true
			return errKilled
		}
		return nil
	})
	if err := router.Run(ctx); err != nil {
		return err
	}
	if w.deliveries < first+deliveries {
		return fmt.Errorf("%d deliveries of %d: %w", w.deliveries-first, deliveries, context.Cause(ctx))
	}
	return nil
}
