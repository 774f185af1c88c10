package providertest_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// failing is a test that only notes that it failed.
type failing struct {
	testing.TB
	said []string
}

func (f *failing) Helper() {}

func (f *failing) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// A failed assertion shows the fate of each request.
func TestAssertionsNameTheRequestsFates(t *testing.T) {
	srv := start(t, providers.Checkout(), saying(http.StatusCreated, `{"id":"pay_1"}`))
	srv.Script(providertest.FailAfter(http.StatusBadGateway), providertest.None(), providertest.DropBefore(), providertest.Status(503, nil))
	pay := func(key string) {
		_, _, _ = send(t.Context(), http.MethodPost, srv.URL+"/payments", "", "{}", "Cko-Idempotency-Key", key)
	}
	for _, key := range []string{"k1", "k1", "k1", "k1", "k1", "k2", "k1"} {
		pay(key)
	}

	f := &failing{}
	assert.True(t, srv.AssertOneEffect(f, "k2"))
	assert.True(t, srv.AssertEffects(f, "k1", 2))
	assert.True(t, srv.AssertEffects(f, "k3", 0))
	assert.True(t, srv.AssertNoDuplicates(f, func(providertest.Effect) string { return "" }))
	assert.Empty(t, f.said)

	assert.False(t, srv.AssertOneEffect(f, "k1"))
	require.Len(t, f.said, 1)
	assert.Equal(t, `key "k1" has had 2 effects, not 1:
request  key   of              fault                                     came of it
1        "k1"  POST /payments  failure with status 502 after the effect  executed: 502, effect 1
2        "k1"  POST /payments  none                                      executed: 201, effect 2
3        "k1"  POST /payments  drop before the effect                    not executed
4        "k1"  POST /payments  status 503                                not executed: 503
5        "k1"  POST /payments  none                                      replayed: 201
7        "k1"  POST /payments  none                                      replayed: 201
and 1 more
`, f.said[0])

	assert.False(t, srv.AssertNoDuplicates(f, nil))
	assert.Contains(t, f.said[1], "map[k1:2]")
	assert.Contains(t, srv.Ledger(), "6        \"k2\"  POST /payments")
	assert.Equal(t, 8, strings.Count(srv.Ledger(), "\n"))
}

// The ledger has the fate of a request as soon as its client knows it.
func TestLedgerHasTheFateOfARequest(t *testing.T) {
	t.Parallel()
	srv := start(t, providers.Stripe(), created)
	srv.Seed(1, providertest.Mix{DropBefore: 0.4, DropAfter: 0.2, Cut: 0.2, Status: 0.1})
	for n := range 300 {
		_, _, _ = send(t.Context(), http.MethodPost, srv.URL+"/v1/charges", fmt.Sprint("k", n), "amount=1")
		require.NotContains(t, srv.Ledger(), "is being worked on")
	}
}

func TestTheLedgerHasNeitherHeadersNorBodies(t *testing.T) {
	srv := start(t, providers.Stripe(), created)
	post(t, srv.URL+"/v1/charges", "k1", "card=4242", "Authorization", "Bearer sk_live")
	assert.NotContains(t, srv.Ledger(), "4242")
	assert.NotContains(t, srv.Ledger(), "sk_live")
}

// A handler's panic is logged and ends the connection.
func TestHandlersPanicIsLogged(t *testing.T) {
	var logged bytes.Buffer
	srv := providertest.NewUnstartedServer(providers.Stripe(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("out of coins") }))
	srv.ErrorLog = log.New(&logged, "", 0)
	srv.Start()
	_, _, err := send(t.Context(), http.MethodPost, srv.URL+"/v1/charges", "k1", "")
	srv.Close()
	require.Error(t, err)
	assert.Contains(t, logged.String(), "out of coins")
	assert.Contains(t, srv.Ledger(), "the handler panicked")
	assert.Empty(t, srv.Effects())
}

func TestADetourTakesRequestsForAnyHost(t *testing.T) {
	var host string
	srv := start(t, providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host = r.Host
		created(w, r)
	}))
	via := &http.Client{Transport: srv.Detour()}
	req, err := http.NewRequest(http.MethodPost, "https://api.stripe.com/v1/charges", nil)
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k1")
	resp, err := via.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, "https://api.stripe.com/v1/charges", resp.Request.URL.String())
	assert.Equal(t, "https://api.stripe.com/v1/charges", req.URL.String())
	assert.Equal(t, "api.stripe.com", host)
	srv.AssertOneEffect(t, "k1")

	srv.Script(providertest.DropBefore())
	_, err = via.Post("https://api.stripe.com/v1/charges", "", nil)
	assert.ErrorContains(t, err, "api.stripe.com")
}

func TestManyAtOnceHaveOneEffectForEachKey(t *testing.T) {
	srv := start(t, providers.Raw(day), created)
	srv.Seed(7, providertest.Mix{DropAfter: 0.1, Cut: 0.1, Status: 0.1, PageAfter: 0.1})
	var all sync.WaitGroup
	for n := range 60 {
		all.Go(func() {
			_, _, _ = send(context.Background(), http.MethodPost, srv.URL, fmt.Sprint("k", n%6), "")
			srv.Advance(0)
			_ = srv.Ledger()
			_ = srv.Effects()
		})
	}
	all.Wait()
	srv.Seed(0, providertest.Mix{})
	for n := range 6 {
		post(t, srv.URL, fmt.Sprint("k", n), "")
		srv.AssertOneEffect(t, fmt.Sprint("k", n))
	}
	srv.AssertNoDuplicates(t, nil)
	assert.Equal(t, 66, srv.Requests())
}
