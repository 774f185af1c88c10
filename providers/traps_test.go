package providers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// Each test below is for a known trap of providers for their callers. It covers all adapters at once, as a program
// has them.

const (
	stripeCharge    = "POST https://api.stripe.com/v1/charges"
	stripeAccount   = "POST https://api.stripe.com/v2/core/accounts"
	adyenPayment    = "POST https://checkout-test.adyen.com/v71/payments"
	ietfTransfer    = "POST https://ietf.example.com/transfers"
	paypalOrder     = "POST https://api-m.paypal.com/v2/checkout/orders"
	paypalVoid      = "POST https://api-m.paypal.com/v2/payments/authorizations/A1/void"
	paypalVault     = "POST https://api-m.paypal.com/v3/vault/payment-tokens"
	squarePayment   = "POST https://connect.squareup.com/v2/payments\nContent-Type: application/json\n\n{}"
	twilioMessage   = "POST https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json"
	twilioCall      = "POST https://api.twilio.com/2010-04-01/Accounts/AC1/Calls.json"
	gocardlessPay   = "POST https://api.gocardless.com/payments"
	checkoutPayment = "POST https://api.checkout.com/payments"
	molliePayment   = "POST https://api.mollie.com/v2/payments"
	klarnaCapture   = "POST https://api.klarna.com/ordermanagement/v1/orders/O1/captures"
	wiseTransfer    = "POST https://api.wise.com/v1/transfers"
	razorpayRefund  = "POST https://api.razorpay.com/v1/payments/pay_1/refund"
	razorpayOrder   = "POST https://api.razorpay.com/v1/orders"
	mtOrder         = "POST https://app.moderntreasury.com/api/payment_orders"
	dwollaTransfer  = "POST https://api.dwolla.com/transfers"
	azureEmail      = "POST https://repeatable.example.com/emails:send"
	increaseACH     = "POST https://api.increase.com/ach_transfers"
	svixMessage     = "POST https://api.eu.svix.com/api/v1/app/app_1/msg"
	resendEmail     = "POST https://api.resend.com/emails"
	workosEvent     = "POST https://api.workos.com/audit_logs/events"
	workosUser      = "POST https://api.workos.com/user_management/users"
	braintreeCharge = "POST https://payments.braintree-api.com/graphql\nContent-Type: application/json\n\n" +
		`{"query":"mutation c($input: I!) { chargePaymentMethod(input: $input) { transaction { id } } }","variables":{"input":{"apiRequestKey":"k"}}}`
	shopifyRefund = "POST https://example.myshopify.com/admin/api/2026-04/graphql.json\nContent-Type: application/json\n\n" +
		`{"query":"mutation m($k: String!) { refundCreate(input: {}) @idempotent(key: $k) { refund { id } } }","variables":{"k":"k"}}`
	aipBook = "POST https://aip155.example.com/v1/publishers/1/books"
	openAI  = "POST https://api.openai.com/v1/chat/completions"
	claude  = "POST https://api.anthropic.com/v1/messages"
)

// all has every adapter, as a program has them.
func all(t testing.TB) suite {
	t.Helper()
	return suite{router: newRouter(t, adapters()...)}
}

// window is how long a request under these terms is sent again at all.
func (s suite) window(t testing.TB, text string) time.Duration {
	t.Helper()
	return termsOf(*s.route(t, text).Endpoint).Window()
}

// asked is an answer to one adapter's request.
type asked struct {
	request string
	row
}

func (s suite) check(t *testing.T, cases []asked) {
	t.Helper()
	for _, tc := range cases {
		line, _, _ := strings.Cut(tc.request, "\n")
		t.Run(line, func(t *testing.T) { checkRows(t, s.route(t, tc.request), []row{tc.row}) })
	}
}

func TestTrap1ConflictHasAtLeastFourMeanings(t *testing.T) {
	s := all(t)
	s.check(t, []asked{
		{stripeCharge, row{"in flight, by its code", 409, "", `{"error":{"code":"idempotency_key_in_use"}}`, inFlight, inFlight}},
		{ietfTransfer, row{"in flight", 409, "", "", inFlight, inFlight}},
		{paypalOrder, row{"in flight, if one of ours is out", 409, "", `{"details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}`, retry, inFlight}},
		{paypalVoid, row{"another request's, where no key can be in flight", 409, "", `{"details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}`, notExecuted, indeterminate}},
		{checkoutPayment, row{"in flight, if one of ours is out", 409, "", "", indeterminate, inFlight}},
		{mtOrder, row{"in flight, if one of ours is out", 409, "", "", retry, inFlight}},
		{resendEmail, row{"in flight, by its name", 409, "", `{"name":"concurrent_idempotent_requests"}`, inFlight, inFlight}},
		{gocardlessPay, row{"done before", 409, "", gocardlessConflict, alreadyDone, alreadyDone}},
		{increaseACH, row{"misuse, and the ID is the other one's", 409, "", `{"type":"idempotency_key_already_used_error","resource_id":"x"}`, misuse, misuse}},
		{resendEmail, row{"misuse, by its name", 409, "", `{"name":"invalid_idempotent_request"}`, misuse, misuse}},
		{razorpayRefund, row{"misuse, by its description", 409, "", `{"error":{"code":"BAD_REQUEST_ERROR","description":"Different request with the same idempotency key has already been processed."}}`, misuse, misuse}},
		{razorpayRefund, row{"in flight or misuse", 409, "", `{"error":{"code":"BAD_REQUEST_ERROR","description":"…"}}`, retry, retry}},
		{squarePayment, row{"business", 409, "", `{"errors":[{"code":"CONFLICT"}]}`, indeterminate, indeterminate}},
		{molliePayment, row{"business", 409, "", `{"status":409,"title":"Conflict"}`, indeterminate, indeterminate}},
		{klarnaCapture, row{"business", 409, "", `{"error_code":"CONFLICT"}`, indeterminate, indeterminate}},
		{wiseTransfer, row{"business", 409, "", `{"errors":[{"code":"NOT_UNIQUE"}]}`, indeterminate, indeterminate}},
	})
	for _, p := range adapters() {
		router := newRouter(t, p)
		for _, e := range p.Endpoints {
			rt := router.Route(requestFor(p, e.Pattern).Method, requestFor(p, e.Pattern).URL)
			v := rt.Classify(tables.Answer{Status: 409, Later: true}).Verdict
			settles := v == final || v == rejected || v == notExecuted || v == alreadyDone
			assert.False(t, settles, "%s, %s: 409 is %v by its status alone", p.Name, e.Pattern, v)
		}
	}
	// An error of the API's own on a first attempt does not settle it either. Another request under the same key may
	// have preceded it: from a lost journal, another host or a proxy.
	body := []byte(`{"code":"x","name":"x","type":"x","title":"x","message":"x","error_type":"x","error_code":"x","errorCode":"x",
		"error":{"type":"x","code":"x"},"errors":{"code":"x"},"__type":"x"}`)
	several := []byte(`{"errors":[{"code":"x"}]}`)
	for _, p := range adapters() {
		for _, e := range p.Endpoints {
			if e.Key.Place == providers.KeyNone || e.Remembers == providers.Nothing || p.Name == "shopify" {
				continue // Shopify says it in a 200
			}
			for _, body := range [][]byte{body, several} {
				v := tables.Route{Provider: &p, Endpoint: &e, Listed: true}.Classify(tables.Answer{Status: 409, Body: body}).Verdict
				settles := v == final || v == rejected || v == notExecuted || v == alreadyDone
				assert.False(t, settles, "%s, %s: 409 on a first attempt is %v", p.Name, identity(e), v)
			}
		}
	}
}

// Trap 2: a stored 5xx is frozen at some providers.
func TestTrap2Stored5xxIsFrozen(t *testing.T) {
	s := all(t)
	s.check(t, []asked{
		{stripeCharge, row{"frozen", 500, "Idempotent-Replayed: true", `{"error":{"type":"api_error"}}`, indeterminate, indeterminate}},
		{adyenPayment, row{"frozen", 500, "", `{"errorCode":"905"}`, indeterminate, indeterminate}},
		{adyenPayment, row{"marked transient", 500, "Transient-Error: true", "", notExecuted, notExecuted}},
		{stripeAccount, row{"executed again", 500, "", "", retry, retry}},
		{checkoutPayment, row{"executed again", 500, "", "", retry, retry}},
		{mtOrder, row{"executed again", 500, "", "", retry, retry}},
		{azureEmail, row{"executed again", 500, "", "", retry, retry}},
		{paypalOrder, row{"not published, but a repeat is safe", 500, "", "", retry, retry}},
		{squarePayment, row{"not published", 500, "", "", retry, retry}},
	})
	now := conformanceTime
	for _, text := range []string{checkoutPayment, azureEmail, squarePayment} {
		q := machine.Question{MayHaveRun: true, Failed: true, Terms: termsOf(*s.route(t, text).Endpoint), FirstSentAt: now, LastEndedAt: now, Clock: now, Last: now}
		assert.Equal(t, machine.Never, machine.MaySend(q).Answer, "%s: the repeat of a 5xx with an effect would have a second one", text)
	}
	q := machine.Question{MayHaveRun: true, Terms: termsOf(*s.route(t, checkoutPayment).Endpoint), FirstSentAt: now, LastEndedAt: now, Clock: now, Last: now}
	assert.Equal(t, machine.SendNow, machine.MaySend(q).Answer, "after a lost answer a repeat is promised to be none")
}

func TestTrap3AReplayIsNotAlwaysACopy(t *testing.T) {
	all(t).check(t, []asked{
		{paypalOrder, row{"the latest state", 200, "", `{"id":"O1","status":"COMPLETED"}`, final, final}},
		{stripeAccount, row{"an updated answer", 200, "", `{"id":"acct_1","updated":true}`, final, final}},
		{braintreeCharge, row{"the current status", 200, "", `{"data":{"chargePaymentMethod":{"transaction":{"id":"t_1","status":"SETTLED"}}},"extensions":{"requestId":"r"}}`, final, final}},
		{shopifyRefund, row{"rebuilt from the current state", 200, "", `{"data":{"refundCreate":{"refund":{"id":"r_1"},"userErrors":[]}}}`, final, final}},
		{aipBook, row{"the current state", 200, "", `{"name":"books/1"}`, final, final}},
	})
}

var jsonHeader = http.Header{"Content-Type": {"application/json"}}

func TestTrap4TheStatusDiffersOnAReplay(t *testing.T) {
	s := all(t)
	for text, statuses := range map[string][]int{paypalOrder: {201, 200}, dwollaTransfer: {201, 201}} {
		for i, status := range statuses {
			j := s.route(t, text).Classify(tables.Answer{Status: status, Header: jsonHeader, Body: []byte(`{}`), Later: i > 0})
			assert.Equal(t, final, j.Verdict, "%s: %d", text, status)
			assert.False(t, j.Replayed, "%s: nothing marks a replay", text)
		}
	}
}

// Trap 5: another request under a key may go unnoticed.
func TestTrap5AnotherRequestUnderAKey(t *testing.T) {
	s := all(t)
	for _, text := range []string{svixMessage, mtOrder, dwollaTransfer, adyenPayment} {
		for _, rule := range s.route(t, text).Endpoint.Rules {
			assert.NotEqual(t, misuse, rule.Verdict, "%s: the provider does not say so, the fingerprint has to", text)
		}
	}
	// An answer to another request under the same key can't be distinguished from this request's own success.
	j := s.route(t, svixMessage).Classify(tables.Answer{Status: 202, Body: []byte(`{"id":"msg_of_another"}`), Later: true})
	assert.Equal(t, final, j.Verdict)
}

func TestTrap6TheWindowIsDataAndEnds(t *testing.T) {
	s := all(t)
	for text, retention := range map[string]time.Duration{
		molliePayment:   time.Hour,
		paypalVault:     3 * time.Hour,
		paypalOrder:     6 * time.Hour,
		stripeCharge:    day,
		checkoutPayment: day, // not the 72 h of today's page
		adyenPayment:    7 * day,
	} {
		assert.Equal(t, retention, s.route(t, text).Endpoint.Retention, text)
	}
	unknown := newRouter(t, providers.Square(0), providers.Wise(0), providers.Razorpay(0))
	for _, text := range []string{squarePayment, wiseTransfer, razorpayRefund} {
		assert.Zero(t, suite{router: unknown}.window(t, text), "%s: nobody said for how long", text)
	}

	for _, text := range []string{paypalVault, paypalOrder, stripeCharge, adyenPayment} {
		retention := s.route(t, text).Endpoint.Retention
		assert.Less(t, s.window(t, text), retention, "%s: it stops before the end", text)
		assert.GreaterOrEqual(t, s.window(t, text), retention*3/4, text)
	}

	shorter := providers.Stripe()
	for i := range shorter.Endpoints {
		shorter.Endpoints[i].Retention = min(shorter.Endpoints[i].Retention, time.Hour)
	}
	assert.Equal(t, 45*time.Minute, suite{router: newRouter(t, shorter)}.window(t, stripeCharge), "a program that knows better says so")
}

// Trap 7: a rate limit on a retry says nothing of the first attempt.
func TestTrap7RateLimitOnARetry(t *testing.T) {
	s := all(t)
	for _, text := range []string{stripeCharge, twilioMessage} {
		for _, later := range []bool{false, true} {
			j := s.route(t, text).Classify(tables.Answer{Status: 429, Later: later})
			assert.Equal(t, notExecuted, j.Verdict, text)
			assert.False(t, j.Earlier, text)
		}
	}
	// An outcome that the first attempt left open stays open.
	now := conformanceTime
	for text, want := range map[string]machine.PermissionAnswer{stripeCharge: machine.SendNow, twilioMessage: machine.Never} {
		q := machine.Question{MayHaveRun: true, Terms: termsOf(*s.route(t, text).Endpoint), FirstSentAt: now, LastEndedAt: now, Clock: now, Last: now}
		assert.Equal(t, want, machine.MaySend(q).Answer, text)
		q.MayHaveRun = false
		assert.Equal(t, machine.SendNow, machine.MaySend(q).Answer, "%s: a first attempt that was refused by 429", text)
	}
	for _, p := range adapters() {
		for _, e := range p.Endpoints {
			rt := tables.Route{Provider: &p, Endpoint: &e, Listed: true}
			assert.NotEqual(t, final, rt.Classify(tables.Answer{Status: 429, Later: true}).Verdict, "%s, %s", p.Name, identity(e))
		}
	}
}

func TestTrap8TheScopeOfAKeyMoves(t *testing.T) {
	var scoped []string
	for _, p := range adapters() {
		if p.CredentialScoped {
			scoped = append(scoped, p.Name)
		}
	}
	assert.Subset(t, scoped, []string{"moderntreasury", "svix"}, "these look keys up by credential")
	assert.NotContains(t, scoped, "stripe", "whose keys are the account's")
	assert.NotContains(t, scoped, "adyen", "whose keys are the company account's")
	assert.Contains(t, providers.Stripe().AccountHeaders, "Stripe-Account")

	// One region does not know another's keys: a host that the table does not name
	// is not served by it.
	router := newRouter(t, providers.Adyen("1234abcd-Example"))
	for host, served := range map[string]bool{
		"1234abcd-example-checkout-live.adyenpayments.com": true,
		"5678efab-example-checkout-live.adyenpayments.com": false,
	} {
		rt := route(t, router, "POST", "https://"+host+"/v71/payments")
		assert.Equal(t, served, rt.Listed, host)
	}
}

func TestTrap9QuotedOrBare(t *testing.T) {
	const quoted = `"` + conformanceKey + `"`
	for _, p := range adapters() {
		for _, e := range p.Endpoints {
			switch e.Key.Place {
			case providers.KeyQuotedHeader:
				assert.Contains(t, []string{"ietf", "onceward"}, p.Name, "every named provider wants the bare form")
				m := tables.Message{}
				require.NoError(t, tables.Key(e.Key).Set(&m, conformanceKey, conformanceTime))
				assert.Equal(t, quoted, m.Header.Get(e.Key.Name))
			case providers.KeyRawHeader:
				assert.Error(t, tables.Key(e.Key).Check(quoted), "%s: the quotes would make another key of it", p.Name)
			}
		}
	}
}

func TestTrap10TheMethodsThatTakeAKeyDiffer(t *testing.T) {
	s := all(t)
	for _, tc := range []struct {
		url     string
		methods string
	}{
		{"https://api.stripe.com/v1/charges", "POST"},
		{"https://api.stripe.com/v2/core/accounts/1", "POST DELETE"},
		{"https://checkout-test.adyen.com/v71/payments", "POST"},
		{"https://api.klarna.com/ordermanagement/v1/orders/1/authorization", "POST PATCH"},
		{"https://api.mollie.com/v2/payments/1", "POST PATCH DELETE"},
		{"https://ietf.example.com/payments/1", "POST PUT PATCH DELETE"},
		{"https://onceward.example.com/payments/1", "POST PUT PATCH DELETE"},
		{"https://app.moderntreasury.com/api/payment_orders", "POST"},
		{"https://api.gocardless.com/payments", "POST"},
	} {
		var keyed []string
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			rt := s.route(t, method+" "+tc.url)
			if rt.Listed && rt.Endpoint.Remembers != providers.Nothing {
				keyed = append(keyed, method)
			}
		}
		assert.Equal(t, tc.methods, strings.Join(keyed, " "), tc.url)
	}
}

// Trap 11: a request that takes no key is never sent again after an ambiguous failure.
func TestTrap11WithoutAKeyIsNeverSentAgain(t *testing.T) {
	s := all(t)
	for _, text := range []string{
		twilioMessage, twilioCall, paypalVoid, razorpayOrder, openAI, claude,
		"DELETE https://api.stripe.com/v1/customers/cus_1",
		"POST https://connect.squareup.com/v2/payments/P1/complete",
		"POST https://api.wise.com/v3/profiles/1/transfers/2/payments",
	} {
		rt := s.route(t, text)
		assert.True(t, rt.Effect, text)
		assert.Zero(t, termsOf(*rt.Endpoint).Window(), text)
		if rt.Listed {
			assert.Equal(t, providers.KeyNone, rt.Endpoint.Key.Place, text)
		}
	}
}

func TestTrap12AnSDKsOwnKeyIsFoundAndReplaced(t *testing.T) {
	s := all(t)
	const theirs = "11111111-2222-4333-8444-555555555555"
	for _, text := range []string{
		stripeCharge, adyenPayment, ietfTransfer, paypalOrder, squarePayment, gocardlessPay, checkoutPayment,
		molliePayment, klarnaCapture, wiseTransfer + "\n\n{}", razorpayRefund, mtOrder, dwollaTransfer, azureEmail,
		increaseACH, svixMessage, resendEmail, workosEvent, braintreeCharge, shopifyRefund, aipBook,
		"POST https://api.twilio.com/2010-04-01/Accounts/AC1/Calls/CA1/Payments.json\nContent-Type: application/x-www-form-urlencoded\n\nStatusCallback=x",
	} {
		key := s.route(t, text).Endpoint.Key
		line, _, _ := strings.Cut(text, "\n")
		t.Run(line, func(t *testing.T) {
			_, m := request(t, text)
			require.NoError(t, tables.Key(key).Set(&m, theirs, conformanceTime))
			carried, present, err := tables.Key(key).Carried(m)
			require.NoError(t, err)
			require.True(t, present)
			assert.Equal(t, theirs, carried)

			require.NoError(t, tables.Key(key).Set(&m, conformanceKey, conformanceTime))
			assert.NotContains(t, fmt.Sprint(m.Header, m.Query, string(m.Body)), theirs)
		})
	}
}

// Trap 13: a header that a server ignores protects nothing.
func TestTrap13HeaderThatAServerIgnores(t *testing.T) {
	s := all(t)
	event, user := s.route(t, workosEvent), s.route(t, workosUser)
	assert.Equal(t, "Idempotency-Key", event.Endpoint.Key.Name)
	assert.Equal(t, providers.KeyNone, user.Endpoint.Key.Place, "the SDK sends a key that WorkOS ignores")
	assert.Zero(t, termsOf(*user.Endpoint).Window())

	// If a key is sent but the provider promises nothing for it, no resend rests on it.
	for _, text := range []string{
		"POST https://management-test.adyen.com/v3/companies",
		"POST https://api.gocardless.com/payments/PM1/actions/cancel",
		"POST https://nobody.example.net/things",
	} {
		rt := s.route(t, text)
		assert.NotEqual(t, providers.KeyNone, rt.Endpoint.Key.Place, text)
		assert.Equal(t, providers.Nothing, rt.Endpoint.Remembers, text)
		assert.Zero(t, termsOf(*rt.Endpoint).Window(), text)
	}
}
