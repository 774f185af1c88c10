package providers_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
)

// One hiccup in a healthy world: an answer that is lost, a gateway's 503, the
// provider's own rate limit. What becomes of a first attempt at each adapter's main
// endpoint: it is sent again, or refused, or has to be reconciled. A table that gets better or
// worse says so here.
func TestOneHiccup(t *testing.T) {
	s := all(t)
	const again, unknown = "again", "unknown"
	now := conformanceTime
	after := func(rt tables.Route, answered bool, status int, header, body string) string {
		open := !answered
		if answered {
			switch rt.Classify(row{"", status, header, body, 0, 0}.answer(false)).Verdict {
			case notExecuted:
			case final, rejected:
				return "refused"
			case retry, inFlight:
				open = true
			default:
				return unknown
			}
		}
		q := journal.Question{MayHaveRun: open, Failed: open && answered, Terms: termsOf(*rt.Endpoint), FirstSentAt: now, LastEndedAt: now, Clock: now, Last: now}
		if q.Terms.Handling > 0 && !q.Terms.Guard {
			q.Clock = now.Add(q.Terms.Handling)
		}
		if journal.MaySend(q).Answer == journal.SendNow {
			return again
		}
		return unknown
	}
	lost := map[string]int{}
	for _, tc := range []struct {
		request, limit string // the provider's own 429: a header, or a body
		want           string // after no answer, 503, 429
	}{
		{stripeCharge, `{"error":{"code":"rate_limit"}}`, "again again again"},
		{stripeAccount, `{"error":{"type":"rate_limit"}}`, "unknown unknown again"},
		{adyenPayment, `{"errorCode":"x"}`, "again unknown unknown"},
		{ietfTransfer, "", "again again again"},
		{"POST https://raw.example.com/payments", "", "again again again"},
		{paypalOrder, `{"name":"RATE_LIMIT_REACHED"}`, "again again again"},
		{paypalVoid, `{"name":"RATE_LIMIT_REACHED"}`, "unknown unknown again"},
		{squarePayment, `{"errors":[{"category":"RATE_LIMIT_ERROR","code":"RATE_LIMITED"}]}`, "unknown unknown again"},
		{twilioMessage, `{"code":20429}`, "unknown unknown again"},
		{gocardlessPay, `{"error":{"type":"invalid_api_usage","code":429}}`, "unknown unknown again"},
		{checkoutPayment, `{"error_type":"too_many_requests"}`, "again unknown again"},
		{molliePayment, `{"status":429,"title":"Too Many Requests"}`, "unknown unknown again"},
		{klarnaCapture, "X-Ratelimit-Limit: 40", "again again again"},
		{wiseTransfer, `{"errors":[{"code":"x"}]}`, "unknown unknown unknown"},
		{"POST https://api.razorpay.com/v1/payouts", `{"error":{"code":"BAD_REQUEST_ERROR"}}`, "unknown unknown unknown"},
		{razorpayRefund, `{"error":{"code":"BAD_REQUEST_ERROR"}}`, "again again again"},
		{mtOrder, `{"errors":{"code":"rate_limit"}}`, "again again again"},
		{dwollaTransfer, `{"code":"TooManyRequests"}`, "again again again"},
		{braintreeCharge, "", "again again again"},
		{shopifyRefund, "", "again again again"},
		{azureEmail, "", "unknown unknown unknown"},
		{aipBook, `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, "again again refused"},
		{"POST https://ec2.eu-central-1.amazonaws.com/\nContent-Type: application/x-www-form-urlencoded\n\nAction=RunInstances", "", "unknown unknown unknown"},
		{increaseACH, `{"type":"rate_limited_error"}`, "again again again"},
		{"POST https://api.column.com/transfers/ach", `{"code":"rate_limited"}`, "again unknown unknown"},
		{svixMessage, `{"code":"rate_limited"}`, "unknown unknown unknown"},
		{resendEmail, `{"name":"rate_limit_exceeded"}`, "again again again"},
		{workosEvent, `{"message":"Too many requests"}`, "again again again"},
		{"POST https://api.cdp.coinbase.com/platform/v2/transfers", `{"errorType":"rate_limit_exceeded"}`, "unknown unknown unknown"},
		{"POST https://api.fireblocks.io/v1/transactions", `{"message":"x"}`, "unknown unknown unknown"},
		{"POST https://rest.zuora.com/v1/orders", `{"success":false}`, "again again again"},
		{"POST https://api.bridge.xyz/v0/transfers", `{"code":"rate_limit"}`, "again again again"},
		{"POST https://api.mangopay.com/v2.01/client/transfers", `{"Type":"x"}`, "again again again"},
		{"POST https://api.truelayer.com/v3/payments", `{"type":"x"}`, "again unknown unknown"},
		{"POST https://payment.direct.worldline-solutions.com/v2/shop/payments", `{"errorId":"1"}`, "again again again"},
		{"POST https://api.moov.io/accounts/1/transfers", `{"error":"x"}`, "again again again"},
		{"POST https://api.mercadopago.com/v1/payments", `{"error":"x"}`, "again unknown unknown"},
	} {
		rt := s.route(t, tc.request)
		header, body := "", tc.limit
		if !strings.HasPrefix(body, "{") {
			header, body = body, ""
		}
		got := []string{after(rt, false, 0, "", ""), after(rt, true, 503, "Content-Type: text/html", html), after(rt, true, 429, header, body)}
		assert.Equal(t, tc.want, strings.Join(got, " "), tc.request)
		for i, hiccup := range []string{"no answer", "503", "429"} {
			if got[i] == unknown {
				lost[hiccup]++
			}
		}
	}
	assert.Equal(t, map[string]int{"no answer": 13, "503": 18, "429": 11}, lost, "of 37")
}
