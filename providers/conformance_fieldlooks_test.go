package providers_test

import "github.com/onceward/onceward/providers"

const jsonContent = "\nContent-Type: application/json\n\n"

// As in PaystackOSS/doc-code-snippets 94af513 dist/api/transfers/verify/response.json.
func paystackLooks() []look {
	const (
		create   = "POST https://api.paystack.co/transfer" + jsonContent + `{"source":"balance","amount":100000,"currency":"NGN","recipient":"RCP_1","reference":"` + conformanceKey + `"}`
		transfer = `{"amount":100000,"createdAt":"2026-11-20T12:00:01.000Z","currency":"NGN","id":860670817,"reference":"` + conformanceKey + `","source":"balance","status":"success","transfer_code":"TRF_1"}`
		page     = `{"status":true,"message":"Transfer retrieved","data":` + transfer + `}`
	)
	asked := []string{"GET /transfer/verify/" + conformanceKey}
	return []look{
		{name: "a transfer", request: create, asks: asked, page: page, want: exactly("TRF_1", providers.TookEffect, false)},
		{name: "a transfer that waits for a password", request: create, asks: asked, page: swap(page, `"success"`, `"otp"`), want: exactly("TRF_1", providers.TookEffect, false)},
		{name: "a transfer that failed", request: create, asks: asked, page: swap(page, `"success"`, `"failed"`), want: exactly("TRF_1", providers.Reversed, false)},
		{name: "another amount", request: create, asks: asked, page: swap(page, "100000", "100001"), want: ambiguous("TRF_1")},
		{name: "yesterday's transfer", request: create, asks: asked, page: swap(page, "2026-11-20", "2026-11-19"), want: ambiguous("TRF_1")},
		{name: "no transfer", request: create, asks: asked, page: `{"status":false,"message":"Transfer not found"}`, want: nothing(true)},
	}
}

// As in finix-nodejs 4e699df openapi/finix-api.yaml.
func finixLooks() []look {
	const (
		host     = "POST https://finix.live-payments-api.com"
		fields   = `"amount":662154,"currency":"USD"`
		key      = `"idempotency_id":"` + conformanceKey + `"`
		create   = host + "/transfers" + jsonContent + "{" + fields + "," + key + "}"
		transfer = `{"id":"TR1","created_at":"2026-11-20T12:00:01.71Z",` + fields + "," + key + `,"state":"PENDING","type":"DEBIT"}`
		reversal = `{"id":"TR2","created_at":"2026-11-20T12:00:01.71Z","amount":100,"currency":"USD",` + key + `,"state":"SUCCEEDED","type":"REVERSAL"}`
		filter   = "idempotency_id=" + conformanceKey + "&limit=100"
	)
	page := func(kind, cursor, items string) string {
		return `{"page":{"limit":100,"next_cursor":` + cursor + `},"_embedded":{"` + kind + `":[` + items + `]},"_links":{}}`
	}
	asked, parts := []string{"GET /transfers?" + filter}, []string{"GET /transfers/TR1/reversals?limit=100"}
	authorize, authorizations := swap(create, "/transfers", "/authorizations"), []string{"GET /authorizations?" + filter}
	refund := host + "/transfers/TR1/reversals" + jsonContent + `{"refund_amount":100,` + key + "}"
	return []look{
		{name: "a transfer", request: create, asks: asked, page: page("transfers", "null", transfer), want: exactly("TR1", providers.TookEffect, true)},
		{name: "a transfer that failed", request: create, asks: asked, page: page("transfers", "null", swap(transfer, "PENDING", "FAILED")), want: exactly("TR1", providers.Reversed, false)},
		{name: "a transfer in an unknown state", request: create, asks: asked, page: page("transfers", "null", swap(transfer, "PENDING", "UNKNOWN")), want: exactly("TR1", providers.InProgress, false)},
		{name: "another amount", request: create, asks: asked, page: page("transfers", "null", swap(transfer, "662154", "662155")), want: ambiguous("TR1")},
		{name: "if the filter is ignored", request: create, asks: asked, page: page("transfers", "null", swap(transfer, conformanceKey, "other")), want: alikeAt(true, "TR1")},
		{
			name: "a transfer on the second page", request: create, asks: []string{asked[0], asked[0] + "&after_cursor=c"}, page: page("transfers", `"c"`, swap(transfer, conformanceKey, "other", "TR1", "TR0")),
			more: []string{page("transfers", "null", transfer)}, want: exactly("TR1", providers.TookEffect, true),
		},
		{name: "no transfer", request: create, asks: asked, page: page("transfers", "null", ""), want: nothing(true)},
		{name: "an authorization", request: authorize, asks: authorizations, page: page("authorizations", "null", swap(transfer, "TR1", "AU1")), want: exactly("AU1", providers.TookEffect, true)},
		{name: "a reversal", request: refund, asks: parts, page: page("transfers", "null", swap(reversal, conformanceKey, "other", "TR2", "TR3")+","+reversal), want: exactly("TR2", providers.TookEffect, true)},
		{name: "a reversal that does not show its key", request: refund, asks: parts, page: page("transfers", "null", swap(reversal, `"`+conformanceKey+`"`, "null")), want: alikeAt(true, "TR2")},
	}
}

// As in marqeta.com/docs/core-api and the types of marqeta-python 66fa690.
func marqetaLooks() []look {
	const (
		host   = "POST https://sandbox-api.marqeta.com/v3/"
		card   = host + "cards" + jsonContent + `{"token":"` + conformanceKey + `","user_token":"u1","card_product_token":"p1"}`
		issued = `{"created_time":"2026-11-20T12:00:01Z","token":"` + conformanceKey + `","user_token":"u1","card_product_token":"p1","last_four":"3925","pan":"123456______3925","state":"UNACTIVATED"}`
		user   = host + "users" + jsonContent + `{"token":"` + conformanceKey + `","first_name":"Ada"}`
		made   = `{"token":"` + conformanceKey + `","active":true,"first_name":"Ada","created_time":"2026-11-20T12:00:01Z","status":"ACTIVE"}`
	)
	cards, users := []string{"GET /v3/cards/" + conformanceKey}, []string{"GET /v3/users/" + conformanceKey}
	return []look{
		{name: "a card", request: card, asks: cards, page: issued, want: exactly(conformanceKey, providers.TookEffect, false)},
		{name: "a card that was terminated", request: card, asks: cards, page: swap(issued, "UNACTIVATED", "TERMINATED"), want: exactly(conformanceKey, providers.Reversed, false)},
		{name: "a card of another user", request: card, asks: cards, page: swap(issued, `"u1"`, `"u2"`), want: ambiguous(conformanceKey)},
		{name: "a card from before", request: card, asks: cards, page: swap(issued, "2026-11-20", "2026-11-19"), want: ambiguous(conformanceKey)},
		{name: "no card", request: card, asks: cards, page: `{"error_code":"404001","error_message":"Card not found"}`, want: nothing(true)},
		{name: "a user", request: user, asks: users, page: made, want: exactly(conformanceKey, providers.TookEffect, true)},
		{name: "a user who was closed", request: user, asks: users, page: swap(made, "ACTIVE", "CLOSED"), want: exactly(conformanceKey, providers.Reversed, false)},
		{name: "an object of another kind", request: swap(card, "cards", "fundingsources/program")},
	}
}

// As in lithic-go e6232c6, a file for each.
func lithicLooks() (looks []look) {
	for _, o := range []struct{ path, account string }{
		{"payments", "financial_account_token"},
		{"external_payments", "financial_account_token"},
		{"book_transfers", "to_financial_account_token"},
		{"management_operations", "financial_account_token"},
	} {
		token, account := `"token":"`+reference+`"`, `"`+o.account+`":"b68b7424-aa69-4cbc-a946-30d90181b621"`
		create := "POST https://api.lithic.com/v1/" + o.path + jsonContent + `{"amount":1000,` + account + "," + token + "}"
		object := `{` + token + `,"created":"2026-11-20T12:00:01Z","status":"PENDING","result":"APPROVED","pending_amount":1000,"settled_amount":0,` + account + `}`
		asked := []string{"GET /v1/" + o.path + "/" + reference}
		looks = append(looks,
			look{name: o.path, request: create, asks: asked, page: object, want: exactly(reference, providers.TookEffect, o.path != "payments")},
			look{name: o.path + ", by the caller's token", request: swap(create, reference, "5f0c6f5e-9a53-4b1e-8f8e-0f3c2a4b6d7f"), asks: []string{"GET /v1/" + o.path + "/5f0c6f5e-9a53-4b1e-8f8e-0f3c2a4b6d7f"},
				page: swap(object, reference, "5f0c6f5e-9a53-4b1e-8f8e-0f3c2a4b6d7f"), want: lookalike("5f0c6f5e-9a53-4b1e-8f8e-0f3c2a4b6d7f", providers.TookEffect, o.path != "payments")},
			look{name: o.path + ", declined", request: create, asks: asked, page: swap(object, "PENDING", "DECLINED"), want: exactly(reference, providers.Reversed, false)},
			look{name: o.path + ", of another account", request: create, asks: asked, page: swap(object, "b68b7424", "c68b7424"), want: ambiguous(reference)},
			look{name: o.path + ", without a token", request: swap(create, ","+token, "")},
		)
	}
	return looks
}

// As in the types of @airwallex/node-sdk 2.1.0-beta.5.
func airwallexLooks() []look {
	const (
		host     = "POST https://api.airwallex.com/api/v1/"
		key      = `"request_id":"` + conformanceKey + `"`
		create   = host + "pa/payment_intents/create" + jsonContent + "{" + key + `,"amount":16.66,"currency":"USD","merchant_order_id":"991"}`
		intent   = `{` + key + `,"id":"int_1","merchant_order_id":"991","amount":16.66,"currency":"USD","captured_amount":0,"status":"REQUIRES_PAYMENT_METHOD","created_at":"2026-11-20T12:00:01+0000"}`
		pay      = host + "transfers/create" + jsonContent + "{" + key + `,"transfer_amount":"100.00","transfer_currency":"USD","reason":"x","reference":"y"}`
		transfer = `{` + key + `,"id":"tr_1","transfer_amount":100,"transfer_currency":"USD","status":"PROCESSING","created_at":"2026-11-20T12:00:01+0000"}`
	)
	page := func(items string) string { return `{"has_more":false,"items":[` + items + `]}` }
	intents := []string{"GET /api/v1/pa/payment_intents?merchant_order_id=991", "GET /api/v1/pa/payment_intents/int_1"}
	transfers := []string{"GET /api/v1/transfers?request_id=" + conformanceKey}
	return []look{
		{name: "an intent", request: create, asks: intents, page: page(swap(intent, conformanceKey, "other", "int_1", "int_2") + "," + intent), object: intent, want: exactly("int_1", providers.TookEffect, true)},
		{name: "an intent that was cancelled", request: create, asks: intents, page: page(intent), object: swap(intent, "REQUIRES_PAYMENT_METHOD", "CANCELLED"), want: exactly("int_1", providers.Reversed, false)},
		{name: "an intent that shows another ID", request: create, asks: intents[:1], page: page(swap(intent, conformanceKey, "other")), want: alikeAt(true, "int_1")},
		{name: "an intent of another amount", request: create, asks: intents[:1], page: page(swap(intent, "16.66", "16.67")), want: ambiguous("int_1")},
		{name: "a transfer", request: pay, asks: transfers, page: page(transfer), want: exactly("tr_1", providers.TookEffect, true)},
		{name: "a transfer that failed", request: pay, asks: transfers, page: page(swap(transfer, "PROCESSING", "FAILED")), want: exactly("tr_1", providers.Reversed, false)},
		{name: "a transfer whose approval is blocked", request: pay, asks: transfers, page: page(swap(transfer, "PROCESSING", "APPROVAL_BLOCKED")), want: exactly("tr_1", providers.TookEffect, false)},
		{name: "no transfer", request: pay, asks: transfers, page: page(""), want: nothing(true)},
		{name: "a confirmation", request: host + "pa/payment_intents/int_1/confirm" + jsonContent + "{" + key + "}"},
	}
}

// As in Rapyd-Samples/Rapyd-Python-SDK fac89c6 documentation/models/Payment.md.
func rapydLooks() []look {
	const (
		create  = "POST https://api.rapyd.net/v1/payments" + jsonContent + `{"amount":25,"currency":"USD","merchant_reference_id":"991"}`
		payment = `{"id":"payment_1","amount":0,"original_amount":25,"currency_code":"USD","merchant_reference_id":"991","status":"ACT","paid":false,"created_at":1795176001}`
	)
	page := func(data string) string { return `{"status":{"status":"SUCCESS","error_code":""},"data":` + data + `}` }
	asked := []string{"GET /v1/payments?merchant_reference_id=991&limit=100", "GET /v1/payments/payment_1"}
	return []look{
		{name: "a payment", request: create, asks: asked, page: page("[" + payment + "]"), object: page(payment), want: lookalike("payment_1", providers.TookEffect, true)},
		{
			name: "a payment by a reference of ours", request: swap(create, "991", reference), asks: []string{swap(asked[0], "991", reference), asked[1]},
			page: page("[" + swap(payment, "991", reference) + "]"), object: page(swap(payment, "991", reference)), want: exactly("payment_1", providers.TookEffect, true),
		},
		{name: "a payment that expired", request: create, asks: asked, page: page("[" + payment + "]"), object: page(swap(payment, "ACT", "EXP")), want: lookalike("payment_1", providers.Reversed, false)},
		{name: "a payment with foreign exchange", request: create, asks: asked[:1], page: page("[" + swap(payment, `_amount":25`, `_amount":27`) + "]"), want: ambiguousAt(false, "payment_1")},
		{name: "yesterday's payment", request: create, asks: asked[:1], page: page("[" + swap(payment, "1795176001", "1795086003") + "]"), want: ambiguousAt(false, "payment_1")},
		{name: "none", request: create, asks: asked[:1], page: page("[]"), want: nothing(false)},
		{name: "a payment without a reference", request: swap(create, `,"merchant_reference_id":"991"`, "")},
	}
}

// As in plaid-openapi 26f1a05.
func plaidLooks() []look {
	const (
		host     = "POST https://production.plaid.com"
		meta     = `"metadata":{"order":"7","onceward":"` + reference + `"}`
		create   = host + "/transfer/create" + jsonContent + `{"account_id":"a1","authorization_id":"u1","description":"x","amount":"12.34",` + meta + `}`
		transfer = `{"id":"t1","authorization_id":"u1","account_id":"a1","amount":"12.34","created":"2026-11-20T12:00:01Z","status":"pending",` + meta + `}`
		bank     = host + "/bank_transfer/create" + jsonContent + `{"idempotency_key":"` + conformanceKey + `","account_id":"a1","amount":"12.34",` + meta + `}`
		window   = `{"start_date":"2026-11-19T12:00:00Z","end_date":"2026-11-20T13:00:00Z","count":25}`
		execute  = host + "/wallet/transaction/execute" + jsonContent + `{"idempotency_key":"` + conformanceKey + `","wallet_id":"w1","reference":"INVOICE991","amount":{"iso_currency_code":"GBP","value":1.5}}`
		executed = `{"transaction_id":"wt1","wallet_id":"w1","reference":"INVOICE991","type":"PAYOUT","amount":{"iso_currency_code":"GBP","value":1.50},"status":"INITIATED","created_at":"2026-11-20T12:00:01Z"}`
	)
	page := func(list, items string) string { return `{"` + list + `":[` + items + `],"request_id":"r1"}` }
	asked := []string{"POST /transfer/list\n" + window}
	banks := []string{"POST /bank_transfer/list\n" + window}
	wallet := []string{`POST /wallet/transaction/list` + "\n" + `{"wallet_id":"w1","count":200,"options":{"start_time":"2026-11-20T11:40:00Z","end_time":"2026-11-20T13:00:00Z"}}`}
	return []look{
		{name: "a transfer", request: create, asks: asked, page: page("transfers", transfer), want: exactly("t1", providers.TookEffect, false)},
		{name: "a transfer of all that is authorized", request: swap(create, `"amount":"12.34",`, ""), asks: asked, page: page("transfers", transfer), want: exactly("t1", providers.TookEffect, false)},
		{name: "a transfer that was returned", request: create, asks: asked, page: page("transfers", swap(transfer, "pending", "returned")), want: exactly("t1", providers.Reversed, false)},
		{name: "a transfer of another authorization", request: create, asks: asked, page: page("transfers", swap(transfer, "u1", "u2")), want: ambiguous("t1")},
		{name: "another transfer of the account", request: create, asks: asked, page: page("transfers", swap(transfer, reference, "other")), want: alikeAt(true, "t1")},
		{
			name: "a transfer on the second page", request: create, asks: []string{asked[0], "POST /transfer/list\n" + `{"count":25,"end_date":"2026-11-20T13:00:00Z","offset":1,"start_date":"2026-11-19T12:00:00Z"}`},
			page: page("transfers", swap(transfer, reference, "other", "t1", "t0")), more: []string{page("transfers", transfer)}, want: exactly("t1", providers.TookEffect, false),
		},
		{name: "no list", request: create, asks: asked, page: `{"error_type":"INVALID_REQUEST","error_code":"MISSING_FIELDS"}`, want: finding{}},
		{name: "a transfer without a reference", request: swap(create, ","+meta, "")},
		{name: "a bank transfer", request: bank, asks: banks, page: page("bank_transfers", transfer), want: exactly("t1", providers.TookEffect, false)},
		{name: "a bank transfer of another amount", request: bank, asks: banks, page: page("bank_transfers", swap(transfer, "12.34", "12.35")), want: ambiguous("t1")},
		{name: "a wallet's transaction", request: execute, asks: wallet, page: page("transactions", executed), want: lookalike("wt1", providers.TookEffect, false)},
		{name: "a wallet's transaction that failed", request: execute, asks: wallet, page: page("transactions", swap(executed, "INITIATED", "FAILED")), want: lookalike("wt1", providers.Reversed, false)},
		{name: "a wallet's transaction of another amount", request: execute, asks: wallet, page: page("transactions", swap(executed, "1.50", "1.51")), want: ambiguousAt(false, "wt1")},
	}
}

// As in Universal-Commerce-Protocol/ucp fdcf893 docs/specification/shopping/checkout.
func ucpLooks() []look {
	const (
		complete = "POST https://business.example.com/ucp/v1/checkout-sessions/cs_1/complete" + jsonContent + "{}"
		session  = `{"ucp":{"status":"success"},"id":"cs_1","status":"completed","currency":"USD","line_items":[],"order":{"id":"ord_1"}}`
	)
	asked := []string{"GET /ucp/v1/checkout-sessions/cs_1"}
	return []look{
		{name: "a checkout that is completed", request: complete, asks: asked, page: session, want: lookalike("cs_1", providers.TookEffect, false)},
		{name: "a checkout that is being completed", request: complete, asks: asked, page: swap(session, "completed", "complete_in_progress"), want: lookalike("cs_1", providers.InProgress, false)},
		{name: "a checkout that is ready", request: complete, asks: asked, page: swap(session, "completed", "ready_for_complete"), want: finding{id: "cs_1"}},
		{name: "a checkout that was canceled", request: complete, asks: asked, page: swap(session, "completed", "canceled"), want: finding{id: "cs_1"}},
		{name: "another checkout", request: complete, asks: asked, page: swap(session, "cs_1", "cs_2"), want: ambiguousAt(false, "cs_2")},
		{name: "a cancellation", request: swap(complete, "complete", "cancel"), asks: asked, page: swap(session, "completed", "canceled"), want: lookalike("cs_1", providers.TookEffect, false)},
		{name: "a cancellation that did not arrive", request: swap(complete, "complete", "cancel"), asks: asked, page: session, want: finding{id: "cs_1"}},
		{name: "no checkout", request: complete, asks: asked, page: `{"code":"not_found","content":"gone"}`, want: finding{}},
	}
}

// As in agentic-commerce-protocol c2afc86 rfcs/rfc.agentic_checkout.md section 4.
func acpLooks() []look {
	const (
		complete = "POST https://shop.example.com/checkout_sessions/cs_1/complete" + jsonContent + "{}"
		session  = `{"id":"cs_1","status":"completed","currency":"usd","line_items":[],"order":{"id":"ord_1","checkout_session_id":"cs_1"}}`
	)
	asked := []string{"GET /checkout_sessions/cs_1"}
	return []look{
		{name: "a session that is completed", request: complete, asks: asked, page: session, want: lookalike("cs_1", providers.TookEffect, false)},
		{name: "a session that is ready", request: complete, asks: asked, page: swap(session, "completed", "ready_for_payment"), want: finding{id: "cs_1"}},
		{name: "a session that was canceled", request: complete, asks: asked, page: swap(session, "completed", "canceled"), want: finding{id: "cs_1"}},
		{name: "another session", request: complete, asks: asked, page: swap(session, "cs_1", "cs_2"), want: ambiguousAt(false, "cs_2")},
		{name: "a cancellation", request: swap(complete, "complete", "cancel"), asks: asked, page: swap(session, "completed", "canceled"), want: lookalike("cs_1", providers.TookEffect, false)},
		{name: "no session", request: complete, asks: asked, page: `{"type":"invalid_request","code":"not_found"}`, want: finding{}},
	}
}
