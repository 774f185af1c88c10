package providers_test

import "github.com/onceward/onceward/providers"

// As in developer.paypal.com/api/rest/webhooks/event-names, with a capture and a refund as in
// paypal-rest-api-specifications ec4d8f3.
func paypalHears() []event {
	const (
		host    = "https://api-m.paypal.com"
		capture = "POST " + host + "/v2/payments/authorizations/7W5147081L658180V/capture\nContent-Type: application/json\n\n" + `{"invoice_id":"invoice-991"}`
		refund  = "POST " + host + "/v2/payments/captures/2GG279541U471931P/refund\nContent-Type: application/json\n\n" + `{"custom_id":"` + reference + `"}`

		captured = `{"id":"WH-58D3","event_version":"1.0","create_time":"2026-11-20T12:00:07.940Z","resource_type":"capture","resource_version":"2.0",
			"event_type":"PAYMENT.CAPTURE.COMPLETED","summary":"Payment completed for $ 5.00 USD","resource":{"id":"27M47624FP291604U",
			"amount":{"currency_code":"USD","value":"5.00"},"invoice_id":"invoice-991","final_capture":true,"status":"COMPLETED",
			"supplementary_data":{"related_ids":{"authorization_id":"7W5147081L658180V"}},
			"create_time":"2026-11-20T12:00:05Z","update_time":"2026-11-20T12:00:05Z"}}`
		refunded = `{"id":"WH-1GE8","create_time":"2026-11-20T12:00:09.000Z","resource_type":"refund","event_type":"PAYMENT.CAPTURE.REFUNDED",
			"resource":{"id":"1JU08902781691411","amount":{"currency_code":"USD","value":"5.00"},"custom_id":"` + reference + `","status":"COMPLETED",
			"create_time":"2026-11-20T12:00:08Z","update_time":"2026-11-20T12:00:08Z"}}`
	)
	took := said{object: "27M47624FP291604U", outcome: providers.TookEffect}
	refused := said{object: "27M47624FP291604U", outcome: providers.Refused}
	return []event{
		{name: "a capture", request: capture, body: captured, says: took},
		{name: "a capture that is pending", request: capture, body: swap(captured, "CAPTURE.COMPLETED", "CAPTURE.PENDING"), says: took},
		{name: "a capture that was declined", request: capture, body: swap(captured, "CAPTURE.COMPLETED", "CAPTURE.DECLINED"), says: refused},
		{name: "a capture that was denied", request: capture, body: swap(captured, "CAPTURE.COMPLETED", "CAPTURE.DENIED"), says: refused},
		{name: "a capture of another authorization", request: capture, body: swap(captured, "7W5147081L658180V", "OTHER")},
		{name: "a capture from before", request: capture, body: swap(captured, "12:00:05Z", "11:00:05Z")},
		{name: "an event without a rule", request: capture, body: swap(captured, "CAPTURE.COMPLETED", "CAPTURE.SOMETHING")},
		{name: "a refund", request: refund, body: refunded, says: said{object: "1JU08902781691411", outcome: providers.TookEffect, exact: true}},
		{name: "a refund of another amount", request: swap(refund, `{"custom_id"`, `{"amount":{"value":"6.00","currency_code":"USD"},"custom_id"`), body: refunded},
		{name: "what is no refund", request: refund, body: swap(refunded, `"refund"`, `"capture"`)},
	}
}

// As in gocardless-pro-go 553b873 testdata/events.json.
func gocardlessHears() []event {
	const (
		charge = "POST https://api.gocardless.com/payments\nContent-Type: application/json\n\n" + `{"payments":{"amount":1000,"currency":"EUR","links":{"mandate":"MD123"},"metadata":{"onceward":"` + reference + `"}}}`
		events = `{"events":[
			{"action":"active","created_at":"2026-11-20T12:00:01.000Z","id":"EV122","links":{"mandate":"MD123"},"metadata":{},"resource_metadata":{},"resource_type":"mandates"},
			{"action":"cancelled","created_at":"2026-11-20T12:00:02.000Z","id":"EV123","links":{"payment":"PM123"},"metadata":{},
			 "resource_metadata":{"onceward":"` + reference + `"},"resource_type":"payments","details":{"will_attempt_retry":true}}]}`
	)
	return []event{
		{name: "a payment", request: charge, body: events, says: said{object: "PM123", thin: true, exact: true}},
		{name: "another payment", request: charge, body: swap(events, reference, "other")},
	}
}

// As in razorpay.com/docs/webhooks/payouts.
func razorpayHears() []event {
	const (
		payout = "POST https://api.razorpay.com/v1/payouts\nContent-Type: application/json\n\n" + `{"account_number":"7878780080316316","fund_account_id":"fa_1","amount":100,"currency":"INR","mode":"UPI","reference_id":"payroll-7"}`
		moved  = `{"entity":"event","account_id":"acc_BfVU","event":"payout.processed","contains":["payout"],"payload":{"payout":{"entity":{
			"id":"pout_1","entity":"payout","fund_account_id":"fa_1","amount":100,"currency":"INR","notes":[],"status":"processed",
			"reference_id":"payroll-7","created_at":1795176001}}},"created_at":1795176005}`
	)
	says := func(outcome providers.Outcome) said {
		return said{object: "pout_1", outcome: outcome, account: "acc_BfVU"}
	}
	return []event{
		{name: "processed", request: payout, body: moved, says: says(providers.TookEffect)},
		{name: "pending", request: payout, body: swap(moved, "payout.processed", "payout.pending"), says: says(providers.TookEffect)},
		{name: "queued", request: payout, body: swap(moved, "payout.processed", "payout.queued"), says: says(providers.TookEffect)},
		{name: "initiated", request: payout, body: swap(moved, "payout.processed", "payout.initiated"), says: says(providers.TookEffect)},
		{name: "rejected", request: payout, body: swap(moved, "payout.processed", "payout.rejected"), says: says(providers.Refused)},
		{name: "failed", request: payout, body: swap(moved, "payout.processed", "payout.failed"), says: says(providers.Refused)},
		{name: "reversed", request: payout, body: swap(moved, "payout.processed", "payout.reversed"), says: says(providers.Reversed)},
		{name: "of yesterday's try", request: payout, body: swap(moved, "1795176001", "1795086001")},
		{name: "of another amount", request: payout, body: swap(moved, `"amount":100`, `"amount":101`)},
	}
}

// As in connect-api-specification 5733f66, PaymentCreatedEvent and RefundUpdatedEvent.
func squareHears() []event {
	const (
		pay    = "POST https://connect.squareup.com/v2/payments\nContent-Type: application/json\n\n" + `{"idempotency_key":"` + conformanceKey + `","source_id":"ccof:1","amount_money":{"amount":100,"currency":"USD"},"reference_id":"order-7"}`
		refund = "POST https://connect.squareup.com/v2/refunds\nContent-Type: application/json\n\n" + `{"idempotency_key":"` + conformanceKey + `","payment_id":"KkAk","amount_money":{"amount":100,"currency":"USD"}}`
		paid   = `{"merchant_id":"6SSW7HV8K2ST5","type":"payment.created","event_id":"13b867cf","created_at":"2026-11-20T12:00:30.792Z","data":{"type":"payment","id":"KkAk",
			"object":{"payment":{"amount_money":{"amount":100,"currency":"USD"},"created_at":"2026-11-20T12:00:01.086Z","id":"hYy9","location_id":"S8GW",
			"order_id":"03O3","reference_id":"order-7","status":"APPROVED","updated_at":"2026-11-20T12:00:01.198Z","version_token":"FfQh"}}}}`
		refunded = `{"merchant_id":"6SSW7HV8K2ST5","type":"refund.updated","event_id":"bc316346","created_at":"2026-11-20T12:00:41.852Z","data":{"type":"refund","id":"KkAk_ptNB",
			"object":{"refund":{"amount_money":{"amount":100,"currency":"USD"},"created_at":"2026-11-20T12:00:41.836Z","id":"KkAk_ptNB","location_id":"NAQ1",
			"order_id":"haOy","payment_id":"KkAk","status":"FAILED","updated_at":"2026-11-20T12:00:41.846Z","version":7}}}}`
	)
	says := func(object string, outcome providers.Outcome, exact bool) said {
		return said{object: object, outcome: outcome, exact: exact, account: "6SSW7HV8K2ST5"}
	}
	return []event{
		{name: "a payment", request: pay, body: paid, says: says("hYy9", providers.TookEffect, false)},
		{name: "a payment by a reference of ours", request: swap(pay, "order-7", reference), body: swap(paid, "order-7", reference), says: says("hYy9", providers.TookEffect, true)},
		{name: "a payment that failed", request: pay, body: swap(paid, "APPROVED", "FAILED"), says: says("hYy9", providers.Refused, false)},
		{name: "a payment that failed later", request: pay, body: swap(paid, "APPROVED", "FAILED", "payment.created", "payment.updated"), says: says("hYy9", providers.Refused, false)},
		{name: "a payment that completed later", request: pay, body: swap(paid, "APPROVED", "COMPLETED", "payment.created", "payment.updated"), says: says("hYy9", providers.TookEffect, false)},
		{name: "a payment that was cancelled", request: pay, body: swap(paid, "APPROVED", "CANCELED", "payment.created", "payment.updated"), says: says("hYy9", providers.Reversed, false)},
		{name: "a payment that is approved still", request: pay, body: swap(paid, "payment.created", "payment.updated")},
		{name: "a payment of another amount", request: pay, body: swap(paid, `"amount":100`, `"amount":101`)},
		{name: "a refund that failed", request: refund, knows: "KkAk_ptNB", body: refunded, says: says("KkAk_ptNB", providers.Refused, true)},
		{name: "a refund that was rejected", request: refund, knows: "KkAk_ptNB", body: swap(refunded, "FAILED", "REJECTED"), says: says("KkAk_ptNB", providers.Refused, true)},
		{name: "a refund that nothing is known of", request: refund, body: refunded},
	}
}

// As in mollie/openapi cfbba47, entity-webhook-event.
func mollieHears() []event {
	const (
		pay  = "POST https://api.mollie.com/v2/payments\nContent-Type: application/json\n\n" + `{"amount":{"currency":"EUR","value":"10.00"},"description":"Order #12345","metadata":{"onceward":"` + reference + `"}}`
		paid = `{"resource":"event","id":"event_GvJ8","type":"payment.paid","entityId":"tr_5B8c","createdAt":"2026-11-20T12:05:04+00:00",
			"_embedded":{"entity":{"resource":"payment","id":"tr_5B8c","mode":"live","status":"paid","amount":{"value":"10.00","currency":"EUR"},
			"metadata":{"onceward":"` + reference + `"},"createdAt":"2026-11-20T12:00:01+00:00"}},"_links":{}}`
	)
	says := func(outcome providers.Outcome) said { return said{object: "tr_5B8c", outcome: outcome, exact: true} }
	return []event{
		{name: "paid", request: pay, body: paid, says: says(providers.TookEffect)},
		{name: "authorized", request: pay, body: swap(paid, "payment.paid", "payment.authorized"), says: says(providers.TookEffect)},
		{name: "pending", request: pay, body: swap(paid, "payment.paid", "payment.pending"), says: says(providers.TookEffect)},
		{name: "failed", request: pay, body: swap(paid, "payment.paid", "payment.failed"), says: says(providers.Refused)},
		{name: "expired", request: pay, body: swap(paid, "payment.paid", "payment.expired"), says: says(providers.Refused)},
		{name: "cancelled", request: pay, body: swap(paid, "payment.paid", "payment.canceled"), says: says(providers.Reversed)},
		{name: "another payment", request: pay, body: swap(paid, reference, "other")},
		{name: "a payload without the payment", request: pay, body: `{"resource":"event","id":"event_GvJ8","type":"payment.paid","entityId":"tr_5B8c","createdAt":"2026-11-20T12:05:04+00:00"}`},
	}
}

// As in adyen-openapi aa014f0 Webhooks-v1.
func adyenHears() []event {
	const (
		pay    = "POST https://checkout-test.adyen.com/v71/payments\nContent-Type: application/json\n\n" + `{"merchantAccount":"ShopCOM","reference":"order-7","amount":{"currency":"EUR","value":1000}}`
		refund = "POST https://checkout-test.adyen.com/v71/payments/9913140798220028/refunds\nContent-Type: application/json\n\n" + `{"merchantAccount":"ShopCOM","amount":{"currency":"EUR","value":1000}}`
		item   = `{"live":"false","notificationItems":[{"NotificationRequestItem":{"amount":{"currency":"EUR","value":1000},"eventCode":"AUTHORISATION",
			"eventDate":"2026-11-20T13:00:05+01:00","merchantAccountCode":"ShopCOM","merchantReference":"order-7","originalReference":"9913140798220028",
			"paymentMethod":"visa","pspReference":"QFQTPCQ8HXSKGK82","reason":"","success":"true"}}]}`
	)
	says := func(object string, outcome providers.Outcome) said {
		return said{object: object, outcome: outcome, exact: true}
	}
	events := []event{
		{name: "a payment", request: pay, knows: "QFQTPCQ8HXSKGK82", body: item, says: says("QFQTPCQ8HXSKGK82", providers.TookEffect)},
		{name: "a payment that was refused", request: pay, knows: "QFQTPCQ8HXSKGK82", body: swap(item, `"true"`, `"false"`), says: says("QFQTPCQ8HXSKGK82", providers.Refused)},
		{name: "a payment by its reference, which may be an earlier try's", request: pay, body: item},
		{name: "a payment of another account", request: pay, knows: "QFQTPCQ8HXSKGK82", body: swap(item, "ShopCOM", "ShopDE")},
	}
	for _, code := range []string{"CAPTURE", "REFUND", "CANCELLATION", "CANCEL_OR_REFUND"} {
		body := swap(item, "AUTHORISATION", code)
		events = append(events,
			event{name: code, request: refund, knows: "QFQTPCQ8HXSKGK82", body: body, says: says("QFQTPCQ8HXSKGK82", providers.TookEffect)},
			event{name: code + " that was not done", request: refund, knows: "QFQTPCQ8HXSKGK82", body: swap(body, `"true"`, `"false"`), says: says("QFQTPCQ8HXSKGK82", providers.Refused)})
	}
	for _, code := range []string{"CAPTURE_FAILED", "REFUND_FAILED", "REFUNDED_REVERSED"} {
		events = append(events, event{name: code, request: refund, knows: "QFQTPCQ8HXSKGK82", body: swap(item, "AUTHORISATION", code), says: says("QFQTPCQ8HXSKGK82", providers.Reversed)})
	}
	for _, code := range []string{"TECHNICAL_CANCEL", "CHARGEBACK"} {
		events = append(events, event{name: code, request: pay, knows: "9913140798220028", body: swap(item, "AUTHORISATION", code), says: says("9913140798220028", providers.Reversed)})
	}
	return events
}
