package providertest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func TestEachBoxKeepsItsAdaptersContract(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			t.Run("the first request is executed", func(t *testing.T) { s.start(t, nil).executes() })
			t.Run("a repeat is not", func(t *testing.T) { s.start(t, nil).repeats() })
			t.Run("another request under the key", func(t *testing.T) { s.start(t, nil).mismatches() })
			t.Run("a second request meanwhile", s.meetsAnother)
			t.Run("after the retention", func(t *testing.T) { s.start(t, nil).forgets() })
			t.Run("a refused credential leaves the key free", s.refuses)
			t.Run("a failure after the effect is remembered as the contract says", func(t *testing.T) { s.start(t, nil).fails() })
			t.Run("a malformed key is refused", func(t *testing.T) { s.start(t, nil).refusesMalformed() })
		})
	}
}

func (b *boxed) executes() {
	first := b.ask(b.t.Context(), "r1", key36)
	require.NoError(b.t, first.err)
	assert.Equal(b.t, b.made.status, first.status)
	assert.Equal(b.t, b.made.body, first.body)
	assert.Equal(b.t, final.String(), first.first.Verdict.String())
	assert.False(b.t, first.first.Earlier, "it proves no earlier attempt")
	b.AssertOneEffect(b.t, key36)
	effects := b.Effects()
	require.Len(b.t, effects, 1)
	assert.Contains(b.t, string(effects[0].Body), "r1")
}

func (b *boxed) repeats() {
	b.ask(b.t.Context(), "r1", key36)
	for range 2 {
		repeat := b.ask(b.t.Context(), "r1", key36)
		assert.Equal(b.t, b.repeat.String(), repeat.verdict.String())
		assert.Equal(b.t, b.repeatStatus, repeat.status)
		switch b.repeat {
		case final:
			assert.Equal(b.t, b.made.body, repeat.body)
		case alreadyDone:
			assert.Equal(b.t, "PM123", repeat.pointer)
		}
		mark := b.provider.ReplayHeader
		value := repeat.header.Get(mark)
		assert.True(b.t, mark == "" || value != "" && (b.provider.ReplayValue == "" || value == b.provider.ReplayValue))
	}
	b.AssertOneEffect(b.t, key36)
}

func (b *boxed) mismatches() {
	b.ask(b.t.Context(), "r1", key36)
	if b.name == "Shopify" { // its key stands in the document
		other := b.ask(b.t.Context(), "r2", key36)
		assert.Equal(b.t, misuse.String(), other.verdict.String())
		assert.JSONEq(b.t, `{"data":{"refundCreate":{"userErrors":[{"code":"IDEMPOTENCY_KEY_PARAMETER_MISMATCH","message":"this answer is made from the provider's rule"}]}}}`, other.body)
		return
	}
	other := b.ask(b.t.Context(), "r2", key36)
	if b.mismatch == 0 {
		assert.Equal(b.t, final.String(), other.verdict.String())
		b.AssertEffects(b.t, key36, 2)
		return
	}
	assert.Equal(b.t, b.mismatch.String(), other.verdict.String(), other.body)
	if b.mismatch == final {
		assert.Equal(b.t, b.made.body, other.body, "the first one's answer")
	}
	b.AssertOneEffect(b.t, key36)
}

func (s sample) meetsAnother(t *testing.T) {
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	b := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		s.business().ServeHTTP(w, r)
	}))
	answers := make(chan got, 2)
	ask := func() { answers <- b.ask(context.Background(), "r1", key36) }
	go ask()
	<-entered
	switch {
	case s.name == "Svix": // the second one waits for the first
		go ask()
		close(leave)
		assert.Equal(t, s.meanwhile.String(), (<-answers).verdict.String())
		assert.Equal(t, s.meanwhile.String(), (<-answers).verdict.String())
		b.AssertOneEffect(t, key36)
	case s.meanwhile == 0:
		go ask()
		<-entered
		close(leave)
		assert.Equal(t, s.made.status, (<-answers).status)
		assert.Equal(t, s.made.status, (<-answers).status)
		b.AssertEffects(t, key36, 2)
	default:
		ask()
		second := <-answers
		close(leave)
		assert.Equal(t, s.meanwhile.String(), second.verdict.String(), second.body)
		assert.Equal(t, final.String(), (<-answers).first.Verdict.String())
		b.AssertOneEffect(t, key36)
	}
}

func (b *boxed) forgets() {
	_, route := b.compose(b.t.Context(), "r1", key36)
	retention := route.Endpoint.Retention
	b.ask(b.t.Context(), "r1", key36)
	if retention == 0 {
		b.Advance(100 * 365 * day)
		assert.Equal(b.t, b.repeat.String(), b.ask(b.t.Context(), "r1", key36).verdict.String(), "no retention is stated: never forgotten")
		b.AssertOneEffect(b.t, key36)
		return
	}
	b.Advance(retention - time.Minute)
	assert.Equal(b.t, b.repeat.String(), b.ask(b.t.Context(), "r1", key36).verdict.String(), "a minute before the end")
	b.AssertOneEffect(b.t, key36)
	b.Advance(time.Minute)
	after := b.ask(b.t.Context(), "r1", key36)
	if b.forgotten != 0 {
		assert.Equal(b.t, b.forgotten.String(), after.verdict.String())
		b.AssertOneEffect(b.t, key36)
		return
	}
	assert.Equal(b.t, b.made.status, after.status)
	b.AssertEffects(b.t, key36, 2)
}

func (s sample) refuses(t *testing.T) {
	refused := false
	b := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !refused {
			refused = true
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.business().ServeHTTP(w, r)
	}))
	assert.Equal(t, http.StatusUnauthorized, b.ask(t.Context(), "r1", key36).status)
	assert.Empty(t, b.Effects())
	again := b.ask(t.Context(), "r2", key36)
	if s.name != "Repeatable" || again.status != http.StatusUnauthorized {
		assert.Equal(t, s.made.status, again.status)
		b.AssertOneEffect(t, key36)
	}
}

func (b *boxed) fails() {
	b.Script(providertest.FailAfter(http.StatusInternalServerError))
	failure := b.ask(b.t.Context(), "r1", key36)
	assert.Equal(b.t, http.StatusInternalServerError, failure.status)
	b.AssertOneEffect(b.t, key36)
	_, route := b.compose(b.t.Context(), "r1", key36)
	repeat := b.ask(b.t.Context(), "r1", key36)
	switch route.Endpoint.Remembers {
	case providers.Everything:
		assert.Equal(b.t, failure.body, repeat.body)
		b.AssertOneEffect(b.t, key36)
	case providers.SuccessesCleanFailures:
		assert.Equal(b.t, b.repeat.String(), repeat.verdict.String())
		b.AssertOneEffect(b.t, key36)
	default:
		assert.Equal(b.t, b.made.status, repeat.status)
		b.AssertEffects(b.t, key36, 2)
	}
}

func (b *boxed) refusesMalformed() {
	req, route := b.compose(b.t.Context(), "r1", key36)
	body, err := io.ReadAll(req.Body)
	require.NoError(b.t, err)
	text := string(body)
	switch key := route.Endpoint.Key; key.Place {
	case providers.KeyQuery:
		req.URL.RawQuery += "&" + key.Name + "=another"
	case providers.KeyFormField:
		text += "&" + key.Name + "=another"
	case providers.KeyJSONField, providers.KeyGraphQL: // a number
		text = strings.Replace(text, `"`+key36+`"`, "12", 1)
		require.NotEqual(b.t, string(body), text)
	default:
		req.Header.Add(key.Name, "another")
	}
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	resp, err := client.Do(req)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	if route.Endpoint.Key.Place == providers.KeyGraphQL {
		assert.Equal(b.t, http.StatusOK, resp.StatusCode)
		assert.Contains(b.t, string(answer), `"errors":[{`)
	} else {
		assert.Equal(b.t, http.StatusBadRequest, resp.StatusCode)
	}
	assert.NotContains(b.t, string(answer), key36)
	assert.Empty(b.t, b.Effects())
}

// isGeneric reports whether the adapter of a sample describes no vendor's API. Errors of such an adapter are problems
// of RFC 9457.
func isGeneric(s sample) bool {
	return s.adapter == "IETF" || s.adapter == "Raw" || s.adapter == "Onceward"
}

// The manners of the adapters are facts as well.
func TestEachBehaviorHasASource(t *testing.T) {
	for _, s := range samples() {
		if isGeneric(s) {
			assert.Zero(t, providertest.MannerOf(s.provider, s.provider.Endpoints[0]).Source)
			continue
		}
		for _, e := range s.provider.Endpoints {
			assert.Regexp(t, `\[(D|D-old|S|C|M|\?)\]`, providertest.MannerOf(s.provider, e).Source, "%s, %s", s.name, e.Pattern)
		}
	}
}

// A Svix request that has waited five seconds runs too.
func TestSvixRequestThatWaitedRunsToo(t *testing.T) {
	var svix sample
	for _, s := range samples() {
		if s.name == "Svix" {
			svix = s
		}
	}
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	b := svix.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		svix.business().ServeHTTP(w, r)
	}))
	answers := make(chan got, 2)
	for range 2 {
		go func() { answers <- b.ask(context.Background(), "r1", key36) }()
	}
	<-entered
	b.Advance(5 * time.Second)
	<-entered
	close(leave)
	<-answers
	<-answers
	b.AssertEffects(t, key36, 2)
}

// An already done answer points to a resource that can be fetched.
func TestAlreadyDonePointsToAResource(t *testing.T) {
	srv := start(t, providers.GoCardless(), saying(http.StatusCreated, `{"payments":{"id":"PM123","amount":10,"status":"pending_customer_approval"}}`))
	post(t, srv.URL+"/payments", "k1", "{}")
	resp, body := post(t, srv.URL+"/payments", "k1", "{}")
	assert.Equal(t, http.StatusConflict, resp.StatusCode)
	assert.Contains(t, body, `"conflicting_resource_id":"PM123"`)
	assert.Contains(t, body, `"type":"invalid_state"`)

	resp, body, err := send(t.Context(), http.MethodGet, srv.URL+"/payments/PM123", "", "")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.JSONEq(t, `{"payments":{"id":"PM123","amount":10,"status":"pending_customer_approval"}}`, body)
	srv.AssertOneEffect(t, "k1")
}

func TestScopesOfKeys(t *testing.T) {
	for _, tc := range []struct {
		name     string
		provider providers.Provider
		one, two string // paths
		verdict  providers.Verdict
		effects  int
	}{
		{"Stripe v1 refuses the key at another endpoint", providers.Stripe(), "/v1/charges", "/v1/refunds", misuse, 1},
		{"Stripe v2 takes it for another operation", providers.Stripe(), "/v2/core/accounts", "/v2/core/persons", final, 2},
		{"Modern Treasury gives the first route's answer", providers.ModernTreasury(), "/api/payment_orders", "/api/counterparties", final, 1},
		{"Svix looks it up by URL", providers.Svix(), "/api/v1/app/a/msg", "/api/v1/app/b/msg", final, 2},
		{"Increase refuses it", providers.Increase(), "/ach_transfers", "/wire_transfers", misuse, 1},
		{"Adyen is not known to notice", providers.Adyen(""), "/v71/payments", "/v71/sessions", final, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := start(t, tc.provider, saying(http.StatusOK, `{"id":"1"}`))
			post(t, srv.URL+tc.one, "k1", "{}")
			resp, body := post(t, srv.URL+tc.two, "k1", "{}")
			assert.Equal(t, tc.verdict.String(), verdict(t, srv, tc.two, resp, body).String(), body)
			srv.AssertEffects(t, "k1", tc.effects)
		})
	}
}

// Square and Razorpay have keys of their own for each kind of request.
func TestSquareAndRazorpayKeysOfEachKind(t *testing.T) {
	srv := start(t, providers.Square(day), saying(http.StatusOK, `{"payment":{"id":"1"}}`))
	for _, path := range []string{"/v2/payments", "/v2/refunds"} {
		post(t, srv.URL+path, "", `{"idempotency_key":"k1"}`, "Content-Type", "application/json")
	}
	srv.AssertEffects(t, "k1", 2)

	srv = start(t, providers.Razorpay(day), saying(http.StatusOK, `{"id":"1"}`))
	post(t, srv.URL+"/v1/payouts", "", `{}`, "X-Payout-Idempotency", "key-of-both")
	post(t, srv.URL+"/v1/payments/p/refund", "", `{}`, "X-Refund-Idempotency", "key-of-both")
	srv.AssertEffects(t, "key-of-both", 2)
}

// Braintree does not compare fields that only serve to correlate requests.
func TestBraintreeComparesNoCorrelation(t *testing.T) {
	srv := start(t, providers.Braintree(), saying(http.StatusOK, `{"data":{"c":{"transaction":{"id":"t_1"}}}}`))
	for _, correlation := range []string{"one", "two"} {
		_, body := post(t, srv.URL+"/graphql", "", `{"query":"mutation m($input: I!) { c: chargePaymentMethod(input: $input) { transaction { id } } }","variables":{"input":{"apiRequestKey":"k1","clientMutationId":"`+correlation+`"}}}`, "Content-Type", "application/json")
		assert.Contains(t, body, "t_1")
	}
	srv.AssertOneEffect(t, "k1")
}

// An error in a 200 is no effect and not remembered.
func TestErrorInA200IsNoEffect(t *testing.T) {
	for _, tc := range []struct {
		provider   providers.Provider
		path, body string
		failure    string
	}{
		{
			providers.Shopify(), "/admin/api/2026-04/graphql.json", `{"query":"mutation m($k: String!) { refundCreate(input: {}) @idempotent(key: $k) { refund { id } } }","variables":{"k":"k1"}}`,
			`{"data":{"refundCreate":{"refund":null,"userErrors":[{"message":"no"}]}}}`,
		},
		{
			providers.Braintree(), "/graphql", `{"query":"mutation m($k: ID!) { chargePaymentMethod(input: {apiRequestKey: $k}) { transaction { id } } }","variables":{"k":"k1"}}`,
			`{"data":{"chargePaymentMethod":null},"errors":[{"message":"no","extensions":{"errorClass":"NOT_FOUND"}}]}`,
		},
	} {
		runs := 0
		srv := start(t, tc.provider, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			saying(http.StatusOK, tc.failure).ServeHTTP(w, r)
		}))
		for range 2 {
			_, body := post(t, srv.URL+tc.path, "", tc.body)
			assert.Equal(t, tc.failure, body)
		}
		assert.Equal(t, 2, runs, tc.provider.Name)
		assert.Empty(t, srv.Effects(), tc.provider.Name)
	}
}

// Repeatable requests need the time of the first attempt.
func TestRepeatableRequestsNeedTheTime(t *testing.T) {
	srv := start(t, providers.Repeatable(5*time.Minute), created)
	send := func(first time.Time) int {
		resp, _ := post(t, srv.URL, "", "{}", "Repeatability-Request-ID", key36, "Repeatability-First-Sent", first.UTC().Format(http.TimeFormat))
		return resp.StatusCode
	}
	resp, _ := post(t, srv.URL, "", "{}", "Repeatability-Request-ID", key36)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Equal(t, "rejected", resp.Header.Get("Repeatability-Result"))
	assert.Equal(t, http.StatusPreconditionFailed, send(time.Now().Add(-5*time.Minute)), "a clock that is behind")
	assert.Equal(t, http.StatusPreconditionFailed, send(time.Now().Add(6*time.Minute)), "a clock that is ahead")
	assert.Empty(t, srv.Effects())

	at := time.Now()
	resp, _ = post(t, srv.URL, "", "{}", "Repeatability-Request-ID", key36, "Repeatability-First-Sent", at.UTC().Format(http.TimeFormat))
	assert.Equal(t, http.StatusCreated, resp.StatusCode)
	assert.Equal(t, "accepted", resp.Header.Get("Repeatability-Result"))
	assert.Equal(t, http.StatusBadRequest, send(at.Add(-2*time.Second)), "not the same time")
	srv.AssertOneEffect(t, key36)
}

// A key that the provider requires is asked for.
func TestRequiredKeyIsDemanded(t *testing.T) {
	srv := start(t, providers.Razorpay(day), created)
	resp, body := post(t, srv.URL+"/v1/payouts", "", `{}`)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Contains(t, body, `"field":"X-Payout-Idempotency"`)

	srv = providertest.NewUnstartedServer(providers.Stripe(), created)
	srv.RequireKey = true
	srv.Start()
	t.Cleanup(srv.Close)
	resp, _ = post(t, srv.URL+"/v1/charges", "", "amount=1")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	resp, _, err := send(t.Context(), http.MethodDelete, srv.URL+"/v1/customers/1", "", "")
	require.NoError(t, err)
	assert.Equal(t, http.StatusCreated, resp.StatusCode, "takes no key")
	srv.AssertEffects(t, "", 1)
}

func TestARepeatCanBeTheCurrentState(t *testing.T) {
	srv := providertest.NewUnstartedServer(providers.PayPal(), saying(http.StatusCreated, `{"id":"5O1","status":"CREATED"}`))
	srv.Repeat = func(first providertest.Answer) providertest.Answer {
		first.Body = []byte(strings.Replace(string(first.Body), "CREATED", "APPROVED", 1))
		return first
	}
	srv.Start()
	t.Cleanup(srv.Close)
	want := []string{"CREATED", "APPROVED", "APPROVED"}
	for n := range 3 {
		_, body := post(t, srv.URL+"/v2/checkout/orders", "", "{}", "PayPal-Request-Id", "k1")
		assert.Contains(t, body, want[n])
	}
}

func TestOwnBehavior(t *testing.T) {
	p := providers.Raw(day)
	p.Name = "ledger"
	srv := providertest.NewUnstartedServer(p, created)
	other := providertest.Answer{Status: http.StatusTeapot, Body: []byte("another")}
	srv.Manner = func(e providers.Endpoint) providertest.Manner {
		assert.Equal(t, "/", e.Pattern)
		return providertest.Manner{Mismatch: &other, EchoesKey: true}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	resp, _ := post(t, srv.URL, "k1", "amount=1")
	assert.Equal(t, "k1", resp.Header.Get("Idempotency-Key"))
	resp, body := post(t, srv.URL, "k1", "amount=2")
	assert.Equal(t, http.StatusTeapot, resp.StatusCode)
	assert.Equal(t, "another", body)
	assert.Zero(t, providertest.MannerOf(p, p.Endpoints[0]))
	for scope, want := range map[providertest.Scope]string{
		providertest.ByKey: "by key", providertest.ByPath: "by path", providertest.ByEndpoint: "by endpoint", providertest.ByRequest: "by request", 9: "scope(9)",
	} {
		assert.Equal(t, want, scope.String())
	}
}

func TestTheServersClockMovesAhead(t *testing.T) {
	srv := start(t, providers.Raw(day), created)
	before := time.Now()
	srv.Advance(time.Hour)
	srv.Advance(time.Minute)
	assert.False(t, srv.Now().Before(before.Add(61*time.Minute)))
	post(t, srv.URL, "k1", "")
	assert.False(t, srv.Effects()[0].At.Before(before.Add(61*time.Minute)))
}

// A second request waits where the manner says so.
func TestSecondRequestWaits(t *testing.T) {
	const waits = 20 * time.Millisecond
	entered, leave := make(chan time.Time, 2), make(chan struct{})
	p := providers.Raw(day)
	p.Endpoints[0].InFlightGuard = false
	srv := providertest.NewUnstartedServer(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- time.Now()
		<-leave
		created(w, r)
	}))
	srv.Manner = func(providers.Endpoint) providertest.Manner { return providertest.Manner{Waits: waits} }
	srv.Start()
	t.Cleanup(srv.Close)
	done := make(chan error, 2)
	ask := func() {
		_, _, err := send(context.Background(), http.MethodPost, srv.URL, "k1", "")
		done <- err
	}
	before := time.Now()
	go ask()
	<-entered
	go ask()
	assert.GreaterOrEqual(t, (<-entered).Sub(before), waits)
	close(leave)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	srv.AssertEffects(t, "k1", 2)
}

// Repeatable requests remember refusals and not failures.
func TestRepeatableRequestsRememberRefusals(t *testing.T) {
	renamed := providers.Repeatable(day)
	renamed.Name = "mail"
	for status, runs := range map[int]int{http.StatusCreated: 1, http.StatusNotFound: 1, http.StatusInternalServerError: 2} {
		ran := 0
		srv := start(t, renamed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ran++
			w.WriteHeader(status)
		}))
		at := time.Now().UTC().Format(http.TimeFormat)
		for range 2 {
			resp, _ := post(t, srv.URL, "", "{}", "Repeatability-Request-ID", key36, "Repeatability-First-Sent", at)
			assert.Equal(t, status, resp.StatusCode)
			assert.Equal(t, "accepted", resp.Header.Get("Repeatability-Result"))
		}
		assert.Equal(t, runs, ran, status)
	}
}

func TestErrorsHaveTheProvidersForm(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		b := s.start(t, nil)
		b.Script(providertest.Status(http.StatusServiceUnavailable, nil), providertest.Status(430, nil))
		for _, status := range []int{http.StatusServiceUnavailable, 430} {
			answer := b.ask(t.Context(), "r1", key36)
			assert.Equal(t, status, answer.status, s.name)
			assert.Equal(t, isGeneric(s), answer.header.Get("Content-Type") == "application/problem+json", s.name)
			assert.NotEqual(t, final.String(), answer.verdict.String(), s.name)
		}
		assert.Empty(t, b.Effects(), s.name)
	}
	srv := start(t, providers.Shopify(), created)
	srv.Script(providertest.Status(http.StatusNotFound, nil))
	_, body := post(t, srv.URL+"/admin/api/2026-04/orders.json", "", "{}")
	assert.JSONEq(t, `{"errors":"this answer is a scripted fault"}`, body)
}
