package providers_test

import (
	"strings"
)

// hiccup is an endpoint that one may meet.
type hiccup struct {
	request string // as its caller makes it
	limit   string // the provider's own 429: a header, or a body
	in      string // the member that its answer has the object in, or the answer; empty: it is the object
}

func (h hiccup) limits() (header, body string) {
	if strings.HasPrefix(h.limit, "{") {
		return "", h.limit
	}
	return h.limit, ""
}

var hiccups = []hiccup{
	{stripeCharge + "\nContent-Type: application/x-www-form-urlencoded\n\namount=2000&currency=eur&source=tok_visa", `{"error":{"code":"rate_limit"}}`, ""},
	{stripeAccount + "\nContent-Type: application/json\n\n" + `{"contact_email":"a@example.com"}`, `{"error":{"type":"rate_limit"}}`, ""},
	{adyenPayment + "\nContent-Type: application/json\n\n" + `{"merchantAccount":"M1","reference":"order-7","amount":{"value":1000,"currency":"EUR"}}`, `{"errorCode":"x"}`, ""},
	{ietfTransfer + "\nContent-Type: application/json\n\n" + `{"amount":10}`, "", ""},
	{"POST https://raw.example.com/payments\nContent-Type: application/json\n\n" + `{"amount":10}`, "", ""},
	{"POST https://onceward.example.com/payments\nContent-Type: application/json\n\n" + `{"amount":10}`, "Cache-Control: no-store", ""},
	{paypalOrder + "\nContent-Type: application/json\n\n" + `{"intent":"CAPTURE","purchase_units":[{"amount":{"value":"10.00","currency_code":"EUR"}}]}`, `{"name":"RATE_LIMIT_REACHED"}`, ""},
	{paypalVoid + "\nContent-Type: application/json\n\n" + `{}`, `{"name":"RATE_LIMIT_REACHED"}`, ""},
	{"POST https://connect.squareup.com/v2/payments\nContent-Type: application/json\n\n" + `{"source_id":"cnon:card","reference_id":"order-7","amount_money":{"amount":1000,"currency":"EUR"},"location_id":"L1"}`, `{"errors":[{"category":"RATE_LIMIT_ERROR","code":"RATE_LIMITED"}]}`, "payment"},
	{twilioMessage + "\nContent-Type: application/x-www-form-urlencoded\n\nTo=%2B15550001&From=%2B15550002&Body=hello", `{"code":20429}`, ""},
	{gocardlessPay + "\nContent-Type: application/json\n\n" + `{"payments":{"amount":1000,"currency":"EUR","links":{"mandate":"MD1"}}}`, `{"error":{"type":"invalid_api_usage","code":429}}`, "payments"},
	{checkoutPayment + "\nContent-Type: application/json\n\n" + `{"source":{"type":"token","token":"tok_1"},"reference":"order-7","amount":1000,"currency":"EUR"}`, `{"error_type":"too_many_requests"}`, ""},
	{molliePayment + "\nContent-Type: application/json\n\n" + `{"amount":{"value":"10.00","currency":"EUR"},"description":"order 7","redirectUrl":"https://example.com"}`, `{"status":429,"title":"Too Many Requests"}`, ""},
	{klarnaCapture + "\nContent-Type: application/json\n\n" + `{"captured_amount":1000}`, "X-Ratelimit-Limit: 40", ""},
	{wiseTransfer + "\nContent-Type: application/json\n\n" + `{"targetAccount":7,"quoteUuid":"11144c35-9fe8-4c32-b7fd-d05c2a7734bf"}`, `{"errors":[{"code":"x"}]}`, ""},
	{"POST https://api.razorpay.com/v1/payouts\nContent-Type: application/json\n\n" + `{"account_number":"a1","reference_id":"order-7","fund_account_id":"fa_1","amount":1000,"currency":"INR","mode":"IMPS"}`, `{"error":{"code":"BAD_REQUEST_ERROR"}}`, ""},
	{razorpayRefund + "\nContent-Type: application/json\n\n" + `{"amount":1000}`, `{"error":{"code":"BAD_REQUEST_ERROR"}}`, ""},
	{mtOrder + "\nContent-Type: application/json\n\n" + `{"type":"ach","amount":1000,"direction":"credit","originating_account_id":"a1"}`, `{"errors":{"code":"rate_limit"}}`, ""},
	{dwollaTransfer + "\nContent-Type: application/json\n\n" + `{"amount":{"value":"10.00","currency":"USD"}}`, `{"code":"TooManyRequests"}`, ""},
	{strings.Replace(braintreeCharge, `"k"`, `"k","transaction":{"orderId":"order-7","amount":"10.00"}`, 1), "", `{"data":{"chargePaymentMethod":{"transaction":{"id":"obj_1"}}}}`},
	{shopifyRefund, "", `{"data":{"refundCreate":{"refund":{"id":"obj_1"}}}}`},
	{azureEmail + "\nContent-Type: application/json\n\n" + `{"content":{"subject":"hello"}}`, "", ""},
	{aipBook + "\nContent-Type: application/json\n\n" + `{"title":"a book"}`, `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, ""},
	{"POST https://ec2.eu-central-1.amazonaws.com/\nContent-Type: application/x-www-form-urlencoded\n\nAction=RunInstances", "", ""},
	{increaseACH + "\nContent-Type: application/json\n\n" + `{"account_id":"a1","amount":1000,"statement_descriptor":"order 7"}`, `{"type":"rate_limited_error"}`, ""},
	{"POST https://api.column.com/transfers/ach\nContent-Type: application/json\n\n" + `{"amount":1000,"currency_code":"USD","bank_account_id":"b1"}`, `{"code":"rate_limited"}`, ""},
	{svixMessage + "\nContent-Type: application/json\n\n" + `{"eventType":"order.paid","payload":{}}`, `{"code":"rate_limited"}`, ""},
	{resendEmail + "\nContent-Type: application/json\n\n" + `{"from":"a@example.com","to":"b@example.com","subject":"hello"}`, `{"name":"rate_limit_exceeded"}`, ""},
	{workosEvent + "\nContent-Type: application/json\n\n" + `{"organization_id":"org_1","event":{"action":"user.signed_in"}}`, `{"message":"Too many requests"}`, ""},
	{"POST https://api.cdp.coinbase.com/platform/v2/transfers\nContent-Type: application/json\n\n" + `{"amount":"10.00","asset":"usd"}`, `{"errorType":"rate_limit_exceeded"}`, ""},
	{"POST https://api.fireblocks.io/v1/transactions\nContent-Type: application/json\n\n" + `{"externalTxId":"payout-7","assetId":"BTC","amount":"1"}`, `{"message":"x"}`, ""},
	{"POST https://rest.zuora.com/v1/orders\nContent-Type: application/json\n\n" + `{"orderDate":"2026-11-20"}`, `{"success":false}`, ""},
	{"POST https://api.bridge.xyz/v0/transfers\nContent-Type: application/json\n\n" + `{"amount":"10.00"}`, `{"code":"rate_limit"}`, ""},
	{"POST https://api.mangopay.com/v2.01/client/transfers\nContent-Type: application/json\n\n" + `{"DebitedFunds":{"Amount":1000}}`, `{"Type":"x"}`, ""},
	{"POST https://api.truelayer.com/v3/payments\nContent-Type: application/json\n\n" + `{"amount_in_minor":1000,"currency":"GBP"}`, `{"type":"x"}`, ""},
	{"POST https://payment.direct.worldline-solutions.com/v2/shop/payments\nContent-Type: application/json\n\n" + `{"order":{"amountOfMoney":{"amount":1000}}}`, `{"errorId":"1"}`, ""},
	{"POST https://api.moov.io/accounts/1/transfers\nContent-Type: application/json\n\n" + `{"amount":{"value":1000}}`, `{"error":"x"}`, ""},
	{"POST https://api.mercadopago.com/v1/payments\nContent-Type: application/json\n\n" + `{"transaction_amount":10,"external_reference":"order-7"}`, `{"error":"x"}`, ""},
	{"POST https://production.plaid.com/bank_transfer/create\nContent-Type: application/json\n\n" + `{"amount":"10.00","account_id":"a1"}`, `{"error_code":"RATE_LIMIT"}`, ""},
	{"POST https://shop.example.com/checkout_sessions/1/complete\nContent-Type: application/json\n\n" + `{"payment_data":{"provider":"stripe"}}`, `{"code":"rate_limit"}`, `{"id":"1","status":"completed"}`},
	{"POST https://api.airwallex.com/api/v1/transfers/create\nContent-Type: application/json\n\n" + `{"transfer_amount":"10.00"}`, `{"code":"too_many_requests"}`, ""},
	{"POST https://api.circle.com/v1/payouts\nContent-Type: application/json\n\n" + `{"destination":{"type":"wire","id":"b1"},"amount":{"amount":"10.00","currency":"USD"}}`, `{"code":3}`, ""},
	{"POST https://api.lithic.com/v1/cards\nContent-Type: application/json\n\n" + `{"type":"VIRTUAL"}`, `{"message":"x"}`, ""},
	{"POST https://sandbox-api.marqeta.com/v3/cards\nContent-Type: application/json\n\n" + `{"user_token":"u1"}`, `{"error_code":"x"}`, ""},
	{"POST https://site.chargebee.com/api/v2/subscriptions\nContent-Type: application/x-www-form-urlencoded\n\nid=sub-7&plan_id=p1", `{"api_error_code":"x"}`, `{"subscription":{"id":"sub-7"}}`},
	{"POST https://f4bexperience.flutterwave.com/charges\nContent-Type: application/json\n\n" + `{"amount":10,"currency":"NGN","reference":"order-7"}`, `{"status":"failed"}`, "data"},
	{"POST https://api.rapyd.net/v1/payments\nContent-Type: application/json\n\n" + `{"amount":10,"currency":"USD","merchant_reference_id":"inv-991"}`, `{"status":{"error_code":"x"}}`, "data"},
	{"POST https://api.paystack.co/transfer\nContent-Type: application/json\n\n" + `{"amount":1000}`, `{"message":"x"}`, ""},
	{"POST https://api.telnyx.com/v2/messages\nContent-Type: application/json\n\n" + `{"text":"hello"}`, `{"errors":[{"code":"x"}]}`, ""},
	{"POST https://finix.live-payments-api.com/transfers\nContent-Type: application/json\n\n" + `{"amount":1000}`, `{"_embedded":{"errors":[{"code":"x"}]}}`, ""},
	{"POST https://pay-api.amazon.com/v2/charges\nContent-Type: application/json\n\n" + `{"chargeAmount":{"amount":"10"}}`, `{"reasonCode":"x"}`, ""},
}
