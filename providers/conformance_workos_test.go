package providers_test

import "github.com/onceward/onceward/providers"

func workOSContract() contract {
	const (
		event        = "POST https://api.workos.com/audit_logs/events"
		organization = "POST https://api.workos.com/organizations"

		invalid = `{"message":"Validation failed","code":"invalid_request_parameters"}`
	)
	return contract{
		adapter: providers.WorkOS(),
		terms: []terms{
			{
				requests: []string{event},
				key:      "raw header Idempotency-Key", refuses: []string{`"` + conformanceKey + `"`},
				retention: day, remembers: cleanFailures, guard: true, resent: true,
			},
			{requests: []string{organization, "POST https://api.workos.com/user_management/users", "POST https://api.workos.com/audit_logs/exports", "PUT https://api.workos.com/organizations/1"}, secretFields: []string{"password", "password_hash", "new_password", "client_secret", "api_key", "access_token", "refresh_token"}},
			{requests: []string{"POST https://api.workos.com/vault/v1/kv", "PUT https://api.workos.com/vault/v1/kv/1"}, secretFields: []string{"value"}},
			{
				requests: []string{
					"POST https://api.workos.com/auth/factors/enroll",
					"POST https://api.workos.com/passwordless/sessions",
					"POST https://api.workos.com/sso/logout/authorize",
					"POST https://api.workos.com/user_management/authorize/device",
					"POST https://api.workos.com/user_management/invitations",
					"POST https://api.workos.com/user_management/invitations/1/resend",
					"POST https://api.workos.com/user_management/magic_auth",
					"POST https://api.workos.com/user_management/password_reset",
					"POST https://api.workos.com/user_management/users/1/auth_factors",
					"POST https://api.workos.com/client/token",
					"POST https://api.workos.com/connect/applications/1/client_secrets",
					"POST https://api.workos.com/data-integrations/slack/token",
					"POST https://api.workos.com/organizations/1/api_keys",
					"POST https://api.workos.com/portal/generate_link",
					"POST https://api.workos.com/user_management/users/1/api_keys",
					"POST https://api.workos.com/vault/v1/keys/data-key",
					"POST https://api.workos.com/webhook_endpoints",
					"POST https://api.workos.com/widgets/token",
				},
				secret: true,
			},
		},
		noEffect: []string{
			"POST https://api.workos.com/user_management/authenticate",
			"POST https://api.workos.com/sso/token",
			"POST https://api.workos.com/agents/credentials/validate",
			"POST https://api.workos.com/api_keys/validations",
			"POST https://api.workos.com/authorization/organization_memberships/1/check",
			"POST https://api.workos.com/vault/v1/keys/decrypt",
		},
		sent: []sent{
			{
				event + "\n\n{}",
				"POST /audit_logs/events HTTP/1.1\nHost: api.workos.com\nContent-Length: 2\nIdempotency-Key: " + conformanceKey + "\n\n{}",
			},
			{
				organization + "\n\n{}",
				"POST /organizations HTTP/1.1\nHost: api.workos.com\nContent-Length: 2\n\n{}",
			},
		},
		answers: []answers{
			{organization, refusedRows},
			{organization, passingRows},
			{organization, []row{{"a conflict, where no key can be in use", 409, "", invalid, final, indeterminate}}},
			{event, refusedRows},
			{event, passingRows},
			{event, badInput},
			{event, []row{
				{"recorded", 201, "", `{"success":true}`, final, final},
				{"a refusal", 422, "", invalid, final, indeterminate},
				{"409, which is not documented", 409, "", invalid, indeterminate, indeterminate},
				{"500", 500, "", "", retry, retry},
			}},
		},
		ownKey: []answers{{event, ownKeyRows(invalid)}},
	}
}

// As in workos-go 27a5c27 models.go.
func workosLooks() []look {
	const (
		content      = "\nContent-Type: application/json\n\n"
		organization = `{"object":"organization","id":"org_1","name":"Foo Corp","domains":[],"metadata":{},"external_id":"2fe01467","created_at":"2026-11-20T12:00:01.155Z","updated_at":"2026-11-20T12:00:01.155Z"}`
		user         = `{"object":"user","id":"user_1","email":"marcelina@example.com","email_verified":false,"external_id":"2fe01467","created_at":"2026-11-20T12:00:01.155Z","updated_at":"2026-11-20T12:00:01.155Z"}`
	)
	create := "POST https://api.workos.com/organizations" + content + `{"name":"Foo Corp","external_id":"2fe01467"}`
	join := "POST https://api.workos.com/user_management/users" + content + `{"email":"Marcelina@example.com","external_id":"2fe01467"}`
	asked, users := []string{"GET /organizations/external_id/2fe01467"}, []string{"GET /user_management/users/external_id/2fe01467"}
	return []look{
		{name: "an organization", request: create, asks: asked, page: organization, want: lookalike("org_1", providers.TookEffect, true)},
		{name: "an organization from before", request: create, asks: asked, page: swap(organization, `"created_at":"2026-11-20`, `"created_at":"2026-11-19`), want: ambiguousAt(false, "org_1")},
		{name: "an organization of another name", request: create, asks: asked, page: swap(organization, "Foo Corp", "Bar Corp"), want: ambiguousAt(false, "org_1")},
		{name: "no organization", request: create, asks: asked, page: `{"message":"Not Found","code":"entity_not_found"}`, want: nothing(false)},
		{name: "an organization without an external id", request: swap(create, `,"external_id":"2fe01467"`, "")},
		{name: "a user", request: join, asks: users, page: user, want: lookalike("user_1", providers.TookEffect, false)},
		{name: "another user", request: join, asks: users, page: swap(user, "marcelina", "marcel"), want: ambiguousAt(false, "user_1")},
	}
}
