package providertest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// sought is a request to an adapter's box. The test looks for its object. REF in it stands for the reference, KEY for
// the key, and # for a number that differs for each request. A body that is not a form is JSON.
type sought struct {
	name     string
	provider providers.Provider
	method   string // POST, if empty
	path     string
	header   string // of the key
	body     string
	in       string // the member that answers have their object in; empty: none
	ways     int    // look-ups of its endpoint that serve it
}

// located answers as Dwolla does, by a Location alone.
func located() http.Handler {
	objects := providertest.Objects("tr_")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := httptest.NewRecorder()
		objects.ServeHTTP(inner, r)
		_, id, _ := strings.Cut(inner.Body.String(), `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		w.Header().Set("Location", "https://api.dwolla.com/transfers/"+id)
		w.WriteHeader(http.StatusCreated)
	})
}

// capital answers as Mangopay does, with an Id, and a CreationDate in seconds.
func capital() http.Handler {
	var made atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"Id":"%d","CreationDate":%d}`, 146476890+made.Add(1), time.Now().Unix())
	})
}

// named answers as Marqeta and Lithic do, with the token that the request chose.
func named() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		io.Copy(w, r.Body)
	})
}

// identified answers as Chargebee does, with the id that the request chose.
func identified(member string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{%q:{"id":%q}}`, member, r.PostFormValue("id"))
	})
}

func graphQL(document, variables string) string {
	return fmt.Sprintf(`{"query":%q,"variables":%s}`, document, variables)
}

// allSought has a row for each endpoint with look-ups.
func allSought() []sought {
	const idempotency = "Idempotency-Key"
	day := 24 * time.Hour
	stripe := func(object, path, body string, ways int) sought {
		return sought{name: "Stripe, a " + object, provider: providers.Stripe(), path: path, header: idempotency, body: body + "&metadata[onceward]=REF&object=" + object, ways: ways}
	}
	treasury := func(object, path, body string, ways int) sought {
		return sought{name: "Modern Treasury, a " + object, provider: providers.ModernTreasury(), path: "/api/" + path, header: idempotency, body: `{"external_id":"REF",` + body + "}", ways: ways}
	}
	lithic := func(name, path, account string) sought {
		return sought{name: "Lithic, " + name, provider: providers.Lithic(), path: "/v1/" + path, header: idempotency, body: `{"token":"REF","amount":1#,"` + account + `":"a#"}`, ways: 1}
	}
	increase := func(objects string) sought {
		return sought{name: "Increase, one of " + objects, provider: providers.Increase(), path: "/" + objects, header: idempotency, body: `{"amount":1#}`, ways: 1}
	}
	mangopay := func(name, path string) sought {
		return sought{name: "Mangopay, " + name, provider: providers.Mangopay(), path: "/v2.01/client/" + path, header: idempotency, body: `{"Tag":"t#","DebitedFunds":{"Currency":"EUR","Amount":1#}}`, ways: 1}
	}
	chargebee := func(path, member, body string) sought {
		return sought{name: "Chargebee, " + path, provider: providers.Chargebee(), path: "/api/v2/" + path, header: "Chargebee-Idempotency-Key", body: "id=REF&" + body, in: member, ways: 1}
	}
	circle := func(path string) sought {
		return sought{name: "Circle, " + path, provider: providers.Circle(), path: "/v1/" + path, body: `{"idempotencyKey":"KEY","destination":{"id":"b#"},"amount":{"amount":"1#.00","currency":"USD"}}`, in: "data", ways: 1}
	}
	flutterwave := func(path string) sought {
		return sought{name: "Flutterwave, " + path, provider: providers.Flutterwave(), path: path, header: "X-Idempotency-Key", body: `{"reference":"REF","amount":1#.5,"currency":"NGN"}`, in: "data", ways: 1}
	}
	return []sought{
		chargebee("customers", "customer", "email=#%40example.com"),
		chargebee("subscriptions", "subscription", "plan_id=gold&customer[id]=c#"),
		chargebee("customers/c#/subscriptions", "subscription", "plan_id=gold"),
		chargebee("customers/c#/subscription_for_items", "subscription", "subscription_items[item_price_id][0]=gold"),
		circle("payouts"),
		circle("businessAccount/payouts"),
		circle("businessAccount/transfers"),
		{
			name: "Circle, a wallet's transfer", provider: providers.Circle(), path: "/v1/w3s/developer/transactions/transfer",
			body: `{"idempotencyKey":"KEY","refId":"REF","destinationAddress":"0x#","walletId":"w1","amounts":["1#"]}`, in: "data", ways: 1,
		},
		flutterwave("/charges"),
		flutterwave("/orchestration/direct-charges"),
		flutterwave("/developersandbox/charges"),
		flutterwave("/developersandbox/orchestration/direct-charges"),
		flutterwave("/f4b/production/charges"),
		flutterwave("/f4b/production/orchestration/direct-charges"),
		{name: "Telnyx, an order of a number", provider: providers.Telnyx(), path: "/v2/number_orders", header: idempotency, body: `{"customer_reference":"REF","phone_numbers":[{"phone_number":"+1555000#"}]}`, in: "data", ways: 1},
		stripe("charge", "/v1/charges", "amount=1#&currency=EUR", 2),
		stripe("payment_intent", "/v1/payment_intents", "amount=1#&currency=EUR", 2),
		stripe("refund", "/v1/refunds", "charge=ch_#&amount=1", 3),
		stripe("refund", "/v1/refunds", "payment_intent=pi_#&amount=1", 3),
		stripe("transfer", "/v1/transfers", "amount=1#&currency=EUR&destination=acct_1", 2),
		stripe("payout", "/v1/payouts", "amount=1#&currency=EUR", 2),
		stripe("topup", "/v1/topups", "amount=1#&currency=EUR", 2),
		stripe("subscription", "/v1/subscriptions", "customer=cus_#", 1),
		stripe("invoice", "/v1/invoices", "customer=cus_#", 1),
		stripe("customer", "/v1/customers", "email=#@example.com", 1),
		{name: "Stripe, an account of v2", provider: providers.Stripe(), path: "/v2/core/accounts", header: idempotency, body: `{"display_name":"n#"}`, ways: 1},
		{name: "Stripe, a person of v2", provider: providers.Stripe(), path: "/v2/core/accounts/acct_#/persons", header: idempotency, body: `{"given_name":"n#"}`, ways: 1},
		{name: "Adyen, a transfer", provider: providers.Adyen(""), path: "/btl/v4/transfers", header: idempotency, body: `{"reference":"REF","amount":{"value":1#,"currency":"EUR"},"balanceAccountId":"BA1","category":"bank"}`, ways: 1},
		{name: "PayPal, an authorization", provider: providers.PayPal(), path: "/v2/checkout/orders/O-#/authorize", header: "PayPal-Request-Id", body: `{}`, ways: 1},
		{name: "PayPal, a capture of an order", provider: providers.PayPal(), path: "/v2/checkout/orders/O-#/capture", header: "PayPal-Request-Id", body: `{}`, ways: 1},
		{name: "PayPal, a capture", provider: providers.PayPal(), path: "/v2/payments/authorizations/A-#/capture", header: "PayPal-Request-Id", body: `{"invoice_id":"REF","amount":{"value":"1#.00","currency_code":"EUR"}}`, ways: 1},
		{name: "PayPal, a refund", provider: providers.PayPal(), path: "/v2/payments/captures/C-#/refund", header: "PayPal-Request-Id", body: `{"custom_id":"REF"}`, ways: 1},
		{name: "PayPal, a void", provider: providers.PayPal(), path: "/v2/payments/authorizations/A-#/void", header: "PayPal-Request-Id", body: `{}`, ways: 1},
		{name: "Square, a payment", provider: providers.Square(day), path: "/v2/payments", body: `{"idempotency_key":"KEY","reference_id":"REF","amount_money":{"amount":1#,"currency":"EUR"},"location_id":"L1"}`, in: "payment", ways: 2},
		{name: "Square, a card", provider: providers.Square(day), path: "/v2/cards", body: `{"idempotency_key":"KEY","source_id":"s","card":{"reference_id":"REF","customer_id":"C#"}}`, in: "card", ways: 1},
		{name: "Square, a refund", provider: providers.Square(day), path: "/v2/refunds", body: `{"idempotency_key":"KEY","payment_id":"P#","amount_money":{"amount":1#,"currency":"EUR"}}`, in: "refund", ways: 1},
		{name: "GoCardless, a payment", provider: providers.GoCardless(), path: "/payments", header: idempotency, body: `{"payments":{"amount":1#,"currency":"EUR","links":{"mandate":"MD1"},"metadata":{"onceward":"REF"}}}`, in: "payments", ways: 1},
		{name: "GoCardless, a refund", provider: providers.GoCardless(), path: "/refunds", header: idempotency, body: `{"refunds":{"amount":1#,"links":{"payment":"PM#"}}}`, in: "refunds", ways: 1},
		{name: "Checkout.com, a payment", provider: providers.Checkout(), path: "/payments", header: "Cko-Idempotency-Key", body: `{"reference":"REF","amount":1#,"currency":"EUR"}`, ways: 1},
		{name: "Checkout.com, a capture", provider: providers.Checkout(), path: "/payments/pay_#/captures", header: "Cko-Idempotency-Key", body: `{"amount":1#}`, ways: 1},
		{name: "Checkout.com, a refund", provider: providers.Checkout(), path: "/payments/pay_#/refunds", header: "Cko-Idempotency-Key", body: `{"amount":1#,"reference":"REF"}`, ways: 1},
		{name: "Mollie, a payment", provider: providers.Mollie(), path: "/v2/payments", header: idempotency, body: `{"amount":{"value":"1#.00","currency":"EUR"},"metadata":{"onceward":"REF"}}`, ways: 1},
		{name: "Mollie, a payment of a profile", provider: providers.Mollie(), path: "/v2/payments", header: idempotency, body: `{"amount":{"value":"1#.00","currency":"EUR"},"metadata":{"onceward":"REF"},"profileId":"pfl_1","testmode":true}`, ways: 3},
		{name: "Mollie, a refund", provider: providers.Mollie(), path: "/v2/payments/tr_#/refunds", header: idempotency, body: `{"amount":{"value":"1#.00","currency":"EUR"}}`, ways: 1},
		{name: "Mollie, a capture", provider: providers.Mollie(), path: "/v2/payments/tr_#/captures", header: idempotency, body: `{"amount":{"value":"1#.00","currency":"EUR"}}`, ways: 1},
		{name: "Wise, a transfer", provider: providers.Wise(day), path: "/v1/transfers", body: `{"customerTransactionId":"KEY","targetAccount":#}`, ways: 1},
		{name: "Wise, a transfer of a batch", provider: providers.Wise(day), path: "/v3/profiles/7/batch-groups/g/transfers", body: `{"customerTransactionId":"KEY","targetAccount":#}`, ways: 1},
		{name: "Razorpay, an order", provider: providers.Razorpay(day), path: "/v1/orders", body: `{"receipt":"REF","amount":1#,"currency":"INR"}`, ways: 1},
		{name: "Razorpay, a payout", provider: providers.Razorpay(day), path: "/v1/payouts", header: "X-Payout-Idempotency", body: `{"reference_id":"REF","amount":1#,"currency":"INR","account_number":"a1","fund_account_id":"fa_1"}`, ways: 1},
		{name: "Razorpay, a refund", provider: providers.Razorpay(day), path: "/v1/payments/pay_#/refund", header: "X-Refund-Idempotency", body: `{"amount":1#,"receipt":"REF"}`, ways: 1},
		treasury("payment order", "payment_orders", `"amount":1#,"direction":"credit","originating_account_id":"a1"`, 1),
		treasury("expected payment", "expected_payments", `"amount_upper_bound":1#,"amount_lower_bound":1#,"direction":"credit"`, 1),
		treasury("expected payment into an account", "expected_payments", `"internal_account_id":"a#","counterparty_id":"c1"`, 2),
		treasury("counterparty", "counterparties", `"name":"n#"`, 1),
		treasury("external account", "external_accounts", `"counterparty_id":"c#"`, 1),
		treasury("internal account", "internal_accounts", `"name":"n#","currency":"USD"`, 1),
		treasury("legal entity", "legal_entities", `"legal_entity_type":"business","business_name":"n#"`, 1),
		treasury("ledger account", "ledger_accounts", `"ledger_id":"l1","name":"n#","normal_balance":"credit"`, 1),
		treasury("ledger account category", "ledger_account_categories", `"ledger_id":"l1","name":"n#","normal_balance":"debit"`, 1),
		treasury("ledger transaction", "ledger_transactions", `"description":"d#","effective_date":"2026-11-2#"`, 2),
		{name: "Dwolla, a transfer", provider: providers.Dwolla(), path: "/transfers", header: idempotency, body: `{"correlationId":"REF","amount":{"value":"1#.00","currency":"USD"}}`, ways: 1},
		{name: "Dwolla, a mass payment", provider: providers.Dwolla(), path: "/mass-payments", header: idempotency, body: `{"correlationId":"REF","_links":{"source":{"href":"https://api.dwolla.com/funding-sources/#"}},"items":[]}`, ways: 1},
		{name: "Braintree, an authorization", provider: providers.Braintree(), path: "/graphql", body: graphQL("mutation M($input: I!) { authorizeCreditCard(input: $input) { transaction { id } } }", `{"input":{"apiRequestKey":"KEY","transaction":{"orderId":"REF","amount":"1#.00"}}}`), ways: 1},
		{name: "Braintree, a charge", provider: providers.Braintree(), path: "/graphql", body: graphQL("mutation M($input: I!) { chargePaymentMethod(input: $input) { transaction { id } } }", `{"input":{"apiRequestKey":"KEY","transaction":{"orderId":"REF","amount":"1#.00"}}}`), ways: 1},
		{name: "Braintree, a refund of a card", provider: providers.Braintree(), path: "/graphql", body: graphQL("mutation M($input: I!) { refundCreditCard(input: $input) { refund { id } } }", `{"input":{"apiRequestKey":"KEY","refund":{"orderId":"REF","amount":"1#.00"}}}`), ways: 1},
		{name: "Braintree, a refund of a transaction", provider: providers.Braintree(), path: "/graphql", body: graphQL("mutation M($input: I!) { refundTransaction(input: $input) { refund { id } } }", `{"input":{"apiRequestKey":"KEY","transactionId":"t#","refund":{"orderId":"REF","amount":"1#.00"}}}`), ways: 2},
		increase("ach_transfers"), increase("account_transfers"), increase("card_push_transfers"), increase("check_transfers"), increase("fednow_transfers"),
		increase("real_time_payments_transfers"), increase("swift_transfers"), increase("wire_transfers"), increase("exports"),
		{name: "Svix, a message", provider: providers.Svix(), path: "/api/v1/app/app_1/msg", header: idempotency, body: `{"eventId":"REF","eventType":"t","payload":{}}`, ways: 1},
		{name: "Svix, an application", provider: providers.Svix(), path: "/api/v1/app", header: idempotency, body: `{"uid":"REF","name":"app #"}`, ways: 1},
		{name: "Column, an ACH transfer", provider: providers.Column(0), path: "/transfers/ach", header: idempotency, body: `{"amount":1#}`, ways: 1},
		{name: "Column, a book transfer", provider: providers.Column(0), path: "/transfers/book", header: idempotency, body: `{"amount":1#}`, ways: 1},
		{name: "Fireblocks, a transaction", provider: providers.Fireblocks(), path: "/v1/transactions", header: idempotency, body: `{"externalTxId":"REF","assetId":"BTC","amount":"0.1#"}`, ways: 1},
		mangopay("a transfer", "transfers"),
		mangopay("a refund of a transfer", "transfers/t#/refunds"),
		mangopay("a refund of a payin", "payins/p#/refunds"),
		mangopay("a payout", "payouts/bankwire"),
		mangopay("a payout, slashed", "payouts/bankwire/"),
		mangopay("a card", "payins/card/direct"),
		mangopay("a card, slashed", "payins/card/direct/"),
		mangopay("a card on a page", "payins/card/web"),
		mangopay("a card on a page, slashed", "payins/card/web/"),
		mangopay("a bank wire", "payins/bankwire/direct"),
		mangopay("a bank wire, slashed", "payins/bankwire/direct/"),
		mangopay("a preauthorized card", "payins/preauthorized/direct"),
		mangopay("a preauthorized card, slashed", "payins/preauthorized/direct/"),
		mangopay("a wallet", "wallets"),
		mangopay("a natural user", "users/natural"),
		mangopay("a legal user", "users/legal"),
		{name: "Mercado Pago, a payment", provider: providers.MercadoPago(day), path: "/v1/payments", header: "X-Idempotency-Key", body: `{"external_reference":"REF","transaction_amount":1#.5,"payment_method_id":"pix"}`, ways: 1},
		{name: "Mercado Pago, a refund", provider: providers.MercadoPago(day), path: "/v1/payments/1#/refunds", header: "X-Idempotency-Key", body: `{"amount":1#.5}`, ways: 1},
		{name: "WorkOS, an organization", provider: providers.WorkOS(), path: "/organizations", body: `{"external_id":"REF","name":"n#"}`, ways: 1},
		{name: "WorkOS, a user", provider: providers.WorkOS(), path: "/user_management/users", body: `{"external_id":"REF","email":"#@example.com"}`, ways: 1},
		{name: "Paystack, a transfer", provider: providers.Paystack(), path: "/transfer", body: `{"reference":"KEY","amount":1#,"currency":"NGN","recipient":"RCP_1"}`, in: "data", ways: 1},
		{name: "Finix, a transfer", provider: providers.Finix(), path: "/transfers", body: `{"idempotency_id":"KEY","amount":1#,"currency":"USD"}`, ways: 1},
		{name: "Finix, an authorization", provider: providers.Finix(), path: "/authorizations", body: `{"idempotency_id":"KEY","amount":1#,"currency":"USD"}`, ways: 1},
		{name: "Finix, a reversal", provider: providers.Finix(), path: "/transfers/TR#/reversals", body: `{"idempotency_id":"KEY","refund_amount":1#}`, ways: 1},
		{name: "Marqeta, a card", provider: providers.Marqeta("sandbox-api.marqeta.com"), path: "/v3/cards", body: `{"token":"KEY","user_token":"u#"}`, ways: 1},
		{name: "Marqeta, a user", provider: providers.Marqeta("sandbox-api.marqeta.com"), path: "/v3/users", body: `{"token":"KEY","first_name":"n#"}`, ways: 1},
		{name: "Airwallex, a payment intent", provider: providers.Airwallex(), path: "/api/v1/pa/payment_intents/create", body: `{"request_id":"KEY","merchant_order_id":"o#","amount":1#,"currency":"USD"}`, ways: 1},
		{name: "Airwallex, a transfer", provider: providers.Airwallex(), path: "/api/v1/transfers/create", body: `{"request_id":"KEY","transfer_amount":"1#.00","transfer_currency":"USD"}`, ways: 1},
		{name: "Rapyd, a payment", provider: providers.Rapyd(), path: "/v1/payments", header: "Idempotency", body: `{"merchant_reference_id":"REF","amount":1#,"currency":"USD"}`, in: "data", ways: 1},
		{name: "Plaid, a transfer", provider: providers.Plaid(), path: "/transfer/create", body: `{"authorization_id":"u#","account_id":"a#","metadata":{"onceward":"REF"}}`, in: "transfer", ways: 1},
		{name: "Plaid, a bank transfer", provider: providers.Plaid(), path: "/bank_transfer/create", body: `{"idempotency_key":"KEY","account_id":"a1","amount":"1#.00","metadata":{"onceward":"REF"}}`, in: "bank_transfer", ways: 1},
		{name: "Plaid, a wallet's transaction", provider: providers.Plaid(), path: "/wallet/transaction/execute", body: `{"idempotency_key":"KEY","wallet_id":"w1","reference":"INVOICE#","amount":{"value":1#.5}}`, ways: 1},
		{name: "ACP, a completed session", provider: providers.ACP("shop.example.com"), path: "/checkout_sessions/cs_#/complete", header: idempotency, body: `{}`, ways: 1},
		{name: "ACP, a canceled session", provider: providers.ACP("shop.example.com"), path: "/checkout_sessions/cs_#/cancel", header: idempotency, body: `{}`, ways: 1},
		{name: "UCP, a completed checkout", provider: providers.UCP("/ucp/v1", "shop.example.com"), path: "/ucp/v1/checkout-sessions/cs_#/complete", header: idempotency, body: `{}`, ways: 1},
		{name: "UCP, a canceled checkout", provider: providers.UCP("/ucp/v1", "shop.example.com"), path: "/ucp/v1/checkout-sessions/cs_#/cancel", header: idempotency, body: `{}`, ways: 1},
		lithic("a payment", "payments", "financial_account_token"),
		lithic("an external payment", "external_payments", "financial_account_token"),
		lithic("a book transfer", "book_transfers", "to_financial_account_token"),
		lithic("a management operation", "management_operations", "financial_account_token"),
	}
}

// business is the handler that the box of a row executes.
func (s sought) business() http.Handler {
	switch {
	case s.provider.Name == "dwolla":
		return located()
	case s.provider.Name == "mangopay":
		return capital()
	case s.provider.Name == "marqeta", s.provider.Name == "lithic":
		return named()
	case s.provider.Name == "chargebee":
		return identified(s.in)
	case s.in != "":
		return providertest.ObjectsIn(s.in, "obj_")
	}
	return providertest.Objects("obj_")
}

// keyed is the n-th request's key; every provider takes it, as a UUID.
func keyed(n int) string { return fmt.Sprintf("5b39fe05-3dcd-4ab2-8b2c-0c8a3f5f0d%02d", n) }

// referred is the n-th request's reference.
func referred(n int) string { return fmt.Sprintf("8a1f70a2-9d0e-4c6b-9f00-4d1c1b7b6e%02d", n) }

// request is the n-th of a row.
func (s sought) request(base string, n int) (*http.Request, tables.Message) {
	fill := strings.NewReplacer("REF", referred(n), "KEY", keyed(n), "#", fmt.Sprint(n))
	method := s.method
	if method == "" {
		method = http.MethodPost
	}
	body := fill.Replace(s.body)
	req, err := http.NewRequest(method, base+fill.Replace(s.path), strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if !strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if s.header != "" {
		req.Header.Set(s.header, keyed(n))
	}
	return req, tables.Message{Header: req.Header, Query: req.URL.RawQuery, Body: []byte(body)}
}

// asksAll reads a look-up of an adapter's through a client, to its end.
func asksAll(t *testing.T, client *http.Client, p *providers.Provider, e *providers.Endpoint, look *providers.Lookup, about lookup.Subject, now time.Time) (lookup.Finding, bool) {
	t.Helper()
	sweep, err := lookup.Plan(p, e, look, about, about.Window(now))
	if err != nil {
		var over *lookup.PassedOver
		require.ErrorAs(t, err, &over)
		return lookup.Finding{Why: over.Why}, false
	}
	for req := sweep.Next(); req != nil; req = sweep.Next() {
		sweep.Read(whole(t, client, req))
	}
	finding := sweep.Match(about, func(string) bool { return false })
	req, err := sweep.Fetch(about, finding)
	require.NoError(t, err)
	if req != nil {
		status, header, body := whole(t, client, req)
		finding = sweep.Fetched(finding, status, header, body)
	}
	return finding, true
}

func whole(t *testing.T, client *http.Client, req *http.Request) (int, http.Header, []byte) {
	t.Helper()
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, body
}

// Every look-up of every adapter, as a client makes it, finds the object of its request in the box. It finds nothing
// before the object was made.
func TestAdaptersLookups(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, s := range allSought() {
		t.Run(s.name, func(t *testing.T) {
			srv := providertest.NewServerInMemory(s.provider, s.business())
			defer srv.Close()
			p := srv.Provider()
			router, err := tables.NewRouter([]providers.Provider{p})
			require.NoError(t, err)
			for n := 1; n <= 2; n++ {
				req, _ := s.request(srv.URL, n)
				status, _, body := whole(t, srv.Client(), req)
				require.Less(t, status, 300, "%s", body)
			}
			require.Len(t, srv.Effects(), 2)

			const n = 3
			first := time.Now()
			req, m := s.request(srv.URL, n)
			route := router.Route(req.Method, req.URL).For(m)
			e := endpointOf(&p, route.Endpoint)
			listed[p.Name+" "+e.Pattern+" "+e.Action.Value] = true
			about := lookup.Subject{
				URL: req.URL, Header: req.Header, Values: tables.NewCompared(&p, e).Values(req.Method, req.URL, m),
				First: first, Last: first.Add(time.Second),
			}
			if e.Key.Place != providers.KeyNone {
				about.Key = keyed(n)
			}
			if reference, present, err := tables.Reference(e.Reference).Carried(m); present {
				require.NoError(t, err)
				about.Reference, about.ReferenceOurs = reference, true
			}
			if asks, err := lookup.Identify(&p, e, &about); asks != nil {
				require.NoError(t, err)
				status, header, body := whole(t, srv.Client(), asks)
				account, why := lookup.Account(&p, status, header, body)
				require.Empty(t, why)
				about.Account = account
			}

			find := func() (found, served int) {
				for i := range e.Lookups {
					finding, serves := asksAll(t, srv.Client(), &p, e, &e.Lookups[i], about, time.Now().Add(time.Second))
					if !serves {
						continue
					}
					served++
					made := srv.Effects()
					if len(made) == 2 {
						assert.NotEqual(t, lookup.Found, finding.Kind, "look-up %d, before it was made: %v", i, finding.Objects)
						continue
					}
					if !lookup.CanShowAMark(&e.Lookups[i], about.Reference != "") {
						assert.Equal(t, lookup.Alike.String(), finding.Kind.String(), "look-up %d: %s", i, finding.Why)
						assert.Contains(t, finding.Objects, made[2].Object, "look-up %d", i)
						found++
						continue
					}
					if assert.Equal(t, lookup.Found.String(), finding.Kind.String(), "look-up %d: %s", i, finding.Why) {
						found++
						assert.Equal(t, providers.TookEffect, finding.Outcome)
						if e.Lookups[i].By != providers.ByParent || e.Lookups[i].Items != "" {
							assert.Equal(t, []string{made[2].Object}, finding.Objects, "look-up %d", i)
						}
						assert.Equal(t, e.Lookups[i].SameShape && finding.Outcome == providers.TookEffect, finding.Fresh, "look-up %d", i)
					}
				}
				return found, served
			}
			find()
			status, _, body := whole(t, srv.Client(), req)
			require.Less(t, status, 300, "%s", body)
			found, served := find()
			assert.Equal(t, s.ways, served)
			assert.Equal(t, s.ways, found)

			srv.EveryLook(providertest.Unfiltered())
			found, _ = find()
			assert.Equal(t, s.ways, found, "whatever the filter does")
			srv.EveryLook(providertest.NoList())
			for i := range e.Lookups {
				finding, serves := asksAll(t, srv.Client(), &p, e, &e.Lookups[i], about, time.Now().Add(time.Second))
				assert.False(t, serves && finding.Kind == lookup.Found, "look-up %d in an answer without anything", i)
			}
		})
	}
	for _, sample := range samples() { // which has every adapter
		p := sample.provider
		for _, e := range p.Endpoints {
			if len(e.Lookups) > 0 {
				assert.True(t, listed[p.Name+" "+e.Pattern+" "+e.Action.Value], "no row for %s %s %s", p.Name, e.Pattern, e.Action.Value)
			}
		}
	}
}

// endpointOf is the table's endpoint that a route goes by.
func endpointOf(p *providers.Provider, of *providers.Endpoint) *providers.Endpoint {
	at := slices.IndexFunc(p.Endpoints, func(e providers.Endpoint) bool { return e.Pattern == of.Pattern && e.Action == of.Action })
	return &p.Endpoints[at]
}
