package providers

import (
	"slices"
	"time"
)

// Marqeta describes Marqeta's Core API. Name the host of your program: "sandbox-api.marqeta.com" for the
// sandbox.
//
// A POST that creates an object has the object's primary token in the field token of the JSON body. A repeat with the
// same token and content gets 201 again, as long as the object exists. Retention is 90 days, as long as a journal keeps
// answers. Another content is an error. What a second request during the first gets, and whether a failure uses the
// token up, is not published. So nothing is sent again.
//
// The token is the object's name at Marqeta. Cards and users are found by it.
func Marqeta(hosts ...string) Provider {
	return Provider{
		Name:             "marqeta",
		Hosts:            hosts,
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Source:           sourceMarqeta + "; scope of tokens: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: marqetaRules, Source: sourceMarqeta + ": only a creation has a primary token"}, "/"),
			each(marqetaCreation(""), "POST /v3/{objects}"),
			each(marqetaCreation("card", marqetaCard), "POST /v3/cards"),
			each(marqetaCreation("user", marqetaUser), "POST /v3/users"),
		),
	}.Clone()
}

// marqetaCreation creates an object, which the look-ups find.
func marqetaCreation(object string, looks ...Lookup) Endpoint {
	return Endpoint{
		Key:       Key{Place: KeyJSONField, Name: "token", MaxLength: 36},
		Retention: 90 * 24 * time.Hour,
		Remembers: Successes,
		Object:    object,
		ObjectID:  "token",
		Lookups:   looks,
		Rules:     marqetaRules,
		Source:    sourceMarqeta + ": all POST calls with the primary token; a repeat with the same content gets 201; length: [M]; failures and guard: [?]",
	}
}

const sourceMarqeta = "marqeta.com/docs/core-api/idempotency [D]"

var (
	// marqetaCard is not the create's answer, which may show the card's whole number.
	marqetaCard = Lookup{
		By:   ByKey,
		Path: "/v3/cards/{key}",
		Same: []Same{
			{Field: "token", Is: "{key}"},
			{Field: "user_token", Is: "{request.user_token}", Optional: true},
			{Field: "card_product_token", Is: "{request.card_product_token}", Optional: true},
		},
		ID:      "token",
		Created: "created_time",
		Means:   states("state", TookEffect.of("UNACTIVATED", "ACTIVE", "SUSPENDED"), Reversed.of("TERMINATED")),
		Source: "marqeta.com/docs/core-api/cards/retrieve [D]: by its token, the number is masked; fields: marqeta-python 66fa690 card_response.py [S]; " +
			"states: marqeta.com/docs/core-api/card-transitions/card-transitions-object [D]; when one is found: [?]",
	}

	marqetaUser = Lookup{
		By:        ByKey,
		Path:      "/v3/users/{key}",
		Same:      []Same{{Field: "token", Is: "{key}"}},
		ID:        "token",
		Created:   "created_time",
		Means:     states("status", TookEffect.of("UNVERIFIED", "LIMITED", "ACTIVE", "SUSPENDED"), Reversed.of("CLOSED", "TERMINATED")),
		SameShape: true,
		Source: "marqeta.com/docs/core-api/users/retrieve-user [D]: by its token; one type for both answers: marqeta-python 66fa690 users.py [S]; " +
			"states: marqeta.com/docs/core-api/user-transitions [D]; when one is found: [?]",
	}
)

var marqetaRules = slices.Concat(
	conflicts("error_code", sourceMarqeta+": the token with another content is an error; its status: [?]"),
	refusalsUnlimited("error_code", "marqeta.com/docs/core-api/errors [M]: errors have an error_code"),
)
