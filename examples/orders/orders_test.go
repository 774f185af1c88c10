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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

var (
	count = flag.Int("orders", 40, "how many orders are placed")
	seed  = flag.Uint64("seed", 1, "draws the orders, the faults, the kills and the clients' patience")
)

// Each order is asked for by two impatient clients at once, again and again, or by one
// that asks once and goes away. Meanwhile the service, two processes on a read-only root
// with one folder to write to, each of which is killed and deployed, and the providers
// lose, cut and delay answers. In
// the end each order has had each of its effects once, or had them taken back; whoever
// asks is told the same; no flow is left; and the ledger says what Stripe's books say.
func TestEveryOrderTakesEffectOnce(t *testing.T) {
	*count, *seed = soak.Times(*count, 200), soak.Seed(t, *seed)
	books, outbox := &stripeBusiness{payments: map[string]payment{}}, &svixBusiness{messages: map[string]message{}}
	stripeBox := providertest.NewServer(providers.Stripe(), books)
	defer stripeBox.Close()
	svixBox := providertest.NewServer(providers.Svix(), outbox)
	defer svixBox.Close()
	mix := providertest.Mix{
		DropBefore: .03, DropAfter: .05, Cut: .03, CutResponse: .02, PageBefore: .02, PageAfter: .02, Status: .03,
		DelayBefore: .05, DelayAfter: .1, MaxDelay: 300 * time.Millisecond,
	}
	stripeBox.Seed(*seed, mix)
	svixBox.Seed(*seed+1, mix)

	root := t.TempDir()
	folder := filepath.Join(root, "volume")
	require.NoError(t, os.Mkdir(folder, 0o700))
	log, err := os.Create(filepath.Join(root, "log"))
	require.NoError(t, err)
	defer log.Close()
	file := filepath.Join(folder, "orders.db")
	c := &clients{answers: make([]map[answer]int, *count)}
	var fleets [2]*fleet
	for i := range fleets {
		address := freeAddress(t)
		c.addresses = append(c.addresses, address)
		f := &fleet{t: t, address: address, log: log, attr: inNamespaces(), env: []string{
			childVariable + "=confined", "FOLDER=" + folder, "JOURNAL=" + file, "LISTEN=" + address,
			"STRIPE_URL=" + stripeBox.URL, "STRIPE_KEY=sk_test_box", "SVIX_URL=" + svixBox.URL, "SVIX_TOKEN=testsk_box",
			"ONCEWARD_SECRET=of the deployment, the same in every process",
		}}
		if err = f.start(); err == nil {
			err = f.ready()
		}
		if exit, ended := errors.AsType[*exec.ExitError](err); ended && exit.ExitCode() != unconfined {
			text, _ := os.ReadFile(log.Name())
			require.NoError(t, err, "%s", text)
		} else if err != nil {
			t.Logf("this machine lends no namespace, and the root stays writable: %v", err)
			f.attr, f.env[0] = nil, childVariable+"=free"
			require.NoError(t, f.start())
			require.NoError(t, f.ready())
		}
		fleets[i] = f
	}

	began := time.Now()
	var storms sync.WaitGroup
	end := make(chan struct{})
	for i, f := range fleets {
		storms.Go(func() { f.storm(rand.New(rand.NewPCG(*seed, uint64(i))), end) })
	}
	c.storm(t)
	close(end)
	storms.Wait()
	nothingIsLeft(t, file)
	for i := range *count {
		c.insist(t, i, rand.New(rand.NewPCG(0, 0)), 10*time.Second)
	}
	t.Logf("%d orders in %v: %d kills, %d deploys, %d requests to Stripe and %d to Svix",
		*count, time.Since(began).Round(time.Millisecond), fleets[0].kills+fleets[1].kills, fleets[0].deploys+fleets[1].deploys, stripeBox.Requests(), svixBox.Requests())
	for _, f := range fleets {
		f.stop()
	}

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
		assert.Equal(t, want, got, "%s: goods, courier, message, refund", o.Reference)
		assert.Len(t, c.answers[i], 1, "%s was answered differently: %v", o.Reference, c.answers[i])
		for a := range c.answers[i] {
			assert.Equal(t, status, a.status, "%s: %s", o.Reference, a.text)
		}
	}
	assert.Equal(t, theirs, ledger(t, file))
	if t.Failed() {
		text, _ := os.ReadFile(log.Name())
		t.Logf("the service's log:\n%s\nStripe:\n%s\nSvix:\n%s", text, stripeBox.Ledger(), svixBox.Ledger())
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

// clients are who asks for orders.
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

// patience is after how long an order counts as lost.
const patience = 2 * time.Minute

// insist asks until there is an answer. A client that got none waits longer the next time: a busy machine may need more
// time for an answer than the client gave it at first.
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

// nothingIsLeft waits, as another process beside the service, until every flow has come
// to its end without being asked for.
func nothingIsLeft(t *testing.T, file string) {
	j, err := sqlite.Open(file, sqlite.Options{})
	require.NoError(t, err)
	defer j.Close()
	c, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe()}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Shutdown(context.Background())) }()
	flows, err := flow.New(c, flow.Config{})
	require.NoError(t, err)
	assert.EventuallyWithT(t, func(t *assert.CollectT) {
		for f, err := range flows.List(context.Background(), flow.Filter{}) {
			assert.NoError(t, err)
			assert.True(t, f.State.Ended(), "%s: %v", f.ID, f)
		}
	}, patience, 50*time.Millisecond, "flows are left")
}

// ledger is the service's own, by payment.
func ledger(t *testing.T, file string) map[string]int64 {
	j, err := sqlite.Open(file, sqlite.Options{})
	require.NoError(t, err)
	defer j.Close()
	wrong, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, wrong)
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(t.Context(), "SELECT payment, SUM(cents) FROM ledger GROUP BY payment")
	require.NoError(t, err)
	defer rows.Close()
	sums := map[string]int64{}
	for rows.Next() {
		var payment string
		var cents int64
		require.NoError(t, rows.Scan(&payment, &cents))
		sums[payment] = cents
	}
	require.NoError(t, rows.Err())
	return sums
}
