package providertest_test

import (
	"bytes"
	"cmp"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// sample is a request with a key to an adapter's box, and the promises of its contract. Empty fields have the usual
// values: a POST with a JSON body, answered with 200.
type sample struct {
	name     string
	adapter  string // the function that returns the provider
	provider providers.Provider

	method, path string
	header       [][2]string
	body         string // "REF" in it stands for a text that differs for each operation
	made         outcome

	// repeat is the verdict on a repeat, final by default, and repeatStatus its
	// status, as the first by default.
	repeat       providers.Verdict
	repeatStatus int

	// meanwhile is the verdict on a second request while the first is worked on. Zero means that it is executed as
	// well.
	meanwhile providers.Verdict

	// mismatch is the verdict on another request under the key. Zero means that it is executed as another operation.
	mismatch providers.Verdict

	// forgotten is the verdict on a repeat after the retention. Zero means that it is executed. If no retention is
	// stated, the key is never forgotten and the verdict stays the one of repeat.
	forgotten providers.Verdict

	// resent says that Onceward sends a request that may have run again.
	resent bool
}

// outcome is the answer of the business.
type outcome struct {
	status int
	body   string
}

const (
	final         = providers.Final
	retry         = providers.Retry
	inFlight      = providers.InFlight
	alreadyDone   = providers.AlreadyDone
	answerGone    = providers.AnswerGone
	misuse        = providers.Misuse
	indeterminate = providers.Indeterminate
)

var (
	form    = [][2]string{{"Content-Type", "application/x-www-form-urlencoded"}}
	anInput = `{"amount":10,"reference":"REF"}`
	region  = "eu-central-1"
)

func target(action string) [][2]string {
	return [][2]string{{"Content-Type", "application/x-amz-json-1.0"}, {"X-Amz-Target", action}}
}

// samples are at least one for each adapter.
func samples() []sample {
	all := []sample{
		{name: "Stripe v1", adapter: "Stripe", provider: providers.Stripe(), path: "/v1/charges", header: form, body: "amount=10&reference=REF", meanwhile: inFlight, mismatch: misuse, resent: true},
		{name: "Stripe v2", adapter: "Stripe", provider: providers.Stripe(), path: "/v2/core/accounts", mismatch: misuse},
		{name: "Stripe v2 DELETE", adapter: "Stripe", provider: providers.Stripe(), method: http.MethodDelete, path: "/v2/core/accounts/1", mismatch: misuse},
		{name: "Adyen", adapter: "Adyen", provider: providers.Adyen(""), path: "/v71/payments", meanwhile: inFlight, mismatch: final, resent: true},
		{name: "IETF", adapter: "IETF", provider: providers.IETF(day), path: "/payments", meanwhile: inFlight, mismatch: misuse, resent: true},
		{name: "Raw", adapter: "Raw", provider: providers.Raw(day), path: "/payments", meanwhile: inFlight, mismatch: misuse, resent: true},
		{name: "Onceward", adapter: "Onceward", provider: providers.Onceward(day), path: "/payments", meanwhile: inFlight, mismatch: misuse, resent: true},
		{name: "PayPal orders", adapter: "PayPal", provider: providers.PayPal(), path: "/v2/checkout/orders", made: outcome{201, `{"id":"5O1"}`}, repeatStatus: 200, meanwhile: inFlight, mismatch: final, resent: true},
		{name: "PayPal refunds", adapter: "PayPal", provider: providers.PayPal(), path: "/v2/payments/captures/1/refund", made: outcome{201, `{"id":"1JU"}`}, meanwhile: inFlight, mismatch: final, resent: true},
		{name: "PayPal vault", adapter: "PayPal", provider: providers.PayPal(), path: "/v3/vault/payment-tokens", made: outcome{201, `{"id":"8kk"}`}, repeatStatus: 200, meanwhile: inFlight, mismatch: misuse, resent: true},
		{name: "PayPal payouts", adapter: "PayPal", provider: providers.PayPal(), path: "/v1/payments/payouts", meanwhile: inFlight, mismatch: indeterminate, resent: true},
		{name: "Square", adapter: "Square", provider: providers.Square(day), path: "/v2/payments", mismatch: misuse},
		{name: "Twilio payments", adapter: "Twilio", provider: providers.Twilio(), path: "/2010-04-01/Accounts/AC1/Calls/CA1/Payments.json", header: form, body: "ChargeAmount=10&Description=REF", mismatch: final},
		{name: "Twilio conversations", adapter: "Twilio", provider: providers.Twilio(), path: "/v2/ControlPlane/Configurations", mismatch: final},
		{name: "GoCardless", adapter: "GoCardless", provider: providers.GoCardless(), path: "/payments", made: outcome{201, `{"payments":{"id":"PM123"}}`}, repeat: alreadyDone, repeatStatus: 409, meanwhile: indeterminate, mismatch: alreadyDone},
		{name: "GoCardless, its retention known", adapter: "GoCardless", provider: knowing(providers.GoCardless()), path: "/payments", made: outcome{201, `{"payments":{"id":"PM123"}}`}, repeat: alreadyDone, repeatStatus: 409, meanwhile: indeterminate, mismatch: alreadyDone, resent: true},
		{name: "Checkout.com", adapter: "Checkout", provider: providers.Checkout(), path: "/payments", made: outcome{201, `{"id":"pay_1"}`}, meanwhile: inFlight, mismatch: indeterminate, resent: true},
		{name: "Mollie", adapter: "Mollie", provider: providers.Mollie(), path: "/v2/payments", mismatch: indeterminate},
		{name: "Klarna", adapter: "Klarna", provider: providers.Klarna(), path: "/ordermanagement/v1/orders/1/captures", meanwhile: indeterminate, mismatch: final, resent: true},
		{name: "Wise", adapter: "Wise", provider: providers.Wise(day), path: "/v1/transfers", mismatch: final},
		{name: "Razorpay payouts", adapter: "Razorpay", provider: providers.Razorpay(day), path: "/v1/payouts", mismatch: misuse},
		{name: "Razorpay refunds", adapter: "Razorpay", provider: providers.Razorpay(day), path: "/v1/payments/pay_1/refund", meanwhile: retry, mismatch: misuse, resent: true},
		{name: "Modern Treasury", adapter: "ModernTreasury", provider: providers.ModernTreasury(), path: "/api/payment_orders", meanwhile: inFlight, mismatch: final, resent: true},
		{name: "Dwolla", adapter: "Dwolla", provider: providers.Dwolla(), path: "/transfers", made: outcome{201, ""}, meanwhile: inFlight, resent: true},
		{
			name: "Braintree", adapter: "Braintree", provider: providers.Braintree(), path: "/graphql",
			body:      `{"query":"mutation m($input: I!) { chargePaymentMethod(input: $input) { transaction { id } } }","variables":{"input":{"apiRequestKey":"REF-key","paymentMethodId":"REF"}}}`,
			made:      outcome{200, `{"data":{"chargePaymentMethod":{"transaction":{"id":"t_1"}}},"extensions":{"requestId":"r"}}`},
			meanwhile: retry, mismatch: retry, resent: true,
		},
		{
			name: "Shopify", adapter: "Shopify", provider: providers.Shopify(), path: "/admin/api/2026-04/graphql.json",
			body:      `{"query":"mutation m($in: I = {a: 1}, $k: String!) { refundCreate(input: {note: \"REF\"}) @idempotent(key: $k) { refund { id } userErrors { code } } }","variables":{"k":"REF-key"}}`,
			made:      outcome{200, `{"data":{"refundCreate":{"refund":{"id":"1"},"userErrors":[]}}}`},
			meanwhile: inFlight, mismatch: misuse, resent: true,
		},
		{name: "Repeatable", adapter: "Repeatable", provider: providers.Repeatable(day), path: "/emails", mismatch: misuse, forgotten: indeterminate},
		{name: "AIP-155, in the query", adapter: "AIP155", provider: providers.AIP155(providers.KeyQuery, day), path: "/v1/books?view=full", meanwhile: retry, mismatch: final, resent: true},
		{name: "AIP-155, in the body", adapter: "AIP155", provider: providers.AIP155(providers.KeyJSONField, day), path: "/v1/books", meanwhile: retry, mismatch: final, resent: true},
		{name: "AWS, Query protocol", adapter: "AWS", provider: providers.AWS(providers.AWSRunInstances(region)), path: "/", header: form, body: "Action=RunInstances&KeyName=REF", made: outcome{200, "<RunInstancesResponse/>"}, mismatch: indeterminate},
		{name: "AWS, DynamoDB", adapter: "AWS", provider: providers.AWS(providers.AWSTransactWriteItems(region)), path: "/", header: target("DynamoDB_20120810.TransactWriteItems"), meanwhile: inFlight, mismatch: misuse, resent: true},
		{name: "AWS, CodeBuild", adapter: "AWS", provider: providers.AWS(providers.AWSStartBuild(region)), path: "/", header: target("CodeBuild_20161006.StartBuild"), mismatch: final},
		{name: "AWS, Verified Permissions", adapter: "AWS", provider: providers.AWS(providers.AWSCreatePolicyStore(region)), path: "/", header: target("VerifiedPermissions.CreatePolicyStore"), mismatch: indeterminate},
		{name: "Increase", adapter: "Increase", provider: providers.Increase(), path: "/ach_transfers", meanwhile: indeterminate, mismatch: misuse, resent: true},
		{name: "Column", adapter: "Column", provider: providers.Column(day), path: "/transfers/wire", meanwhile: indeterminate, mismatch: final, resent: true},
		{name: "Svix", adapter: "Svix", provider: providers.Svix(), path: "/api/v1/app/a/msg", made: outcome{202, `{"id":"msg_1"}`}, meanwhile: final, mismatch: final},
		{name: "Resend", adapter: "Resend", provider: providers.Resend(), path: "/emails", meanwhile: inFlight, mismatch: misuse, resent: true},
		{name: "Coinbase", adapter: "Coinbase", provider: providers.Coinbase(), path: "/platform/v2/transfers", mismatch: misuse},
		{name: "Fireblocks", adapter: "Fireblocks", provider: providers.Fireblocks(), path: "/v1/transactions", mismatch: final},
		{name: "Zuora", adapter: "Zuora", provider: providers.Zuora(), path: "/v1/orders", meanwhile: inFlight, mismatch: misuse, resent: true},
		{name: "Bridge", adapter: "Bridge", provider: providers.Bridge(), path: "/v0/transfers", made: outcome{201, `{"id":"1"}`}, meanwhile: indeterminate, mismatch: indeterminate, resent: true},
		{name: "Mangopay", adapter: "Mangopay", provider: providers.Mangopay(), path: "/v2.01/client/transfers", meanwhile: indeterminate, mismatch: final, resent: true},
		{name: "TrueLayer", adapter: "TrueLayer", provider: providers.TrueLayer(), path: "/v3/payments", made: outcome{201, `{"id":"1"}`}, meanwhile: inFlight, mismatch: indeterminate, resent: true},
		{name: "Worldline", adapter: "Worldline", provider: providers.Worldline(), path: "/v2/shop/payments", made: outcome{201, `{"payment":{"id":"1"}}`}, meanwhile: inFlight, mismatch: final, resent: true},
		{name: "Moov", adapter: "Moov", provider: providers.Moov(), path: "/accounts/1/transfers", made: outcome{200, `{"id":"PM123"}`}, repeat: alreadyDone, repeatStatus: 409, meanwhile: retry, mismatch: alreadyDone, resent: true},
		{name: "Mercado Pago", adapter: "MercadoPago", provider: providers.MercadoPago(day), path: "/v1/payments", made: outcome{201, `{"id":1}`}, meanwhile: inFlight, mismatch: final, resent: true},
		{name: "Plaid", adapter: "Plaid", provider: providers.Plaid(), path: "/bank_transfer/create", meanwhile: indeterminate, mismatch: final, resent: true},
		{name: "ACP", adapter: "ACP", provider: providers.ACP("any.example.com"), path: "/checkout_sessions/1/complete", meanwhile: inFlight, mismatch: misuse, resent: true},
		{name: "UCP", adapter: "UCP", provider: providers.UCP("/ucp/v1", "any.example.com"), path: "/ucp/v1/checkout-sessions/1/complete", mismatch: misuse},
		{name: "Airwallex", adapter: "Airwallex", provider: providers.Airwallex(), path: "/api/v1/transfers/create", mismatch: final},
		{name: "Circle", adapter: "Circle", provider: providers.Circle(), path: "/v1/payouts", mismatch: final},
		{name: "Lithic", adapter: "Lithic", provider: providers.Lithic(), path: "/v1/cards", meanwhile: indeterminate, mismatch: final, resent: true},
		{name: "Marqeta", adapter: "Marqeta", provider: providers.Marqeta("any.example.com"), path: "/v3/cards", mismatch: final},
		{name: "Chargebee", adapter: "Chargebee", provider: providers.Chargebee(), path: "/api/v2/subscriptions", header: form, body: "amount=10&reference=REF", mismatch: final},
		{name: "Flutterwave", adapter: "Flutterwave", provider: providers.Flutterwave(), path: "/transfers", mismatch: final},
		{name: "Rapyd", adapter: "Rapyd", provider: providers.Rapyd(), path: "/v1/payments", mismatch: final},
		{name: "Paystack", adapter: "Paystack", provider: providers.Paystack(), path: "/transfer", body: `{"amount":10,"reason":"REF"}`, mismatch: final},
		{name: "Telnyx", adapter: "Telnyx", provider: providers.Telnyx(), path: "/v2/messages", mismatch: final},
		{name: "Finix", adapter: "Finix", provider: providers.Finix(), path: "/transfers", mismatch: final},
		{name: "WorkOS", adapter: "WorkOS", provider: providers.WorkOS(), path: "/audit_logs/events", meanwhile: indeterminate, mismatch: final, resent: true},
	}
	for i := range all {
		all[i] = all[i].filled()
	}
	return all
}

// filled returns the sample with the usual values in its empty fields.
func (s sample) filled() sample {
	s.method = cmp.Or(s.method, http.MethodPost)
	s.body = cmp.Or(s.body, anInput)
	if s.header == nil {
		s.header = [][2]string{{"Content-Type", "application/json"}}
	}
	s.made = cmp.Or(s.made, outcome{200, `{"id":"1"}`})
	s.repeat = cmp.Or(s.repeat, final)
	s.repeatStatus = cmp.Or(s.repeatStatus, s.made.status)
	return s
}

// knowing is GoCardless for a program that knows how long keys are kept.
func knowing(p providers.Provider) providers.Provider {
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Remembers != providers.Nothing {
			e.Retention = day
		}
	}
	return p
}

func TestEveryAdapterHasABox(t *testing.T) {
	boxed := map[string]bool{"AmazonPay": true} // it takes none of our keys, so a box has nothing to remember
	for _, s := range samples() {
		boxed[s.adapter] = true
	}
	files, err := filepath.Glob("../*.go")
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			fn, is := decl.(*ast.FuncDecl)
			if !is || fn.Recv != nil || !fn.Name.IsExported() || fn.Type.Results == nil || len(fn.Type.Results.List) != 1 {
				continue
			}
			if result, is := fn.Type.Results.List[0].Type.(*ast.Ident); is && result.Name == "Provider" {
				found++
				assert.True(t, boxed[fn.Name.Name], "%s has no sample", fn.Name.Name)
			}
		}
	}
	assert.GreaterOrEqual(t, found, 25)
}

// boxed is a sample's server and requests to it.
type boxed struct {
	sample
	*providertest.Server
	t      *testing.T
	router *tables.Router
	sentAt time.Time
}

func (s sample) start(t *testing.T, business http.Handler) *boxed {
	t.Helper()
	if business == nil {
		business = s.business()
	}
	b := &boxed{sample: s, Server: providertest.NewUnstartedServer(s.provider, business), t: t, sentAt: time.Now()}
	b.RetryAfter = -1
	b.Start()
	t.Cleanup(b.Close)
	router, err := tables.NewRouter([]providers.Provider{b.Provider()})
	require.NoError(t, err)
	b.router = router
	return b
}

func (s sample) business() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(s.made.body, "<") {
			w.Header().Set("Content-Type", "text/xml")
		}
		w.WriteHeader(s.made.status)
		_, _ = io.WriteString(w, s.made.body)
	})
}

// compose returns the request for the operation that ref names, with its key.
func (b *boxed) compose(ctx context.Context, ref, key string) (*http.Request, tables.Route) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, b.method, b.URL+b.path, nil)
	require.NoError(b.t, err)
	for _, h := range b.header {
		req.Header.Set(h[0], h[1])
	}
	m := tables.Message{Header: req.Header, Query: req.URL.RawQuery, Body: []byte(strings.ReplaceAll(b.body, "REF", ref))}
	route := b.router.Route(req.Method, req.URL).For(m)
	require.NotZero(b.t, route.Endpoint.Key.Place, "%s takes no key", b.name)
	require.NoError(b.t, tables.Key(route.Endpoint.Key).Set(&m, key, b.sentAt))
	req.URL.RawQuery = m.Query
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(m.Body)), int64(len(m.Body))
	return req, route
}

// got is an answer, and how the adapter reads it on a later attempt.
type got struct {
	status  int
	header  http.Header
	body    string
	first   tables.Judgement
	verdict providers.Verdict
	pointer string
	err     error
}

func (b *boxed) ask(ctx context.Context, ref, key string) got {
	req, route := b.compose(ctx, ref, key)
	resp, err := client.Do(req)
	if err != nil {
		return got{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a := tables.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}
	first := route.Classify(a)
	a.Later = true
	later := route.Classify(a)
	return got{resp.StatusCode, resp.Header, string(body), first, later.Verdict, later.Pointer, err}
}

const key36 = "8e03978e-40d5-43e8-bc93-6894a57f9324"
