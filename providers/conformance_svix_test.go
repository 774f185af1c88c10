package providers_test

import "github.com/onceward/onceward/providers"

func svixContract() contract {
	const (
		message = "POST https://api.eu.svix.com/api/v1/app/app_1/msg"
		update  = "PUT https://api.eu.svix.com/api/v1/app/app_1"

		conflict = `{"code":"conflict","detail":"An entity with that uid already exists"}`
	)
	quoted := []string{`"` + conformanceKey + `"`}
	return contract{
		adapter: providers.Svix("svix.example.com:8071"),
		terms: []terms{
			{
				requests: []string{
					message,
					"POST https://api.svix.com/api/v1/app",
					"POST https://api.us.svix.com/api/v1/app/app_1/endpoint",
					"POST https://api.in.svix.com/api/v1/app",
					"POST https://api.ca.svix.com/api/v1/app",
					"POST https://api.au.svix.com/api/v1/app",
					"POST http://svix.example.com:8071/api/v1/app",
				},
				key: "raw header Idempotency-Key", refuses: quoted,
				retention: day / 2, remembers: successes, refusals: true,
			},
			{
				requests: []string{
					"POST https://api.eu.svix.com/api/v1/auth/app-portal-access/app_1",
					"POST https://api.eu.svix.com/api/v1/management/authentication/env_1/api-token",
					"POST https://api.eu.svix.com/api/v1/app/app_1/destination/d_1/secret/rotate",
					"POST https://api.eu.svix.com/api/v1/app/app_1/inbound/rotate-url",
					"POST https://api.eu.svix.com/api/v1/app/app_1/integration/integ_1/key/rotate",
					"POST https://api.eu.svix.com/api/v1/app/app_1/stream/sink/sink_1/secret/rotate",
					"POST https://api.eu.svix.com/api/v1/stream/strm_1/sink/sink_1/secret/rotate",
					"POST https://api.eu.svix.com/ingest/api/v1/source/src_1/dashboard",
					"POST https://api.eu.svix.com/ingest/api/v1/source/src_1/token/rotate",
				},
				key: "raw header Idempotency-Key", refuses: quoted,
				retention: day / 2, remembers: successes, refusals: true, secret: true,
			},
			{requests: []string{update, "DELETE https://api.eu.svix.com/api/v1/app/app_1"}},
		},
		noEffect: []string{
			"POST https://api.eu.svix.com/api/v1/app/app_1/msg/precheck/active",
			"POST https://api.eu.svix.com/api/v1/app/app_1/msg/search",
			"POST https://api.eu.svix.com/api/v1/app/app_1/endpoint/ep_1/transformation/simulate",
			"POST https://api.eu.svix.com/api/v1/connector/simulate",
			"POST https://api.eu.svix.com/api/v1/stream/transformations/simulate",
		},
		sent: []sent{{
			message + "\n\n{}",
			"POST /api/v1/app/app_1/msg HTTP/1.1\nHost: api.eu.svix.com\nContent-Length: 2\nIdempotency-Key: " + conformanceKey + "\n\n{}",
		}},
		answers: []answers{
			{update, refusedRows},
			{update, passingRows},
			{update, []row{{"a conflict, where no key can be in use", 409, "", conflict, final, indeterminate}}},
			{message, refusedRows},
			{message, passingRows},
			{message, badInput},
			{message, []row{
				{"accepted, or the first answer again", 202, "", `{"id":"msg_1"}`, final, final},
				{"a conflict, perhaps with ourselves", 409, "", conflict, indeterminate, indeterminate},
				{"a refusal", 422, "", conflict, final, indeterminate},
				{"a conflict that is not Svix's", 409, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"a lock that could not be had", 500, "", "", retry, retry},
			}},
		},
		ownKey: []answers{{message, ownKeyRows(conflict)}},
	}
}
