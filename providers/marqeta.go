package providers

import (
	"slices"
	"time"
)

// Marqeta describes Marqeta's Core API. Name the host of your program: "sandbox-api.marqeta.com" for the
// sandbox.
//
// A POST that creates an object has the object's primary token in the field token of its JSON body. A repeat with the
// same token and content gets 201 again, as long as the object exists. Retention is 90 days, as long as a journal
// keeps answers. Another content is an error. What a second request during the first gets, and whether a failure
// uses the token up, is not published. So nothing is sent again.
//
// The token is the object's name at Marqeta: GET with it at the end of the path shows whether it exists.
func Marqeta(hosts ...string) Provider {
	p := Provider{
		Name:             "marqeta",
		Hosts:            hosts,
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Source:           sourceMarqeta + "; scope of tokens: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: marqetaRules, Source: sourceMarqeta + ": only a creation has a primary token"}, "/"),
			each(Endpoint{
				Key:       Key{Place: KeyJSONField, Name: "token", MaxLength: 36},
				Retention: 90 * 24 * time.Hour,
				Remembers: Successes,
				Rules:     marqetaRules,
				Source:    sourceMarqeta + ": all POST calls with the primary token; a repeat with the same content gets 201; length: [M]; failures and guard: [?]",
			}, "POST /v3/{objects}"),
		),
	}
	return p.Clone()
}

const sourceMarqeta = "marqeta.com/docs/core-api/idempotency [D]"

var marqetaRules = slices.Concat(
	conflicts("error_code", sourceMarqeta+": the token with another content is an error; its status: [?]"),
	refusalsUnlimited("error_code", "marqeta.com/docs/core-api/errors [M]: errors have an error_code"),
)
