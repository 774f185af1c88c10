package providers_test

import "github.com/onceward/onceward/providers"

func oncewardContract() contract {
	const (
		transfer = "POST https://onceward.example.com/transfers"
		recorded = "Idempotency-Expires: Thu, 03 Dec 2026 12:00:00 GMT"
		replayed = recorded + "; Idempotent-Replayed: true"
		free     = "Idempotency-Recorded: false"
		own      = "Cache-Control: no-store"
		problem  = `{"type":"about:blank","title":"x"}`
	)
	stripes := func(kind string) string { return `{"error":{"type":"` + kind + `","message":"x"}}` }
	return contract{
		adapter: providers.Onceward(30*day, "onceward.example.com"),
		terms: []terms{{
			requests: []string{
				transfer, "PUT https://onceward.example.com/transfers/1", "PATCH https://onceward.example.com/transfers/1",
				"DELETE https://onceward.example.com/transfers/1",
			},
			key: "quoted header Idempotency-Key", min: 8, max: 255,
			retention: 30 * day, remembers: everything, guard: true, resent: true, refusals: true,
		}},
		sent: []sent{{
			transfer + "\n\n{}",
			"POST /transfers HTTP/1.1\nHost: onceward.example.com\nContent-Length: 2\nIdempotency-Key: \"" + conformanceKey + "\"\n\n{}",
		}},
		answers: []answers{
			{transfer, refusedRows},
			{transfer, passingRows},
			{transfer, badInputAnyForm},
			{transfer, []row{
				{"a success", 201, recorded, `{}`, final, final},
				{"a success that is not recorded", 200, free, `{}`, final, final},
				{"a redirect", 303, recorded, "", final, final},
				{"a decline", 402, recorded, `{}`, final, final},
				{"a decline, again", 402, replayed, `{}`, final, final},
				{"a decline, from which a proxy took the expiry", 402, "Idempotent-Replayed: true", `{}`, final, final},
				{"a conflict of the handler's own", 409, recorded, `{}`, final, final},
				{"a misused key below the handler", 422, recorded, problem, final, final},
				{"an answer that the handler may give otherwise later", 404, free, `{}`, final, retry},
				{"a redirect that is not recorded", 303, free, "", final, retry},
				{"a conflict of the handler's own that is not recorded", 409, free, `{}`, final, retry},
				{"no credential, by the handler", 401, free, "", retry, retry},
				{"408 by the handler", 408, free, "", retry, retry},
				{"425 by the handler", 425, free, "", retry, retry},
				{"a limit of the handler's own", 429, free, "", retry, retry},
				{"in flight", 409, own + "; Retry-After: 1", problem, inFlight, inFlight},
				{"in flight, for Stripe's clients", 409, own + "; Retry-After: 1", stripes("invalid_request_error"), inFlight, inFlight},
				{"an outcome that has to be resolved", 409, own + "; Retry-After: 60", problem, inFlight, inFlight},
				{"another request", 422, own, problem, misuse, misuse},
				{"another request, for Stripe's clients", 400, own, stripes("idempotency_error"), misuse, misuse},
				{"a malformed key", 400, own, problem, rejected, rejected},
				{"a body that broke off", 400, own + "; Retry-After: 1", problem, notExecuted, notExecuted},
				{"a body that broke off, for Stripe's clients", 400, own + "; Retry-After: 1", stripes("invalid_request_error"), notExecuted, notExecuted},
				{"a body that is too large", 413, own, problem, rejected, rejected},
				{"an answer that is not kept any more", 410, own, problem, indeterminate, indeterminate},
				{"a replay that is refused", 403, own, problem, indeterminate, indeterminate},
				{"a replay that is refused, for Stripe's clients", 403, own, stripes("invalid_request_error"), indeterminate, indeterminate},
				{"too many at once", 429, own + "; Retry-After: 1", problem, notExecuted, notExecuted},
				{"a router's 404", 404, "", "404 page not found", final, retry},
				{"a gateway's 422", 422, "", html, final, retry},
				{"a failure", 500, "", "", retry, retry},
				{"nothing is recorded", 503, own + "; Retry-After: 1", problem, retry, retry},
			}},
		},
	}
}
