package providers_test

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
)

// nothing is the finding if no item is the operation's.
func nothing(exact bool) finding { return finding{kind: lookup.Nothing, exact: exact} }

// ambiguous is the finding if an object contradicts its request.
func ambiguous(id string) finding { return ambiguousAt(true, id) }

func ambiguousAt(exact bool, id string) finding {
	return finding{kind: lookup.Ambiguous, id: id, exact: exact}
}

// alikeAt is the finding if an object agrees with its request, but shows no mark.
func alikeAt(exact bool, id string) finding { return finding{kind: lookup.Alike, id: id, exact: exact} }

// As in docs.stripe.com/api/events and the types of stripe-go a1e3932.
func stripeLooks() []look {
	const (
		host   = "https://api.stripe.com"
		form   = "\nContent-Type: application/x-www-form-urlencoded\n\n"
		window = "created[gte]=1795174800&created[lte]=1795179600&limit=100"
		ours   = "created[gte]=1795089600&created[lte]=1795179600&limit=100" // a day before
	)
	object := func(kind, more string) string {
		return `{"id":"` + kind + `_1","object":"` + kind + `","amount":2000,"currency":"usd","created":1795176001,` + more + `}`
	}
	page := func(items ...string) string {
		return `{"object":"list","url":"/v1/things","has_more":false,"data":[` + strings.Join(items, ",") + `]}`
	}
	event := func(id, kind, key string) string {
		return `{"id":"` + id + `","object":"event","type":"` + kind + `.created","created":1795176002,"livemode":true,
			"request":{"id":"req_1","idempotency_key":"` + key + `"},"data":{"object":` + object(kind, `"status":"pending"`) + `}}`
	}
	// Of v2, as in stripe-go a1e3932 example/generated_examples_test.go.
	created := func(kind, id, key string) string {
		return `{"object":"v2.core.event","created":"2026-11-20T12:00:02.000Z","id":"evt_` + id + `","livemode":true,"type":"` + kind + `.created",
			"reason":{"request":{"id":"req_1","idempotency_key":"` + key + `"},"type":"request"},"related_object":{"id":"` + id + `","type":"` + kind + `"}}`
	}
	thin := func(items ...string) string {
		return `{"data":[` + strings.Join(items, ",") + `],"next_page_url":null,"previous_page_url":null}`
	}
	// byKey returns the requests for the events, and the request for the object that they name.
	byKey := func(kind string, types ...string) []string {
		query := "types[]=" + strings.Join(types, "&types[]=") + "&" + window
		return []string{"GET /v1/events?" + query, "GET /v1/" + kind + "s/" + kind + "_1"}
	}
	charge := "POST " + host + "/v1/charges" + form + "amount=2000&currency=USD&source=tok_1"
	charges := byKey("charge", "charge.succeeded", "charge.pending", "charge.failed")
	refund := "POST " + host + "/v1/refunds" + form
	ofCharge, ofIntent := `"charge":"ch_1","status":"succeeded"`, `"payment_intent":"pi_1","status":"succeeded"`
	withReference := `,"metadata":{"onceward":"` + reference + `"}`
	return []look{
		{
			name: "a charge by its key", request: charge, asks: charges,
			page: page(event("evt_2", "charge", "other"), event("evt_1", "charge", conformanceKey)), object: object("charge", `"status":"succeeded","refunded":false`),
			want: exactly("charge_1", providers.TookEffect, true),
		},
		{
			name: "a charge that was declined", request: charge, asks: charges,
			page: page(event("evt_1", "charge", conformanceKey)), object: object("charge", `"status":"failed","refunded":false`),
			want: exactly("charge_1", providers.Refused, false),
		},
		{
			name: "a charge that was refunded since", request: charge, asks: charges,
			page: page(event("evt_1", "charge", conformanceKey)), object: object("charge", `"status":"succeeded","refunded":true`),
			want: exactly("charge_1", providers.Reversed, false),
		},
		{
			name: "a charge in the second page of events", request: charge,
			asks: []string{charges[0], charges[0] + "&starting_after=evt_2", charges[1]},
			page: swap(page(event("evt_2", "charge", "other")), `"has_more":false`, `"has_more":true`), more: []string{page(swap(event("evt_1", "charge", conformanceKey), "charge_1", "charge_1"))},
			object: object("charge", `"status":"succeeded"`), want: exactly("charge_1", providers.TookEffect, true),
		},
		{name: "no event of the key", request: charge, asks: charges[:1], page: page(event("evt_2", "charge", "other")), want: nothing(true)},
		{
			name: "an event of another object that the same request made", request: "POST " + host + "/v1/payment_intents" + form + "amount=2000&currency=usd",
			asks: byKey("payment_intent", "payment_intent.created"), page: page(event("evt_1", "charge", conformanceKey), event("evt_2", "payment_intent", conformanceKey)),
			object: object("payment_intent", `"status":"succeeded"`), want: exactly("payment_intent_1", providers.TookEffect, true),
		},
		{
			name: "a payment intent that wants another card", request: "POST " + host + "/v1/payment_intents" + form + "amount=2000&currency=usd",
			asks: byKey("payment_intent", "payment_intent.created"), page: page(event("evt_1", "payment_intent", conformanceKey)),
			object: object("payment_intent", `"status":"requires_payment_method"`), want: exactly("payment_intent_1", providers.InProgress, false),
		},
		{
			name: "a refund by its key", request: refund + "charge=ch_1", asks: byKey("refund", "refund.created"),
			page: page(event("evt_1", "refund", conformanceKey)), object: object("refund", ofCharge), want: exactly("refund_1", providers.TookEffect, true),
		},
		{
			name: "a transfer by its key", request: "POST " + host + "/v1/transfers" + form + "amount=2000&currency=usd&destination=acct_2", asks: byKey("transfer", "transfer.created"),
			page: page(event("evt_1", "transfer", conformanceKey)), object: object("transfer", `"reversed":true`), want: exactly("transfer_1", providers.Reversed, false),
		},
		{
			name: "a payout by its key", request: "POST " + host + "/v1/payouts" + form + "amount=2000&currency=usd", asks: byKey("payout", "payout.created"),
			page: page(event("evt_1", "payout", conformanceKey)), object: object("payout", `"status":"in_transit"`), want: exactly("payout_1", providers.TookEffect, true),
		},
		{
			name: "a top-up by its key", request: "POST " + host + "/v1/topups" + form + "amount=2000&currency=usd", asks: byKey("topup", "topup.created"),
			page: page(event("evt_1", "topup", conformanceKey)), object: object("topup", `"status":"succeeded"`), want: exactly("topup_1", providers.TookEffect, true),
		},
		{
			name: "a top-up by a reference of ours", request: "POST " + host + "/v1/topups" + form + "amount=2000&currency=usd&metadata[onceward]=" + reference,
			from: 1, asks: []string{"GET /v1/topups?" + ours}, page: page(object("topup", `"status":"canceled"`+withReference)), want: exactly("topup_1", providers.Reversed, false),
		},
		{
			name: "a subscription by its key", request: "POST " + host + "/v1/subscriptions" + form + "customer=cus_1", asks: byKey("subscription", "customer.subscription.created"),
			page: page(event("evt_1", "customer", conformanceKey), event("evt_2", "subscription", conformanceKey)), object: object("subscription", `"status":"past_due"`),
			want: exactly("subscription_1", providers.TookEffect, false),
		},
		{
			name: "an invoice by its key", request: "POST " + host + "/v1/invoices" + form + "customer=cus_1", asks: byKey("invoice", "invoice.created"),
			page: page(event("evt_1", "invoice", conformanceKey)), object: object("invoice", `"status":"draft"`), want: exactly("invoice_1", providers.TookEffect, true),
		},
		{
			name: "a customer by its key", request: "POST " + host + "/v1/customers" + form + "email=a@example.com", asks: byKey("customer", "customer.created"),
			page: page(event("evt_1", "customer", conformanceKey)), object: `{"id":"customer_1","object":"customer","deleted":true}`, want: exactly("customer_1", providers.Reversed, false),
		},
		{
			name: "a charge by a reference of ours", request: charge + "&metadata[onceward]=" + reference, from: 1, asks: []string{"GET /v1/charges?" + ours},
			page: page(object("other", `"status":"succeeded","metadata":{}`), object("charge", `"status":"succeeded"`+withReference)),
			want: exactly("charge_1", providers.TookEffect, true),
		},
		{
			name: "a charge by the caller's reference", request: charge + "&metadata[onceward]=991", from: 1, asks: []string{"GET /v1/charges?" + window},
			page: page(
				swap(object("early", `"status":"succeeded","metadata":{"onceward":"991"}`), "1795176001", "1795170000"),
				object("charge", `"status":"succeeded","metadata":{"onceward":"991"}`),
				swap(object("other", `"status":"succeeded","metadata":{"onceward":"991"}`), "2000", "2001"),
			),
			want: ambiguousAt(false, "early_1"),
		},
		{
			name: "a charge of ours of another amount", request: charge + "&metadata[onceward]=" + reference, from: 1, asks: []string{"GET /v1/charges?" + ours},
			page: page(swap(object("charge", `"status":"succeeded"`+withReference), "2000", "2001")), want: ambiguous("charge_1"),
		},
		{name: "a charge without a reference", request: charge, from: 1},
		{
			name: "a payment intent by a reference of ours", request: "POST " + host + "/v1/payment_intents" + form + "amount=2000&currency=usd&metadata[onceward]=" + reference,
			from: 1, asks: []string{"GET /v1/payment_intents?" + ours}, page: page(object("payment_intent", `"status":"requires_action"`+withReference)),
			want: exactly("payment_intent_1", providers.TookEffect, true),
		},
		{
			name: "a transfer by a reference of ours", request: "POST " + host + "/v1/transfers" + form + "amount=2000&currency=usd&destination=acct_2&metadata[onceward]=" + reference,
			from: 1, asks: []string{"GET /v1/transfers?" + ours}, page: page(object("transfer", `"destination":"acct_2","reversed":false`+withReference)),
			want: exactly("transfer_1", providers.TookEffect, true),
		},
		{
			name: "a payout by a reference of ours", request: "POST " + host + "/v1/payouts" + form + "amount=2000&currency=usd&metadata[onceward]=" + reference,
			from: 1, asks: []string{"GET /v1/payouts?" + ours}, page: page(object("payout", `"status":"failed"`+withReference)),
			want: exactly("payout_1", providers.Reversed, false),
		},
		{
			name: "a refund of all by a reference of ours", request: refund + "charge=ch_1&metadata[onceward]=" + reference,
			from: 1, asks: []string{"GET /v1/refunds?charge=ch_1&" + ours}, page: page(object("refund", ofCharge+withReference)),
			want: exactly("refund_1", providers.TookEffect, true),
		},
		{
			name: "a refund of a payment intent by a reference of ours", request: refund + "payment_intent=pi_1&amount=2000&metadata[onceward]=" + reference,
			from: 1, asks: []string{"GET /v1/refunds?payment_intent=pi_1&" + ours}, page: page(object("refund", ofIntent+withReference)),
			want: exactly("refund_1", providers.TookEffect, true),
		},
		{
			name: "a refund by its charge", request: refund + "charge=ch_1&amount=2000",
			from: 1, asks: []string{"GET /v1/refunds?charge=ch_1&" + window}, page: page(swap(object("other", ofCharge), "2000", "500"), object("refund", ofCharge)),
			want: alikeAt(false, "refund_1"),
		},
		{
			name: "a refund of another charge, where the filter is ignored", request: refund + "charge=ch_1&amount=2000",
			from: 1, asks: []string{"GET /v1/refunds?charge=ch_1&" + window}, page: page(swap(object("refund", ofCharge), "ch_1", "ch_2")), want: nothing(false),
		},
		{
			name: "a refund with another reference", request: refund + "charge=ch_1&amount=2000&metadata[onceward]=991",
			from: 2, asks: []string{"GET /v1/refunds?charge=ch_1&" + window}, page: page(object("refund", ofCharge+`,"metadata":{"onceward":"992"}`)), want: alikeAt(false, "refund_1"),
		},
		{
			name: "a refund by its payment intent", request: refund + "payment_intent=pi_1&amount=2000",
			from: 1, asks: []string{"GET /v1/refunds?payment_intent=pi_1&" + window}, page: page(object("refund", ofIntent)),
			want: alikeAt(false, "refund_1"),
		},
		{name: "a refund of all without a reference", request: refund + "charge=ch_1", from: 1},
		{
			name: "an account of v2 by its key", request: "POST " + host + "/v2/core/accounts\nContent-Type: application/json\n\n{}", asks: []string{"GET /v2/core/events?types[0]=v2.core.account.created&limit=100"},
			page: thin(created("v2.core.account", "acct_2", "other"), created("v2.core.account", "acct_1", conformanceKey)), want: exactly("acct_1", providers.TookEffect, false),
		},
		{
			name: "an account of v2 whose event does not say by which key", request: "POST " + host + "/v2/core/accounts\nContent-Type: application/json\n\n{}",
			asks: []string{"GET /v2/core/events?types[0]=v2.core.account.created&limit=100"},
			page: thin(`{"object":"v2.core.event","created":"2026-11-20T12:00:02.000Z","id":"evt_1","livemode":true,"type":"v2.core.account.created","related_object":{"id":"acct_1"}}`), want: nothing(true),
		},
		{
			name: "an event that the same request made of another kind", request: "POST " + host + "/v2/core/accounts\nContent-Type: application/json\n\n{}",
			asks: []string{"GET /v2/core/events?types[0]=v2.core.account.created&limit=100"}, page: thin(created("v2.core.account_person", "person_1", conformanceKey)),
			want: nothing(true),
		},
		{
			name: "a person of v2 by its key", request: "POST " + host + "/v2/core/accounts/acct_1/persons\nContent-Type: application/json\n\n{}",
			asks: []string{"GET /v2/core/events?types[0]=v2.core.account_person.created&limit=100"}, page: thin(created("v2.core.account_person", "person_1", conformanceKey)),
			want: exactly("person_1", providers.TookEffect, false),
		},
	}
}

// As in increase-go ca1c95b achtransfer.go.
func increaseLooks() []look {
	const (
		transfer = "POST https://api.increase.com/ach_transfers\nContent-Type: application/json\n\n" + `{"account_id":"account_1","amount":100}`
		created  = `{"id":"ach_transfer_1","type":"ach_transfer","idempotency_key":"` + conformanceKey + `","amount":100,"status":"pending_submission","created_at":"2026-11-20T12:00:01Z"}`
		other    = `{"id":"ach_transfer_2","type":"ach_transfer","idempotency_key":null,"amount":100,"status":"submitted","created_at":"2026-11-20T12:00:02Z"}`
		asked    = "GET /ach_transfers?idempotency_key=" + conformanceKey + "&limit=100"
	)
	page := func(cursor, items string) string { return `{"data":[` + items + `],"next_cursor":` + cursor + `}` }
	var looks []look
	for _, of := range []string{"account", "card_push", "check", "real_time_payments", "swift", "wire"} {
		kind := func(text string) string { return swap(text, "ach_transfers", of+"_transfers") }
		looks = append(looks, look{name: "of " + of, request: kind(transfer), asks: []string{kind(asked)}, page: page("null", created), want: exactly("ach_transfer_1", providers.TookEffect, true)})
	}
	export := "POST https://api.increase.com/exports\nContent-Type: application/json\n\n{}"
	return append(looks, []look{
		{name: "an export", request: export, asks: []string{swap(asked, "ach_transfers", "exports")}, page: page("null", swap(created, "pending_submission", "complete")), want: exactly("ach_transfer_1", providers.TookEffect, true)},
		{name: "a transfer", request: transfer, asks: []string{asked}, page: page("null", created), want: exactly("ach_transfer_1", providers.TookEffect, true)},
		{name: "if the filter is ignored", request: transfer, asks: []string{asked}, page: page("null", other), want: alikeAt(true, "ach_transfer_2")},
		{
			name: "on the second page of all", request: transfer, asks: []string{asked, asked + "&cursor=v57w5d"}, page: page(`"v57w5d"`, other), more: []string{page("null", created)},
			want: exactly("ach_transfer_1", providers.TookEffect, true),
		},
		{name: "a transfer that was returned", request: transfer, asks: []string{asked}, page: page("null", swap(created, "pending_submission", "returned")), want: exactly("ach_transfer_1", providers.Reversed, false)},
		{
			name: "a push to a card that was declined", request: swap(transfer, "ach_transfers", "card_push_transfers"), asks: []string{swap(asked, "ach_transfers", "card_push_transfers")},
			page: page("null", swap(created, "pending_submission", "declined")), want: exactly("ach_transfer_1", providers.Reversed, false),
		},
		{name: "a FedNow transfer", request: swap(transfer, "ach_transfers", "fednow_transfers"), asks: []string{swap(asked, "ach_transfers", "fednow_transfers")},
			page: page("null", swap(created, "pending_submission", "pending_submitting")), want: exactly("ach_transfer_1", providers.TookEffect, true)},
		{name: "a transfer that needs attention", request: transfer, asks: []string{asked}, page: page("null", swap(created, "pending_submission", "requires_attention")), want: exactly("ach_transfer_1", providers.TookEffect, false)},
		{name: "none", request: transfer, asks: []string{asked}, page: page("null", ""), want: nothing(true)},
		{name: "no list", request: transfer, asks: []string{asked}, page: `{"type":"object_not_found_error"}`, want: finding{}},
	}...)
}

// As in the description of svix-webhooks 4fc0cfb.
func svixLooks() []look {
	const (
		host    = "POST https://api.eu.svix.com"
		content = "\nContent-Type: application/json\n\n"
		message = `{"id":"msg_1srOrx2ZWZBpBUvZwXKQmoEYga2","eventId":"evt_991","eventType":"user.signup","payload":{},"timestamp":"2026-11-20T12:00:01.123456Z"}`
		app     = `{"id":"app_1srOrx2ZWZBpBUvZwXKQmoEYga2","uid":"customer-7","name":"Customer 7","metadata":{},"createdAt":"2026-11-20T12:00:01Z","updatedAt":"2026-11-20T12:00:01Z"}`
	)
	send := func(event string) string {
		return host + "/api/v1/app/app_1/msg" + content + `{"eventType":"user.signup","payload":{},"eventId":"` + event + `"}`
	}
	create := host + "/api/v1/app" + content + `{"name":"Customer 7","uid":"customer-7"}`
	return []look{
		{
			name: "a message", request: send("evt_991"), asks: []string{"GET /api/v1/app/app_1/msg/evt_991"}, page: message,
			want: lookalike("msg_1srOrx2ZWZBpBUvZwXKQmoEYga2", providers.TookEffect, true),
		},
		{
			name: "a message by a reference of ours", request: send(reference), asks: []string{"GET /api/v1/app/app_1/msg/" + reference}, page: swap(message, "evt_991", reference),
			want: exactly("msg_1srOrx2ZWZBpBUvZwXKQmoEYga2", providers.TookEffect, true),
		},
		{
			name: "a message of last month", request: send("evt_991"), asks: []string{"GET /api/v1/app/app_1/msg/evt_991"}, page: swap(message, "2026-11-20", "2026-10-20"),
			want: ambiguousAt(false, "msg_1srOrx2ZWZBpBUvZwXKQmoEYga2"),
		},
		{
			name: "a message whose id looks like an event's", request: send("msg_2"), asks: []string{"GET /api/v1/app/app_1/msg/msg_2"}, page: swap(message, "msg_1srOrx2ZWZBpBUvZwXKQmoEYga2", "msg_2"),
			want: alikeAt(false, "msg_2"),
		},
		{name: "a message without an event's id", request: host + "/api/v1/app/app_1/msg" + content + `{"eventType":"user.signup","payload":{}}`},
		{
			name: "an application", request: create, asks: []string{"GET /api/v1/app/customer-7"}, page: app,
			want: lookalike("app_1srOrx2ZWZBpBUvZwXKQmoEYga2", providers.TookEffect, true),
		},
		{name: "an application from before", request: create, asks: []string{"GET /api/v1/app/customer-7"}, page: swap(app, `"createdAt":"2026-11-20`, `"createdAt":"2026-11-19`), want: ambiguousAt(false, "app_1srOrx2ZWZBpBUvZwXKQmoEYga2")},
	}
}

// As in modern-treasury-go bddd610 paymentorder.go.
func modernTreasuryLooks() []look {
	const (
		host   = "POST https://app.moderntreasury.com/api/payment_orders\nContent-Type: application/json\n\n"
		fields = `"type":"ach","amount":1000,"direction":"credit","originating_account_id":"0f8e3719-3dfd-4613-9bbf-c0333781b59f"`
		order  = `{"id":"c7d1d3a2-9e0a-4c2c-9a4c-1c7a8a4e6b1d","object":"payment_order","live_mode":true,"created_at":"2026-11-20T12:00:01Z",` + fields + `,"external_id":"inv-991","status":"pending"}`
		id     = "c7d1d3a2-9e0a-4c2c-9a4c-1c7a8a4e6b1d"
		asked  = "GET /api/payment_orders?external_id="
	)
	create := host + `{` + fields + `,"external_id":"inv-991"}`
	return append([]look{
		{name: "an order", request: create, asks: []string{asked + "inv-991"}, page: "[" + order + "]", want: lookalike(id, providers.TookEffect, true)},
		{
			name: "an order by a reference of ours", request: host + `{` + fields + `,"external_id":"` + reference + `"}`, asks: []string{asked + reference},
			page: "[" + swap(order, "inv-991", reference) + "]", want: exactly(id, providers.TookEffect, true),
		},
		{
			name: "an order on the second page", request: create, asks: []string{asked + "inv-991", asked + "inv-991&after_cursor=abc"},
			page: "X-After-Cursor: abc\n[" + swap(order, id, "other", "1000", "2000") + "]", more: []string{"[" + order + "]"}, want: ambiguousAt(false, "other"),
		},
		{name: "an order of another account", request: create, asks: []string{asked + "inv-991"}, page: "[" + swap(order, "0f8e3719", "1f8e3719") + "]", want: ambiguousAt(false, "c7d1d3a2-9e0a-4c2c-9a4c-1c7a8a4e6b1d")},
		{name: "an order that was denied", request: create, asks: []string{asked + "inv-991"}, page: "[" + swap(order, "pending", "denied") + "]", want: lookalike(id, providers.Reversed, false)},
		{name: "an order that is held", request: create, asks: []string{asked + "inv-991"}, page: "[" + swap(order, "pending", "held") + "]", want: lookalike(id, providers.TookEffect, false)},
		{name: "no order", request: create, asks: []string{asked + "inv-991"}, page: "[]", want: nothing(false)},
		{name: "an error", request: create, asks: []string{asked + "inv-991"}, page: `{"errors":{"code":"parameter_invalid"}}`, want: finding{}},
	}, modernTreasuryOthers()...)
}

// As in modern-treasury-go bddd610, a file for each.
func modernTreasuryOthers() (looks []look) {
	for _, o := range []struct {
		path, object string
		request      string // its fields, which the object has, too
		stands       string // its state
		undone       string
	}{
		{path: "expected_payments", object: "expected_payment", request: `"amount_upper_bound":100,"amount_lower_bound":90,"direction":"credit"`, stands: `"status":"unreconciled"`, undone: `"status":"archived"`},
		{path: "expected_payments", object: "expected_payment", request: `"internal_account_id":"i1"`, stands: `"status":"unreconciled"`, undone: `"status":"archived"`},
		{path: "expected_payments", object: "expected_payment", request: `"counterparty_id":"c1"`, stands: `"status":"unreconciled"`, undone: `"status":"archived"`},
		{path: "counterparties", object: "counterparty", request: `"name":"Ada"`, stands: `"discarded_at":null`, undone: `"discarded_at":"2026-11-20T12:10:00Z"`},
		{path: "external_accounts", object: "external_account", request: `"counterparty_id":"c1"`, stands: `"discarded_at":null`, undone: `"discarded_at":"2026-11-20T12:10:00Z"`},
		{path: "internal_accounts", object: "internal_account", request: `"name":"Main","currency":"USD"`, stands: `"status":"pending_activation"`, undone: `"status":"closed"`},
		{path: "legal_entities", object: "legal_entity", request: `"legal_entity_type":"business","business_name":"Acme"`, stands: `"discarded_at":null`, undone: `"discarded_at":"2026-11-20T12:10:00Z"`},
		{path: "ledger_accounts", object: "ledger_account", request: `"ledger_id":"l1","name":"Cash","normal_balance":"debit"`, stands: `"discarded_at":null`, undone: `"discarded_at":"2026-11-20T12:10:00Z"`},
		{path: "ledger_account_categories", object: "ledger_account_category", request: `"ledger_id":"l1","name":"Cash","normal_balance":"debit"`, stands: `"discarded_at":null`, undone: `"discarded_at":"2026-11-20T12:10:00Z"`},
		{path: "ledger_transactions", object: "ledger_transaction", request: `"description":"rent"`, stands: `"status":"posted"`, undone: `"status":"archived"`},
		{path: "ledger_transactions", object: "ledger_transaction", request: `"effective_date":"2026-11-20"`, stands: `"status":"pending"`, undone: `"status":"archived"`},
	} {
		create := "POST https://app.moderntreasury.com/api/" + o.path + "\nContent-Type: application/json\n\n{" + o.request + `,"external_id":"x-7"}`
		object := `{"id":"o1","object":"` + o.object + `","live_mode":true,"created_at":"2026-11-20T12:00:01Z",` + o.request + "," + o.stands + `,"external_id":"x-7"}`
		asked := []string{"GET /api/" + o.path + "?external_id=x-7"}
		name := o.object + " with " + o.request
		looks = append(looks,
			look{name: name, request: create, asks: asked, page: "[" + object + "]", want: lookalike("o1", providers.TookEffect, true)},
			look{name: name + ", undone since", request: create, asks: asked, page: "[" + swap(object, o.stands, o.undone) + "]", want: lookalike("o1", providers.Reversed, false)},
			look{name: name + ", of yesterday", request: create, asks: asked, page: "[" + swap(object, "2026-11-20T12:00:01Z", "2026-11-19T12:00:01Z") + "]", want: ambiguousAt(false, "o1")},
			look{name: name + ", for another", request: create, asks: asked, page: "[" + swap(object, "x-7", "x-8") + "]", want: alikeAt(false, "o1")},
		)
	}
	return append(looks,
		look{name: "a ledger transaction of which nothing can be compared", request: "POST https://app.moderntreasury.com/api/ledger_transactions\nContent-Type: application/json\n\n" + `{"external_id":"x-7"}`},
	)
}

// As in dwolla-openapi d4901e4.
func dwollaLooks() []look {
	const (
		fields   = `"amount":{"currency":"USD","value":"42.00"},"correlationId":"` + reference + `"`
		create   = "POST https://api.dwolla.com/transfers\nContent-Type: application/vnd.dwolla.v1.hal+json\n\n" + `{"_links":{},` + fields + `}`
		transfer = `{"_links":{},"id":"15c6bcce-46f7-e811-8112-e8dd3bececa8","status":"pending","created":"2026-11-20T12:00:01.970Z",` + fields + `}`
		asked    = "GET /accounts/acct-1/transfers?correlationId=" + reference
		id       = "15c6bcce-46f7-e811-8112-e8dd3bececa8"
	)
	page := func(items string) string { return `{"_links":{},"_embedded":{"transfers":[` + items + `]},"total":1}` }
	masses := func(items string) string {
		return `{"_links":{},"_embedded":{"mass-payments":[` + items + `]},"total":1}`
	}
	const (
		source = `"_links":{"source":{"href":"https://api.dwolla.com/funding-sources/707177c3"}},"correlationId":"` + reference + `"`
		pay    = "POST https://api.dwolla.com/mass-payments\nContent-Type: application/json\n\n{" + source + `,"items":[{"amount":{"currency":"USD","value":"1.00"}}]}`
		mass   = `{"id":"11ac4051","status":"processing","created":"2026-11-20T12:00:01.000Z","total":{"value":"1.00","currency":"USD"},` + source + "}"
	)
	many := []string{"GET /accounts/acct-1/mass-payments?correlationId=" + reference}
	return []look{
		{name: "a transfer", request: create, asks: []string{asked}, page: page(transfer), want: exactly(id, providers.TookEffect, false)},
		{name: "an amount that is written as a number", request: swap(create, `"42.00"`, `42.0`), asks: []string{asked}, page: page(transfer), want: exactly(id, providers.TookEffect, false)},
		{name: "a transfer that failed", request: create, asks: []string{asked}, page: page(swap(transfer, "pending", "failed")), want: exactly(id, providers.Reversed, false)},
		{
			name: "a transfer on the second page", request: create, asks: []string{asked, asked + "&offset=1"}, page: page(swap(transfer, id, "other", reference, "other")), more: []string{page(transfer)},
			want: exactly(id, providers.TookEffect, false),
		},
		{name: "none", request: create, asks: []string{asked}, page: page(""), want: nothing(true)},
		{name: "no list", request: create, asks: []string{asked}, page: `{"_links":{},"total":0}`, want: finding{}},
		{name: "a mass payment", request: pay, asks: many, page: masses(mass), want: exactly("11ac4051", providers.TookEffect, false)},
		{name: "a mass payment that was cancelled", request: pay, asks: many, page: masses(swap(mass, "processing", "cancelled")), want: exactly("11ac4051", providers.Reversed, false)},
		{name: "a mass payment from elsewhere", request: pay, asks: many, page: masses(swap(mass, "707177c3", "b442c936")), want: ambiguous("11ac4051")},
		{name: "no mass payment", request: pay, asks: many, page: masses(""), want: nothing(true)},
	}
}

// As in checkout-sdk-go 30688ab payments/nas/payments.go.
func checkoutLooks() []look {
	const (
		host    = "POST https://api.checkout.com/payments"
		content = "\nContent-Type: application/json\n\n"
		payment = `{"id":"pay_1","requested_on":"2026-11-20T12:00:01Z","amount":1000,"currency":"GBP","payment_type":"Regular","reference":"ORD-1","approved":true,"status":"Authorized"}`
		action  = `{"id":"act_1","type":"Refund","processed_on":"2026-11-20T12:00:01Z","amount":500,"approved":true,"response_code":"10000","reference":"ORD-1-R"}`
	)
	create := host + content + `{"amount":1000,"currency":"gbp","reference":"ORD-1"}`
	list := func(items string) string { return `{"limit":10,"skip":0,"total_count":1,"data":[` + items + `]}` }
	refund := host + "/pay_1/refunds" + content + `{"amount":500}`
	asked, parts := []string{"GET /payments?reference=ORD-1"}, []string{"GET /payments/pay_1/actions"}
	return []look{
		{name: "a payment", request: create, asks: asked, page: list(payment), want: lookalike("pay_1", providers.TookEffect, false)},
		{name: "a payment that was declined", request: create, asks: asked, page: list(swap(payment, "Authorized", "Declined")), want: lookalike("pay_1", providers.Refused, false)},
		{name: "a payment that was voided", request: create, asks: asked, page: list(swap(payment, "Authorized", "Voided")), want: lookalike("pay_1", providers.Reversed, false)},
		{name: "yesterday's payment of the order", request: create, asks: asked, page: list(swap(payment, "2026-11-20", "2026-11-19")), want: ambiguousAt(false, "pay_1")},
		{
			name: "two payments of the order", request: create, asks: asked, page: list(payment + "," + swap(payment, "pay_1", "pay_2")),
			want: finding{kind: lookup.Ambiguous, id: "pay_1"},
		},
		{name: "a refund", request: refund, asks: parts, page: "[" + swap(action, "act_1", "act_0", "Refund", "Capture") + "," + action + "]", want: alikeAt(false, "act_1")},
		{name: "a refund that was declined", request: refund, asks: parts, page: "[" + swap(action, "true", "false") + "]", want: alikeAt(false, "act_1")},
		{name: "a refund with another reference", request: swap(refund, "500", `500,"reference":"ORD-1-Q"`), asks: parts, page: "[" + action + "]", want: nothing(false)},
		{name: "a refund of all", request: swap(refund, `{"amount":500}`, "{}")},
		{
			name: "a capture", request: host + "/pay_1/captures" + content + `{"amount":500,"reference":"ORD-1-R"}`, asks: parts, page: "[" + swap(action, "Refund", "Capture") + "]",
			want: alikeAt(false, "act_1"),
		},
	}
}

// As in braintree/graphql-api 2252d47 schema.graphql.
func braintreeLooks() []look {
	mutate := func(name, input string) string {
		document := `{"query":"mutation M($input: In!) { ` + name + `(input: $input) { clientMutationId } }","variables":{"input":` + input + `}}`
		return "POST https://payments.braintree-api.com/graphql\nContent-Type: application/json\nBraintree-Version: 2026-01-01\n\n" + document
	}
	edge := func(more string) string {
		return `{"node":{"id":"dHJhbnNhY3Rpb25fMQ","orderId":"991","status":"SUBMITTED_FOR_SETTLEMENT","createdAt":"2026-11-20T12:00:01.000000Z","amount":{"value":"10.00"}` + more + `}}`
	}
	page := func(list, edges string) string {
		return `{"data":{"search":{"` + list + `":{"edges":[` + edges + `],"pageInfo":{"hasNextPage":false,"endCursor":"abc"}}}},"extensions":{"requestId":"r"}}`
	}
	// asked returns the look-up's request. Such requests differ only in their variables.
	asked := func(list, also, variables string) string {
		return `POST /graphql` + "\n" + `{"query": "query ByOrder($order: String!, $after: String) { search { ` + list + `(input: {orderId: {is: $order}}, first: 50, after: $after) ` +
			`{ edges { node { id orderId status createdAt amount { value } ` + also + ` } } pageInfo { hasNextPage endCursor } } } }", "variables": ` + variables + `}`
	}
	const id = "dHJhbnNhY3Rpb25fMQ"
	charge := mutate("chargePaymentMethod", `{"paymentMethodId":"pm_1","transaction":{"amount":"10.0","orderId":"991"}}`)
	search := asked("transactions", "", `{"order": "991"}`)
	refund := mutate("refundTransaction", `{"transactionId":"dHI","refund":{"amount":"10","orderId":"991"}}`)
	refunds := asked("refunds", "refundedTransaction { id }", `{"order": "991"}`)
	parent := `,"refundedTransaction":{"id":"dHI"}`
	ofTransaction := `POST /graphql` + "\n" + `{"query": "query OfTransaction($id: ID!) { node(id: $id) { ... on Transaction ` +
		`{ refunds { id orderId status createdAt amount { value } refundedTransaction { id } } } } }", "variables": {"id": "dHI"}}`
	var node struct{ Node json.RawMessage }
	_ = json.Unmarshal([]byte(edge(parent)), &node)
	return []look{
		{name: "a charge", request: charge, asks: []string{search}, page: page("transactions", edge("")), want: lookalike(id, providers.TookEffect, false)},
		{name: "a charge that was declined", request: charge, asks: []string{search}, page: page("transactions", swap(edge(""), "SUBMITTED_FOR_SETTLEMENT", "PROCESSOR_DECLINED")), want: lookalike(id, providers.Refused, false)},
		{name: "a charge that was voided", request: charge, asks: []string{search}, page: page("transactions", swap(edge(""), "SUBMITTED_FOR_SETTLEMENT", "VOIDED")), want: lookalike(id, providers.Reversed, false)},
		{name: "another amount", request: charge, asks: []string{search}, page: page("transactions", swap(edge(""), "10.00", "10.01")), want: ambiguousAt(false, "dHJhbnNhY3Rpb25fMQ")},
		{
			name: "a quote in the order's id", request: swap(charge, `"991"`, `"9\"}1"`), asks: []string{swap(search, `"991"`, `"9\"}1"`)}, page: page("transactions", swap(edge(""), `"991"`, `"9\"}1"`)),
			want: lookalike(id, providers.TookEffect, false),
		},
		{name: "errors", request: charge, asks: []string{search}, page: `{"data":{"search":null},"errors":[{"message":"x"}]}`, want: finding{}},
		{
			name: "an authorization", request: swap(charge, "chargePaymentMethod", "authorizeCreditCard"), asks: []string{search}, page: page("transactions", swap(edge(""), "SUBMITTED_FOR_SETTLEMENT", "AUTHORIZED")),
			want: lookalike(id, providers.TookEffect, false),
		},
		{
			name: "a refund of a card", request: mutate("refundCreditCard", `{"paymentMethodId":"pm_1","refund":{"amount":"10","orderId":"991"}}`), asks: []string{asked("refunds", "", `{"order": "991"}`)},
			page: page("refunds", edge("")), want: lookalike(id, providers.TookEffect, false),
		},
		{name: "a refund", request: refund, asks: []string{refunds}, page: page("refunds", edge(parent)), want: lookalike(id, providers.TookEffect, false)},
		{name: "a refund of all", request: swap(refund, `"amount":"10",`, ""), asks: []string{refunds}, page: page("refunds", edge(parent)), want: lookalike(id, providers.TookEffect, false)},
		{name: "a refund of another transaction", request: refund, asks: []string{refunds}, page: page("refunds", swap(edge(parent), "dHI", "other")), want: ambiguousAt(false, "dHJhbnNhY3Rpb25fMQ")},
		{
			name: "a refund by its transaction", request: swap(refund, `,"orderId":"991"`, ""), asks: []string{ofTransaction}, page: `{"data":{"node":{"refunds":[` + string(node.Node) + `]}}}`,
			want: alikeAt(false, "dHJhbnNhY3Rpb25fMQ"),
		},
		{name: "a charge without an order's id", request: swap(charge, `,"orderId":"991"`, "")},
	}
}

// As in docs.wise.com/api-docs/api-reference/transfer.
func wiseLooks(profile string) []look {
	const (
		create   = "POST https://api.wise.com/v1/transfers\nContent-Type: application/json\n\n" + `{"targetAccount":8692237,"quoteUuid":"8fa9be20-ba43-4b15-abbb-9424e1481050","customerTransactionId":"` + conformanceKey + `"}`
		transfer = `{"id":16521632,"user":4342275,"targetAccount":8692237,"sourceAccount":null,"quote":null,"quoteUuid":"8fa9be20-ba43-4b15-abbb-9424e1481050","status":"incoming_payment_waiting",
			"rate":0.89,"created":"2026-11-20 12:00:01","business":null,"sourceCurrency":"EUR","sourceValue":0,"targetCurrency":"GBP","targetValue":150,"customerTransactionId":"` + conformanceKey + `"}`
	)
	asked := "GET /v1/transfers?limit=100&createdDateStart=" + url.QueryEscape("2026-11-20T11:40:00.000Z") + "&createdDateEnd=" + url.QueryEscape("2026-11-20T13:00:00.000Z") + profile
	return []look{
		{name: "a transfer", request: create, asks: []string{asked}, page: "[" + swap(transfer, conformanceKey, "other", "16521632", "2") + "," + transfer + "]", want: exactly("16521632", providers.TookEffect, true)},
		{name: "a transfer of a dated version", request: swap(create, "/v1/", "/2026Q4/"), asks: []string{asked}, page: "[" + transfer + "]", want: exactly("16521632", providers.TookEffect, true)},
		{
			name: "a transfer of a batch", request: swap(create, "/v1/transfers", "/v3/profiles/16/batch-groups/7/transfers"), asks: []string{strings.TrimSuffix(asked, profile) + "&profile=16"}, page: "[" + transfer + "]",
			want: exactly("16521632", providers.TookEffect, true),
		},
		{
			name: "a transfer on the second page", request: create, asks: []string{asked, asked + "&offset=1"}, page: "[" + swap(transfer, conformanceKey, "other", "16521632", "2") + "]", more: []string{"[" + transfer + "]"},
			want: exactly("16521632", providers.TookEffect, true),
		},
		{name: "a transfer that was cancelled", request: create, asks: []string{asked}, page: "[" + swap(transfer, "incoming_payment_waiting", "cancelled") + "]", want: exactly("16521632", providers.Reversed, false)},
		{name: "none", request: create, asks: []string{asked}, page: "[]", want: nothing(true)},
	}
}

// As in the examples of adyen-openapi aa014f0 TransferService-v4.
func adyenLooks() []look {
	const (
		host     = "POST https://balanceplatform-api-test.adyen.com"
		create   = host + "/btl/v4/transfers\nContent-Type: application/json\n\n" + `{"amount":{"value":110000,"currency":"EUR"},"balanceAccountId":"BAB8B2C3","category":"bank","reference":"` + reference + `"}`
		transfer = `{"id":"1W1UG35U8A9J5ZLG","createdAt":"2026-11-20T13:00:01+01:00","status":"authorised","reference":"` + reference + `","category":"bank",
			"amount":{"value":110000,"currency":"EUR"},"balanceAccount":{"description":"x","id":"BAB8B2C3"}}`
		id   = "1W1UG35U8A9J5ZLG"
		next = "balanceAccountId=BAB8B2C3&createdUntil=x&limit=2&cursor=S2B-TSAjOkI"
	)
	asked := "GET /btl/v4/transfers?balanceAccountId=BAB8B2C3&reference=" + reference + "&createdSince=" + url.QueryEscape("2026-11-19T12:00:00Z") + "&createdUntil=" + url.QueryEscape("2026-11-20T13:00:00Z") + "&limit=100"
	page := func(link, items string) string { return `{"_links":{` + link + `},"data":[` + items + `]}` }
	got := "GET /btl/v4/transfers/" + id
	return []look{
		{name: "a transfer", request: create, asks: []string{asked, got}, page: page("", transfer), object: transfer, want: exactly(id, providers.TookEffect, true)},
		{name: "a transfer that was refused", request: create, asks: []string{asked, got}, page: page("", transfer), object: swap(transfer, "authorised", "refused"), want: exactly(id, providers.Refused, false)},
		{name: "a transfer that came back", request: create, asks: []string{asked, got}, page: page("", transfer), object: swap(transfer, "authorised", "returned"), want: exactly(id, providers.Reversed, false)},
		{
			name: "a transfer on the second page", request: create, asks: []string{asked, "GET /btl/v4/transfers?" + next, got},
			page: page(`"next":{"href":"https://balanceplatform-api-test.adyen.com/btl/v4/transfers?`+next+`"}`, swap(transfer, reference, "other", id, "OTHER")),
			more: []string{page("", transfer)}, object: transfer, want: exactly(id, providers.TookEffect, true),
		},
		{
			name: "a second page elsewhere", request: create, asks: []string{asked},
			page: page(`"next":{"href":"https://evil.example.com/btl/v4/transfers?`+next+`"}`, transfer), want: finding{},
		},
		{name: "another amount", request: create, asks: []string{asked}, page: page("", swap(transfer, "110000", "110001")), want: ambiguous(id)},
		{name: "no balance account", request: swap(create, `"balanceAccountId":"BAB8B2C3",`, "")},
		{name: "none", request: create, asks: []string{asked}, page: page("", ""), want: nothing(true)},
	}
}
