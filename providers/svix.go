package providers

import (
	"slices"
	"time"
)

// Svix describes Svix's API: the hosts of Svix's cloud and, if given, your own servers' hosts.
//
// Every POST takes a key in the header Idempotency-Key. A success is kept for 12 hours under a hash of the
// Authorization header, the key and the URL, so an operation whose credential changed is not sent again. The
// body is not compared: a key that was used before gets the first answer, whatever the body is.
//
// Any answer but a 2xx is forgotten and executed again, and the effects of a failure are not documented. A
// second request waits for the first at the server, but only for 5 seconds. Then the lock ends, and the
// second one runs too. That is no guard, and Svix does not declare how long a request takes at most, so there
// is no handling time either. Nothing is sent again once it may have run. A server without a cache (neither
// Redis nor memory) ignores keys.
//
// Messages are found by their eventId, which is unique in an environment for a day.
//
// The answers of the endpoints that issue tokens are secrets.
func Svix(hosts ...string) Provider {
	keyed := Endpoint{
		Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Retention: 12 * time.Hour,
		Remembers: Successes,
		Rules: slices.Concat(
			conflicts("code", sourceSvixSpec+": a conflict, as with the eventId of a message that the same request may have sent"),
			svixKeyless,
		),
		Source: sourceSvix + "; length: [?]",

		RefusalsRegisterNoKey: true,
	}
	return Provider{
		Name: "svix",
		Hosts: append([]string{
			"api.svix.com",
			"api.us.svix.com", "api.eu.svix.com", "api.in.svix.com", "api.ca.svix.com", "api.au.svix.com",
		}, hosts...),
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Endpoints: slices.Concat(
			each(Endpoint{Rules: svixKeyless, Source: sourceSvix + ": POST only"}, "/"),
			each(Endpoint{NoEffect: true, Source: sourceSvixSpec + ": looks something up or tries it out"}, posts("",
				"/api/v1/app/{app}/msg/precheck/active",
				"/api/v1/app/{app}/msg/search",
				"/api/v1/app/{app}/endpoint/{endpoint}/transformation/simulate",
				"/api/v1/connector/simulate",
				"/api/v1/stream/transformations/simulate")...),
			each(keyed, "POST /"),
			[]Endpoint{svixMessages(keyed), svixApplications(keyed)},
			each(secretly(keyed, "; the answer has a token, or a URL with one: "+sourceSvixSpec), posts("",
				"/api/v1/auth/",
				"/api/v1/management/authentication/{env}/api-token",
				"/api/v1/app/{app}/destination/{destination}/secret/rotate",
				"/api/v1/app/{app}/inbound/rotate-url",
				"/api/v1/app/{app}/integration/{integration}/key/rotate",
				"/api/v1/app/{app}/stream/sink/{sink}/secret/rotate",
				"/api/v1/stream/{stream}/sink/{sink}/secret/rotate",
				"/ingest/api/v1/source/{source}/dashboard",
				"/ingest/api/v1/source/{source}/token/rotate")...),
		),
		Identity: Identity{Path: "/api/v1/auth/whoami", Field: "envId", Source: sourceSvixSpec + " WhoamiOut: the environment of the token"},
		Source:   sourceSvix + "; hosts: svix-webhooks 4fc0cfb go/svix.go [S]",
	}.Clone()
}

// svixMessages has the messages' own id, which is unique for a day.
func svixMessages(keyed Endpoint) Endpoint {
	keyed.Pattern = "POST /api/v1/app/{app}/msg"
	keyed.Object = "message"
	keyed.Reference = Reference{
		Place: KeyJSONField, Name: "eventId", MaxLength: 256, Alphabet: svixAlphabet,
		Source: sourceSvixSpec + " MessageIn; nothing changes a message",
	}
	keyed.Lookups = []Lookup{{
		By:        ByReference,
		Path:      "/api/v1/app/{path.app}/msg/{reference}",
		Same:      []Same{{Field: "eventId", Is: "{reference}"}},
		ID:        "id",
		Created:   "timestamp",
		Means:     []Meaning{{Field: "id", Is: TookEffect}},
		SameShape: true,
		Source:    sourceSvixSpec + " get-message: by its id or its eventId",
	}}
	return keyed
}

// svixApplications finds applications by their uid. It can be changed, and names the application permanently,
// so the client makes none.
func svixApplications(keyed Endpoint) Endpoint {
	keyed.Pattern = "POST /api/v1/app"
	keyed.Object = "application"
	keyed.Reference = Reference{
		Place: KeyJSONField, Name: "uid", MaxLength: 256, Alphabet: svixAlphabet, Visible: true, Mutable: true,
		Source: sourceSvixSpec + " ApplicationIn; visibility: [?]",
	}
	keyed.Lookups = []Lookup{{
		By:   ByReference,
		Path: "/api/v1/app/{reference}",
		Same: []Same{
			{Field: "uid", Is: "{reference}"},
			{Field: "name", Is: "{request.name}"},
		},
		ID:        "id",
		Created:   "createdAt",
		Means:     []Meaning{{Field: "id", Is: TookEffect}},
		SameShape: true,
		Source:    sourceSvixSpec + " get-application: by its id or its uid",
	}}
	return keyed
}

const svixAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

var svixKeyless = refusalsUnlimited("code", sourceSvixErrors)

const (
	sourceSvix       = "svix-webhooks 4fc0cfb server/svix-server/src/core/idempotency.rs [S]"
	sourceSvixSpec   = "svix-webhooks 4fc0cfb codegen/lib-openapi.json [D]"
	sourceSvixErrors = sourceSvixSpec + ": errors carry a code; it does not say what else they prove"
)
