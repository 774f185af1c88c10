package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/proxy"
)

// A request without the callers' credential pays nothing, and neither does one that a page in a browser could send. The
// background's credential is added to none of them.
func TestP1NobodyPaysWithTheBackgroundsCredential(t *testing.T) {
	b := open(t)
	for want, changes := range map[string]struct {
		status int
		change change
	}{
		"no credential":       {http.StatusForbidden, func(r *http.Request) { r.Header.Del("Authorization") }},
		"an empty credential": {http.StatusForbidden, header("Authorization", "")},
		"another credential":  {http.StatusForbidden, header("Authorization", "Bearer sk_test_of_a_stranger")},
		"a part of it":        {http.StatusForbidden, header("Authorization", key[:len(key)-1])},
		"two credentials":     {http.StatusForbidden, header("Authorization", key, key)},
		"another host":        {http.StatusForbidden, func(r *http.Request) { r.Host = "evil.example.com:8420" }},
		"no host":             {http.StatusForbidden, func(r *http.Request) { r.Host = "" }},
		"an origin":           {http.StatusForbidden, header("Origin", "https://evil.example.com")},
		"a page":              {http.StatusForbidden, header("Sec-Fetch-Site", "same-origin")},
		"a preflight":         {http.StatusForbidden, func(r *http.Request) { r.Method = http.MethodOptions }},
		"a tunnel":            {http.StatusForbidden, func(r *http.Request) { r.Method = http.MethodConnect }},
		"a trace":             {http.StatusForbidden, func(r *http.Request) { r.Method = http.MethodTrace }},
	} {
		s := b.ask(charge(name("invoice-1"), changes.change))
		assert.Equal(t, changes.status, s.status, want)
		assert.Equal(t, "api_error onceward_refused", s.code(), want)
		for header := range s.header {
			assert.NotContains(t, header, "Access-Control", want)
		}
	}
	read := charge(func(r *http.Request) { r.Method = http.MethodGet; r.Header.Del("Authorization") })
	assert.Equal(t, http.StatusForbidden, b.ask(read).status, "and none reads")
	assert.Empty(t, b.requests())
	for _, err := range b.client.Operations(t.Context(), onceward.Filter{}) {
		require.NoError(t, err)
		t.Error("an operation is recorded")
	}
}

// A caller with another or a revoked API key gets no recorded answer, whatever name and body it sends.
func TestP2AnotherCredentialReadsNoRecordedAnswer(t *testing.T) {
	b := open(t)
	first := b.ask(charge(name("invoice-1")))
	require.NotEmpty(t, first.id())
	for _, stranger := range []string{"Bearer sk_test_of_a_stranger", "Bearer sk_test_of_the_shop2", "bearer sk_test_of_the_shop", "Basic c2tfdGVzdF9vZl90aGVfc2hvcDo="} {
		s := b.ask(charge(name("invoice-1"), header("Authorization", stranger)))
		assert.Equal(t, http.StatusForbidden, s.status)
		assert.NotContains(t, s.body, first.id())
		assert.Empty(t, s.header.Get("Onceward-State"))
	}
	assert.Equal(t, first.body, b.ask(charge(name("invoice-1"), header("Authorization", oldKey))).body, "the key of yesterday is listed")
	assert.Len(t, b.requests(), 1)
}

// No header between a caller and the proxy reaches the provider, in any spelling. The test reads the wire.
func TestP3NoHeaderOfOursReachesTheProvider(t *testing.T) {
	b := open(t)
	front := httptest.NewServer(b.handler)
	defer front.Close()
	for i, lines := range []string{
		"onceward-operation: invoice-%d\r\nonceward-scope: shop",
		"ONCEWARD-OPERATION: invoice-%d\r\nONCEWARD_OPERATION: other\r\nonceward_scope: other",
		"oNcEwArD-oPeRaTiOn: invoice-%d\r\nOnceward-Parent: p\r\nOnceward-State: completed\r\nOnceward_: x",
	} {
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		require.NoError(t, err)
		fmt.Fprintf(conn, "POST /v1/charges HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\nConnection: close\r\n%s\r\n\r\namount=2000", key, fmt.Sprintf(lines, i))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		conn.Close()
	}
	require.Len(t, b.requests(), 3)
	for _, r := range b.requests() {
		for header := range r.Header {
			assert.NotContains(t, strings.ToLower(header), "onceward")
		}
	}
	s := b.ask(charge(header("Onceward_Operation", "invoice-1")))
	assert.Equal(t, http.StatusPreconditionRequired, s.status, "and an underscore names nothing")
}

// One name of two tenants is two operations: each listener has its scope. One name for two accounts of a scope is a misuse.
func TestP4TenantsDoNotShareNames(t *testing.T) {
	b := open(t)
	other := b.upstream
	other.Scope = "other shop"
	second, err := proxy.New(b.client, other)
	require.NoError(t, err)
	first := b.ask(charge(name("invoice-1")))
	assert.NotEqual(t, first.id(), answered(second, charge(name("invoice-1"))).id())
	assert.Len(t, b.Effects(), 2)

	s := b.ask(charge(name("invoice-1"), header("Onceward-Scope", "other shop")))
	assert.Equal(t, http.StatusForbidden, s.status)
	s = b.ask(charge(name("invoice-1"), header("Stripe-Account", "acct_2")))
	assert.Equal(t, "idempotency_error ", s.code())
	assert.Contains(t, s.body, "account")
	assert.Len(t, b.Effects(), 2)

	any := b.upstream
	any.Scope = ""
	chooses, err := proxy.New(b.client, any)
	require.NoError(t, err)
	assert.Equal(t, first.id(), answered(chooses, charge(name("invoice-1"), header("Onceward-Scope", "shop"))).id(), "without a scope the caller chooses")
}

// A call without a name, with a key that an SDK makes anew for each attempt, is not sent. A key of the caller's own names
// the call.
func TestP5ACallWithoutANameIsNotSent(t *testing.T) {
	b := open(t)
	for _, key := range []string{"", "stripe-node-retry-0b1c", "8e03978e-40d5-43dd-bc93-6894a57f9324"} {
		r := charge()
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		s := b.ask(r)
		assert.Equal(t, http.StatusPreconditionRequired, s.status, key)
		assert.Equal(t, "api_error onceward_name_missing", s.code())
	}
	s := b.ask(post("/elsewhere", "", header("Idempotency-Key", "order-7")))
	assert.Equal(t, http.StatusPreconditionRequired, s.status, "no table keeps a key there")
	for _, names := range [][]string{{"a", "b"}, {""}, {"a", "a"}} {
		s := b.ask(charge(header("Onceward-Operation", names...)))
		assert.Equal(t, http.StatusBadRequest, s.status, names)
		assert.Equal(t, "api_error onceward_name_missing", s.code())
	}
	assert.Empty(t, b.requests())
	first := b.ask(charge(header("Idempotency-Key", "order-7")))
	assert.NotEmpty(t, first.id())
	assert.Equal(t, first.id(), b.ask(charge(header("Idempotency-Key", "order-7"))).id())
	assert.Len(t, b.requests(), 1)
	assert.Equal(t, "order-7", b.requests()[0].Key)
}

// A body that differs at the next try is refused. The text names the body, and forbids another name for the same effect.
func TestP6ABodyThatDiffersIsRefused(t *testing.T) {
	b := open(t)
	b.ask(post("/v1/charges", "amount=2000&metadata[at]=1", name("invoice-1")))
	s := b.ask(post("/v1/charges", "amount=2000&metadata[at]=2", name("invoice-1")))
	assert.Equal(t, http.StatusBadRequest, s.status)
	assert.Equal(t, "idempotency_error ", s.code())
	assert.Contains(t, s.body, "body")
	assert.Contains(t, s.body, "Use another name only for another effect.")
	assert.NotContains(t, s.body, "ch_")
	assert.Len(t, b.Effects(), 1)
}

// A caller who gives up before the outcome breaks nothing off: there is one attempt and one effect, and the name has its
// answer later. So has a caller whose wait is over.
func TestP7ACallerWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, func(u *proxy.Upstream) { u.MaxWait = 3 * time.Second })
		b.Script(providertest.DelayAfter(5*time.Second), providertest.DelayAfter(5*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.ask(charge(name("invoice-1")).WithContext(ctx))
		s := b.ask(charge(name("invoice-2")))
		assert.Equal(t, http.StatusServiceUnavailable, s.status)
		assert.Equal(t, "api_error onceward_pending", s.code())
		assert.Equal(t, "5", s.header.Get("Retry-After"))
		time.Sleep(5 * time.Second)
		for _, invoice := range []string{"invoice-1", "invoice-2"} {
			s := b.ask(charge(name(invoice)))
			assert.NotEmpty(t, s.id(), invoice)
			assert.Equal(t, "true", s.header.Get("Onceward-Replayed"), invoice)
		}
		assert.Len(t, b.requests(), 2)
		assert.Len(t, b.Effects(), 2)
		b.close(t)
	})
}

// close ends the client and the box within a bubble.
func (b *box) close(t *testing.T) {
	require.NoError(t, b.client.Close())
	b.Server.Close()
	synctest.Wait()
}

// After the loss of the journal the name gives the same key, and the key that an SDK made up does not count. So the
// provider has one effect.
func TestP8ALostJournal(t *testing.T) {
	b := open(t)
	first := b.ask(charge(name("invoice-1"), header("Idempotency-Key", "stripe-node-retry-1")))
	require.NotEmpty(t, first.id())
	b.restart(t, memory.New())
	again := b.ask(charge(name("invoice-1"), header("Idempotency-Key", "stripe-node-retry-2")))
	assert.Equal(t, first.id(), again.id())
	assert.Len(t, b.requests(), 2)
	assert.Len(t, b.Effects(), 1)
	assert.Equal(t, b.requests()[0].Key, b.requests()[1].Key)
}

// Under a name, a key of the caller's own stays: a call that was made before the proxy came is recognised.
func TestP8AKeyFromBeforeTheProxy(t *testing.T) {
	b := open(t)
	b.ask(charge(name("invoice-1"), header("Idempotency-Key", "order-7")))
	assert.Equal(t, "order-7", b.requests()[0].Key)
}

// A body with a card's number is compared, so another amount is no repeat. Without Config.Secret it could not be.
func TestP9ASecretBodyWithAnotherAmount(t *testing.T) {
	b := open(t)
	card := "&card[number]=4242424242424242&card[cvc]=123"
	first := b.ask(post("/v1/charges", "amount=2000"+card, name("invoice-1")))
	require.NotEmpty(t, first.id())
	s := b.ask(post("/v1/charges", "amount=3000"+card, name("invoice-1")))
	assert.Equal(t, "idempotency_error ", s.code())
	assert.NotContains(t, s.body, first.id())

	client, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{b.Provider()}, Authorize: proxy.Authorize(b.upstream)})
	require.NoError(t, err)
	_, err = proxy.New(client, b.upstream)
	assert.ErrorContains(t, err, "Config.Secret")
	client, err = onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{b.Provider()}, Secret: secret})
	require.NoError(t, err)
	_, err = proxy.New(client, b.upstream)
	assert.ErrorContains(t, err, "Config.Authorize")
}

// A Connection header takes nothing from a request: neither the credential nor the account, which would be another payer's.
// Nor does it turn the connection over to a protocol without names, as the clients of Java and curl ask for.
func TestP10AConnectionHeaderTakesNothing(t *testing.T) {
	b := open(t)
	for i, lists := range []string{"Authorization", "Stripe-Account", "Idempotency-Key, Content-Type", "Upgrade, HTTP2-Settings"} {
		s := b.ask(charge(header("Authorization", oldKey), header("Connection", lists), header("Idempotency-Key", fmt.Sprint("order-", i)),
			header("Stripe-Account", "acct_2"), header("Upgrade", "h2c"), header("HTTP2-Settings", "AAMAAABk")))
		assert.NotEmpty(t, s.id(), s.body)
		assert.Equal(t, "completed", s.header.Get("Onceward-State"), "%s: it is recorded", lists)
	}
	assert.NotEmpty(t, b.ask(charge(name("invoice-1"), header("Connection", "Upgrade"), header("Upgrade", "h2c"))).id(), "a name too")
	require.Len(t, b.requests(), 5)
	for i, r := range b.requests()[:4] {
		assert.Equal(t, []string{oldKey, "acct_2", fmt.Sprint("order-", i)}, []string{r.Header.Get("Authorization"), r.Header.Get("Stripe-Account"), r.Key})
		for _, header := range []string{"Connection", "Upgrade", "HTTP2-Settings"} {
			assert.Empty(t, r.Header.Get(header))
		}
	}
}

// The upstream is fixed: no target, path or redirect leads a credential elsewhere.
func TestP10TheUpstreamIsFixed(t *testing.T) {
	b := open(t)
	elsewhere := charge(name("invoice-1"))
	elsewhere.URL.Scheme, elsewhere.URL.Host = "http", "evil.example.com"
	s := b.ask(elsewhere)
	assert.NotEmpty(t, s.id(), "the target's host does not count")
	s = b.ask(charge(name("invoice-2"), func(r *http.Request) { r.Host = "evil.example.com" }))
	assert.Equal(t, http.StatusForbidden, s.status)

	s = b.ask(charge(name("invoice-2"), func(r *http.Request) { r.URL = &url.URL{Scheme: "x", Opaque: "https://evil.example.com/v1/charges"} }))
	assert.Equal(t, http.StatusForbidden, s.status, "a provider's server may take a target's host for its own")

	s = b.ask(post("/v1/../v1/charges", "amount=1", name("invoice-3")))
	require.Len(t, b.requests(), 2)
	assert.Equal(t, "/v1/../v1/charges", b.requests()[1].Path, "the raw path goes on, and nothing answers by a redirect: %d", s.status)

	for i, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		b.Script(providertest.Status(status, http.Header{"Location": {"https://evil.example.com/v1/charges"}}))
		for range 2 { // as sent, and as recorded
			s = b.ask(charge(name(fmt.Sprint("moved-", i))))
			assert.GreaterOrEqual(t, s.status, 400)
			assert.Empty(t, s.header.Get("Location"), "an SDK would send the request there")
		}
	}
}

// A compressed answer for one caller would be recorded for all, so the proxy asks for no caller's coding.
func TestP11NoCodingOfOneCaller(t *testing.T) {
	b := open(t)
	first := b.ask(charge(name("invoice-1"), header("Accept-Encoding", "br, zstd")))
	require.NotEmpty(t, first.id())
	assert.NotContains(t, b.requests()[0].Header.Get("Accept-Encoding"), "br")
	assert.Empty(t, first.header.Get("Content-Encoding"))
}

// While an API key changes, both keys are callers'. The background sends an operation of the old key under the new one
// only if the provider says that both belong to one account. Otherwise a person has to look.
func TestP12AKeyThatChanges(t *testing.T) {
	for account, want := range map[string]struct {
		state   onceward.State
		effects int
	}{"acct_1": {onceward.StateCompleted, 1}, "acct_2": {onceward.StateUnknown, 1}} {
		t.Run(account, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := open(t)
				b.Account = func(r providertest.Request) string {
					if r.Header.Get("Authorization") == oldKey {
						return "acct_1"
					}
					return account
				}
				b.Script(providertest.DropAfter(), providertest.DropAfter(), providertest.DropAfter())
				s := b.ask(charge(name("invoice-1"), header("Authorization", oldKey)))
				require.Equal(t, "api_error onceward_pending", s.code())
				time.Sleep(time.Hour)
				_, err := b.client.Resume(t.Context())
				require.NoError(t, err)
				op := b.recorded(t)
				assert.Equal(t, want.state, op.State, op.Cause)
				assert.Len(t, b.Effects(), want.effects)
				if want.state == onceward.StateUnknown {
					assert.NotEqual(t, http.StatusOK, b.ask(charge(name("invoice-1"))).status)
				} else {
					assert.NotEmpty(t, b.ask(charge(name("invoice-1"))).id())
				}
				b.close(t)
			})
		})
	}
}

// Credentials change under load: callers with the old and the new key are served by the old and the new proxy, and each
// name is one effect.
func TestP12KeysChangeUnderLoad(t *testing.T) {
	b := open(t)
	after := b.upstream
	after.Credentials = [][]byte{[]byte("Bearer sk_test_of_tomorrow"), []byte(key)}
	next, err := proxy.New(b.client, after)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			handler, credential := b.handler, key
			if i >= 20 {
				handler = next
			}
			if i%2 == 1 && i >= 20 {
				credential = "Bearer sk_test_of_tomorrow"
			}
			s := answered(handler, charge(name(fmt.Sprint("invoice-", i%10)), header("Authorization", credential)))
			assert.Equal(t, http.StatusOK, s.status, s.body)
		})
	}
	wg.Wait()
	assert.Len(t, b.Effects(), 10)
	assert.Equal(t, http.StatusForbidden, answered(next, charge(name("invoice-0"), header("Authorization", oldKey))).status)
}
