package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/proxy"
)

const (
	app    = "Basic Y2xpZW50OnNlY3JldA=="     // of client:secret
	oldApp = "Basic Y2xpZW50Onllc3RlcmRheQ==" // of client:yesterday
)

// paypal is PayPal behind a proxy. Its access tokens last 20 minutes.
type paypal struct {
	*box
	mu    sync.Mutex
	given []string // access tokens
	dead  bool     // gives none
}

func openPayPal(t *testing.T) *paypal {
	t.Helper()
	p := new(paypal)
	objects := providertest.Objects("order_")
	p.box = openAs(t, providers.PayPal(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		authorization := r.Header.Get("Authorization")
		switch {
		case r.URL.Path != "/v1/oauth2/token" && len(p.given) > 0 && authorization == "Bearer "+p.given[len(p.given)-1]:
			objects.ServeHTTP(w, r)
		case r.URL.Path != "/v1/oauth2/token" || p.dead || authorization != app && authorization != oldApp:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"name":"invalid_token"}`)
		default:
			p.given = append(p.given, fmt.Sprint("A21AA-", len(p.given)))
			_ = json.NewEncoder(w).Encode(map[string]any{"access_token": p.given[len(p.given)-1], "token_type": "Bearer", "expires_in": 1200})
		}
	}), func(u *proxy.Upstream) {
		u.TokenPath, u.Credentials = "/v1/oauth2/token", [][]byte{[]byte(app), []byte(oldApp)}
	})
	return p
}

func (p *paypal) tokens() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.given)
}

// orders are the requests for orders that reached PayPal.
func (p *paypal) orders() (made []providertest.Request) {
	for _, r := range p.requests() {
		if r.Path == "/v2/checkout/orders" {
			made = append(made, r)
		}
	}
	return made
}

func credential(value string) change { return header("Authorization", value) }

func order(changes ...change) *http.Request {
	r := post("/v2/checkout/orders", `{"intent":"CAPTURE","purchase_units":[{"amount":{"currency_code":"EUR","value":"20.00"}}]}`,
		header("Content-Type", "application/json"), credential(app))
	for _, f := range changes {
		f(r)
	}
	return r
}

// login is what an SDK sends first.
func login(changes ...change) *http.Request {
	return post("/v1/oauth2/token", "grant_type=client_credentials", append([]change{credential(app)}, changes...)...)
}

// token asks for the proxy's token, and returns the header for it.
func (b *box) token(t *testing.T, changes ...change) string {
	t.Helper()
	s := b.ask(login(changes...))
	require.Equal(t, http.StatusOK, s.status, s.body)
	var answer struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.body), &answer))
	assert.Equal(t, "no-store", s.header.Get("Cache-Control"))
	return answer.Type + " " + answer.Token
}

// A caller logs in at the proxy as an SDK does at PayPal, and its token is good after a restart too. PayPal sees its own
// access token alone. A caller that sends the credential itself is the same caller.
func TestACallerLogsInAtTheProxy(t *testing.T) {
	p := openPayPal(t)
	token := p.token(t)
	assert.Zero(t, p.tokens(), "the proxy answers by itself")
	first := p.ask(order(credential(token), name("invoice-1")))
	require.NotEmpty(t, first.id(), first.body)
	p.ask(order(credential(app), name("invoice-2")))
	require.Len(t, p.orders(), 2)
	for _, r := range p.orders() {
		assert.Equal(t, []string{"Bearer A21AA-0"}, r.Header["Authorization"])
	}
	assert.Equal(t, 1, p.tokens())

	p.restart(t, p.journal)
	assert.Equal(t, token, p.token(t))
	for _, proof := range []string{token, app, oldApp, p.token(t, credential(oldApp))} {
		again := p.ask(order(credential(proof), name("invoice-1")))
		assert.Equal(t, first.body, again.body)
		assert.Equal(t, "true", again.header.Get("Onceward-Replayed"))
	}
	read := order(credential(token))
	read.Method, read.Body, read.ContentLength, read.URL.Path = http.MethodGet, http.NoBody, 0, "/v2/checkout/orders/"+first.id()
	assert.Equal(t, first.id(), p.ask(read).id())
	assert.Len(t, p.Effects(), 2)
}

// Without a proven credential there is no order, no recorded answer and no token. PayPal's own access token proves nothing
// here: the proxy can't tell whose it is.
func TestP1P2NobodyPaysWithoutTheClientsSecret(t *testing.T) {
	p := openPayPal(t)
	token := p.token(t)
	first := p.ask(order(credential(token), name("invoice-1")))
	require.NotEmpty(t, first.id())
	for _, stranger := range []string{"", "Bearer A21AA-0", token + "0", token[:len(token)-1], strings.Replace(token, "Bearer", "Basic", 1), app[:len(app)-1], "Basic c3RyYW5nZXI6c2VjcmV0"} {
		for _, r := range []*http.Request{order(credential(stranger), name("invoice-1")), order(credential(stranger), name("invoice-2")), login(credential(stranger))} {
			s := p.ask(r)
			assert.Equal(t, http.StatusForbidden, s.status, stranger)
			assert.Contains(t, s.body, `"name":"onceward_refused"`)
			assert.NotContains(t, s.body, first.id())
		}
	}
	for _, c := range []change{header("Origin", "https://evil.example.com"), func(r *http.Request) { r.Host = "evil.example.com" }} {
		assert.Equal(t, http.StatusForbidden, p.ask(login(c)).status)
	}
	for _, body := range []string{"", "grant_type=authorization_code&code=1", "grant_type=client_credentials&response_type=id_token", "grant_type=client_credentials&grant_type=password"} {
		s := p.ask(post("/v1/oauth2/token", body, credential(app)))
		assert.Equal(t, http.StatusBadRequest, s.status, body)
		assert.Contains(t, s.body, "grant_type=client_credentials alone")
	}
	assert.Len(t, p.orders(), 1)
}

// An operation whose answer was lost goes on under a later access token: the credential is the same.
func TestAnOperationOutlivesItsAccessToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPayPal(t)
		require.NotEmpty(t, p.ask(order(name("invoice-1"))).id())
		p.Script(providertest.DropAfter(), providertest.DropAfter(), providertest.DropAfter())
		s := p.ask(order(name("invoice-2")))
		assert.Contains(t, s.body, `"name":"onceward_pending"`)
		time.Sleep(time.Hour)
		_, err := p.client.Resume(t.Context())
		require.NoError(t, err)
		s = p.ask(order(name("invoice-2")))
		assert.NotEmpty(t, s.id(), s.body)
		assert.Equal(t, 2, p.tokens())
		assert.Len(t, p.Effects(), 2)
		p.close(t)
	})
}

// Requests at once share one access token. One that PayPal refuses is not sent again.
func TestARefusedAccessTokenIsReplaced(t *testing.T) {
	p := openPayPal(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { assert.NotEmpty(t, p.ask(order(name(fmt.Sprint("invoice-", i)))).id()) })
	}
	wg.Wait()
	assert.Equal(t, 1, p.tokens())
	p.mu.Lock()
	p.given = append(p.given, "another token, which ends the first")
	p.mu.Unlock()
	read := order()
	read.Method, read.Body, read.ContentLength, read.URL.Path = http.MethodGet, http.NoBody, 0, "/v1/billing/plans/1"
	assert.Equal(t, http.StatusUnauthorized, p.ask(read).status)
	assert.NotEmpty(t, p.ask(order(name("invoice-9"))).id())
	assert.Equal(t, 3, p.tokens())
}

// Without an access token nothing is sent, and the caller learns why. The operation goes on once there is a token.
func TestNoAccessToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPayPal(t)
		p.dead = true
		s := p.ask(order(name("invoice-1")))
		assert.Equal(t, http.StatusServiceUnavailable, s.status, s.body)
		assert.Contains(t, s.body, "The provider gave no access token, and answered by 401.")
		assert.Empty(t, p.orders())
		read := order()
		read.Method, read.Body, read.ContentLength = http.MethodGet, http.NoBody, 0
		s = p.ask(read)
		assert.Equal(t, http.StatusBadGateway, s.status)
		assert.Contains(t, s.body, "The provider gave no access token, and answered by 401.")
		p.mu.Lock()
		p.dead = false
		p.mu.Unlock()
		time.Sleep(time.Hour)
		_, err := p.client.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, p.recorded(t).State)
		assert.NotEmpty(t, p.ask(order(name("invoice-1"))).id())
		p.close(t)
	})
}

// Adyen's key is in a header of its own, for callers and for the background. Another header proves nothing.
func TestAdyensKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const apiKey = "AQEyhmfxLI3MaBFLw0m/n3Q5qf3VaY9UCJ14XWZE"
		b := openAs(t, providers.Adyen(""), providertest.Objects("psp_"), func(u *proxy.Upstream) {
			u.CredentialHeader, u.Credentials = "x-api-key", [][]byte{[]byte(apiKey)}
		})
		payment := func(changes ...change) *http.Request {
			return post("/v71/payments", `{"amount":{"currency":"EUR","value":2000}}`, append([]change{header("Content-Type", "application/json")}, changes...)...)
		}
		without := func(r *http.Request) { r.Header.Del("Authorization") }
		for _, strange := range []change{without, credential(apiKey), credential("Bearer " + apiKey), header("X-API-Key", "AQEyhmfxLI3MaBFLw0m"), header("X-API-Key", apiKey, apiKey)} {
			s := b.ask(payment(strange, name("invoice-1")))
			assert.Equal(t, http.StatusForbidden, s.status)
			assert.Contains(t, s.body, `"errorCode":"onceward_refused"`)
		}
		require.Empty(t, b.requests())
		b.Script(providertest.DropAfter(), providertest.DropAfter(), providertest.DropAfter())
		s := b.ask(payment(without, header("X-API-Key", apiKey), name("invoice-1")))
		assert.Contains(t, s.body, `"errorCode":"onceward_pending"`)
		time.Sleep(time.Hour)
		_, err := b.client.Resume(t.Context())
		require.NoError(t, err)
		op := b.recorded(t)
		assert.Equal(t, onceward.StateCompleted, op.State, op.Cause)
		assert.Len(t, b.Effects(), 1)
		for _, r := range b.requests() {
			assert.Equal(t, []string{apiKey}, r.Header["X-Api-Key"])
		}
		b.close(t)
	})
}
