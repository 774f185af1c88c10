package providers_test

import (
	"strings"

	"github.com/onceward/onceward/providers"
)

const formContent = "\nContent-Type: application/x-www-form-urlencoded\n\n"

// As in the types of chargebee-go 2dbd55f.
func chargebeeLooks() []look {
	const (
		host         = "POST https://site.chargebee.com/api/v2/"
		create       = host + "customers" + formContent + "id=c1&email=ada%40example.com"
		customer     = `{"customer":{"id":"c1","email":"ada@example.com","created_at":1795176001,"deleted":false,"object":"customer"}}`
		under        = host + "customers/c1/subscription_for_items" + formContent + "id=s1&subscription_items[item_price_id][0]=gold"
		alone        = host + "subscriptions" + formContent + "id=s1&plan_id=gold&customer[id]=c1"
		subscription = `{"subscription":{"id":"s1","customer_id":"c1","plan_id":"gold","subscription_items":[{"item_price_id":"gold"}],"status":"active","created_at":1795176001,"deleted":false,"object":"subscription"},"customer":{"id":"c1","object":"customer"}}`
	)
	customers, subscriptions := []string{"GET /api/v2/customers/c1"}, []string{"GET /api/v2/subscriptions/s1"}
	return []look{
		{name: "a customer", request: create, asks: customers, page: customer, want: lookalike("c1", providers.TookEffect, false)},
		{name: "a customer without an email", request: swap(create, "&email=ada%40example.com", ""), asks: customers, page: customer, want: lookalike("c1", providers.TookEffect, false)},
		{name: "a customer that was deleted", request: create, asks: customers, page: swap(customer, "false", "true"), want: lookalike("c1", providers.Reversed, false)},
		{name: "a customer from before", request: create, asks: customers, page: swap(customer, "1795176001", "1795086003"), want: ambiguousAt(false, "c1")},
		{name: "a customer with another email", request: create, asks: customers, page: swap(customer, "ada@", "bob@"), want: ambiguousAt(false, "c1")},
		{name: "a customer without an id", request: swap(create, "id=c1&", "")},
		{name: "no customer", request: create, asks: customers, page: `{"message":"c1 not found","api_error_code":"resource_not_found"}`, want: nothing(false)},
		{name: "a subscription", request: under, asks: subscriptions, page: subscription, want: lookalike("s1", providers.TookEffect, false)},
		{name: "a subscription of the older catalog", request: swap(under, "subscription_for_items", "subscriptions"), asks: subscriptions, page: subscription, want: lookalike("s1", providers.TookEffect, false)},
		{name: "a subscription that names its customer", request: alone, asks: subscriptions, page: subscription, want: lookalike("s1", providers.TookEffect, false)},
		{name: "a subscription that was canceled", request: alone, asks: subscriptions, page: swap(subscription, `"active"`, `"cancelled"`), want: lookalike("s1", providers.Reversed, false)},
		{name: "a subscription of another customer", request: under, asks: subscriptions, page: swap(subscription, `"customer_id":"c1"`, `"customer_id":"c2"`), want: ambiguousAt(false, "s1")},
		{name: "a subscription to another plan", request: alone, asks: subscriptions, page: swap(subscription, `"plan_id":"gold"`, `"plan_id":"silver"`), want: ambiguousAt(false, "s1")},
		{name: "a subscription to another item", request: under, asks: subscriptions, page: swap(subscription, `"item_price_id":"gold"`, `"item_price_id":"silver"`), want: ambiguousAt(false, "s1")},
		{name: "a subscription without an id", request: swap(under, "id=s1&", "")},
		{name: "an invoice", request: host + "invoices/create_for_charge_items_and_charges" + formContent + "customer_id=c1"},
	}
}

// As in circle-nodejs-sdk 13be064 sdk.json and the types of @circle-fin/developer-controlled-wallets 10.6.0.
func circleLooks() []look {
	const (
		host     = "POST https://api.circle.com/v1/"
		body     = jsonContent + `{"idempotencyKey":"` + conformanceKey + `","destination":{"type":"wire","id":"b1"},"amount":{"amount":"3.14","currency":"USD"}}`
		paid     = `{"id":"p1","sourceWalletId":"5","destination":{"type":"wire","id":"b1"},"amount":{"amount":"3.140","currency":"USD"},"status":"pending","createDate":"2026-11-20T12:00:01.000Z"}`
		window   = "?from=2026-11-20T11%3A40%3A00Z&to=2026-11-20T13%3A00%3A00Z&pageSize=50"
		none     = `{"data":[]}`
		transfer = host + "w3s/developer/transactions/transfer" + jsonContent + `{"idempotencyKey":"` + conformanceKey + `","refId":"991","destinationAddress":"0xAb","walletId":"w1","amounts":["1.50"],"entitySecretCiphertext":"x"}`
		made     = `{"id":"t1","refId":"991","destinationAddress":"0xab","walletId":"w1","amounts":["1.5"],"state":"INITIATED","createDate":"2026-11-20T12:00:01Z"}`
	)
	page := func(items ...string) string { return `{"data":[` + strings.Join(items, ",") + `]}` }
	wallet := func(items ...string) string { return `{"data":{"transactions":[` + strings.Join(items, ",") + `]}}` }
	turned := func(path, last string) []string { return []string{"GET " + path, "GET " + path + "&pageAfter=" + last} }
	transactions := "/v1/w3s/transactions" + strings.Replace(window, "?", "?includeAll=true&", 1)
	looks := []look{
		{name: "a transaction", request: transfer, asks: turned(transactions, "t1"), page: wallet(made), more: []string{wallet()}, want: lookalike("t1", providers.TookEffect, false)},
		{name: "a transaction that failed", request: transfer, asks: turned(transactions, "t1"), page: wallet(swap(made, "INITIATED", "FAILED")), more: []string{wallet()}, want: lookalike("t1", providers.Reversed, false)},
		{
			name: "a transaction on the second page", request: transfer, asks: append(turned(transactions, "t0"), "GET "+transactions+"&pageAfter=t1"),
			page: wallet(swap(made, "t1", "t0", "991", "990", "0xab", "0xac")), more: []string{wallet(made), wallet()}, want: lookalike("t1", providers.TookEffect, false),
		},
		{name: "a transaction of another amount", request: transfer, asks: turned(transactions, "t1"), page: wallet(swap(made, `"1.5"`, `"1.51"`)), more: []string{wallet()}, want: ambiguousAt(false, "t1")},
		{name: "a transaction to another address", request: transfer, asks: turned(transactions, "t1"), page: wallet(swap(made, "0xab", "0xac")), more: []string{wallet()}, want: ambiguousAt(false, "t1")},
		{name: "a transaction without a refId", request: swap(transfer, `"refId":"991",`, "")},
	}
	for _, path := range []string{"payouts", "businessAccount/payouts", "businessAccount/transfers"} {
		asked := "/v1/" + path + window
		looks = append(looks,
			look{name: path, request: host + path + body, asks: turned(asked, "p1"), page: page(paid), more: []string{none}, want: alikeAt(false, "p1")},
			look{name: path + ", of another amount", request: host + path + body, asks: turned(asked, "p1"), page: page(swap(paid, "3.140", "3.15")), more: []string{none}, want: nothing(false)},
			look{name: path + ", none", request: host + path + body, asks: []string{"GET " + asked}, page: none, want: nothing(false)},
		)
		if strings.HasSuffix(path, "payouts") {
			looks = append(looks, look{name: path + ", to another payee", request: host + path + body, asks: turned(asked, "p1"), page: page(swap(paid, "b1", "b2")), more: []string{none}, want: nothing(false)})
		}
	}
	return looks
}

// As in flutterwaveinc.mintlify.app/v4-api-reference/charges.
func flutterwaveLooks() (looks []look) {
	const (
		body    = jsonContent + `{"amount":1500.5,"currency":"NGN","reference":"invoice991","customer_id":"cus_1","payment_method_id":"pmd_1"}`
		charge  = `{"id":"chg_1","amount":1500.50,"currency":"NGN","reference":"invoice991","customer_id":"cus_1","status":"succeeded","created_datetime":"2026-11-20T12:00:01.5Z"}`
		query   = "?reference=invoice991&from=2026-11-20T11%3A40%3A00Z&to=2026-11-20T13%3A00%3A00Z&size=50&page=1"
		fetched = `{"status":"success","data":` + charge + `}`
	)
	page := func(items string) string { return `{"status":"success","data":[` + items + `]}` }
	for _, below := range []string{"", "/developersandbox", "/f4b/production"} {
		asked := []string{"GET " + below + "/charges" + query, "GET " + below + "/charges/chg_1"}
		for _, path := range []string{below + "/charges", below + "/orchestration/direct-charges"} {
			create := "POST https://api.flutterwave.cloud" + path + body
			looks = append(looks,
				look{name: path, request: create, asks: asked, page: page(charge), object: fetched, want: lookalike("chg_1", providers.TookEffect, true)},
				look{name: path + ", failed", request: create, asks: asked, page: page(charge), object: swap(fetched, "succeeded", "failed"), want: lookalike("chg_1", providers.Reversed, false)},
				look{name: path + ", of another amount", request: create, asks: asked[:1], page: page(swap(charge, "1500.50", "1500.51")), want: ambiguousAt(false, "chg_1")},
				look{name: path + ", of another reference", request: create, asks: asked[:1], page: page(swap(charge, "991", "992")), want: alikeAt(false, "chg_1")},
				look{name: path + ", yesterday", request: create, asks: asked[:1], page: page(swap(charge, "2026-11-20", "2026-11-19")), want: ambiguousAt(false, "chg_1")},
				look{name: path + ", none", request: create, asks: asked[:1], page: page(""), want: nothing(false)},
			)
		}
	}
	return append(looks, look{name: "a transfer", request: "POST https://api.flutterwave.cloud/transfers" + jsonContent + `{"reference":"invoice991"}`})
}

// As in telnyx-go 3972505 numberorder.go.
func telnyxLooks() []look {
	const (
		create = "POST https://api.telnyx.com/v2/number_orders" + jsonContent + `{"customer_reference":"991","connection_id":"c1","phone_numbers":[{"phone_number":"+15550001"}]}`
		order  = `{"id":"o1","customer_reference":"991","connection_id":"c1","phone_numbers":[{"id":"n1","phone_number":"+15550001"}],"status":"pending","created_at":"2026-11-20T12:00:01Z"}`
	)
	page := func(items string) string { return `{"data":[` + items + `],"meta":{"page_number":1}}` }
	asked := []string{"GET /v2/number_orders?filter[customer_reference]=991&filter[created_at][gt]=2026-11-20T11%3A40%3A00Z&filter[created_at][lt]=2026-11-20T13%3A00%3A00Z&page[size]=100&page%5Bnumber%5D=1"}
	return []look{
		{name: "an order", request: create, asks: asked, page: page(order), want: lookalike("o1", providers.TookEffect, false)},
		{name: "an order that failed", request: create, asks: asked, page: page(swap(order, "pending", "failure")), want: lookalike("o1", providers.Reversed, false)},
		{name: "an order of another number", request: create, asks: asked, page: page(swap(order, "0001", "0002")), want: ambiguousAt(false, "o1")},
		{name: "an order of another reference", request: create, asks: asked, page: page(swap(order, "991", "992")), want: alikeAt(false, "o1")},
		{name: "an order of two numbers", request: swap(create, `[{`, `[{"phone_number":"+15550003"},{`)},
		{name: "an order without a reference", request: swap(create, `"customer_reference":"991",`, "")},
		{name: "a message", request: swap(create, "number_orders", "messages")},
	}
}
