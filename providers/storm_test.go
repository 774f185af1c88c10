//go:build unix

package providers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// stormy are requests at the newest tables. REF stands for a text of one operation.
var stormy = []struct {
	table   func() providers.Provider
	request string
	member  string // of the answer, which has its object
}{
	{providers.Plaid, "https://production.plaid.com/bank_transfer/create\n" + `{"account_id":"a1","amount":"10.00","description":"REF"}`, "bank_transfer"},
	{func() providers.Provider { return providers.ACP("shop.example.com") }, "https://shop.example.com/checkout_sessions/REF/complete\n{}", ""},
	{providers.Airwallex, "https://api.airwallex.com/api/v1/transfers/create\n" + `{"transfer_amount":"10.00","transfer_currency":"USD","reference":"REF"}`, ""},
	{providers.Circle, "https://api.circle.com/v1/w3s/developer/transactions/transfer\n" + `{"refId":"REF","destinationAddress":"0x1","walletId":"w1","amounts":["10"]}`, "data"},
	{providers.Lithic, "https://api.lithic.com/v1/cards\n" + `{"type":"VIRTUAL","memo":"REF"}`, ""},
	{providers.Lithic, "https://api.lithic.com/v1/payments\n" + `{"token":"REF","amount":10,"financial_account_token":"a1"}`, "echo"},
	{func() providers.Provider { return providers.Marqeta("sandbox-api.marqeta.com") }, "https://sandbox-api.marqeta.com/v3/cards\n" + `{"user_token":"u1","card_product_token":"REF"}`, "echo"},
	{providers.Chargebee, "https://site.chargebee.com/api/v2/customers\nid=REF&email=ada%40example.com", "customer"},
	{providers.Flutterwave, "https://f4bexperience.flutterwave.com/charges\n" + `{"reference":"REF","amount":10,"currency":"NGN"}`, "data"},
	{providers.Rapyd, "https://api.rapyd.net/v1/payments\n" + `{"merchant_reference_id":"REF","amount":10,"currency":"USD"}`, "data"},
	{providers.Paystack, "https://api.paystack.co/transfer\n" + `{"amount":1000,"currency":"NGN","recipient":"RCP_1","reason":"REF"}`, "data"},
	{providers.Telnyx, "https://api.telnyx.com/v2/number_orders\n" + `{"customer_reference":"REF","phone_numbers":[{"phone_number":"+15550001"}]}`, "data"},
	{providers.Finix, "https://finix.live-payments-api.com/transfers\n" + `{"amount":10,"currency":"USD","tags":{"order":"REF"}}`, ""},
	{providers.AmazonPay, "https://pay-api.amazon.com/v2/charges\n" + `{"chargeAmount":{"amount":"10"},"merchantMetadata":{"merchantReferenceId":"REF"}}`, ""},
	{providers.Moov, "https://api.moov.io/accounts/1/transfers\n" + `{"amount":{"value":10},"description":"REF"}`, ""},
}

// stormTables are the tables of the stormy requests, one of each.
func stormTables() (tables []providers.Provider) {
	known := map[string]bool{}
	for _, row := range stormy {
		if p := row.table(); !known[p.Name] {
			known[p.Name] = true
			tables = append(tables, p)
		}
	}
	return tables
}

// errand is one operation of the storm.
type errand struct{ name, url, body string }

// errands are the same in every process.
func errands(of int) (all []errand) {
	for n := range of {
		for i, row := range stormy {
			ref := fmt.Sprintf("5b39fe05-3dcd-4ab2-8b2c-%06d%06d", i, n)
			to, body, _ := strings.Cut(strings.ReplaceAll(row.request, "REF", ref), "\n")
			all = append(all, errand{ref, to, body})
		}
	}
	return all
}

// storm is the plan of a process that makes every errand. It goes on until the journal knows the outcome of each
// errand or has it for a person.
type storm struct {
	Path  string
	Of    int
	Boxes map[string]string // by host
}

// RoundTrip takes a request to the box of its host.
func (s *storm) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(s.Boxes[r.URL.Host])
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("no box for %s: %w", r.URL.Host, errors.Join(err, r.Body.Close()))
	}
	asked := r
	r = r.Clone(r.Context())
	r.Host, r.URL.Scheme, r.URL.Host = r.URL.Host, to.Scheme, to.Host
	resp, err := http.DefaultTransport.RoundTrip(r)
	if resp != nil {
		resp.Request = asked
	}
	return resp, err
}

func (s *storm) client(j *sqlite.Journal) (*onceward.Client, error) {
	return onceward.New(onceward.Config{
		Journal: j, Providers: stormTables(), HTTPClient: &http.Client{Transport: s},
		Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer of a storm")
			return nil
		},
		Backoff:   backoff.Policy{Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond},
		Reconcile: &onceward.Reconcile{Schedule: []time.Duration{time.Second}, GiveUpAfter: 3 * time.Second},
	})
}

func (s *storm) carryOut() error {
	go oncetest.OutliveNobody()
	j, err := sqlite.Open(s.Path, sqlite.Options{})
	if err != nil {
		return err
	}
	c, err := s.client(j)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The last process may have been killed as it looked. It was the only one, so no other process looks for these operations.
	for op, err := range j.List(ctx, journal.Filter{States: []journal.State{journal.StateUnknown}}) {
		if err != nil {
			return err
		}
		if _, err := j.Apply(ctx, machine.Event{Kind: machine.EventHint, Ref: op.Ref, Handle: op.Handle, At: time.Now()}); err != nil {
			return err
		}
	}
	if _, err := c.Resume(ctx); err != nil {
		return err
	}
	go c.Run(ctx)
	err = s.settle(ctx, c)
	return errors.Join(err, c.Shutdown(ctx), j.Close())
}

// settle makes the errands, eight at once.
func (s *storm) settle(ctx context.Context, c *onceward.Client) error {
	slots := make(chan struct{}, 8)
	var calls sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, e := range errands(s.Of) {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			if err := e.settle(ctx, c); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("%s: %w", e.url, err))
			}
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}

// settle asks for the errand until it is completed, or needs a person.
func (e errand) settle(ctx context.Context, c *onceward.Client) error {
	for {
		req, err := http.NewRequestWithContext(onceward.WithOperation(ctx, e.name), http.MethodPost, e.url, strings.NewReader(e.body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		if !strings.HasPrefix(e.body, "{") {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		resp, err := c.HTTPClient().Do(req)
		if err == nil {
			_ = resp.Body.Close()
		} else if _, ours := errors.AsType[*onceward.Error](err); !ours {
			return err
		}
		op, err := c.Operation(ctx, onceward.Ref{ID: e.name})
		switch {
		case err != nil:
			return err
		case op.State == onceward.StateCompleted, op.State == onceward.StateUnknown && op.Attention != "":
			return nil
		}
		select {
		case <-time.After(max(time.Until(op.DueAt), 20*time.Millisecond)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stormBoxes starts a box for each table, and returns the plan with their addresses.
func stormBoxes(t *testing.T, s storm, seed uint64, mix providertest.Mix, observe func(providertest.Request)) (storm, []*providertest.Server) {
	s.Boxes = map[string]string{}
	var boxes []*providertest.Server
	for i, p := range stormTables() {
		box := providertest.NewUnstartedServer(p, stormBusiness(p.Name))
		box.Observe = observe
		box.Seed(seed+uint64(i), mix)
		box.Start()
		t.Cleanup(box.Close)
		boxes = append(boxes, box)
		for _, row := range stormy {
			if to, err := url.Parse(strings.SplitN(row.request, "\n", 2)[0]); row.table().Name == p.Name && assert.NoError(t, err) {
				s.Boxes[to.Host] = box.URL
			}
		}
	}
	return s, boxes
}

// stormBusiness makes the objects of one provider, in the shapes of the stormy requests.
func stormBusiness(name string) http.Handler {
	kinds := map[string]http.Handler{}
	for _, row := range stormy {
		if row.table().Name != name {
			continue
		}
		to, _, _ := strings.Cut(row.request, "\n")
		_, rest, _ := strings.Cut(strings.TrimPrefix(to, "https://"), "/")
		switch path := "/" + rest; {
		case row.member == "echo":
			kinds[path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.Copy(w, r.Body)
			})
		case row.member == "customer":
			kinds[path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"customer":{"id":%q}}`, r.PostFormValue("id"))
			})
		default:
			kinds[path] = providertest.ObjectsIn(row.member, "obj_")
		}
	}
	sessions := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%q,"status":"completed"}`, strings.Split(r.URL.Path, "/")[2])
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind := kinds[r.URL.Path]; kind != nil {
			kind.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}

// The newest tables in a storm. Their answers are lost, cut or refused, and the paying process is killed again and
// again. No errand takes effect twice. A person reads the ledger for errands without evidence, and then each has
// taken effect.
func TestNewestTablesInAStormOfKills(t *testing.T) {
	t.Parallel()
	of := soak.Times(1, 8)
	kills := soak.Times(3, 60)
	seed := soak.Seed(t, 11)
	random := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	var number, struck int
	var victim *oncetest.Child
	var ahead []int // numbers of requests
	span := of * len(stormy)
	for i := range kills {
		from, to := i*span/kills, (i+1)*span/kills
		ahead = append(ahead, from+1+random.IntN(to-from))
	}
	observe := func(providertest.Request) {
		mu.Lock()
		defer mu.Unlock()
		number++
		if victim != nil && len(ahead) > 0 && number >= ahead[0] {
			ahead = ahead[1:]
			victim.Kill()
			victim = nil
			struck++
		}
	}
	plan, boxes := stormBoxes(t, storm{Path: filepath.Join(t.TempDir(), "payments.db"), Of: of}, seed, providertest.Mix{
		DropBefore: 0.08, DropAfter: 0.12, Cut: 0.08, DelayBefore: 0.05, DelayAfter: 0.05, Status: 0.1, MaxDelay: 50 * time.Millisecond,
		Statuses: []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}, Header: http.Header{"Retry-After": {"1"}},
	}, observe)
	for killed := true; killed; {
		child, err := oncetest.StartChild(t.Context(), ordinaryRequests{Storm: &plan})
		require.NoError(t, err)
		mu.Lock()
		victim = child
		mu.Unlock()
		killed, err = child.End()
		require.NoError(t, err)
		mu.Lock()
		victim = nil
		mu.Unlock()
	}
	assert.Positive(t, struck)

	j, err := sqlite.Open(plan.Path, sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	for _, box := range boxes {
		box.Close() // requests that are under way end
		box.AssertSettledTruly(t, j)
	}
	calm, later := stormBoxes(t, plan, seed, providertest.Mix{}, nil)
	c, err := calm.client(j)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Shutdown(context.Background())) })
	var duplicates, found, persons, misses int
	var open []errand
	for _, e := range errands(of) {
		op, err := c.Operation(t.Context(), onceward.Ref{ID: e.name})
		require.NoError(t, err, "it is lost")
		n := effectsAt(boxes, e)
		duplicates += max(n-1, 0)
		if op.State == onceward.StateCompleted {
			if op.Answer.Found {
				found++
			}
			assert.Equal(t, 1, n, "%s %s", e.url, e.name)
			continue
		}
		require.Equal(t, onceward.StateUnknown, op.State, "%s %s", e.url, e.name)
		persons++
		resolution := onceward.Executed
		if n == 0 {
			misses++
			resolution = onceward.NotExecuted
		}
		_, err = c.Resolve(t.Context(), op.Seen, resolution, onceward.ResolveOptions{By: "a person", Why: "so the ledger says"})
		require.NoError(t, err, "%s %s: %s", e.url, e.name, op.Attention)
		open = append(open, e)
	}
	for _, e := range open { // a completed one may be sent again for its answer, and the later boxes never knew its key
		require.NoError(t, e.settle(t.Context(), c))
	}
	for _, e := range errands(of) {
		assert.Equal(t, 1, effectsAt(boxes, e)+effectsAt(later, e), "%s %s", e.url, e.name)
	}
	t.Logf("seed %d: %d operations at %d tables, %d requests, %d kills: %d duplicates, 0 lost, %d found by look-ups, %d for a person, of which %d had not taken effect",
		seed, len(errands(of)), len(boxes), number, struck, duplicates, found, persons, misses)
}

// effectsAt counts an errand's effects.
func effectsAt(boxes []*providertest.Server, e errand) (n int) {
	for _, box := range boxes {
		for _, effect := range box.Effects() {
			if strings.Contains(effect.Path+string(effect.Body), e.name) {
				n++
			}
		}
	}
	return n
}
