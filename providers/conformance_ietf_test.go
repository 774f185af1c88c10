package providers_test

import "github.com/onceward/onceward/providers"

func ietfContract() contract {
	const transfer = "POST https://ietf.example.com/transfers"
	return contract{
		adapter: providers.IETF(day, "ietf.example.com"),
		terms: []terms{{
			requests: []string{transfer, "PATCH https://ietf.example.com/transfers/1", "DELETE https://ietf.example.com/transfers/1"},
			key:      "quoted header Idempotency-Key", refuses: []string{"two words"},
			retention: day, remembers: lostAnswers, guard: true, resent: true,
		}},
		sent: []sent{{
			transfer + "\n\n{}",
			"POST /transfers HTTP/1.1\nHost: ietf.example.com\nContent-Length: 2\nIdempotency-Key: \"" + conformanceKey + "\"\n\n{}",
		}},
		answers: []answers{
			{transfer, refusedRows},
			{transfer, passingRows},
			{transfer, badInputAnyForm},
			{transfer, []row{
				{"a success", 201, "", `{}`, final, final},
				{"in flight", 409, "", `{"type":"https://example.com/docs"}`, inFlight, inFlight},
				{"another payload", 422, "", `{"type":"https://example.com/docs"}`, misuse, misuse},
				{"an error that is a result", 400, "", `{"title":"x"}`, final, indeterminate},
				{"500, which the draft does not mention", 500, "", "", indeterminate, indeterminate},
				{"a gateway's 503", 503, "", html, retry, retry},
				{"a mark that the draft does not have", 400, "Idempotent-Replayed: true", "", final, indeterminate},
			}},
		},
	}
}
