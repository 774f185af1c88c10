package providers_test

import "github.com/onceward/onceward/providers"

func rawContract() contract {
	const (
		transfer = "POST https://raw.example.com/transfers"
		replayed = "Idempotent-Replayed: true"
	)
	return contract{
		adapter: providers.Raw(day, "raw.example.com"),
		terms: []terms{{
			requests: []string{transfer, "DELETE https://raw.example.com/transfers/1"},
			key:      "raw header Idempotency-Key", max: 255, refuses: []string{`"` + conformanceKey + `"`},
			retention: day, remembers: lostAnswers, guard: true, resent: true, refusals: true,
		}},
		sent: []sent{{
			transfer + "\n\n{}",
			"POST /transfers HTTP/1.1\nHost: raw.example.com\nContent-Length: 2\nIdempotency-Key: " + conformanceKey + "\n\n{}",
		}},
		answers: []answers{
			{transfer, refusedRows},
			{transfer, passingRows[:2]},
			{transfer, badInputAnyForm},
			{transfer, []row{
				{"a success", 201, "", `{}`, final, final},
				{"in flight", 409, "", "", inFlight, inFlight},
				{"a stored conflict", 409, replayed, "", final, final},
				{"another request", 422, "", "", misuse, misuse},
				{"a refusal", 400, "", "", final, retry},
				{"a stored refusal", 400, replayed, "", final, final},
				{"a rate limit", 429, "", "", notExecuted, notExecuted},
				{"500", 500, "", "", retry, retry},
				{"a stored 500", 500, replayed, "", indeterminate, indeterminate},
				{"503", 503, "", "", retry, retry},
			}},
		},
	}
}
