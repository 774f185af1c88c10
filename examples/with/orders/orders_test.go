package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

var (
	count = flag.Int("orders", 20, "how many orders are placed")
	seed  = flag.Uint64("seed", 1, "draws the orders, the faults, the kills and the clients' patience")
	drawn sync.Once // what the soak makes of both
)

// Each order is asked for by two impatient clients at once, again and again, or by one client that asks once and goes
// away. Meanwhile the service's processes are killed and deployed. The providers lose, cut and delay answers,
// and for a while answer only 503.
//
// In the end each order has had each of its effects once, or had them taken back. Every client that asks gets the
// same answer. No flow is left, unless it is listed as one that needs attention. The ledger agrees with Stripe's
// books.
//
// Two processes share a file. They run on a read-only root with one folder to write to, if the machine allows that.
func TestEveryOrderTakesEffectOnce(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "volume")
	require.NoError(t, os.Mkdir(folder, 0o700))
	file := filepath.Join(folder, "orders.db")
	s := newStorm(t, "FOLDER="+folder, "JOURNAL="+file)
	s.confined = true
	s.open = func() (database, error) { return sqlite.Open(file, sqlite.Options{}) }
	s.passes(2, 1)
}

// The same with three processes that share a PostgreSQL database. If one is killed, another process takes over its
// work once the dead one's lease is over. So they live longer.
func TestEveryOrderTakesEffectOnceOnPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	s := newStorm(t, "DATABASE_URL="+server.URL())
	s.open = func() (database, error) {
		return postgres.Open(context.Background(), server.URL(), postgres.Options{Existing: true})
	}
	s.passes(3, 40)
}

// storm is one order run against a service that is killed.
type storm struct {
	*testing.T
	clients
	books                *stripeBusiness
	outbox               *svixBusiness
	stripeBox, svixBox   *providertest.Server
	log                  *os.File
	env                  []string
	confined             bool
	open                 func() (database, error) // another process beside the service
	kills, deploys, left int
}

func newStorm(t *testing.T, env ...string) *storm {
	drawn.Do(func() { *count, *seed = soak.Times(*count, 200), soak.Seed(t, *seed) })
	s := &storm{T: t, books: &stripeBusiness{payments: map[string]payment{}}, outbox: &svixBusiness{messages: map[string]message{}}}
	s.answers = make([]map[answer]int, *count)
	s.stripeBox = providertest.NewServer(providers.Stripe(), s.books)
	t.Cleanup(s.stripeBox.Close)
	s.svixBox = providertest.NewServer(providers.Svix(), s.outbox)
	t.Cleanup(s.svixBox.Close)
	var err error
	s.log, err = os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.log.Close() })
	s.env = append(env, "STRIPE_URL="+s.stripeBox.URL, "STRIPE_KEY=sk_test_box", "SVIX_URL="+s.svixBox.URL, "SVIX_TOKEN=testsk_box",
		"ONCEWARD_SECRET=of the deployment, the same in every process")
	return s
}

// faults sets the providers' faults of an ordinary day, or of an outage.
func (s *storm) faults(outage bool) {
	mix := providertest.Mix{
		DropBefore: .03, DropAfter: .05, Cut: .03, CutResponse: .02, PageBefore: .02, PageAfter: .02, Status: .03,
		DelayBefore: .05, DelayAfter: .1, MaxDelay: 300 * time.Millisecond,
	}
	if outage {
		mix = providertest.Mix{DropBefore: .3, Status: .7}
	}
	s.stripeBox.Seed(*seed, mix)
	s.svixBox.Seed(*seed+1, mix)
}

// fleet starts one service process.
func (s *storm) fleet() *fleet {
	address := freeAddress(s.T)
	s.addresses = append(s.addresses, address)
	f := &fleet{t: s.T, address: address, log: s.log, env: append([]string{childVariable + "=free", "LISTEN=" + address}, s.env...)}
	if s.confined {
		f.attr, f.env[0] = inNamespaces(), childVariable+"=confined"
	}
	err := f.start()
	if err == nil {
		err = f.ready()
	}
	if exit, ended := errors.AsType[*exec.ExitError](err); f.attr == nil || ended && exit.ExitCode() != unconfined {
		text, _ := os.ReadFile(s.log.Name())
		require.NoError(s, err, "%s", text)
	} else if err != nil {
		s.Logf("this machine lends no namespace, and the root stays writable: %v", err)
		f.attr, f.env[0] = nil, childVariable+"=free"
		require.NoError(s, f.start())
		require.NoError(s, f.ready())
	}
	return f
}

// passes places the orders with so many processes. Each lives so many times as long as on a separate machine.
func (s *storm) passes(processes, longer int) {
	t := s.T
	s.faults(false)
	var fleets []*fleet
	for range processes {
		fleets = append(fleets, s.fleet())
	}
	began := time.Now()
	var storms sync.WaitGroup
	end := make(chan struct{})
	for i, f := range fleets {
		storms.Go(func() { f.storm(rand.New(rand.NewPCG(*seed, uint64(i))), longer, end) })
	}
	storms.Go(func() {
		for _, outage := range []bool{true, false} {
			select {
			case <-end:
			case <-time.After(2 * time.Second):
			}
			s.faults(outage)
		}
	})
	s.clients.storm(t)
	close(end)
	storms.Wait()
	listed := s.nothingIsLeft()
	for i := range *count {
		if !listed[anOrder(i).Reference] {
			s.insist(t, i, rand.New(rand.NewPCG(0, 0)), 10*time.Second)
		}
	}
	for _, f := range fleets {
		s.kills, s.deploys = s.kills+f.kills, s.deploys+f.deploys
	}
	t.Logf("%d orders in %v: %d kills, %d deploys, %d requests to Stripe and %d to Svix; %d orders without an end need attention",
		*count, time.Since(began).Round(time.Millisecond), s.kills, s.deploys, s.stripeBox.Requests(), s.svixBox.Requests(), len(listed))
	for _, f := range fleets {
		f.stop()
	}
	s.judge(listed)
}

// judge compares the records of the clients, the providers and the ledger.
func (s *storm) judge(listed map[string]bool) {
	t, c, books, outbox := s.T, &s.clients, s.books, s.outbox
	made := map[string]int{}
	theirs := map[string]int64{}
	for id, p := range books.payments {
		made[p.reference+" "+p.what]++
		made[p.reference+" refund"] += p.refunds
		theirs[id] = p.cents
		if p.refunds > 0 {
			theirs[id] = 0
		}
	}
	for _, m := range outbox.messages {
		made[fmt.Sprint(m.Payload["reference"], " message")]++
	}
	for i := range *count {
		o, status, want := anOrder(i), http.StatusOK, [4]int{1, 1, 1, 0}
		if o.Card != goodCard {
			status, want = http.StatusPaymentRequired, [4]int{}
		} else if o.CourierCard != goodCard {
			status, want = http.StatusPaymentRequired, [4]int{1, 0, 0, 1}
		}
		var got [4]int
		for i, what := range []string{"goods", "courier", "message", "refund"} {
			got[i] = made[o.Reference+" "+what]
		}
		if listed[o.Reference] { // a person has to look; nothing of it took effect twice
			for _, n := range got {
				assert.LessOrEqual(t, n, 1, o.Reference)
			}
			continue
		}
		assert.Equal(t, want, got, "%s: goods, courier, message, refund", o.Reference)
		assert.Len(t, c.answers[i], 1, "%s was answered differently: %v", o.Reference, c.answers[i])
		for a := range c.answers[i] {
			assert.Equal(t, status, a.status, "%s: %s", o.Reference, a.text)
		}
	}
	if len(listed) == 0 {
		assert.Equal(t, theirs, s.ledger())
	}
	if t.Failed() {
		text, _ := os.ReadFile(s.log.Name())
		t.Logf("the service's log:\n%s\nStripe:\n%s\nSvix:\n%s", text, s.stripeBox.Ledger(), s.svixBox.Ledger())
	}
}

// anOrder is the order of a number: one in six has a card that is refused, and one in
// six a courier's.
func anOrder(i int) order {
	o := order{Reference: fmt.Sprintf("order-%d", i), Goods: 1000 + int64(i), Card: goodCard, Courier: 500 + int64(i), CourierCard: goodCard}
	random := rand.New(rand.NewPCG(*seed, uint64(i)))
	bad := badCards[random.IntN(len(badCards))]
	switch random.IntN(6) {
	case 0:
		o.Card = bad
	case 1:
		o.CourierCard = bad
	}
	return o
}

// clients are the clients that ask for orders.
type clients struct {
	addresses []string
	asked     atomic.Uint64 // in turn
	mu        sync.Mutex
	answers   []map[answer]int // by the order's number: how often each was given
}

type answer struct {
	status int
	text   string
}

// storm has every order asked for, sixteen at a time.
func (c *clients) storm(t *testing.T) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range *count {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if i%5 == 4 {
				_, _ = c.ask(i, 20*time.Millisecond) // and never again
				return
			}
			var both sync.WaitGroup
			for client := range 2 {
				random := rand.New(rand.NewPCG(*seed, uint64(2*i+client)))
				both.Go(func() { c.insist(t, i, random, time.Duration(50+random.IntN(1000))*time.Millisecond) })
			}
			both.Wait()
		})
	}
	all.Wait()
}

// patience is the time after which an order counts as lost.
const patience = 2 * time.Minute

// insist asks until there is an answer. A client that got none waits longer the next time, since a busy machine may
// need more time than the client gave it at first.
func (c *clients) insist(t *testing.T, i int, random *rand.Rand, timeout time.Duration) {
	pause := time.Duration(20+random.IntN(100)) * time.Millisecond
	assert.EventuallyWithT(t, func(t *assert.CollectT) {
		a, err := c.ask(i, timeout)
		if !assert.NoError(t, err) {
			timeout += timeout / 4
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.answers[i] == nil {
			c.answers[i] = map[answer]int{}
		}
		c.answers[i][a]++
	}, patience, pause, "an order is lost: %s", anOrder(i).Reference)
}

func (c *clients) ask(i int, timeout time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	body, err := json.Marshal(anOrder(i))
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.addresses[c.asked.Add(1)%uint64(len(c.addresses))]+"/orders", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer of-shop-7")
	req.Header.Set("Idempotency-Key", fmt.Sprintf("key-of-%s", anOrder(i).Reference))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusServiceUnavailable {
		err = errors.New(string(text))
	}
	return answer{resp.StatusCode, string(text)}, err
}

// nothingIsLeft waits, as another process beside the service, until every flow has ended without being asked for. A
// flow may also be listed as needing attention, by itself or by the operation that it waits for. It returns the
// orders that are listed.
func (s *storm) nothingIsLeft() map[string]bool {
	j, err := s.open()
	require.NoError(s, err)
	defer j.Close()
	ctx := context.Background()
	var listed map[string]bool
	assert.EventuallyWithT(s, func(t *assert.CollectT) {
		listed = map[string]bool{}
		needs := map[journal.Ref]bool{}
		for op, err := range j.List(ctx, journal.Filter{NeedsAttention: time.Now()}) {
			assert.NoError(t, err)
			needs[op.Ref] = true
		}
		for f, err := range j.ListFlows(ctx, journal.FlowFilter{}) {
			assert.NoError(t, err)
			if f.State.Ended() {
				continue
			}
			if f.NeedsAttention(time.Now()) == "" && !needs[f.WaitsFor] {
				assert.Fail(t, "hangs unlisted", "%s: %v", f.ID, f)
				continue
			}
			f, err = j.GetFlow(ctx, f.Ref)
			assert.NoError(t, err)
			var o order
			assert.NoError(t, json.Unmarshal(f.Input, &o))
			listed[o.Reference] = true
		}
	}, patience, 50*time.Millisecond, "flows are left")
	return listed
}

// ledger is the service's own, by payment.
func (s *storm) ledger() map[string]int64 {
	t := s.T
	j, err := s.open()
	require.NoError(t, err)
	defer j.Close()
	sums := map[string]int64{}
	add := func(scan func(...any) error) {
		var payment string
		var cents int64
		require.NoError(t, scan(&payment, &cents))
		sums[payment] = cents
	}
	const query = "SELECT payment, CAST(SUM(cents) AS BIGINT) FROM ledger GROUP BY payment"
	switch j := j.(type) {
	case *sqlite.Journal:
		wrong, err := j.Verify(t.Context())
		require.NoError(t, err)
		assert.Empty(t, wrong)
		tx, err := j.BeginSQL(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		rows, err := tx.QueryContext(t.Context(), query)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			add(rows.Scan)
		}
		require.NoError(t, rows.Err())
	case *postgres.Journal:
		wrong, err := j.Verify(t.Context())
		require.NoError(t, err)
		assert.Empty(t, wrong)
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(t.Context()) }()
		rows, err := tx.Driver().(pgx.Tx).Query(t.Context(), query)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			add(rows.Scan)
		}
		require.NoError(t, rows.Err())
	}
	return sums
}
