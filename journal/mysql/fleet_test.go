package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	retry "github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// Environment variables of a child of the test's binary.
const (
	payerVariable    = "ONCEWARD_TEST_PAYER" // how many payments there are
	databaseVariable = "ONCEWARD_TEST_DATABASE"
	schemaVariable   = "ONCEWARD_TEST_SCHEMA"
	stripeVariable   = "ONCEWARD_TEST_STRIPE"
	orderVariable    = "ONCEWARD_TEST_ORDER" // the seed of the payments' order
)

func TestMain(m *testing.M) {
	lifeline.Follow()
	if payments, err := strconv.Atoi(os.Getenv(payerVariable)); err == nil {
		if err := pay(context.Background(), payments); err != nil {
			fmt.Fprintln(os.Stderr, "payer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// payer makes payments: one half by calls, the other half beside rows of its own, in one transaction.
type payer struct {
	client *onceward.Client
	db     *sql.DB
	table  string
	at     *url.URL
}

// pay is the code of a payer. It asks for every payment, whichever process makes it, and ends when all are settled.
func pay(ctx context.Context, payments int) error {
	db, err := sql.Open("mysql", os.Getenv(databaseVariable))
	if err != nil {
		return err
	}
	defer db.Close()
	opts := mysql.Options{Schema: os.Getenv(schemaVariable), Deployment: "test", Durability: mysql.Provider, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	mysql.Hasten(&opts)
	var j *mysql.Journal
	// The server may be down.
	err = again(ctx, func() (err error) {
		j, err = mysql.Open(ctx, os.Getenv(databaseVariable), opts)
		return err
	})
	if err != nil {
		return err
	}
	p := payer{db: db, table: opts.Schema + ".payments"}
	if p.at, err = url.Parse(os.Getenv(stripeVariable)); err != nil {
		return err
	}
	contract := providers.Stripe()
	contract.Hosts = []string{p.at.Host}
	p.client, err = onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{contract}, Backoff: backoff.Policy{Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond}, Logger: opts.Logger,
		Authorize: func(req *http.Request) error {
			req.Header.Set("Authorization", "Bearer sk_test_in_a_box")
			return nil
		},
	})
	if err != nil {
		return err
	}
	go p.client.Run(ctx)
	var group sync.WaitGroup
	next := make(chan int)
	for range 8 {
		group.Go(func() {
			for i := range next {
				_ = again(ctx, func() error {
					if !p.enqueued(ctx, i) || !p.paid(ctx, i) {
						return errUnpaid
					}
					return nil
				})
			}
		})
	}
	order, err := strconv.ParseUint(os.Getenv(orderVariable), 10, 64)
	if err != nil {
		return err
	}
	for _, i := range rand.New(rand.NewPCG(order, 0)).Perm(payments) {
		next <- i
	}
	close(next)
	group.Wait()
	_ = p.client.Shutdown(ctx)
	return j.Close()
}

var errUnpaid = errors.New("not paid yet")

// again calls f until f succeeds or ctx ends.
func again(ctx context.Context, f func() error) error {
	return retry.Retry(f, retry.WithContext(retry.NewConstantBackOff(50*time.Millisecond), ctx))
}

func (p payer) request(ctx context.Context, i int) (*http.Request, error) {
	name := fmt.Sprintf("pay-%05d", i)
	form := url.Values{"amount": {"2000"}, "currency": {"eur"}, "metadata[payment]": {name}}
	req, err := http.NewRequestWithContext(onceward.WithOperation(ctx, name), http.MethodPost, p.at.String()+"/v1/charges", strings.NewReader(form.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("X-Payment", name)
	}
	return req, err
}

// enqueued records every second payment beside its row, and reports whether it is recorded by any process.
func (p payer) enqueued(ctx context.Context, i int) bool {
	if i%2 == 0 {
		return true
	}
	req, err := p.request(ctx, i)
	if err != nil {
		return false
	}
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return false
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := p.client.Enqueue(req.Context(), mysql.SQL(tx), req); err != nil {
		return false
	}
	if _, err := tx.ExecContext(ctx, "INSERT IGNORE INTO "+p.table+" VALUES (?)", i); err != nil {
		return false
	}
	return mysql.SQL(tx).Commit(ctx) == nil
}

// paid asks for a payment, and reports whether it is paid.
func (p payer) paid(ctx context.Context, i int) bool {
	req, err := p.request(ctx, i)
	if err != nil {
		return false
	}
	resp, err := p.client.HTTPClient().Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// process is a payer's process. It starts again whenever it was killed.
type process struct {
	env []string

	mu  sync.Mutex
	cmd *exec.Cmd
}

// live runs the payer until it has finished.
func (p *process) live(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), p.env...), &stderr
		if !assert.NoError(t, lifeline.Tie(cmd)) {
			return
		}
		p.mu.Lock()
		p.cmd = cmd
		err := cmd.Start()
		p.mu.Unlock()
		if !assert.NoError(t, err) {
			return
		}
		if err = cmd.Wait(); err == nil {
			return
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			assert.NoError(t, err, stderr.String())
			return
		}
	}
}

// strike kills the payer, or stops it for longer than its lease.
func (p *process) strike(random *rand.Rand, ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	if random.IntN(3) > 0 {
		_ = p.cmd.Process.Kill()
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	select {
	case <-time.After(4 * time.Second):
	case <-ended:
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

// Processes share a journal, and are killed at random. In the soak, they are also stopped, and their server is killed. Every
// payment is made once.
func TestFleetStorm(t *testing.T) {
	t.Parallel()
	server := mysqltest.Shared(t)
	if soak.On() {
		server = mysqltest.Start(t)
	}
	opts := options(t, server)
	payments := soak.Times(60, 1500)
	require.NoError(t, mysql.Migrate(t.Context(), server.DSN(), opts.Schema))
	server.Exec(t, "CREATE TABLE "+opts.Schema+".payments (i INT PRIMARY KEY) ENGINE=InnoDB")
	seed := soak.Seed(t, 1)
	box := providertest.NewUnstartedServer(providers.Stripe(), providertest.ObjectsIn("", "ch_"))
	box.Seed(seed, providertest.Mix{DropBefore: 0.03, DropAfter: 0.04, DelayAfter: 0.1, Status: 0.05, MaxDelay: 200 * time.Millisecond,
		Statuses: []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}})
	box.Start()
	t.Cleanup(box.Close)

	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var group, strikes sync.WaitGroup
	ended := make(chan struct{})
	fleet := make([]*process, soak.Times(3, 5))
	for i := range fleet {
		fleet[i] = &process{env: []string{payerVariable + "=" + strconv.Itoa(payments), databaseVariable + "=" + server.ServiceDSN(), schemaVariable + "=" + opts.Schema, stripeVariable + "=" + box.URL, orderVariable + "=" + strconv.Itoa(i)}}
		group.Go(func() { fleet[i].live(ctx, t) })
	}
	random, struck := rand.New(rand.NewPCG(seed, 1)), 0
	strikes.Go(func() {
		for n := range soak.Times(3, 40) {
			until := box.Requests() + payments/soak.Times(10, 60)
			for box.Requests() < until {
				select {
				case <-time.After(10 * time.Millisecond):
				case <-ended:
					return
				}
			}
			struck++
			if soak.On() && n%8 == 7 {
				server.Kill9(t)
				server.Run(t)
			} else if p := fleet[random.IntN(len(fleet))]; soak.On() {
				p.strike(random, ended)
			} else {
				p.mu.Lock()
				_ = p.cmd.Process.Kill()
				p.mu.Unlock()
			}
		}
	})
	group.Wait()
	close(ended)
	strikes.Wait()
	require.NoError(t, ctx.Err(), "it has to come to its end")
	effects := map[string]int{}
	for _, e := range box.Effects() {
		effects[e.Header.Get("X-Payment")]++
	}
	t.Logf("%d strikes; %d requests for %d payments", struck, box.Requests(), payments)
	assert.Positive(t, struck)
	assert.Len(t, effects, payments, "nothing is lost")
	for name, n := range effects {
		assert.Equal(t, 1, n, name)
	}
	j := open(t, server, opts)
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, op.State, op.ID)
	}
	violations, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, violations)
	var rows int
	require.NoError(t, server.DB().QueryRow("SELECT count(*) FROM "+opts.Schema+".payments").Scan(&rows))
	assert.Equal(t, payments/2, rows)
}
