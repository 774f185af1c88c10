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
		{name: "not a refund", request: refund, body: swap(refunded, `"refund"`, `"capture"`)},
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
	const (
		refund   = "POST https://api.razorpay.com/v1/payments/pay_1/refund\nContent-Type: application/json\n\n" + `{"amount":50000,"receipt":"refund-7"}`
		refunded = `{"entity":"event","account_id":"acc_BfVU","event":"refund.created","contains":["refund","payment"],"payload":{"refund":{"entity":{
			"id":"rfnd_1","entity":"refund","amount":50000,"currency":"INR","payment_id":"pay_1","receipt":"refund-7","created_at":1795176002,"status":"processed"}},
			"payment":{"entity":{"id":"pay_1","entity":"payment","amount":500000,"captured":true}}}}`
	)
	says := func(outcome providers.Outcome) said {
		return said{object: "pout_1", outcome: outcome, account: "acc_BfVU"}
	}
	back := func(outcome providers.Outcome) said {
		return said{object: "rfnd_1", outcome: outcome, account: "acc_BfVU"}
	}
	return []event{
		{name: "a refund", request: refund, body: refunded, says: back(providers.TookEffect)},
		{name: "a refund that is processed", request: refund, body: swap(refunded, "refund.created", "refund.processed"), says: back(providers.TookEffect)},
		{name: "a refund that failed", request: refund, body: swap(refunded, "refund.created", "refund.failed"), says: back(providers.Refused)},
		{name: "a refund of another payment", request: refund, body: swap(refunded, `"payment_id":"pay_1"`, `"payment_id":"pay_2"`)},
		{name: "a refund of all", request: swap(refund, `"amount":50000,`, ""), body: refunded, says: back(providers.TookEffect)},
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

// As in adyen-openapi aa014f0 BalancePlatformTransferNotification-v4.
func adyenTransferHears() (events []event) {
	const (
		transfer = "POST https://balanceplatform-api-test.adyen.com/btl/v4/transfers\nContent-Type: application/json\n\n" + `{"amount":{"value":1000,"currency":"EUR"},"balanceAccountId":"BA1","category":"bank","reference":"payroll-7"}`
		booked   = `{"environment":"test","timestamp":"2026-11-20T12:00:09Z","type":"balancePlatform.transfer.updated","data":{"id":"1W1UG35U8A9J5ZLG",
			"amount":{"value":1000,"currency":"EUR"},"balanceAccount":{"id":"BA1"},"category":"bank","createdAt":"2026-11-20T13:00:01+01:00",
			"direction":"outgoing","reference":"payroll-7","sequenceNumber":2,"status":"booked","type":"bankTransfer"}}`
	)
	for status, outcome := range map[string]providers.Outcome{
		"received": providers.TookEffect, "authorised": providers.TookEffect, "booked": providers.TookEffect, "refused": providers.Refused,
		"cancelled": providers.Reversed, "failed": providers.Reversed, "returned": providers.Reversed,
	} {
		says := said{object: "1W1UG35U8A9J5ZLG", outcome: outcome}
		body := swap(booked, `"booked"`, `"`+status+`"`)
		events = append(events,
			event{name: "a transfer is " + status, request: transfer, body: body, says: says},
			event{name: "a transfer was made and is " + status, request: transfer, body: swap(body, "transfer.updated", "transfer.created"), says: says})
	}
	return append(events,
		event{name: "a transfer from before", request: transfer, body: swap(booked, "13:00:01+01:00", "12:00:01+01:00")},
		event{name: "a transfer of another amount", request: transfer, body: swap(booked, `"value":1000`, `"value":1001`)},
		event{name: "a transfer in a state of its own", request: transfer, body: swap(booked, "booked", "undefined")},
	)
}

// As in docs.stripe.com/api/events/object, with objects as in stripe-go a1e3932.
func stripeHears() []event {
	const host = "https://api.stripe.com/v1/"
	create := func(path string) string {
		return "POST " + host + path + "\nContent-Type: application/x-www-form-urlencoded\n\namount=2000&currency=usd&metadata[onceward]=" + reference
	}
	happened := func(kind, object string) string {
		return `{"id":"evt_1","object":"event","api_version":"2026-07-29","account":"acct_1","created":1795176003,"livemode":true,"pending_webhooks":1,
			"request":{"id":"req_1","idempotency_key":"` + conformanceKey + `"},"type":"` + kind + `","data":{"object":` + object + `}}`
	}
	later := func(body string) string { return swap(body, `"`+conformanceKey+`"`, `null`) }
	const (
		charge   = `{"id":"ch_1","object":"charge","amount":2000,"created":1795176001,"payment_intent":"pi_1","refunded":true,"status":"succeeded","metadata":{}}`
		intent   = `{"id":"pi_1","object":"payment_intent","amount":2000,"created":1795176001,"status":"succeeded","metadata":{"onceward":"` + reference + `"}}`
		dispute  = `{"id":"dp_1","object":"dispute","amount":2000,"charge":"ch_1","payment_intent":"pi_1","created":1795176002,"status":"needs_response","metadata":{}}`
		refund   = `{"id":"re_1","object":"refund","amount":2000,"created":1795176001,"status":"pending","metadata":{}}`
		transfer = `{"id":"tr_1","object":"transfer","amount":2000,"created":1795176001,"reversed":true,"metadata":{}}`
		payout   = `{"id":"po_1","object":"payout","amount":2000,"created":1795176001,"status":"pending","metadata":{}}`
		thin     = `{"id":"evt_2","object":"v2.core.event","type":"v2.money_management.outbound_payment.created","livemode":true,"created":"2026-11-20T12:00:03.000Z",
			"related_object":{"id":"obp_1","type":"v2.money_management.outbound_payment","url":"/v2/money_management/outbound_payments/obp_1"},
			"reason":{"type":"request","request":{"id":"req_1","idempotency_key":"` + conformanceKey + `"}}}`
	)
	says := func(object string, outcome providers.Outcome) said {
		return said{object: object, outcome: outcome, exact: true, account: "acct_1"}
	}
	events := []event{
		{name: "charge.refunded", request: create("charges"), knows: "ch_1", body: happened("charge.refunded", charge), says: says("ch_1", providers.Reversed)},
		{name: "a charge of which a part was refunded", request: create("charges"), knows: "ch_1", body: happened("charge.refunded", swap(charge, `"refunded":true`, `"refunded":false`))},
		{name: "the charge of an intent was refunded", request: create("payment_intents"), knows: "pi_1", body: happened("charge.refunded", charge), says: says("pi_1", providers.Reversed)},
		{name: "the charge that an intent made is not the intent", request: create("payment_intents"), body: happened("charge.succeeded", charge)},
		{name: "an intent by a reference of ours, though the event has no key", request: create("payment_intents"), body: later(happened("payment_intent.succeeded", intent)), says: says("pi_1", providers.TookEffect)},
		{name: "an intent by the key of another request", request: create("payment_intents"), body: swap(happened("payment_intent.succeeded", intent), conformanceKey, "other")},
		{name: "an intent is canceled by another request", request: create("payment_intents"), knows: "pi_1", body: swap(happened("payment_intent.canceled", intent), conformanceKey, "other"), says: says("pi_1", providers.Reversed)},
		{name: "a disputed charge", request: create("charges"), knows: "ch_1", body: later(happened("charge.dispute.funds_withdrawn", dispute)), says: says("ch_1", providers.Reversed)},
		{name: "a dispute that was won", request: create("charges"), knows: "ch_1", body: later(happened("charge.dispute.funds_reinstated", dispute)), says: says("ch_1", providers.TookEffect)},
		{name: "the charge of an intent is disputed", request: create("payment_intents"), knows: "pi_1", body: later(happened("charge.dispute.funds_withdrawn", dispute)), says: says("pi_1", providers.Reversed)},
		{name: "the dispute of an intent's charge was won", request: create("payment_intents"), knows: "pi_1", body: later(happened("charge.dispute.funds_reinstated", dispute)), says: says("pi_1", providers.TookEffect)},
		{name: "another charge is disputed", request: create("charges"), knows: "ch_2", body: later(happened("charge.dispute.funds_withdrawn", dispute))},
		{name: "transfer.reversed", request: create("transfers"), knows: "tr_1", body: later(happened("transfer.reversed", transfer)), says: says("tr_1", providers.Reversed)},
		{name: "a transfer of which a part was reversed", request: create("transfers"), knows: "tr_1", body: later(happened("transfer.reversed", swap(transfer, "true", "false")))},
		{name: "refund.failed", request: create("refunds"), knows: "re_1", body: later(happened("refund.failed", refund)), says: says("re_1", providers.Reversed)},
		{name: "payout.failed", request: create("payouts"), knows: "po_1", body: later(happened("payout.failed", payout)), says: says("po_1", providers.Reversed)},
		{name: "payout.canceled", request: create("payouts"), knows: "po_1", body: later(happened("payout.canceled", payout)), says: says("po_1", providers.Reversed)},
		{name: "an event of v2", request: "POST https://api.stripe.com/v2/money_management/outbound_payments\nContent-Type: application/json\n\n{}", body: thin, says: said{object: "obp_1", thin: true, exact: true}},
	}
	for _, c := range []struct {
		path, object string
		outcome      providers.Outcome
		types        []string
	}{
		{"charges", charge, providers.TookEffect, []string{"charge.succeeded", "charge.pending"}},
		{"charges", charge, providers.Refused, []string{"charge.failed"}},
		{"payment_intents", intent, providers.InProgress, []string{"payment_intent.created", "payment_intent.payment_failed"}},
		{"payment_intents", intent, providers.TookEffect, []string{
			"payment_intent.succeeded", "payment_intent.processing", "payment_intent.requires_action", "payment_intent.amount_capturable_updated",
		}},
		{"refunds", refund, providers.TookEffect, []string{"refund.created"}},
		{"transfers", transfer, providers.TookEffect, []string{"transfer.created"}},
		{"payouts", payout, providers.TookEffect, []string{"payout.created"}},
	} {
		id := c.object[len(`{"id":"`):len(`{"id":"pi_1`)]
		for _, kind := range c.types {
			events = append(events, event{name: kind, request: create(c.path), body: happened(kind, c.object), says: says(id, c.outcome)})
		}
	}
	return events
}

// As in docs.moderntreasury.com/platform/reference/payment-orders, with an order as in
// modern-treasury-go bddd610.
func modernTreasuryHears() (events []event) {
	const (
		order = "POST https://app.moderntreasury.com/api/payment_orders\nContent-Type: application/json\n\n" + `{"type":"ach","amount":1000,"direction":"credit","originating_account_id":"acc_1","external_id":"payroll-7"}`
		moved = `{"event":"completed","data":{"id":"po_1","object":"payment_order","amount":1000,"direction":"credit","originating_account_id":"acc_1",
			"external_id":"payroll-7","live_mode":true,"status":"completed","created_at":"2026-11-20T12:00:01Z","updated_at":"2026-11-20T12:09:01Z"}}`
	)
	for outcome, names := range map[providers.Outcome][]string{
		providers.TookEffect: {"created", "approved", "begin_processing", "finish_processing", "completed"},
		providers.Reversed:   {"failed", "denied", "cancelled", "returned", "reversed"},
	} {
		for _, name := range names {
			events = append(events, event{name: name, request: order, body: swap(moved, `"event":"completed"`, `"event":"`+name+`"`), says: said{object: "po_1", outcome: outcome}})
		}
	}
	return append(events,
		event{name: "an order that is reconciled tentatively", request: order, body: swap(moved, `"event":"completed"`, `"event":"tentatively_reconciled"`)},
		event{name: "another thing by the same name", request: order, body: swap(moved, `"payment_order"`, `"expected_payment"`)},
		event{name: "an order in the other direction", request: order, body: swap(moved, "credit", "debit")},
		event{name: "an order from before", request: order, body: swap(moved, "12:00:01Z", "11:00:01Z")},
	)
}

// As in checkout.com/docs/developer-resources/event-notifications/event-types.
func checkoutHears() []event {
	const (
		pay      = "POST https://api.checkout.com/payments\nContent-Type: application/json\n\n" + `{"source":{"type":"token","token":"tok_1"},"amount":20,"currency":"USD","reference":"ORD-5023-4E89"}`
		refund   = "POST https://api.checkout.com/payments/pay_1/refunds\nContent-Type: application/json\n\n" + `{"amount":20}`
		approved = `{"id":"evt_1","type":"payment_approved","version":"1.0.29","created_on":"2026-11-20T12:00:04.8821546Z","data":{"id":"pay_1","action_id":"act_1",
			"reference":"ORD-5023-4E89","amount":20,"currency":"USD","processed_on":"2026-11-20T12:00:01.1299682Z","response_code":"10000"}}`
	)
	says := func(object string, outcome providers.Outcome) said {
		return said{object: object, outcome: outcome, exact: true}
	}
	return []event{
		{name: "a payment", request: pay, knows: "pay_1", body: approved, says: says("pay_1", providers.TookEffect)},
		{name: "a payment that was declined", request: pay, knows: "pay_1", body: swap(approved, "payment_approved", "payment_declined"), says: says("pay_1", providers.Refused)},
		{name: "a payment by its reference, which may be an earlier try's", request: pay, body: approved},
		{name: "a refund", request: refund, knows: "act_1", body: swap(approved, "payment_approved", "payment_refunded"), says: says("act_1", providers.TookEffect)},
		{name: "a refund that was declined", request: refund, knows: "act_1", body: swap(approved, "payment_approved", "payment_refund_declined"), says: says("act_1", providers.Refused)},
		{name: "a refund of another payment", request: refund, knows: "act_1", body: swap(approved, "payment_approved", "payment_refunded", "pay_1", "pay_2")},
	}
}

// As in docs.wise.com/guides/developer/webhooks/essential-webhooks.
func wiseHears() []event {
	const changed = `{"data":{"resource":{"type":"transfer","id":111,"profile_id":222,"account_id":333},"current_state":"processing",
		"previous_state":"incoming_payment_waiting","occurred_at":"2026-11-20T12:00:05.789Z"},"subscription_id":"01234567-89ab-cdef-0123-456789abcdef",
		"event_type":"transfers#state-change","schema_version":"4.0.0","sent_at":"2026-11-20T12:00:06.123Z"}`
	return []event{{
		name: "a transfer", request: "POST https://api.wise.com/v1/transfers\nContent-Type: application/json\n\n{\"customerTransactionId\":\"" + conformanceKey + "\"}",
		knows: "111", body: changed, says: said{object: "111", thin: true, exact: true},
	}}
}

// As in dwolla-openapi d4901e4 schemas/events/Event.yml and developers.dwolla.com/guides/webhooks/process-webhooks.
func dwollaHears() (events []event) {
	const (
		listed = `{"_links":{"self":{"href":"https://api.dwolla.com/events/03c7e14c"},"account":{"href":"https://api.dwolla.com/accounts/ca32853c"},
			"resource":{"href":"https://api.dwolla.com/transfers/81BA6F36"}},"id":"03c7e14c","created":"2026-11-20T12:00:05.207Z","topic":"transfer_created","resourceId":"81BA6F36"}`
		transfer   = "POST https://api.dwolla.com/transfers\nContent-Type: application/json\n\n{}"
		correlated = "POST https://api.dwolla.com/transfers\nContent-Type: application/json\n\n" + `{"correlationId":"` + reference + `"}`
	)
	sent := swap(listed, `"topic"`, `"timestamp":"2026-11-20T12:00:06.207Z","topic"`)
	for name, body := range map[string]string{"listed": listed, "sent": sent} {
		for topic, says := range map[string]said{
			"transfer_created": {thin: true}, "bank_transfer_created": {thin: true}, "customer_transfer_created": {thin: true},
			"transfer_failed": {outcome: providers.Reversed}, "transfer_cancelled": {outcome: providers.Reversed},
			"customer_transfer_failed": {outcome: providers.Reversed}, "customer_transfer_cancelled": {outcome: providers.Reversed},
		} {
			says.object, says.exact = "81BA6F36", true
			events = append(events, event{name: topic + ", " + name, request: transfer, knows: "81BA6F36", body: swap(body, "transfer_created", topic), says: says})
		}
	}
	return append(events,
		event{name: "a failure of another transfer", request: transfer, knows: "81BA6F37", body: swap(sent, "transfer_created", "transfer_failed")},
		event{
			name: "a correlated transfer", request: correlated, body: swap(sent, `"topic"`, `"correlationId":"`+reference+`","topic"`),
			says: said{object: "81BA6F36", thin: true, exact: true},
		})
}

// As in plaid-openapi 26f1a05 TransferEventSyncResponse.
func plaidHears() (events []event) {
	const (
		transfer = "POST https://production.plaid.com/transfer/create\nContent-Type: application/json\n\n" + `{"authorization_id":"a_1","account_id":"acc_1","description":"rent"}`
		listed   = `{"transfer_events":[
			{"account_id":"acc_2","event_id":6,"event_type":"sweep.settled","transfer_id":"","sweep_id":"8c2f","sweep_amount":"-5.50","refund_id":null,"failure_reason":null,"timestamp":"2026-11-20T12:00:05Z"},
			{"account_id":"acc_1","event_id":7,"event_type":"returned","transfer_id":"460cbe92","transfer_amount":"12.34","transfer_type":"debit","refund_id":null,
			 "failure_reason":{"failure_code":"R01","ach_return_code":"R01","description":"insufficient funds"},"timestamp":"2026-11-20T12:00:06Z"}],"has_more":false,"request_id":"mdqf"}`
	)
	for outcome, kinds := range map[providers.Outcome][]string{
		providers.TookEffect: {"pending", "posted", "settled", "funds_available"}, providers.Reversed: {"cancelled", "failed", "returned"},
	} {
		for _, kind := range kinds {
			events = append(events, event{
				name: kind, request: transfer, knows: "460cbe92", body: swap(listed, `"returned"`, `"`+kind+`"`), says: said{object: "460cbe92", outcome: outcome, exact: true},
			})
		}
	}
	return append(events,
		event{name: "of another transfer", request: transfer, knows: "460cbe93", body: listed},
		event{name: "of a refund", request: transfer, knows: "460cbe92", body: swap(listed, `"returned"`, `"refund.returned"`)})
}

// As in increase-go ca1c95b event.go.
func increaseHears() (events []event) {
	for _, object := range []string{
		"account_transfer", "ach_transfer", "card_push_transfer", "check_transfer", "fednow_transfer", "real_time_payments_transfer", "swift_transfer", "wire_transfer",
	} {
		for _, happened := range []string{"created", "updated"} {
			events = append(events, event{
				name: object + "." + happened, request: "POST https://api.increase.com/" + object + "s\nContent-Type: application/json\n\n{}", knows: "transfer_uyrp7fld2ium70oa7oi",
				body: `{"id":"event_1","associated_object_id":"transfer_uyrp7fld2ium70oa7oi","associated_object_type":"` + object + `","category":"` + object + "." + happened +
					`","created_at":"2026-11-20T12:00:05Z","type":"event"}`,
				says: said{object: "transfer_uyrp7fld2ium70oa7oi", thin: true, exact: true},
			})
		}
	}
	return events
}
