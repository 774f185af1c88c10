package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverStore inserts a job for each operation, and the job's worker records the answer as its output. River completes
// jobs in batches some milliseconds after the work, and a waiting caller would do nothing else. So callers insert their
// next jobs meanwhile, until so many are under way. The time counts until all are completed, so it is River's best
// case. Each process works the jobs that it inserted.
type riverStore struct {
	pool     *pgxpool.Pool
	client   *river.Client[pgx.Tx]
	queue    string
	underWay chan struct{} // has an element for each
	forget   func()
}

// riverAhead is how many of a process's jobs are inserted and not completed.
const riverAhead = 4096

type riverJob struct {
	Head []byte `json:"head"`
	Body []byte `json:"body"`
}

func (riverJob) Kind() string { return "operation" }

type riverAnswer struct {
	Head []byte `json:"head"`
	Body []byte `json:"body"`
}

func prepareRiver(ctx context.Context, url string) error {
	if err := execute(ctx, url, "CREATE SCHEMA river"); err != nil {
		return err
	}
	pool, err := openPool(ctx, url, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: "river", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func openRiver(ctx context.Context, url string, connections int) (store, error) {
	pool, err := openPool(ctx, url, connections)
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[riverJob]) error {
		// Base64 makes JSON's bytes a third longer.
		return river.RecordOutput(ctx, riverAnswer{answerHead[:len(answerHead)*3/4], answerBody[:len(answerBody)*3/4]})
	}))
	queue := newKey()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{queue: {MaxWorkers: 1000}}, Schema: "river",
		FetchCooldown: time.Millisecond, FetchPollInterval: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	s := &riverStore{pool: pool, client: client, queue: queue, underWay: make(chan struct{}, riverAhead)}
	var ended <-chan *river.Event
	ended, s.forget = client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * riverAhead, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		pool.Close()
		return nil, err
	}
	go func() {
		for range ended {
			<-s.underWay
		}
	}()
	return s, nil
}

func (s *riverStore) operation(ctx context.Context) error {
	select {
	case s.underWay <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err := s.client.Insert(ctx, riverJob{intentHead[:len(intentHead)*3/4], intentBody[:len(intentBody)*3/4]}, &river.InsertOpts{Queue: s.queue})
	return err
}

// settle waits until everything is completed.
func (s *riverStore) settle(ctx context.Context) error {
	for len(s.underWay) > 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *riverStore) has(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM river.river_job WHERE state = 'completed'").Scan(&n)
	return n, err
}

func (s *riverStore) close() error {
	defer s.pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := s.client.Stop(ctx)
	s.forget()
	return err
}
