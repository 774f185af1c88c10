package providers_test

import (
	"strings"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
)

// exactly is the finding of an object by a reference of ours, and lookalike the finding by similarity.
func exactly(id string, outcome providers.Outcome, fresh bool) finding {
	return finding{kind: lookup.Found, id: id, outcome: outcome, fresh: fresh, exact: true}
}

func lookalike(id string, outcome providers.Outcome, fresh bool) finding {
	return finding{kind: lookup.Found, id: id, outcome: outcome, fresh: fresh}
}

// swap replaces text in a page.
func swap(page string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(page) }

// As in the orders' and payments' descriptions: paypal-rest-api-specifications ec4d8f3.
func paypalLooks() []look {
	const (
		host  = "https://api-m.paypal.com"
		order = `{"id":"5O190127TN364715T","intent":"CAPTURE","status":"COMPLETED","create_time":"2026-11-19T08:00:00Z",
			"purchase_units":[{"reference_id":"default","payments":{"captures":[{"id":"3C679366HH908993F","status":"COMPLETED",
			"amount":{"currency_code":"USD","value":"100.00"},"final_capture":true,
			"create_time":"2026-11-20T12:00:01Z","update_time":"2026-11-20T12:00:01Z"}]}}],
			"links":[{"href":"https://api-m.paypal.com/v2/checkout/orders/5O190127TN364715T","rel":"self","method":"GET"}]}`
		authorization = `{"id":"0VF52814937998046","status":"VOIDED","amount":{"value":"10.99","currency_code":"USD"},
			"create_time":"2026-11-18T10:00:00Z","update_time":"2026-11-20T12:00:02Z"}`
		search = `{"transaction_details":[
			{"transaction_info":{"paypal_account_id":"6STWC2LSUYYYE","transaction_id":"5TY05013RG002845M","transaction_event_code":"T0006",
			 "transaction_initiation_date":"2026-11-20T11:59:58Z","transaction_amount":{"currency_code":"USD","value":"10.99"},
			 "transaction_status":"S","invoice_id":"invoice-991","custom_field":"invoice-991"}},
			{"transaction_info":{"transaction_id":"1JU08902781691411","paypal_reference_id":"2GG279541U471931P","paypal_reference_id_type":"TXN",
			 "transaction_event_code":"T1107","transaction_initiation_date":"2026-11-20T12:00:05Z",
			 "transaction_amount":{"currency_code":"USD","value":"-10.99"},"transaction_status":"S","custom_field":"` + reference + `"}}],
			"account_number":"XZXSPECPDZHZU","page":1,"total_items":2,"total_pages":1}`
	)
	window := host + "/v1/reporting/transactions?start_date=2026-11-20T11%3A40%3A00Z&end_date=2026-11-20T13%3A00%3A00Z&fields=transaction_info&page_size=500"
	get := func(url string) []string { return []string{"GET " + strings.TrimPrefix(url, host)} }
	return []look{
		{
			name: "a capture of an order", request: "POST " + host + "/v2/checkout/orders/5O190127TN364715T/capture",
			asks: get(host + "/v2/checkout/orders/5O190127TN364715T"), page: order,
			want: lookalike("3C679366HH908993F", providers.TookEffect, true),
		},
		{
			name: "a capture that was declined", request: "POST " + host + "/v2/checkout/orders/5O190127TN364715T/capture",
			asks: get(host + "/v2/checkout/orders/5O190127TN364715T"), page: swap(order, `"3C679366HH908993F","status":"COMPLETED"`, `"3C679366HH908993F","status":"DECLINED"`),
			want: lookalike("3C679366HH908993F", providers.Refused, false),
		},
		{
			name: "a capture from before", request: "POST " + host + "/v2/checkout/orders/5O190127TN364715T/capture",
			asks: get(host + "/v2/checkout/orders/5O190127TN364715T"), page: swap(order, "2026-11-20T12:00:01Z", "2026-11-20T11:00:01Z"),
			want: ambiguousAt(false, "3C679366HH908993F"),
		},
		{
			name: "an order that is approved only", request: "POST " + host + "/v2/checkout/orders/5O190127TN364715T/capture",
			asks: get(host + "/v2/checkout/orders/5O190127TN364715T"), page: `{"id":"5O190127TN364715T","status":"APPROVED","purchase_units":[{"reference_id":"default"}]}`,
			want: finding{kind: lookup.Nothing},
		},
		{
			name: "an order that was captured in two parts", request: "POST " + host + "/v2/checkout/orders/5O190127TN364715T/capture",
			asks: get(host + "/v2/checkout/orders/5O190127TN364715T"), page: swap(order, `"captures":[`, `"captures":[{"id":"OTHER","status":"DECLINED"},`),
			want: finding{kind: lookup.Inconclusive},
		},
		{
			name: "an authorization of an order", request: "POST " + host + "/v2/checkout/orders/5O190127TN364715T/authorize",
			asks: get(host + "/v2/checkout/orders/5O190127TN364715T"), page: swap(order, `"captures"`, `"authorizations"`, `"3C679366HH908993F","status":"COMPLETED"`, `"3C679366HH908993F","status":"CREATED"`),
			want: lookalike("3C679366HH908993F", providers.TookEffect, true),
		},
		{
			name: "a void", request: "POST " + host + "/v2/payments/authorizations/0VF52814937998046/void",
			asks: get(host + "/v2/payments/authorizations/0VF52814937998046"), page: authorization,
			want: lookalike("0VF52814937998046", providers.TookEffect, true),
		},
		{
			name: "an authorization that was void before", request: "POST " + host + "/v2/payments/authorizations/0VF52814937998046/void",
			asks: get(host + "/v2/payments/authorizations/0VF52814937998046"), page: swap(authorization, "2026-11-20T12:00:02Z", "2026-11-19T12:00:02Z"),
			want: ambiguousAt(false, "0VF52814937998046"),
		},
		{
			name: "an authorization that stands", request: "POST " + host + "/v2/payments/authorizations/0VF52814937998046/void",
			asks: get(host + "/v2/payments/authorizations/0VF52814937998046"), page: swap(authorization, "VOIDED", "CREATED"),
			want: finding{kind: lookup.Nothing},
		},
		{
			name: "a refund by a reference of ours", request: "POST " + host + "/v2/payments/captures/2GG279541U471931P/refund\nContent-Type: application/json\n\n" + `{"custom_id":"` + reference + `"}`,
			asks: get(swap(window, "2026-11-20T11%3A40%3A00Z", "2026-11-19T12%3A00%3A00Z")), page: search,
			want: exactly("1JU08902781691411", providers.TookEffect, false),
		},
		{
			name: "a refund of another capture", request: "POST " + host + "/v2/payments/captures/2GG279541U471931P/refund\nContent-Type: application/json\n\n" + `{"custom_id":"` + reference + `"}`,
			asks: get(swap(window, "2026-11-20T11%3A40%3A00Z", "2026-11-19T12%3A00%3A00Z")), page: swap(search, "2GG279541U471931P", "OTHER"),
			want: finding{kind: lookup.Ambiguous, id: "1JU08902781691411", exact: true},
		},
		{name: "a refund without a reference", request: "POST " + host + "/v2/payments/captures/2GG279541U471931P/refund\nContent-Type: application/json\n\n{}"},
		{
			name: "a capture of an authorization", request: "POST " + host + "/v2/payments/authorizations/0VF52814937998046/capture\nContent-Type: application/json\n\n" + `{"invoice_id":"invoice-991","amount":{"value":"10.990","currency_code":"USD"}}`,
			asks: get(window), page: search,
			want: lookalike("5TY05013RG002845M", providers.TookEffect, false),
		},
		{
			name: "a capture of another amount", request: "POST " + host + "/v2/payments/authorizations/0VF52814937998046/capture\nContent-Type: application/json\n\n" + `{"invoice_id":"invoice-991","amount":{"value":"11","currency_code":"USD"}}`,
			asks: get(window), page: search,
			want: ambiguousAt(false, "5TY05013RG002845M"),
		},
	}
}

// As in the SDK's own samples: gocardless-pro-go 553b873 testdata.
func gocardlessLooks() []look {
	const (
		host    = "https://api.gocardless.com"
		charge  = "POST " + host + "/payments\nContent-Type: application/json\n\n" + `{"payments":{"amount":1000,"currency":"EUR","links":{"mandate":"MD123"},"metadata":{"onceward":"` + reference + `"}}}`
		refund  = "POST " + host + "/refunds\nContent-Type: application/json\n\n" + `{"refunds":{"amount":150,"links":{"payment":"PM123"}}}`
		payment = `{"amount":1000,"charge_date":"2026-11-24","created_at":"2026-11-20T12:00:00.500Z","currency":"EUR","id":"PM123",
			"links":{"creditor":"CR123","mandate":"MD123"},"metadata":{"onceward":"` + reference + `"},"status":"pending_submission"}`
		refunded = `{"amount":150,"created_at":"2026-11-20T12:00:01.000Z","currency":"EUR","id":"RF123","links":{"mandate":"MD123","payment":"PM123"},"metadata":{},"status":"created"}`
		meta     = `"meta":{"cursors":{"after":null,"before":null},"limit":50}`
		payments = `{` + meta + `,"payments":[` + payment + `]}`
		refunds  = `{` + meta + `,"refunds":[` + refunded + `]}`
	)
	asked := []string{"GET /payments?mandate=MD123&created_at[gte]=2026-11-19T12%3A00%3A00Z&created_at[lte]=2026-11-20T13%3A00%3A00Z", "GET /payments/PM123"}
	askedRefunds := []string{"GET /refunds?payment=PM123&created_at[gte]=2026-11-20T11%3A40%3A00Z&created_at[lte]=2026-11-20T13%3A00%3A00Z", "GET /refunds/RF123"}
	return []look{
		{
			name: "a payment", request: charge, asks: asked, page: payments, object: `{"payments":` + payment + `}`,
			want: exactly("PM123", providers.TookEffect, true),
		},
		{
			name: "a payment that failed and may be tried again", request: charge, asks: asked, page: payments, object: `{"payments":` + swap(payment, "pending_submission", "failed") + `}`,
			want: exactly("PM123", providers.InProgress, false),
		},
		{
			name: "a payment that was cancelled since", request: charge, asks: asked, page: payments, object: `{"payments":` + swap(payment, "pending_submission", "cancelled") + `}`,
			want: exactly("PM123", providers.Reversed, false),
		},
		{
			name: "a payment that was confirmed since", request: charge, asks: asked, page: payments, object: `{"payments":` + swap(payment, "pending_submission", "confirmed") + `}`,
			want: exactly("PM123", providers.TookEffect, false),
		},
		{name: "another payment", request: charge, asks: asked[:1], page: swap(payments, reference, "other"), want: alikeAt(true, "PM123")},
		{name: "a list without an end", request: charge, asks: asked[:1], page: `{"error":{"type":"gocardless"}}`, want: finding{}},
		{
			name: "a refund", request: refund, asks: askedRefunds[:1], page: refunds, object: `{"refunds":` + refunded + `}`,
			want: alikeAt(false, "RF123"),
		},
		{
			name: "a refund that bounced", request: refund, asks: askedRefunds[:1], page: refunds, object: `{"refunds":` + swap(refunded, `"created"`, `"bounced"`) + `}`,
			want: alikeAt(false, "RF123"),
		},
		{
			name: "a refund by a reference of ours", request: swap(refund, `"amount":150`, `"amount":150,"metadata":{"onceward":"`+reference+`"}`),
			asks: []string{swap(askedRefunds[0], "2026-11-20T11%3A40", "2026-11-19T12%3A00"), askedRefunds[1]},
			page: swap(refunds, refunded, swap(refunded, "RF123", "RF122")+","+swap(refunded, `"metadata":{}`, `"metadata":{"onceward":"`+reference+`"}`)), object: `{"refunds":` + refunded + `}`,
			want: exactly("RF123", providers.TookEffect, true),
		},
		{
			name: "two refunds alike", request: refund, asks: askedRefunds[:1], page: swap(refunds, refunded, refunded+","+swap(refunded, "RF123", "RF124")),
			want: alikeAt(false, "RF123"),
		},
	}
}

// As in razorpay.com/docs/api/orders/fetch-all, .../refunds/fetch-multiple-refund-payment and
// .../x/payouts/fetch-all.
func razorpayLooks() []look {
	const (
		host   = "https://api.razorpay.com"
		order  = "POST " + host + "/v1/orders\nContent-Type: application/json\n\n" + `{"amount":50000,"currency":"INR","receipt":"receipt#1"}`
		refund = "POST " + host + "/v1/payments/pay_FIKOnlyii5QGNx/refund\nContent-Type: application/json\n\n" + `{"amount":300100}`
		payout = "POST " + host + "/v1/payouts\nContent-Type: application/json\n\n" + `{"account_number":"7878780080316316","fund_account_id":"fa_1","amount":100,"currency":"INR","mode":"UPI","reference_id":"payroll-7"}`
		orders = `{"entity":"collection","count":1,"items":[{"id":"order_EKwxwAgItmmXdp","entity":"order","amount":50000,"amount_paid":0,
			"amount_due":50000,"currency":"INR","receipt":"receipt#1","status":"created","attempts":0,"notes":[],"created_at":1795176001}]}`
		refunds = `{"entity":"collection","count":1,"items":[{"id":"rfnd_FP8DDKxqJif6ca","entity":"refund","amount":300100,"currency":"INR",
			"payment_id":"pay_FIKOnlyii5QGNx","receipt":null,"created_at":1795176002,"status":"processed"}]}`
		payouts = `{"entity":"collection","count":1,"items":[{"id":"pout_1","entity":"payout","fund_account_id":"fa_1","amount":100,"currency":"INR",
			"notes":[],"fees":0,"tax":0,"status":"processing","mode":"UPI","reference_id":"payroll-7","created_at":1795176003}]}`
	)
	window := "from=1795174800&to=1795179600"
	return []look{
		{
			name: "an order", request: order, asks: []string{"GET /v1/orders?receipt=receipt%231&" + window + "&count=100"}, page: orders,
			want: lookalike("order_EKwxwAgItmmXdp", providers.TookEffect, true),
		},
		{
			name: "an order that was paid since", request: order, asks: []string{"GET /v1/orders?receipt=receipt%231&" + window + "&count=100"}, page: swap(orders, `"created",`, `"paid",`),
			want: lookalike("order_EKwxwAgItmmXdp", providers.TookEffect, false),
		},
		{name: "an order without a receipt", request: swap(order, `,"receipt":"receipt#1"`, "")},
		{
			name: "a refund", request: refund, asks: []string{"GET /v1/payments/pay_FIKOnlyii5QGNx/refunds?" + window + "&count=100"}, page: refunds,
			want: alikeAt(false, "rfnd_FP8DDKxqJif6ca"),
		},
		{
			name: "a refund of another amount", request: refund, asks: []string{"GET /v1/payments/pay_FIKOnlyii5QGNx/refunds?" + window + "&count=100"}, page: swap(refunds, "300100", "300101"),
			want: finding{kind: lookup.Nothing},
		},
		{name: "a refund of all, which has no amount to compare", request: swap(refund, `"amount":300100`, "")},
		{
			name: "a payout", request: payout, asks: []string{"GET /v1/payouts?account_number=7878780080316316&fund_account_id=fa_1&count=100"}, page: payouts,
			want: lookalike("pout_1", providers.TookEffect, true),
		},
		{
			name: "a payout that was rejected", request: payout, asks: []string{"GET /v1/payouts?account_number=7878780080316316&fund_account_id=fa_1&count=100"}, page: swap(payouts, "processing", "rejected"),
			want: lookalike("pout_1", providers.Refused, false),
		},
		{
			name: "a payout that came back", request: payout, asks: []string{"GET /v1/payouts?account_number=7878780080316316&fund_account_id=fa_1&count=100"}, page: swap(payouts, "processing", "reversed"),
			want: lookalike("pout_1", providers.Reversed, false),
		},
		{
			name: "yesterday's payout", request: payout, asks: []string{"GET /v1/payouts?account_number=7878780080316316&fund_account_id=fa_1&count=100"}, page: swap(payouts, "1795176003", "1795086003"),
			want: ambiguousAt(false, "pout_1"),
		},
	}
}

// As in the API's description: connect-api-specification 5733f66.
func squareLooks() []look {
	const (
		host    = "https://connect.squareup.com"
		pay     = "POST " + host + "/v2/payments\nContent-Type: application/json\n\n" + `{"idempotency_key":"` + conformanceKey + `","source_id":"ccof:1","amount_money":{"amount":1000,"currency":"USD"},"reference_id":"order-7"}`
		refund  = "POST " + host + "/v2/refunds\nContent-Type: application/json\n\n" + `{"idempotency_key":"` + conformanceKey + `","payment_id":"UNOE","amount_money":{"amount":1000,"currency":"USD"}}`
		card    = "POST " + host + "/v2/cards\nContent-Type: application/json\n\n" + `{"idempotency_key":"` + conformanceKey + `","source_id":"cnon:1","card":{"customer_id":"VDKX","reference_id":"user-id-1"}}`
		payment = `{"id":"bP9m","created_at":"2026-11-20T12:00:00.573Z","updated_at":"2026-11-20T12:00:01.000Z","amount_money":{"amount":1000,"currency":"USD"},
			"status":"COMPLETED","source_type":"CARD","location_id":"L88917AVBK2S5","order_id":"pRsj","reference_id":"order-7"}`
		refunded = `{"id":"bP9m_KlWP","status":"PENDING","amount_money":{"amount":1000,"currency":"USD"},"payment_id":"UNOE","order_id":"9lts","created_at":"2026-11-20T12:00:02.000Z","location_id":"L88917AVBK2S5"}`
		stored   = `{"id":"ccof:uIb","card_brand":"VISA","last_4":"1111","customer_id":"VDKX","reference_id":"user-id-1","enabled":true,"version":1,"created_at":"2026-11-20T12:00:03.000Z"}`
	)
	window := "begin_time=2026-11-20T11%3A40%3A00Z&end_time=2026-11-20T13%3A00%3A00Z&limit=100"
	return []look{
		{
			name: "a payment", request: pay, asks: []string{"GET /v2/payments?" + window, "GET /v2/payments/bP9m"},
			page: `{"payments":[` + payment + `]}`, object: `{"payment":` + payment + `}`,
			want: lookalike("bP9m", providers.TookEffect, true),
		},
		{
			name: "a payment at a location", request: swap(pay, `"reference_id"`, `"location_id":"L88917AVBK2S5","reference_id"`),
			asks: []string{"GET /v2/payments?location_id=L88917AVBK2S5&" + window}, page: `{"payments":[]}`, want: finding{kind: lookup.Nothing},
		},
		{
			name: "a payment that failed", request: pay, asks: []string{"GET /v2/payments?" + window, "GET /v2/payments/bP9m"},
			page: `{"payments":[` + payment + `]}`, object: `{"payment":` + swap(payment, "COMPLETED", "FAILED") + `}`,
			want: lookalike("bP9m", providers.Refused, false),
		},
		{
			name: "a payment of another amount", request: pay, asks: []string{"GET /v2/payments?" + window},
			page: `{"payments":[` + swap(payment, `"amount":1000`, `"amount":1001`) + `]}`, want: ambiguousAt(false, "bP9m"),
		},
		{
			name: "a refund", request: refund, asks: []string{"GET /v2/refunds?" + window},
			page: `{"refunds":[` + swap(refunded, "UNOE", "OTHER", "bP9m_KlWP", "x") + `,` + refunded + `]}`, object: `{"refund":` + refunded + `}`,
			want: alikeAt(false, "bP9m_KlWP"),
		},
		{
			name: "a refund that was rejected", request: refund, asks: []string{"GET /v2/refunds?" + window},
			page: `{"refunds":[` + refunded + `]}`, object: `{"refund":` + swap(refunded, "PENDING", "REJECTED") + `}`,
			want: alikeAt(false, "bP9m_KlWP"),
		},
		{
			name: "a card", request: card, asks: []string{"GET /v2/cards?reference_id=user-id-1&include_disabled=true", "GET /v2/cards/ccof:uIb"},
			page: `{"cards":[` + stored + `]}`, object: `{"card":` + stored + `}`,
			want: lookalike("ccof:uIb", providers.TookEffect, true),
		},
		{
			name: "a card that was disabled since", request: card, asks: []string{"GET /v2/cards?reference_id=user-id-1&include_disabled=true", "GET /v2/cards/ccof:uIb"},
			page: `{"cards":[` + stored + `]}`, object: `{"card":` + swap(stored, "true", "false") + `}`,
			want: lookalike("ccof:uIb", providers.Reversed, false),
		},
	}
}

// As in the API's description: mollie/openapi cfbba47.
func mollieLooks() []look {
	const (
		host    = "https://api.mollie.com"
		pay     = "POST " + host + "/v2/payments\nContent-Type: application/json\n\n" + `{"amount":{"currency":"EUR","value":"10.00"},"description":"Order #12345","metadata":{"order":7,"onceward":"` + reference + `"}}`
		payment = `{"resource":"payment","id":"tr_5B8c","mode":"live","status":"open","amount":{"value":"10.00","currency":"EUR"},"description":"Order #12345",
			"metadata":{"order":7,"onceward":"` + reference + `"},"profileId":"pfl_QkEh","createdAt":"2026-11-20T12:00:01+00:00"}`
		refund   = "POST " + host + "/v2/payments/tr_5B8c/refunds\nContent-Type: application/json\n\n" + `{"amount":{"currency":"EUR","value":"5.95"}}`
		refunded = `{"resource":"refund","id":"re_4qqh","mode":"live","amount":{"currency":"EUR","value":"5.95"},"status":"pending","metadata":null,"paymentId":"tr_5B8c","createdAt":"2026-11-20T13:00:01+01:00"}`
		links    = `"_links":{"self":{"href":"..."},"previous":null,"next":null}`
	)
	payments := func(payment string) string {
		return `{"count":1,"_embedded":{"payments":[` + payment + `]},` + links + `}`
	}
	asked := []string{"GET /v2/payments?limit=250&sort=desc"}
	parts := []string{"GET /v2/payments/tr_5B8c/refunds?limit=250"}
	return []look{
		{name: "a payment", request: pay, asks: asked, page: payments(payment), want: exactly("tr_5B8c", providers.TookEffect, true)},
		{
			name: "a payment of a profile, in test mode", request: swap(pay, `"metadata"`, `"profileId":"pfl_QkEh","testmode":true,"metadata"`),
			asks: []string{"GET /v2/payments?limit=250&sort=desc&profileId=pfl_QkEh&testmode=true"}, page: payments(payment),
			want: exactly("tr_5B8c", providers.TookEffect, true),
		},
		{
			name: "a payment of a profile", request: swap(pay, `"metadata"`, `"profileId":"pfl_QkEh","metadata"`),
			asks: []string{"GET /v2/payments?limit=250&sort=desc&profileId=pfl_QkEh"}, page: payments(payment),
			want: exactly("tr_5B8c", providers.TookEffect, true),
		},
		{name: "a payment that expired", request: pay, asks: asked, page: payments(swap(payment, "open", "expired")), want: exactly("tr_5B8c", providers.Refused, false)},
		{name: "a payment that was cancelled", request: pay, asks: asked, page: payments(swap(payment, "open", "canceled")), want: exactly("tr_5B8c", providers.Reversed, false)},
		{name: "another payment", request: pay, asks: asked, page: payments(swap(payment, reference, "other")), want: alikeAt(true, "tr_5B8c")},
		{name: "a payment whose metadata is text", request: swap(pay, `{"order":7,"onceward":"`+reference+`"}`, `"7"`)},
		{
			name: "a refund", request: refund, asks: parts, page: `{"count":1,"_embedded":{"refunds":[` + refunded + `]},` + links + `}`,
			want: alikeAt(false, "re_4qqh"),
		},
		{
			name: "a refund in test mode", request: swap(refund, `"amount"`, `"testmode":true,"amount"`), asks: []string{parts[0] + "&testmode=true"},
			page: `{"count":1,"_embedded":{"refunds":[` + refunded + `]},` + links + `}`, want: alikeAt(false, "re_4qqh"),
		},
		{
			name: "a capture in test mode", request: swap(refund, `"amount"`, `"testmode":true,"amount"`, "/refunds", "/captures"), asks: []string{"GET /v2/payments/tr_5B8c/captures?limit=250&testmode=true"},
			page: `{"count":1,"_embedded":{"captures":[` + swap(refunded, "re_4qqh", "cpt_1", "refund", "capture") + `]},` + links + `}`,
			want: alikeAt(false, "cpt_1"),
		},
		{
			name: "a refund by a reference of ours", request: swap(refund, `{"amount"`, `{"metadata":{"onceward":"`+reference+`"},"amount"`), asks: parts,
			page: `{"count":1,"_embedded":{"refunds":[` + swap(refunded, "re_4qqh", "re_other") + "," + swap(refunded, `"metadata":null`, `"metadata":{"onceward":"`+reference+`"}`) + `]},` + links + `}`,
			want: exactly("re_4qqh", providers.TookEffect, true),
		},
		{
			name: "a refund by a reference of ours in test mode", request: swap(refund, `{"amount"`, `{"testmode":true,"metadata":{"onceward":"`+reference+`"},"amount"`),
			asks: []string{parts[0] + "&testmode=true"},
			page: `{"count":1,"_embedded":{"refunds":[` + swap(refunded, `"metadata":null`, `"metadata":{"onceward":"`+reference+`"}`) + `]},` + links + `}`,
			want: exactly("re_4qqh", providers.TookEffect, true),
		},
		{
			name: "a refund that failed", request: refund, asks: parts, page: `{"count":1,"_embedded":{"refunds":[` + swap(refunded, "pending", "failed") + `]},` + links + `}`,
			want: alikeAt(false, "re_4qqh"),
		},
		{
			name: "a capture by a reference of ours", request: swap(refund, "/refunds", "/captures", `{"amount"`, `{"metadata":{"onceward":"`+reference+`"},"amount"`),
			asks: []string{"GET /v2/payments/tr_5B8c/captures?limit=250"},
			page: `{"count":1,"_embedded":{"captures":[` + swap(refunded, "re_4qqh", "cpt_1", "refund", "capture", `"metadata":null`, `"metadata":{"onceward":"`+reference+`"}`) + `]},` + links + `}`,
			want: exactly("cpt_1", providers.TookEffect, true),
		},
		{
			name: "a capture by a reference of ours in test mode", request: swap(refund, "/refunds", "/captures", `{"amount"`, `{"testmode":true,"metadata":{"onceward":"`+reference+`"},"amount"`),
			asks: []string{"GET /v2/payments/tr_5B8c/captures?limit=250&testmode=true"},
			page: `{"count":1,"_embedded":{"captures":[` + swap(refunded, "re_4qqh", "cpt_1", "refund", "capture", `"metadata":null`, `"metadata":{"onceward":"`+reference+`"}`) + `]},` + links + `}`,
			want: exactly("cpt_1", providers.TookEffect, true),
		},
		{
			name: "a capture", request: swap(refund, "/refunds", "/captures"), asks: []string{"GET /v2/payments/tr_5B8c/captures?limit=250"},
			page: `{"count":1,"_embedded":{"captures":[` + swap(refunded, "re_4qqh", "cpt_1", "refund", "capture") + `]},` + links + `}`,
			want: alikeAt(false, "cpt_1"),
		},
	}
}
