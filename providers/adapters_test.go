package providers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

const day = 24 * time.Hour

// adapters are this package's own tables, each with hosts of its own.
func adapters() []providers.Provider {
	return []providers.Provider{
		providers.Stripe(),
		providers.Adyen("1234abcd-Example"),
		providers.IETF(day, "ietf.example.com"),
		providers.Raw(day, "raw.example.com"),
	}
}

func newRouter(t testing.TB, ps ...providers.Provider) *providers.Router {
	t.Helper()
	r, err := providers.NewRouter(ps)
	require.NoError(t, err)
	return r
}

func route(t testing.TB, r *providers.Router, method, rawURL string) providers.Route {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	return r.Route(method, u)
}

func TestEveryAdapterIsValidAndNamesTheSourceOfEveryFact(t *testing.T) {
	for _, p := range adapters() {
		t.Run(p.Name, func(t *testing.T) {
			require.NoError(t, p.Validate())
			assert.NotEmpty(t, p.Source)
			for _, e := range p.Endpoints {
				assert.NotEmpty(t, e.Source, e.Pattern)
				for i, rule := range e.Rules {
					assert.Regexp(t, `\[(D|D-old|S|C|M|\?)\]|the documentation of Raw`, rule.Source, "%s, rule %d", e.Pattern, i)
				}
			}
		})
	}
}

func TestEveryRuleOfEveryAdapterIsReachedOnTheOccasionsItSpeaksOf(t *testing.T) {
	for _, p := range adapters() {
		router := newRouter(t, p)
		for _, e := range p.Endpoints {
			rt := route(t, router, requestFor(p, e.Pattern).Method, requestFor(p, e.Pattern).URL.String())
			require.Equal(t, e.Pattern, rt.Endpoint.Pattern)
			for i, rule := range e.Rules {
				for _, later := range []bool{false, true} {
					if rule.On == providers.FirstAttempt && later || rule.On == providers.LaterAttempt && !later {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/rule %d/later %t", p.Name, e.Pattern, i, later), func(t *testing.T) {
						j := rt.Classify(answerFor(rule, later))
						assert.Equal(t, rule.Verdict, j.Verdict)
						assert.Equal(t, rule.Source, j.Source, "another rule has answered")
					})
				}
			}
		}
	}
}

// requestFor is a request that matches an endpoint's pattern.
func requestFor(p providers.Provider, pattern string) *http.Request {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = http.MethodPut, pattern
	}
	path = strings.ReplaceAll(path, "{id}", "42")
	if strings.HasSuffix(path, "/") {
		path += "something/else"
	}
	return &http.Request{Method: method, URL: &url.URL{Scheme: "https", Host: p.Hosts[0], Path: path}}
}

// answerFor is an answer that meets a rule's conditions and no further ones.
func answerFor(rule providers.Rule, later bool) providers.Answer {
	a := providers.Answer{Status: rule.Status, Header: http.Header{}, Later: later}
	if rule.Through != 0 {
		a.Status = rule.Through // the statuses at the range's beginning often have rules of their own
	}
	if rule.Header != "" {
		a.Header.Set(rule.Header, rule.Value)
	}
	if rule.Field != "" {
		value := rule.Equals
		if value == "" {
			value = "whatever"
		}
		a.Header.Set("Content-Type", "application/json")
		body := fmt.Sprintf("%q", value)
		steps := strings.Split(rule.Field, ".")
		slices.Reverse(steps)
		for _, step := range steps {
			body = fmt.Sprintf("{%q:%s}", step, body)
		}
		a.Body = []byte(body)
	}
	return a
}

func TestKeysGoWhereTheProviderTakesThem(t *testing.T) {
	const (
		v1     = "https://api.stripe.com/v1/charges"
		v2     = "https://api.stripe.com/v2/core/accounts"
		key    = "8e03978e-40d5-43e8-bc93-6894a57f9324"
		quoted = `"` + key + `"`
	)
	router := newRouter(t, adapters()...)
	for _, tc := range []struct {
		method, url string
		header      string
		retention   time.Duration
		remembers   providers.Memory
		guard       bool
	}{
		{"POST", v1, key, day, providers.Everything, true},
		{"POST", "https://files.stripe.com/v1/files", key, day, providers.Everything, true},
		{"DELETE", v1 + "/ch_1", "", 0, providers.Nothing, false},
		{"POST", v2, key, 30 * day, providers.SuccessesCleanFailures, false},
		{"DELETE", v2 + "/acct_1", key, 30 * day, providers.SuccessesCleanFailures, false},
		{"POST", "https://checkout-test.adyen.com/v71/payments", key, 7 * day, providers.Everything, true},
		{"POST", "https://checkout-test.adyen.com/v71/payments/P1/refunds", key, 7 * day, providers.Everything, true},
		{"POST", "https://1234abcd-example-checkout-live.adyenpayments.com/checkout/v72/payments", key, 7 * day, providers.Everything, true},
		{"POST", "https://checkout-test.adyen.com/v71/validateShopperId", "", 0, providers.Nothing, false},
		{"POST", "https://checkout-test.adyen.com/v68/payments", key, 0, providers.Nothing, false},
		{"PATCH", "https://checkout-test.adyen.com/v71/paymentLinks/PL1", key, 0, providers.Nothing, false},
		{"POST", "https://balanceplatform-api-live.adyen.com/btl/v4/transfers", key, 7 * day, providers.Everything, true},
		{"POST", "https://balanceplatform-api-live.adyen.com/btl/v4/transfers/T1/returns", key, 7 * day, providers.Everything, true},
		{"POST", "https://balanceplatform-api-live.adyen.com/btl/v4/cashouts", "", 0, providers.Nothing, false},
		{"POST", "https://management-live.adyen.com/v3/companies", key, 0, providers.Nothing, false},
		{"POST", "https://1234abcd-example-pal-live.adyenpayments.com/pal/servlet/Payment/v68/authorise", key, 0, providers.Nothing, false},
		{"POST", "https://ietf.example.com/payments", quoted, day, providers.Everything, true},
		{"PATCH", "https://ietf.example.com/payments/1", quoted, day, providers.Everything, true},
		{"POST", "https://raw.example.com/payments", key, day, providers.Everything, true},
		{"DELETE", "https://raw.example.com/payments/1", key, day, providers.Everything, true},
	} {
		t.Run(tc.method+" "+tc.url, func(t *testing.T) {
			rt := route(t, router, tc.method, tc.url)
			require.True(t, rt.Listed)
			assert.True(t, rt.Effect)
			h := http.Header{}
			require.NoError(t, rt.Endpoint.Key.Set(h, key))
			assert.Equal(t, tc.header, h.Get("Idempotency-Key"))
			assert.Equal(t, tc.retention, rt.Endpoint.Retention)
			assert.Equal(t, tc.remembers, rt.Endpoint.Remembers)
			assert.Equal(t, tc.guard, rt.Endpoint.InFlightGuard)
		})
	}
}

func TestAdapterKeysAreRefusedBeyondTheProvidersLimit(t *testing.T) {
	router := newRouter(t, adapters()...)
	for _, tc := range []struct {
		url   string
		limit int
	}{
		{"https://api.stripe.com/v1/charges", 255},
		{"https://api.stripe.com/v2/core/accounts", 255},
		{"https://checkout-test.adyen.com/v71/payments", 64},
		{"https://raw.example.com/payments", 255},
	} {
		key := route(t, router, "POST", tc.url).Endpoint.Key
		assert.NoError(t, key.Check(strings.Repeat("k", tc.limit)), tc.url)
		assert.Error(t, key.Check(strings.Repeat("k", tc.limit+1)), tc.url)
	}
}

// row is one kind of answer and what it means on a first and a later attempt.
type row struct {
	name         string
	status       int
	header       string // "Name: value", or several with "; "
	body         string
	first, later providers.Verdict
}

const (
	final         = providers.Final
	rejected      = providers.Rejected
	notExecuted   = providers.NotExecuted
	retry         = providers.Retry
	inFlight      = providers.InFlight
	misuse        = providers.Misuse
	indeterminate = providers.Indeterminate
)

const html = "<html><body><h1>503 Service Unavailable</h1></body></html>"

func checkRows(t *testing.T, rt providers.Route, rows []row) {
	t.Helper()
	for _, tc := range rows {
		t.Run(tc.name, func(t *testing.T) {
			a := providers.Answer{Status: tc.status, Header: http.Header{}, Body: []byte(tc.body)}
			if tc.header != "" {
				for line := range strings.SplitSeq(tc.header, "; ") {
					name, value, _ := strings.Cut(line, ": ")
					a.Header.Add(name, value)
				}
			}
			first := rt.Classify(a)
			a.Later = true
			later := rt.Classify(a)
			assert.Equal(t, tc.first.String(), first.Verdict.String(), "first attempt: %s", first.Source)
			assert.Equal(t, tc.later.String(), later.Verdict.String(), "later attempt: %s", later.Source)
		})
	}
}

func TestStripeV1Answers(t *testing.T) {
	const (
		inUse     = `{"error":{"code":"idempotency_key_in_use","type":"idempotency_error"}}`
		invalid   = `{"error":{"type":"invalid_request_error","code":"charge_already_captured"}}`
		missing   = `{"error":{"type":"invalid_request_error","code":"parameter_missing","param":"amount"}}`
		declined  = `{"error":{"type":"card_error","code":"card_declined"}}`
		apiError  = `{"error":{"type":"api_error"}}`
		reused    = `{"error":{"type":"idempotency_error"}}`
		replayed  = "Idempotent-Replayed: true"
		dontRetry = "Stripe-Should-Retry: false"
		doRetry   = "Stripe-Should-Retry: true"
	)
	rt := route(t, newRouter(t, providers.Stripe()), "POST", "https://api.stripe.com/v1/charges")
	checkRows(t, rt, []row{
		{"a success", 200, "", `{"id":"ch_1"}`, final, final},
		{"a replayed success", 200, replayed, `{"id":"ch_1"}`, final, final},
		{"in flight, by its code whatever the type", 409, "", inUse, inFlight, inFlight},
		{"in flight with another type", 409, "", strings.Replace(inUse, "idempotency_error", "invalid_request_error", 1), inFlight, inFlight},
		{"another conflict is not in flight", 409, "", invalid, retry, retry},
		{"a conflict without a body", 409, "", "", retry, retry},
		{"other parameters under the key", 400, "", reused, misuse, misuse},
		{"no key of the account's", 401, "", apiError, rejected, rejected},
		{"no permission", 403, "", invalid, rejected, rejected},
		{"a rate limit", 429, "", `{"error":{"code":"rate_limit"}}`, notExecuted, notExecuted},
		{"a rate limit without a body", 429, "", "", notExecuted, notExecuted},
		{"a locked object", 429, "", `{"error":{"code":"lock_timeout"}}`, notExecuted, notExecuted},
		{"a rate limit that does not pass", 429, dontRetry, "", rejected, rejected},
		{"a missing parameter", 400, "", missing, rejected, rejected},
		{"a decline", 402, "", declined, final, final},
		{"a decline with the advice not to retry", 402, dontRetry, declined, final, final},
		{"a decline replayed", 402, replayed, declined, final, final},
		{"402 that is not Stripe's", 402, "Content-Type: text/html", html, indeterminate, indeterminate},
		{"an executed refusal", 400, "", invalid, final, retry},
		{"an executed refusal, replayed", 400, replayed, invalid, final, final},
		{"a refusal that a retry does not change", 404, dontRetry, invalid, final, indeterminate},
		{"a refusal by something in between", 404, "Content-Type: text/html", html, indeterminate, indeterminate},
		{"an external dependency that failed", 424, "", apiError, indeterminate, indeterminate},
		{"500", 500, "", apiError, retry, retry},
		{"500 that Stripe will not change", 500, dontRetry, apiError, indeterminate, indeterminate},
		{"500 that is stored", 500, replayed, apiError, indeterminate, indeterminate},
		{"500 that may be retried", 500, doRetry, apiError, retry, retry},
		{"503 by a gateway", 503, "Content-Type: text/html", html, retry, retry},
		{"a header that contradicts itself", 500, dontRetry + "; " + doRetry, apiError, retry, retry},
		{"a redirect", 302, "Location: /elsewhere", "", indeterminate, indeterminate},
	})
}

func TestStripeV1DeleteAnswers(t *testing.T) {
	rt := route(t, newRouter(t, providers.Stripe()), "DELETE", "https://api.stripe.com/v1/customers/cus_1")
	checkRows(t, rt, []row{
		{"deleted", 200, "", `{"deleted":true}`, final, final},
		{"nothing there, perhaps deleted by an earlier attempt", 404, "", `{"error":{"type":"invalid_request_error","code":"resource_missing"}}`, final, indeterminate},
		{"no key of the account's", 401, "", "", rejected, rejected},
		{"a rate limit", 429, "", "", notExecuted, notExecuted},
		{"a conflict", 409, "", "", retry, retry},
		{"500", 500, "", "", retry, retry},
		{"424", 424, "", "", indeterminate, indeterminate},
	})
}

func TestStripeV2Answers(t *testing.T) {
	rt := route(t, newRouter(t, providers.Stripe()), "POST", "https://api.stripe.com/v2/core/accounts")
	checkRows(t, rt, []row{
		{"a success", 200, "", `{"id":"acct_1"}`, final, final},
		{"a failure is executed again", 500, "", `{"error":{"code":"x"}}`, retry, retry},
		{"a failure that a retry does not change", 500, "Stripe-Should-Retry: false", "", indeterminate, indeterminate},
		{"a conflict, of which nothing is published", 409, "", `{"error":{"type":"idempotency_error"}}`, retry, retry},
		{"misuse, read with tolerance", 422, "", `{"error":{"type":"idempotency_error"}}`, misuse, misuse},
		{"a rate limit of Stripe's", 429, "", `{"error":{"type":"rate_limit"}}`, notExecuted, notExecuted},
		{"a rate limit of somebody's", 429, "", "", retry, retry},
		{"a refusal", 400, "", `{"error":{"type":"invalid_request","code":"x"}}`, final, indeterminate},
		{"no permission", 403, "", "", rejected, rejected},
	})
}

func TestAdyenAnswers(t *testing.T) {
	const (
		transient = "Transient-Error: true"
		error704  = `{"status":422,"errorCode":"704","message":"request already processed or in progress"}`
		invalid   = `{"status":422,"errorCode":"101","message":"Invalid card number"}`
	)
	router := newRouter(t, providers.Adyen(""))
	t.Run("where keys are declared", func(t *testing.T) {
		checkRows(t, route(t, router, "POST", "https://checkout-test.adyen.com/v71/payments"), []row{
			{"an authorisation", 200, "Idempotency-Key: k", `{"resultCode":"Authorised"}`, final, final},
			{"in flight by 422", 422, transient, error704, inFlight, inFlight},
			{"in flight by 409", 409, transient, error704, inFlight, inFlight},
			{"704 that is not marked transient", 422, "", error704, indeterminate, indeterminate},
			{"704 that says it is not transient", 422, "Transient-Error: false", error704, indeterminate, indeterminate},
			{"704 as a number", 422, transient, `{"errorCode":704}`, inFlight, inFlight},
			{"the key store is unavailable", 503, transient, `{"errorCode":"703"}`, notExecuted, notExecuted},
			{"the key store is unavailable, not marked", 503, "", `{"errorCode":"703"}`, indeterminate, indeterminate},
			{"an error marked transient", 500, transient, "", notExecuted, notExecuted},
			{"a stored 500", 500, "Idempotency-Key: k", `{"errorCode":"905"}`, indeterminate, indeterminate},
			{"a refusal", 422, "", invalid, final, indeterminate},
			{"a refusal that is not Adyen's", 422, "Content-Type: text/html", html, indeterminate, indeterminate},
			{"a wrong credential", 401, "", `{"errorCode":"000"}`, rejected, rejected},
			{"no permission", 403, "", `{"errorCode":"010"}`, rejected, rejected},
			{"429 without a mark", 429, "", `{"errorCode":"x"}`, indeterminate, indeterminate},
		})
	})
	t.Run("where keys are not proven", func(t *testing.T) {
		checkRows(t, route(t, router, "POST", "https://management-test.adyen.com/v3/companies"), []row{
			{"a success", 200, "", `{}`, final, final},
			{"a mark that is not proven here", 500, transient, "", indeterminate, indeterminate},
			{"a wrong credential", 401, "", "", rejected, rejected},
			{"a refusal", 422, "", invalid, final, indeterminate},
		})
	})
}

func TestIETFAnswers(t *testing.T) {
	rt := route(t, newRouter(t, providers.IETF(day)), "POST", "https://ledger.example.com/transfers")
	checkRows(t, rt, []row{
		{"a success", 201, "", `{}`, final, final},
		{"in flight", 409, "", `{"type":"https://example.com/docs"}`, inFlight, inFlight},
		{"another payload", 422, "", `{"type":"https://example.com/docs"}`, misuse, misuse},
		{"an error that is a result", 400, "", `{"title":"x"}`, final, indeterminate},
		{"a wrong credential", 401, "", "", rejected, rejected},
		{"no permission", 403, "", "", rejected, rejected},
		{"a rate limit proves nothing", 429, "", "", retry, retry},
		{"500, of which the draft says nothing", 500, "", "", indeterminate, indeterminate},
		{"a gateway's 503", 503, "", html, retry, retry},
		{"a mark that the draft does not have", 400, "Idempotent-Replayed: true", "", final, indeterminate},
	})
}

func TestRawAnswers(t *testing.T) {
	const replayed = "Idempotent-Replayed: true"
	rt := route(t, newRouter(t, providers.Raw(day)), "POST", "https://ledger.example.com/transfers")
	checkRows(t, rt, []row{
		{"a success", 201, "", `{}`, final, final},
		{"in flight", 409, "", "", inFlight, inFlight},
		{"a stored conflict", 409, replayed, "", final, final},
		{"another request", 422, "", "", misuse, misuse},
		{"a refusal", 400, "", "", final, retry},
		{"a stored refusal", 400, replayed, "", final, final},
		{"a rate limit", 429, "", "", notExecuted, notExecuted},
		{"a wrong credential", 401, "", "", rejected, rejected},
		{"500", 500, "", "", retry, retry},
		{"a stored 500", 500, replayed, "", indeterminate, indeterminate},
		{"503", 503, "", "", retry, retry},
	})
}

func TestUnlistedAnswers(t *testing.T) {
	rt := route(t, newRouter(t, providers.Stripe()), "POST", "https://nobody.example.com/things")
	require.False(t, rt.Listed)
	checkRows(t, rt, []row{
		{"a success", 204, "", "", final, final},
		{"a refusal", 422, "", "", final, final},
		{"401", 401, "", "", rejected, rejected},
		{"403", 403, "", "", rejected, rejected},
		{"407", 407, "", "", rejected, rejected},
		{"408", 408, "", "", indeterminate, indeterminate},
		{"409", 409, "", "", indeterminate, indeterminate},
		{"425", 425, "", "", indeterminate, indeterminate},
		{"429", 429, "", "", indeterminate, indeterminate},
		{"500", 500, "", "", indeterminate, indeterminate},
		{"a redirect", 307, "", "", indeterminate, indeterminate},
	})
}

func TestAnAdaptersTableIsTheCallersToChange(t *testing.T) {
	changed := providers.Stripe()
	changed.Endpoints[0].Rules[0].Verdict = providers.Final
	assert.Equal(t, providers.InFlight, providers.Stripe().Endpoints[0].Rules[0].Verdict)

	router := newRouter(t, changed)
	changed.Endpoints[0].Retention = 0
	assert.Equal(t, day, route(t, router, "POST", "https://api.stripe.com/v1/charges").Endpoint.Retention)
}

func TestARetentionThatNobodySaidIsRefused(t *testing.T) {
	for _, p := range []providers.Provider{providers.Raw(0), providers.IETF(0), providers.Raw(-time.Hour)} {
		var invalid *providers.ValidationError
		require.ErrorAs(t, p.Validate(), &invalid, p.Name)
		assert.Equal(t, "Endpoints[0].Retention", invalid.Field)
	}
}
