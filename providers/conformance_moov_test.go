package providers_test

import "github.com/onceward/onceward/providers"

func moovContract() contract {
	const (
		transfer = "POST https://api.moov.io/accounts/1/transfers"
		refund   = "POST https://api.moov.io/accounts/1/transfers/2/refunds"
		cancel   = "POST https://api.moov.io/accounts/1/transfers/2/cancellations"

		failure = `{"error":"amount must be positive"}`
	)
	return contract{
		adapter: providers.Moov(),
		terms: []terms{
			{
				requests: []string{
					transfer,
					"POST https://api.moov.io/accounts/1/transfers/2/refunds",
					"POST https://api.moov.io/accounts/1/transfers/2/reversals",
				},
				key: "raw header X-Idempotency-Key", max: 36,
				retention: 90 * day, remembers: cleanFailures, guard: true, resent: true,
			},
			{requests: []string{cancel, "POST https://api.moov.io/accounts/1/cards", "PATCH https://api.moov.io/accounts/1/cards/2"}, secretFields: []string{"cardNumber", "cardCvv"}},
		},
		noEffect: []string{"POST https://api.moov.io/oauth2/token", "POST https://api.moov.io/oauth2/revoke"},
		sent: []sent{
			{
				transfer + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /accounts/1/transfers HTTP/1.1\nHost: api.moov.io\nContent-Length: 14\nContent-Type: application/json\nX-Idempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{transfer, refusalRows(failure)},
			{transfer, []row{
				{"a transfer that was created before", 409, "", `{"transferID":"tr_1","status":"pending"}`, alreadyDone, alreadyDone},
				{"a transfer that was created before and is not named", 409, "", failure, answerGone, answerGone},
				{"a conflict that is not in Moov's form", 409, "", html, indeterminate, indeterminate},
			}},
			{refund, refusalRows(failure)},
			{refund, []row{{"a transfer that was created before", 409, "", failure, indeterminate, indeterminate}}},
			{cancel, refusalRows(failure)},
		},
	}
}
