package providers_test

import "github.com/onceward/onceward/providers"

func workOSContract() contract {
	const (
		event        = "POST https://api.workos.com/audit_logs/events"
		organization = "POST https://api.workos.com/organizations"
	)
	return contract{
		adapter: providers.WorkOS(),
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
