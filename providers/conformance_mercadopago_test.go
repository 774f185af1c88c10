package providers_test

import "github.com/onceward/onceward/providers"

func mercadoPagoContract() contract {
	const payment = "POST https://api.mercadopago.com/v1/payments"
	return contract{
		adapter: providers.MercadoPago(day),
		sent: []sent{
			{
				payment + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v1/payments HTTP/1.1\nHost: api.mercadopago.com\nContent-Length: 14\nContent-Type: application/json\nX-Idempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
	}
}

// As in mercadopago.com/developers/en/reference/payments/_payments_search/get.
func mercadoPagoLooks() []look {
	const (
		host    = "POST https://api.mercadopago.com/v1/payments"
		content = "\nContent-Type: application/json\n\n"
		payment = `{"id":42,"date_created":"2026-11-20T08:00:01.000-04:00","status":"approved","status_detail":"accredited","currency_id":"BRL",
			"external_reference":"order-7","transaction_amount":700.5}`
		refund = `{"id":7,"payment_id":42,"amount":100,"date_created":"2026-11-20T08:00:01.000-04:00","status":"approved","source":{"id":"1","name":"x","type":"collector"}}`
	)
	pay := host + content + `{"transaction_amount":700.50,"external_reference":"order-7"}`
	back := host + "/42/refunds" + content + `{"amount":100.0}`
	asked := []string{"GET /v1/payments/search?sort=date_created&criteria=desc&external_reference=order-7&range=date_created" +
		"&begin_date=2026-11-20T11%3A40%3A00.000Z&end_date=2026-11-20T13%3A00%3A00.000Z&limit=30"}
	parts := []string{"GET /v1/payments/42/refunds"}
	page := func(items string) string {
		return `{"paging":{"total":1,"limit":30,"offset":0},"results":[` + items + `]}`
	}
	return []look{
		{name: "a payment", request: pay, asks: asked, page: page(payment), want: lookalike("42", providers.TookEffect, true)},
		{name: "a payment of another amount", request: pay, asks: asked, page: page(swap(payment, "700.5", "700.51")), want: ambiguousAt(false, "42")},
		{
			name: "a payment of the order in another way", request: swap(pay, `"external`, `"payment_method_id":"visa","external`), asks: asked,
			page: page(swap(payment, `"currency_id"`, `"payment_method_id":"pix","currency_id"`)), want: ambiguousAt(false, "42"),
		},
		{name: "yesterday's payment of the order", request: pay, asks: asked, page: page(swap(payment, "2026-11-20", "2026-11-19")), want: ambiguousAt(false, "42")},
		{name: "a payment that was rejected", request: pay, asks: asked, page: page(swap(payment, "approved", "rejected")), want: lookalike("42", providers.Refused, false)},
		{name: "a payment that was refunded", request: pay, asks: asked, page: page(swap(payment, "approved", "refunded")), want: lookalike("42", providers.Reversed, false)},
		{
			name: "a payment on the second page", request: pay, asks: []string{asked[0], asked[0] + "&offset=1"}, page: page(swap(payment, `"id":42`, `"id":41`, "order-7", "order-8")),
			more: []string{page(payment)}, want: lookalike("42", providers.TookEffect, true),
		},
		{name: "a payment without a reference", request: swap(pay, `,"external_reference":"order-7"`, "")},
		{name: "a refund of a part", request: back, asks: parts, page: "[" + swap(refund, `"id":7`, `"id":6`, `"amount":100`, `"amount":50`) + "," + refund + "]", want: alikeAt(false, "7")},
		{name: "a refund in process", request: back, asks: parts, page: "[" + swap(refund, "approved", "in_process") + "]", want: alikeAt(false, "7")},
		{name: "a refund that was rejected", request: back, asks: parts, page: "[" + swap(refund, "approved", "rejected") + "]", want: alikeAt(false, "7")},
		{name: "a refund in a state that is not known", request: back, asks: parts, page: "[" + swap(refund, "approved", "cancelled") + "]", want: alikeAt(false, "7")},
		{name: "no refund", request: back, asks: parts, page: "[]", want: nothing(false)},
		{name: "a refund of all", request: swap(back, `"amount":100.0`, "")},
	}
}
