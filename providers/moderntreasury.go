package providers

import (
	"slices"
	"time"
)

// ModernTreasury describes Modern Treasury's API on app.moderntreasury.com, the
// same host for live and sandbox.
//
// Every POST takes a key in the header Idempotency-Key, kept for 24 hours; other
// methods ignore it, although the Go SDK sends one on PUT too. Keys are looked up
// by API key: an operation whose credential has changed is not sent again.
//
// Only successes are kept. What an error leaves behind is not documented, and the
// next request with the key is executed, so that nothing is sent again once it
// may have run. A program that rests on Modern Treasury's word that a request
// which failed by a network issue may be repeated with its key sets Remembers to
// [SuccessesCleanFailures] on these endpoints.
//
// Requests are not compared, not even their paths: a key that was used before is
// answered with the first request's answer, whatever that was. Only a key that is
// new for all paths is safe.
//
// 409 answers a second request while the first one is being worked on. It is also
// the status of any conflict, without a code that would tell, so that on a first
// attempt it proves nothing.
func ModernTreasury() Provider {
	keyed := Endpoint{
		Pattern:       "POST /api/",
		Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Retention:     24 * time.Hour,
		Remembers:     Successes,
		InFlightGuard: true,
		Rules: slices.Concat(
			[]Rule{
				{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceModernTreasury + ": another request with the same key is being stored"},
				{Status: 409, On: FirstAttempt, Verdict: Retry, Source: "docs.moderntreasury.com/reference/status-codes [D]: a conflict with another request, of whatever kind"},
			},
			refusals("errors.code", sourceModernTreasuryErrors),
		),
		Source: sourceModernTreasury + "; length: [?]",
	}
	flow, payment := keyed, keyed
	flow.Pattern, flow.SecretResponse = "POST /api/account_collection_flows", true
	flow.Source += "; client_token: modern-treasury-go bddd610 accountcollectionflow.go [S]"
	payment.Pattern, payment.SecretResponse = "POST /api/payment_flows", true
	payment.Source += "; client_token: modern-treasury-go bddd610 paymentflow.go [S]"
	p := Provider{
		Name:             "moderntreasury",
		Hosts:            []string{"app.moderntreasury.com"},
		CredentialScoped: true,
		Endpoints: []Endpoint{
			keyed,
			flow,
			payment,
			{
				Pattern: "/",
				Rules:   refusals("errors.code", sourceModernTreasuryErrors),
				Source:  sourceModernTreasury + ": PATCH and DELETE ignore the key; of PUT nothing is said",
			},
		},
		Source: sourceModernTreasury + "; host: modern-treasury-go bddd610 option/requestoption.go [S]",
	}
	return *p.clone()
}

const (
	sourceModernTreasury       = "docs.moderntreasury.com/reference/idempotent-requests [D]"
	sourceModernTreasuryErrors = "docs.moderntreasury.com/reference/errors [D]: an error in the data that was provided; the API's own errors have errors.code"
)
