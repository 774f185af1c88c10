package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

const (
	restartAfter = 100 * time.Millisecond // how long a payer stays dead
	killEvery    = 400 * time.Millisecond // on average, one of them
)

// stopped is the exit status for a payer that a deploy stopped.
const stopped = 3

// fleet is what the parent sees about the payers.
type fleet struct {
	options
	database string
	stripe   *providertest.Server
	stderr   io.Writer

	mu                        sync.Mutex
	running                   []*process // by payer, as the following ones
	killed, deploys, requests []int
}

// process is a payer of the moment.
type process struct {
	cmd            *exec.Cmd
	killed, ending bool
}

// storm runs the payers until every order is settled, and judges what they left.
func storm(ctx context.Context, o options, stdout, stderr io.Writer) error {
	server, err := postgrestest.New()
	if err != nil {
		return err
	}
	defer server.Close()
	if err := postgres.Migrate(ctx, server.URL(), ""); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, ordersTable); err != nil {
		return err
	}
	f := &fleet{options: o, database: server.URL(), stderr: stderr,
		running: make([]*process, o.payers), killed: make([]int, o.payers), deploys: make([]int, o.payers), requests: make([]int, o.payers)}
	f.stripe = f.box()
	defer f.stripe.Close()
	fmt.Fprintf(stdout, "%d orders, %d payers, %d kills, a deploy for every two of them (-seed %d)\n", o.orders, o.payers, o.kills, o.seed)

	began := time.Now()
	raging, calm := context.WithCancel(ctx)
	defer calm()
	struck := make(chan struct{})
	go func() { defer close(struck); f.strike(raging) }()
	failed := make([]error, o.payers)
	var group sync.WaitGroup
	for i := range o.payers {
		group.Go(func() {
			if failed[i] = f.keepPaying(ctx, i, struck); failed[i] != nil {
				calm()
			}
		})
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	l, err := f.audit(ctx, conn)
	if err != nil {
		return err
	}
	f.print(stdout, l, time.Since(began))
	return l.verdict(o)
}

// box is a Stripe that misbehaves: among a hundred requests, about thirty meet a fault.
func (f *fleet) box() *providertest.Server {
	objects := providertest.ObjectsIn("", "ch_")
	s := providertest.NewUnstartedServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond))
		objects.ServeHTTP(w, r)
	}))
	s.Observe = func(r providertest.Request) {
		if i, err := strconv.Atoi(r.Header.Get("User-Agent")); err == nil {
			f.mu.Lock()
			f.requests[i]++
			f.mu.Unlock()
		}
	}
	s.Seed(f.seed, providertest.Mix{
		DropBefore: 0.05, DropAfter: 0.06, Cut: 0.05, DelayBefore: 0.05, DelayAfter: 0.05, Status: 0.08,
		MaxDelay: 150 * time.Millisecond, Statuses: []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusConflict},
	})
	s.Start()
	return s
}

// keepPaying runs one payer after another, until the strikes are over and one has come to its end.
func (f *fleet) keepPaying(ctx context.Context, i int, struck <-chan struct{}) error {
	for {
		over := false
		select {
		case <-struck:
			over = true
		default:
		}
		finished, err := f.runPayer(ctx, i)
		if err != nil || finished && over {
			return err
		}
		select {
		case <-time.After(restartAfter):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// runPayer runs a payer until it ends, and reports whether it had come to its end.
func (f *fleet) runPayer(ctx context.Context, i int) (finished bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, "-orders", strconv.Itoa(f.orders))}
	p.cmd.Env = append(os.Environ(), payerVariable+"="+strconv.Itoa(i), databaseVariable+"="+f.database, stripeVariable+"="+f.stripe.URL)
	p.cmd.Stderr = f.stderr
	f.mu.Lock()
	err = p.cmd.Start()
	f.running[i] = p
	f.mu.Unlock()
	if err != nil {
		return false, err
	}
	err = p.cmd.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[i] = nil
	switch {
	case err == nil:
		return !p.ending, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case p.killed, p.ending && (p.cmd.ProcessState.ExitCode() == stopped || p.cmd.ProcessState.ExitCode() == -1): // told before it listened
		return false, nil
	}
	return false, fmt.Errorf("payer %d failed: %w", i+1, err)
}

// strike kills and deploys, by the seed's order, until there were enough kills.
func (f *fleet) strike(ctx context.Context) {
	random := rand.New(rand.NewPCG(f.seed, 0))
	for n := 0; n < f.kills; {
		select {
		case <-time.After(killEvery/2 + time.Duration(random.Int64N(int64(killEvery)))):
		case <-ctx.Done():
			return
		}
		if f.hit(random.IntN(f.payers), random.IntN(3) == 0) {
			n++
		}
	}
}

// hit ends the present payer, by SIGTERM for a deploy, and reports whether one was killed.
func (f *fleet) hit(i int, deploy bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.running[i]
	if p == nil || p.killed || p.ending {
		return false
	}
	if deploy {
		if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
			p.ending = true
			f.deploys[i]++
		}
		return false
	}
	if p.cmd.Process.Kill() != nil {
		return false
	}
	p.killed = true
	f.killed[i]++
	if f.verbose {
		fmt.Fprintf(f.stderr, "killed payer %d\n", i+1)
	}
	return true
}

// left is what a storm has left.
type left struct {
	effects, duplicates, lost, unfinished, unknown, marked, twice int
	kills                                                         int
}

// audit compares the orders with the provider's ledger, the journal and the orders' own rows.
func (f *fleet) audit(ctx context.Context, conn *pgx.Conn) (l left, err error) {
	effects := map[string]int{}
	for _, e := range f.stripe.Effects() {
		form, err := url.ParseQuery(string(e.Body))
		if err != nil {
			return l, err
		}
		effects[form.Get("metadata[order]")]++
		l.effects++
	}
	for i := range f.orders {
		switch n := effects[orderID(i)]; {
		case n == 0:
			l.lost++
		default:
			l.duplicates += n - 1
		}
	}
	for _, n := range f.killed {
		l.kills += n
	}
	j, err := postgres.Open(ctx, f.database, postgres.Options{ReadOnly: true})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	for op, err := range j.List(ctx, journal.Filter{}) {
		switch {
		case err != nil:
			return l, err
		case op.State == journal.StateUnknown:
			l.unknown++
		case op.State != journal.StateCompleted:
			l.unfinished++
		}
	}
	err = conn.QueryRow(ctx, "SELECT count(*) FILTER (WHERE charged = 1), count(*) FILTER (WHERE charged > 1) FROM orders").Scan(&l.marked, &l.twice)
	return l, err
}

func (f *fleet) print(w io.Writer, l left, took time.Duration) {
	fmt.Fprintf(w, "\n%-46s", "")
	for i := range f.payers {
		fmt.Fprintf(w, "%10s", fmt.Sprintf("payer %d", i+1))
	}
	fmt.Fprintf(w, "%10s\n", "fleet")
	for _, row := range []struct {
		title string
		each  []int
	}{{"kills", f.killed}, {"deploys", f.deploys}, {"requests", f.requests}} {
		total := 0
		fmt.Fprintf(w, "%-46s", row.title)
		for _, n := range row.each {
			fmt.Fprintf(w, "%10d", n)
			total += n
		}
		fmt.Fprintf(w, "%10d\n", total)
	}
	for _, row := range []struct {
		title string
		n     int
	}{
		{"orders", f.orders},
		{"effects in the provider's ledger", l.effects},
		{"duplicates", l.duplicates},
		{"lost: never made, never will be", l.lost},
		{"not finished", l.unfinished},
		{"unknown, and said so: for a person", l.unknown},
		{"orders that their row calls charged once", l.marked},
		{"orders that their row calls charged twice", l.twice},
	} {
		fmt.Fprintf(w, "%-*s%10d\n", 46+10*f.payers, row.title, row.n)
	}
	fmt.Fprintf(w, "\nall of it took %v\n", took.Round(time.Second))
}

// verdict is nil if every order was charged once, in spite of every kill, and nothing is left for a person.
func (l left) verdict(o options) error {
	var errs []error
	for _, wrong := range []struct {
		count int
		what  string
	}{
		{l.duplicates, "effects beyond the first of an order"},
		{l.lost, "orders without an effect"},
		{l.unfinished, "operations that are not finished"},
		{l.unknown, "operations of unknown outcome"},
		{o.orders - l.marked, "orders that are not marked as charged once"},
		{o.kills - l.kills, "kills that did not take place"},
	} {
		if wrong.count != 0 {
			errs = append(errs, fmt.Errorf("%s: %d", wrong.what, wrong.count))
		}
	}
	return errors.Join(errs...)
}
