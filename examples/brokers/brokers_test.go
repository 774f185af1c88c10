package brokers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/examples/brokers"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

const (
	messages  = 2000
	kills     = 5  // of one consumer
	seed      = 51 // chooses how often a message is published, and where a consumer is killed
	topic     = "orders"
	variable  = "ONCEWARD_TEST_CONSUMER"
	timeLimit = 5 * time.Minute // of a hang
	// The ledger has no unique key, so that a message that is done twice shows.
	ledgerTable = "CREATE TABLE ledger (id text NOT NULL, body text NOT NULL, at bigint GENERATED ALWAYS AS IDENTITY)"
)

// broker is a broker under test, with one queue, stream or topic.
type broker struct {
	name    string
	address string
	groups  []string // each gets all messages
	publish func(ctx context.Context, ids []string) error
	left    func(ctx context.Context) (int, error) // the messages that are not acknowledged yet, by all groups
	restart func()                                 // kills and starts it; nil for one that keeps its messages in memory
	orderOf func(id string) string                 // messages for which it returns the same are in order; nil: none are
}

// plan is the work for one process that consumes.
type plan struct {
	Broker, Address, Group, Name string
	Database, Schema             string
	Kill                         kill
}

// kill is the point at which a consumer is killed: in a delivery's transaction, or between the commit and the acknowledgement.
type kill struct {
	Delivery  int
	Committed bool
}

// loops are the loops under test, as a program calls each.
var loops = map[string]func(context.Context, plan, *consume.Consumer, brokers.Handler) error{}

var errDown = errors.New("something that the function needs is down")

// TestMain runs the tests or, in a process that a test started, consumes.
func TestMain(m *testing.M) {
	encoded, isConsumer := os.LookupEnv(variable)
	if !isConsumer {
		os.Exit(m.Run())
	}
	var p plan
	err := json.Unmarshal([]byte(encoded), &p)
	if err == nil {
		err = p.consume()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// consume consumes until its input ends, and prints each delivery's result.
func (p plan) consume() (err error) {
	ctx, stop := context.WithCancel(context.Background())
	defer func() {
		if ctx.Err() != nil {
			err = nil // it was stopped while it began
		}
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	pool, err := p.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	j, err := postgres.Open(ctx, p.Database, postgres.Options{Schema: p.Schema, Deployment: "brokers", Failover: postgres.MayLose})
	if err != nil {
		return err
	}
	defer j.Close()
	deliveries, failed := 0, map[string]bool{}
	die := func(committed bool) {
		if deliveries == p.Kill.Delivery && committed == p.Kill.Committed {
			self, err := os.FindProcess(os.Getpid())
			_ = errors.Join(err, self.Kill())
			select {}
		}
	}
	c, err := consume.New(ctx, consume.Options{Journal: j, Name: "ledger", Keep: 24 * time.Hour, Begin: postgres.Begin(pool),
		Observe: func(_ context.Context, o consume.Outcome) {
			result := string(o.Result)
			switch {
			case errors.Is(o.Err, consume.ErrBusy):
				result = "busy"
			case o.Err != nil:
				result = "failed"
			}
			fmt.Println(result)
			die(true)
		}})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := loops[p.Broker](ctx, p, c, func(ctx context.Context, tx journal.Tx, m consume.Message, body []byte) error {
			deliveries++
			_, err := tx.Driver().(pgx.Tx).Exec(ctx, "INSERT INTO ledger VALUES ($1, $2)", m.ID, body)
			die(false)
			if strings.HasSuffix(m.ID, "07") && !failed[m.ID] { // the first time in each process
				failed[m.ID] = true
				return errDown
			}
			return err
		})
		if ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "%s, %s: begins again: %v\n", p.Broker, p.Name, err)
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

func (p plan) pool(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(p.Database)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = p.Schema
	return pgxpool.NewWithConfig(ctx, config)
}

// storm is a broker and its consumers during a test.
type storm struct {
	t        *testing.T
	broker   broker
	plan     plan
	pool     *pgxpool.Pool
	kills    []kill // to come
	killed   atomic.Int32
	restarts int

	mu      sync.Mutex
	results map[string]int
}

// run publishes the messages. Two processes consume for the first group, and SIGKILL ends one of them again and again. One
// process consumes for each other group. In each process, one of a hundred messages fails the first time. If a loop
// acknowledges a failed message, messages that are published once are lost.
func run(t *testing.T, b broker) {
	random := rand.New(rand.NewPCG(seed, seed))
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	s := &storm{t: t, broker: b, results: map[string]int{}}
	s.openLedger(ctx)
	var published []string
	for i := range messages {
		for range 1 + random.IntN(3) {
			published = append(published, fmt.Sprintf("order-%04d", i))
		}
	}
	random.Shuffle(len(published), func(i, k int) { published[i], published[k] = published[k], published[i] })
	for range kills {
		s.kills = append(s.kills, kill{Delivery: 1 + random.IntN(50), Committed: random.IntN(2) == 0})
	}
	restartAt := messages/4 + random.IntN(messages/4)
	require.NoError(t, b.publish(ctx, published))

	began := time.Now()
	for s.round(ctx, restartAt) > 0 {
		require.NoError(t, ctx.Err(), "messages are not acknowledged in time: %v", s.results)
	}
	rows, distinct := s.rows(ctx)
	assert.Equal(t, messages, rows)
	assert.Equal(t, messages, distinct)
	assert.Positive(t, s.killed.Load())
	if b.orderOf != nil {
		assert.Equal(t, s.inGroups(published), s.inGroups(s.booked(ctx)))
	}
	t.Logf("%s: %d messages, %d published, %d groups, %d kills, %d restarts, %d rows; deliveries %v; %.1f s", b.name, messages,
		len(published), len(b.groups), s.killed.Load(), s.restarts, rows, s.results, time.Since(began).Seconds())
}

// round runs the consumers until no message is left, or ctx ends. It returns how many are left without the consumers, which
// may have had some in hand. It restarts the broker once, if there are so many rows.
func (s *storm) round(ctx context.Context, restartAt int) int {
	end := s.consume(ctx)
	defer end()
	for left := 1; left > 0 && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if rows, _ := s.rows(ctx); s.broker.restart != nil && s.restarts == 0 && rows >= restartAt {
			s.broker.restart()
			s.restarts++
		}
		var err error
		left, err = s.broker.left(ctx)
		require.NoError(s.t, err)
	}
	end()
	left, err := s.broker.left(ctx)
	require.NoError(s.t, err)
	return left
}

func (s *storm) openLedger(ctx context.Context) {
	server := postgrestest.Shared(s.t)
	s.plan = plan{Broker: s.broker.name, Address: s.broker.address, Database: server.URL(), Schema: server.Schema(s.t)}
	require.NoError(s.t, postgres.Migrate(ctx, s.plan.Database, s.plan.Schema))
	pool, err := s.plan.pool(ctx)
	require.NoError(s.t, err)
	s.t.Cleanup(pool.Close)
	s.pool = pool
	_, err = pool.Exec(ctx, ledgerTable)
	require.NoError(s.t, err)
}

func (s *storm) rows(ctx context.Context) (rows, distinct int) {
	_ = s.pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT id) FROM ledger").Scan(&rows, &distinct)
	return rows, distinct
}

// booked returns the messages in the order of their rows.
func (s *storm) booked(ctx context.Context) []string {
	rows, err := s.pool.Query(ctx, "SELECT id FROM ledger ORDER BY at")
	require.NoError(s.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return ids
}

// inGroups returns each group's messages, by their first occurrence.
func (s *storm) inGroups(ids []string) map[string][]string {
	groups, seen := map[string][]string{}, map[string]bool{}
	for _, id := range ids {
		if !seen[id] {
			groups[s.broker.orderOf(id)] = append(groups[s.broker.orderOf(id)], id)
		}
		seen[id] = true
	}
	return groups
}

// consume starts the consumers. The others wait for the first kill, so that the first process surely gets as far. end stops
// all, and waits for them.
func (s *storm) consume(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	struck := make(chan struct{})
	strike := sync.OnceFunc(func() { close(struck) })
	var running sync.WaitGroup
	for i, group := range append(s.broker.groups[:1:1], s.broker.groups...) {
		p := s.plan
		p.Group, p.Name = group, fmt.Sprint("consumer-", i)
		running.Go(func() {
			if i > 0 {
				select {
				case <-struck:
				case <-ctx.Done():
				}
				s.process(ctx, p)
				return
			}
			for len(s.kills) > 0 && ctx.Err() == nil {
				p.Kill = s.kills[0]
				s.process(ctx, p)
				s.kills = s.kills[1:]
				strike()
			}
			p.Kill = kill{}
			strike()
			s.process(ctx, p)
		})
	}
	return sync.OnceFunc(func() {
		stop()
		running.Wait()
	})
}

// process runs one consumer until it is killed, or ctx ends.
func (s *storm) process(ctx context.Context, p plan) {
	if ctx.Err() != nil {
		return
	}
	encoded, err := json.Marshal(p)
	assert.NoError(s.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+string(encoded))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	assert.NoError(s.t, err)
	in, err := cmd.StdinPipe() // open for as long as the process may live
	assert.NoError(s.t, err)
	if !assert.NoError(s.t, cmd.Start()) {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = in.Close() })()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s.mu.Lock()
		s.results[lines.Text()]++
		s.mu.Unlock()
	}
	err = cmd.Wait()
	switch {
	case p.Kill.Delivery > 0 && err != nil && cmd.ProcessState.ExitCode() == -1:
		s.killed.Add(1)
	case err != nil:
		assert.NoError(s.t, err, "%s: %s", p.Name, complaints.String())
	}
}
