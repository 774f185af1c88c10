package providers_test

import "github.com/onceward/onceward/providers"

func trueLayerContract() contract {
	const (
		payment = "POST https://api.truelayer.com/v3/payments"
		data    = "DELETE https://api.truelayer.com/v3/mandates/1"

		failure = `{"type":"https://docs.truelayer.com/docs/error-types#invalid-parameters","title":"Invalid Parameters","status":400}`
	)
	return contract{
		adapter: providers.TrueLayer(),
		terms: []terms{
			{
				requests:  []string{payment, "POST https://api.truelayer-sandbox.com/v3/payouts"},
				key:       "raw header Idempotency-Key",
				retention: day / 4, remembers: lostAnswers, guard: true, resent: true,
			},
			{requests: []string{data}},
		},
		noEffect: []string{"POST https://auth.truelayer.com/connect/token", "POST https://auth.truelayer-sandbox.com/connect/token"},
		sent: []sent{
			{
				payment + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v3/payments HTTP/1.1\nHost: api.truelayer.com\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{payment, refusalRows(failure)},
			{payment, []row{
				{"in progress, or the resource is", 409, "", failure, retry, inFlight},
				{"another payload under the key", 422, "", failure, final, indeterminate},
			}},
			{data, refusalRows(failure)},
		},
	}
}
