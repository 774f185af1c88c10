package providers

import (
	"slices"
	"time"
)

// Mangopay describes Mangopay's API, live and sandbox.
//
// Every POST takes a key in Idempotency-Key: 16 to 36 letters, digits and hyphens. For
// 24 hours Mangopay blocks all but the first request with a key, whatever became of
// it, so that a request that may have run is sent again: if the first never arrived, it
// is executed. If it did, the answer is 409 with the type idempotent_creation_conflict,
// which says that there was one and not what it came to: the operation is unknown, and
// GET /v2.01/{client}/responses/{key} has the answer of the first for 24 hours.
//
// A first request that failed keeps the key as well: after a failure that was received,
// a repeat is blocked too. The other methods take no key. OAuth tokens are passed
// through.
func Mangopay() Provider {
	p := Provider{
		Name:    "mangopay",
		Hosts:   []string{"api.mangopay.com", "api.sandbox.mangopay.com"},
		Answers: jsonAnswers,
		Source:  sourceMangopay + "; the sandbox's host: [M]; keys are looked up by client: docs.mangopay.com/api-reference/api-responses/view-api-response [D]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: mangopayKeyless, Source: sourceMangopay + ": POST only"}, "/"),
			each(Endpoint{NoEffect: true, Source: "docs.mangopay.com [D]: the OAuth token endpoint"}, "POST /{version}/oauth/token"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key", MinLength: 16, MaxLength: 36, Alphabet: alphanumeric + "-"},
				Retention:     24 * time.Hour,
				Remembers:     Everything,
				InFlightGuard: true,
				Rules: slices.Concat(
					[]Rule{
						{Status: 409, Field: "Type", Equals: "idempotent_creation_conflict", Verdict: Indeterminate, Source: sourceMangopay + ": all but the first request are blocked, whatever its answer was"},
						{Status: 409, Verdict: Indeterminate, Source: "docs.mangopay.com/errors/http-response-codes [D]: not processed, since there is one with the key"},
					},
					mangopayKeyless,
				),
				Source: sourceMangopay + ": all but the first within 24 hours are blocked; a request is only processed once",
			}, "POST /"),
		),
	}
	return p.Clone()
}

const sourceMangopay = "docs.mangopay.com/api-reference/overview/idempotency [D]"

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

var mangopayKeyless = refusals("Type", sourceMangopay+": its errors have a Type")
