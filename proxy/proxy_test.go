package proxy_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/proxy"
)

const (
	key    = "Bearer sk_test_of_the_shop"
	oldKey = "Bearer sk_test_of_yesterday"
)

var secret = []byte("a secret of 16 bytes or more")

// box is a provider behind a proxy, with the requests for an effect that reached it.
type box struct {
	*providertest.Server
	journal  journal.Journal
	client   *onceward.Client
	upstream proxy.Upstream
	handler  http.Handler

	mu   sync.Mutex
	seen []providertest.Request
}

func (b *box) requests() []providertest.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// open starts Stripe in memory, and a proxy over a new journal.
func open(t *testing.T, adjust ...func(*proxy.Upstream)) *box {
	t.Helper()
	return openAs(t, providers.Stripe(), providertest.Objects("ch_"), adjust...)
}

// openAs is open for another provider.
func openAs(t *testing.T, p providers.Provider, business http.Handler, adjust ...func(*proxy.Upstream)) *box {
	t.Helper()
	b := &box{Server: providertest.NewUnstartedServerInMemory(p, business)}
	b.Observe = func(r providertest.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if r.Method != http.MethodGet { // nor a look-up
			b.seen = append(b.seen, r)
		}
	}
	b.ErrorLog = log.New(io.Discard, "", 0)
	b.StartTLS()
	t.Cleanup(b.Close)
	at, err := url.Parse(b.URL)
	require.NoError(t, err)
	b.upstream = proxy.Upstream{URL: at, Credentials: [][]byte{[]byte(key), []byte(oldKey)}, Scope: "shop"}
	for _, f := range adjust {
		f(&b.upstream)
	}
	b.restart(t, memory.New())
	return b
}

// restart has another client over a journal serve the proxy.
func (b *box) restart(t *testing.T, j journal.Journal) {
	t.Helper()
	if b.client != nil {
		require.NoError(t, b.client.Close())
	}
	var err error
	b.journal = j
	b.client, err = onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{b.Provider()}, Secret: secret,
		HTTPClient: &http.Client{Transport: proxy.Exchange(b.Client().Transport, b.upstream)},
		Authorize:  proxy.Authorize(b.upstream), Reconcile: &onceward.Reconcile{}, Backoff: backoff.Policy{Initial: time.Millisecond, MaxAttempts: 3},
	})
	require.NoError(t, err)
	client := b.client
	t.Cleanup(func() { client.Close() })
	b.handler, err = proxy.New(b.client, b.upstream)
	require.NoError(t, err)
}

// change changes a request.
type change func(*http.Request)

func header(name string, values ...string) change {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func name(of string) change { return header("Onceward-Operation", of) }

// charge is a caller's request for a charge.
func charge(changes ...change) *http.Request {
	return post("/v1/charges", "amount=2000&currency=eur", changes...)
}

func post(path, body string, changes ...change) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Host = "localhost:8420"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", key)
	for _, f := range changes {
		f(r)
	}
	return r
}

// said is an answer of the proxy.
type said struct {
	status int
	header http.Header
	body   string
}

// ID is the charge's.
func (s said) id() (id string) {
	var object struct{ ID string }
	_ = json.Unmarshal([]byte(s.body), &object)
	return object.ID
}

// code is the error's type and code.
func (s said) code() string {
	var object struct{ Error struct{ Type, Code string } }
	_ = json.Unmarshal([]byte(s.body), &object)
	return object.Error.Type + " " + object.Error.Code
}

func (b *box) ask(r *http.Request) said { return answered(b.handler, r) }

func answered(h http.Handler, r *http.Request) said {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return said{w.Code, w.Header(), w.Body.String()}
}

// A named request takes effect once, and the same request gets the recorded answer.
func TestANameIsOneEffect(t *testing.T) {
	b := open(t)
	first := b.ask(charge(name("invoice-1/charge")))
	require.Equal(t, http.StatusOK, first.status, first.body)
	assert.Equal(t, "completed", first.header.Get("Onceward-State"))
	assert.Empty(t, first.header.Get("Onceward-Replayed"))
	again := b.ask(charge(name("invoice-1/charge")))
	assert.Equal(t, first.body, again.body)
	assert.Equal(t, "true", again.header.Get("Onceward-Replayed"))
	assert.Len(t, b.Effects(), 1)
	assert.Equal(t, "shop", b.recorded(t).Scope)
}

// recorded is the only operation in the journal.
func (b *box) recorded(t *testing.T) onceward.Operation {
	t.Helper()
	var ops []onceward.Operation
	for op, err := range b.client.Operations(t.Context(), onceward.Filter{}) {
		require.NoError(t, err)
		ops = append(ops, op)
	}
	require.Len(t, ops, 1)
	return ops[0]
}

// Two workers at once make one charge.
func TestTwoWorkersMakeOneCharge(t *testing.T) {
	b := open(t)
	b.Script(providertest.DelayAfter(50 * time.Millisecond))
	var both [2]said
	var wg sync.WaitGroup
	for i := range both {
		wg.Go(func() { both[i] = b.ask(charge(name("invoice-1"))) })
	}
	wg.Wait()
	assert.Equal(t, both[0].body, both[1].body)
	assert.Equal(t, http.StatusOK, both[0].status)
	assert.Len(t, b.Effects(), 1)
}

// A decline is the provider's own answer, the second time from the journal.
func TestADeclineIsTheProvidersAnswer(t *testing.T) {
	b := open(t)
	b.Script(providertest.Status(http.StatusPaymentRequired, nil))
	first, again := b.ask(charge(name("invoice-1"))), b.ask(charge(name("invoice-1")))
	assert.Equal(t, http.StatusPaymentRequired, first.status)
	assert.Equal(t, first.body, again.body)
	assert.Len(t, b.requests(), 1)
}

// If each answer is lost, a caller learns that there is no outcome yet, and when to ask again.
func TestLostAnswersArePending(t *testing.T) {
	b := open(t)
	for range 10 {
		b.Script(providertest.DropAfter())
	}
	s := b.ask(charge(name("invoice-1")))
	assert.Equal(t, http.StatusServiceUnavailable, s.status)
	assert.Equal(t, "api_error onceward_pending", s.code())
	assert.Equal(t, "pending", s.header.Get("Onceward-State"))
	due, err := time.Parse(time.RFC3339, s.header.Get("Onceward-Due"))
	require.NoError(t, err)
	assert.True(t, due.After(time.Now().Add(-time.Minute)))
	assert.NotEmpty(t, s.header.Get("Retry-After"))
	assert.Len(t, b.Effects(), 1)
}

// Reads go on unchanged, and nothing is recorded.
func TestReadsGoOn(t *testing.T) {
	b := open(t)
	id := b.ask(charge(name("invoice-1"))).id()
	read := charge(header("Accept-Encoding", "br"))
	read.Method, read.Body, read.ContentLength, read.RequestURI = http.MethodGet, http.NoBody, 0, ""
	read.URL.Path, read.URL.RawQuery = "/v1/charges/"+id, "expand%5B%5D=customer;a"
	s := b.ask(read)
	assert.Equal(t, http.StatusOK, s.status)
	assert.Equal(t, id, s.id())
	assert.Empty(t, s.header.Get("Onceward-State"))
	b.recorded(t)
}

// A request that a table marks as one without effect needs no name.
func TestARequestWithoutEffectNeedsNoName(t *testing.T) {
	b := open(t)
	s := b.ask(post("/v1/tokens", "card[number]=4242424242424242"))
	assert.Equal(t, http.StatusOK, s.status, s.body)
	s = b.ask(func() *http.Request {
		r := charge()
		r.Method, r.URL.Path = http.MethodDelete, "/v1/customers/cus_1"
		return r
	}())
	assert.Equal(t, http.StatusOK, s.status, "a repeat of a DELETE is harmless by Stripe's words: %s", s.body)
}

// A missing or unsafe setting is an error that names the setting.
func TestUnsafeSettings(t *testing.T) {
	b := open(t)
	for want, adjust := range map[string]func(*proxy.Upstream){
		"Upstream.URL is missing":             func(u *proxy.Upstream) { u.URL = nil },
		"Upstream.URL has more":               func(u *proxy.Upstream) { u.URL = u.URL.JoinPath("v1") },
		"unencrypted":                         func(u *proxy.Upstream) { u.URL = &url.URL{Scheme: "http", Host: "api.stripe.com"} },
		"Upstream.Credentials is empty":       func(u *proxy.Upstream) { u.Credentials = nil },
		"Upstream.Credentials[0] has 7 bytes": func(u *proxy.Upstream) { u.Credentials = [][]byte{[]byte("Bearer ")} },
		"not printable ASCII":                 func(u *proxy.Upstream) { u.Credentials = [][]byte{[]byte("Bearer sk_test_…of an example")} },
		"no table in Config.Providers":        func(u *proxy.Upstream) { u.URL = &url.URL{Scheme: "https", Host: "example.com"} },
		"can't be negative":                   func(u *proxy.Upstream) { u.MaxWait = -1 },
	} {
		u := b.upstream
		adjust(&u)
		_, err := proxy.New(b.client, u)
		assert.ErrorContains(t, err, want)
	}
	u := b.upstream
	u.TokenPath = "/token"
	_, err := proxy.New(b.client, u)
	assert.ErrorContains(t, err, "Upstream.Credentials[0] is no value")
	u.CredentialHeader = "X-API-Key"
	_, err = proxy.New(b.client, u)
	assert.ErrorContains(t, err, "has Upstream.CredentialHeader beside it")
	_, err = proxy.New(nil, b.upstream)
	assert.ErrorContains(t, err, "the client is nil")
	client, err := onceward.New(onceward.Config{
		Journal: memory.New(), Secret: secret, Authorize: proxy.Authorize(),
		Providers: []providers.Provider{providers.Mollie(), providers.Adyen(""), providers.PayPal()},
	})
	require.NoError(t, err)
	for host, want := range map[string]string{
		"api.mollie.com":          "no form of refusal was tried",
		"checkout-test.adyen.com": "Upstream.CredentialHeader is empty, and the keys of adyen are in the header X-API-Key",
		"api-m.paypal.com":        "Upstream.TokenPath is empty, and the access tokens of paypal expire",
	} {
		u := b.upstream
		u.URL = &url.URL{Scheme: "https", Host: host}
		_, err = proxy.New(client, u)
		assert.ErrorContains(t, err, want)
	}
}

// A body over the limit gets a 413, and a broken one a 400. Nothing is sent.
func TestABodyThatCantBeTaken(t *testing.T) {
	b := open(t, func(u *proxy.Upstream) { u.MaxRequest = 64 })
	s := b.ask(post("/v1/charges", "description="+strings.Repeat("x", 64), name("invoice-1")))
	assert.Equal(t, http.StatusRequestEntityTooLarge, s.status)
	cut := charge(name("invoice-1"))
	cut.Body = io.NopCloser(io.MultiReader(strings.NewReader("amount=20"), failing{}))
	s = b.ask(cut)
	assert.Equal(t, http.StatusBadRequest, s.status)
	assert.Equal(t, "api_error onceward_not_sent", s.code())
	assert.Empty(t, b.requests())
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A chunked body, and one with a trailer, are as good as any: the proxy has read them whole.
func TestAChunkedBody(t *testing.T) {
	b := open(t)
	r := charge(name("invoice-1"))
	r.ContentLength, r.TransferEncoding, r.Trailer = -1, []string{"chunked"}, http.Header{"Checksum": nil}
	s := b.ask(r)
	assert.Equal(t, http.StatusOK, s.status, s.body)
}
