package market

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// Store is the place of a marketplace's journal and tables.
type Store struct {
	Database string                                                       // of the processes' plans
	Open     func(ctx context.Context, database string) (Database, error) // of this process
	Buried   func(t *testing.T)                                           // ends the sessions of killed processes; nil if the store does so at once
}

// The orders that don't end by a payout.
const (
	declined = "order-declined" // by a 200
	unpaid   = "order-unpaid"   // whether its seller was paid is unknown
)

// world is what lies around the processes of a marketplace.
type world struct {
	t             *testing.T
	store         Store
	stripe, adyen *providertest.Server
	at            atomic.Pointer[url.URL] // where a process listens
	front         *httptest.Server        // passes requests to it
	client        *http.Client            // reaches the front
}

// EveryOrderEndsOrNeedsAttention kills a process at each point in an order, takes both providers away, declines by a
// 200, and fails after an effect. Each effect is made at most once, and booked once. Each order ends by itself, or
// stands on the list of what needs attention.
func EveryOrderEndsOrNeedsAttention(t *testing.T, store Store) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Database)
	require.NoError(t, err)
	w := open(t, db, store)
	var placed []string
	for i, at := range Points {
		o := order{ID: fmt.Sprintf("order-%c", 'a'+i), By: "stripe"}
		p := w.start(o.ID, at)
		w.settled(db, len(placed))
		if at == Executed || at == Heard {
			w.stripe.ScriptEvents(providertest.EventManner{BeforeResponse: true})
		}
		w.place(o, p)
		p.killed()
		placed = append(placed, o.ID)
	}
	w.start("none", "")
	w.place(order{ID: "order-a", By: "stripe"}, nil) // its buyer got no answer
	w.place(order{ID: declined, By: "adyen"}, nil)
	w.stripe.Script(providertest.FailAfter(http.StatusInternalServerError))
	w.stripe.ScriptEvents(providertest.EventManner{BeforeResponse: true})
	w.place(order{ID: "order-failed", By: "stripe"}, nil)
	placed = append(placed, declined, "order-failed")
	w.settled(db, len(placed))
	w.away(func() {
		for n, by := range []string{"stripe", "adyen", "stripe"} {
			o := order{ID: fmt.Sprint("order-away-", n), By: by}
			w.place(o, nil)
			placed = append(placed, o.ID)
		}
	})
	w.settled(db, len(placed))
	w.adyen.Script(providertest.None(), providertest.PageBefore(http.StatusServiceUnavailable)) // of the payout: Adyen forbids a repeat
	w.place(order{ID: unpaid, By: "adyen"}, nil)
	w.stripe.Advance(2 * time.Minute) // events that met a killed process come again
	placed = append(placed, unpaid)
	w.settled(db, len(placed))
	w.judge(db, placed)
}

// OutageOfBothProviders takes both providers away for minutes of virtual time, and one declines by a 200 afterwards. It runs in
// a bubble. Every order that was not declined is charged and paid out once.
func OutageOfBothProviders(t *testing.T, db Database) {
	t.Helper()
	w := &world{t: t}
	w.prepare(db, providertest.NewUnstartedServerInMemory, toFront{w})
	s := &service{Plan: Plan{Stripe: w.stripe.URL, Adyen: w.adyen.URL}, db: db, via: toProviders{w}}
	handler, err := s.begin(t.Context(), backoff.Policy{}, onceward.Reconcile{})
	require.NoError(t, err)
	w.front = providertest.ServeInMemory(handler)
	t.Cleanup(w.front.Close)
	w.stripe.Events(w.front.URL+"/webhooks/stripe", stripeSecret)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.client.Run(ctx) }()
	defer func() { stop(); <-done; assert.NoError(t, s.client.Shutdown(context.WithoutCancel(ctx))) }()
	var placed []string
	place := func(id, by string) {
		w.place(order{ID: id, By: by}, nil)
		placed = append(placed, id)
		<-time.After(time.Second)
	}
	place("order-before", "stripe")
	w.stripe.Seed(1, providertest.Mix{PageBefore: 1})
	w.adyen.Seed(1, providertest.Mix{DropBefore: 1})
	for n, by := range []string{"stripe", "adyen", "stripe", "adyen"} {
		place(fmt.Sprint("order-away-", n), by)
	}
	<-time.After(5 * time.Minute)
	assert.NotEmpty(t, w.restless(db, len(placed)))
	w.stripe.Seed(1, providertest.Mix{})
	w.adyen.Seed(1, providertest.Mix{})
	place(declined, "adyen")
	<-time.After(time.Hour)
	assert.Empty(t, w.restless(db, len(placed)))
	w.judge(db, placed)
}

// toFront is a transport to the front of a world.
type toFront struct{ *world }

func (w toFront) RoundTrip(r *http.Request) (*http.Response, error) {
	return w.front.Client().Transport.RoundTrip(r)
}

// toProviders is a transport to the providers of a world.
type toProviders struct{ *world }

func (w toProviders) RoundTrip(r *http.Request) (*http.Response, error) {
	box := w.adyen
	if "http://"+r.URL.Host == w.stripe.URL {
		box = w.stripe
	}
	return box.Client().Transport.RoundTrip(r)
}

// open starts the world of processes that are killed.
func open(t *testing.T, db Database, store Store) *world {
	w := &world{t: t, store: store}
	w.prepare(db, providertest.NewUnstartedServer, http.DefaultTransport)
	w.front = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if at := w.at.Load(); at != nil {
				r.SetURL(at)
			}
		},
		Transport:    &http.Transport{DisableKeepAlives: true},
		ErrorHandler: func(to http.ResponseWriter, _ *http.Request, _ error) { to.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(w.front.Close)
	w.stripe.Events(w.front.URL+"/webhooks/stripe", stripeSecret)
	return w
}

// prepare makes the tables and the providers, whose events go via a transport.
func (w *world) prepare(db Database, unstarted func(providers.Provider, http.Handler) *providertest.Server, events http.RoundTripper) {
	w.client = &http.Client{Transport: events}
	transaction(w.t, db, func(ctx context.Context, tx any) {
		for _, table := range tables {
			require.NoError(w.t, db.Exec(ctx, tx, table))
		}
	})
	var made atomic.Int64
	answers := func(to http.ResponseWriter, text string, args ...any) {
		to.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(to, text, append([]any{made.Add(1)}, args...)...)
	}
	w.stripe = unstarted(providers.Stripe(), http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		answers(to, `{"id":"ch_%d","object":"charge","status":"succeeded","refunded":false,"amount":2000,"currency":"eur","description":%q}`, r.FormValue("description"))
	}))
	w.adyen = unstarted(providers.Adyen(""), http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		var asked struct{ Reference string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(to, "no JSON", http.StatusBadRequest)
			return
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/transfers"):
			answers(to, `{"id":"tr_%d","status":"received","reference":%q,"amount":{"value":1800,"currency":"EUR"},"balanceAccount":{"id":"BA_1"},"category":"bank"}`, asked.Reference)
		case asked.Reference == declined:
			answers(to, `{"pspReference":"psp_%d","resultCode":"Refused","refusalReason":"Not enough balance"}`)
		default:
			answers(to, `{"pspReference":"psp_%d","resultCode":"Authorised"}`)
		}
	}))
	for _, box := range []*providertest.Server{w.stripe, w.adyen} {
		box.RetryAfter, box.EventClient = -1, w.client
		box.Start()
		w.t.Cleanup(box.Close)
	}
	w.stripe.EveryEvent(providertest.EventManner{Delay: 50 * time.Millisecond})
}

// away takes both providers away, until each has turned ten requests off.
func (w *world) away(place func()) {
	w.t.Helper()
	most := map[*providertest.Server]int{}
	for _, box := range []*providertest.Server{w.stripe, w.adyen} {
		most[box] = box.Requests() + 10
	}
	w.stripe.Seed(1, providertest.Mix{PageBefore: 1})
	w.adyen.Seed(1, providertest.Mix{DropBefore: 1})
	place()
	for box, n := range most {
		require.Eventually(w.t, func() bool { return box.Requests() >= n }, time.Minute, 10*time.Millisecond)
		box.Seed(1, providertest.Mix{})
	}
}

// process is a marketplace process.
type process struct {
	world *world
	*exec.Cmd
}

// start starts a process that kills itself at a point of an order, and waits until the process listens.
func (w *world) start(doomed string, at Point) *process {
	w.t.Helper()
	plan, err := json.Marshal(Plan{Database: w.store.Database, Stripe: w.stripe.URL, Adyen: w.adyen.URL, Doomed: doomed, At: at})
	require.NoError(w.t, err)
	self, err := os.Executable()
	require.NoError(w.t, err)
	p := &process{w, exec.CommandContext(w.t.Context(), self)}
	p.Env = append(os.Environ(), planVariable+"="+string(plan))
	p.Stderr = os.Stderr
	_, err = p.StdinPipe() // ends with this process
	require.NoError(w.t, err)
	out, err := p.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, p.Start())
	w.t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(w.t, err)
	w.at.Store(&url.URL{Scheme: "http", Host: strings.TrimSpace(line)})
	return p
}

// killed waits until the process has killed itself.
func (p *process) killed() {
	p.world.t.Helper()
	state, err := p.Process.Wait()
	require.NoError(p.world.t, err)
	require.False(p.world.t, state.Exited(), state)
	if p.world.store.Buried != nil {
		p.world.store.Buried(p.world.t)
	}
}

// place places an order, like a buyer who asks until there is an answer. dies is the process if it may die before.
func (w *world) place(o order, dies *process) {
	w.t.Helper()
	text, err := json.Marshal(o)
	require.NoError(w.t, err)
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.front.URL+"/orders/"+o.ID, strings.NewReader(string(text)))
	require.NoError(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "key-of-"+o.ID)
	resp, err := w.client.Do(r)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	if dies == nil || resp.StatusCode != http.StatusBadGateway {
		require.Equal(w.t, http.StatusCreated, resp.StatusCode, "%s", said)
	}
}

// transaction calls do in a transaction on the journal's database.
func transaction(t *testing.T, db Database, do func(ctx context.Context, tx any)) {
	t.Helper()
	ctx := t.Context()
	tx, err := db.Journal.BeginTx(ctx)
	require.NoError(t, err)
	defer func() { assert.NoError(t, tx.Commit(ctx)) }()
	do(ctx, tx.Driver())
}

// restless lists what has not ended, and stands on no list.
func (w *world) restless(db Database, orders int) (all []string) {
	ctx, flows := w.t.Context(), 0
	needs, flowNeeds := map[journal.Ref]bool{}, map[string]bool{}
	for op, err := range db.Journal.List(ctx, journal.Filter{NeedsAttention: time.Now()}) {
		require.NoError(w.t, err)
		needs[op.Ref], flowNeeds[op.Flow.ID] = true, true
	}
	for op, err := range db.Journal.List(ctx, journal.Filter{}) {
		require.NoError(w.t, err)
		if settled := op.State == journal.StateCompleted || op.State == journal.StateCancelled; !needs[op.Ref] && (!settled || !op.Delivered) {
			all = append(all, fmt.Sprintf("%s of %s is %s, delivered: %t", op.ID, op.Flow.ID, op.State, op.Delivered))
		}
	}
	for f, err := range db.Journal.ListFlows(ctx, journal.FlowFilter{}) {
		require.NoError(w.t, err)
		flows++
		if !f.State.Ended() && f.NeedsAttention(time.Now()) == "" && !flowNeeds[f.ID] {
			all = append(all, fmt.Sprintf("%s is %s: %s", f.ID, f.State, f.Cause))
		}
	}
	if flows != orders {
		all = append(all, fmt.Sprintf("there are %d flows of %d orders", flows, orders))
	}
	return all
}

// settled waits until every order has ended, or stands on the list.
func (w *world) settled(db Database, orders int) {
	w.t.Helper()
	var left []string
	if !assert.Eventually(w.t, func() bool { left = w.restless(db, orders); return len(left) == 0 }, time.Minute, 10*time.Millisecond) {
		require.Empty(w.t, left)
	}
}

// judge compares the providers' ledgers with the journal and with the tables.
func (w *world) judge(db Database, placed []string) {
	t, ctx := w.t, w.t.Context()
	effects, booked, status := map[string]int{}, map[string]int{}, map[string]int{}
	for _, e := range w.stripe.Effects() {
		form, err := url.ParseQuery(string(e.Body))
		require.NoError(t, err)
		effects[form.Get("description")+" charge"]++
	}
	for _, e := range w.adyen.Effects() {
		var asked struct{ Reference string }
		require.NoError(t, json.Unmarshal(e.Body, &asked))
		step := " charge"
		if strings.HasSuffix(e.Path, "/transfers") {
			step = " payout"
		}
		if asked.Reference != declined || step == " payout" {
			effects[asked.Reference+step]++
		}
	}
	var refused []string
	transaction(t, db, func(ctx context.Context, tx any) {
		for query, into := range map[string]map[string]int{
			"SELECT name FROM {booked} WHERE effect = 'took effect'": booked,
			"SELECT id || ' ' || status FROM {orders}":               status,
		} {
			texts, err := db.Texts(ctx, tx, query)
			require.NoError(t, err)
			for _, text := range texts {
				into[text]++
			}
		}
		var err error
		refused, err = db.Texts(ctx, tx, "SELECT name FROM {booked} WHERE effect = 'refused'")
		require.NoError(t, err)
	})
	wantEffects, wantStatus := map[string]int{}, map[string]int{}
	var wantRefused, wantNeeds []string
	for _, id := range placed {
		switch id {
		case declined:
			wantStatus[id+" given up"], wantRefused = 1, []string{id + " charge"}
		case unpaid:
			wantEffects[id+" charge"], wantStatus[id+" open"], wantNeeds = 1, 1, []string{id + " payout"}
		default:
			wantEffects[id+" charge"], wantEffects[id+" payout"], wantStatus[id+" paid"] = 1, 1, 1
		}
	}
	assert.Equal(t, wantRefused, refused)
	assert.Equal(t, wantEffects, effects)
	assert.Equal(t, effects, booked, "each effect is booked once")
	assert.Equal(t, wantStatus, status)
	for f, err := range db.Journal.ListFlows(ctx, journal.FlowFilter{}) {
		require.NoError(t, err)
		switch f.ID {
		case declined:
			assert.Equal(t, flow.StateGivenUp, f.State)
		case unpaid:
			assert.False(t, f.State.Ended(), f.State) // it waits, or asks again
		default:
			assert.Equal(t, flow.StateFinished, f.State, "%s: %s", f.ID, f.Cause)
		}
	}
	var needs []string
	for op, err := range db.Journal.List(ctx, journal.Filter{NeedsAttention: time.Now()}) {
		require.NoError(t, err)
		needs = append(needs, op.Flow.ID+" "+op.ID)
	}
	assert.Equal(t, wantNeeds, needs)
	w.stripe.AssertSettledTruly(t, db.Journal)
	w.adyen.AssertSettledTruly(t, db.Journal)
	wrong, err := db.Journal.Verify(ctx)
	require.NoError(t, err)
	assert.Empty(t, wrong)
}
