package providers

import (
	"slices"
	"time"
)

// Chargebee describes Chargebee's billing API (SITE.chargebee.com).
//
// A POST takes a key of at most 100 characters in chargebee-idempotency-key. A repeat with the same parameters gets
// the recorded response, marked chargebee-idempotency-replayed: true. The API's page says 30 minutes, the SDK's
// says 24 hours: 30 minutes are claimed. What is kept of a failure, and what a second request during the first
// gets, is not published. So nothing is sent again. Estimates take no key and change nothing: they pass through.
func Chargebee() Provider {
	p := Provider{
		Name:             "chargebee",
		Hosts:            []string{"*.chargebee.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		ReplayHeader:     "Chargebee-Idempotency-Replayed", ReplayValue: "true",
		SecretSource: "apidocs.chargebee.com [M]: the number and the code of a card; our reading: no other field is secret",
		Source:       sourceChargebee + "; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: chargebeeRules, SecretRequest: chargebeeCards, Source: sourceChargebee + ": POST only"}, "/"),
			each(Endpoint{NoEffect: true, Source: sourceChargebee + ": estimates do not support keys; our reading: they only compute"}, "POST /api/v2/estimates/"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "Chargebee-Idempotency-Key", MaxLength: 100},
				Retention:     30 * time.Minute,
				Remembers:     Successes,
				SecretRequest: chargebeeCards,
				Rules:         chargebeeRules,
				Source:        sourceChargebee + ": the record's response for 30 minutes; 24 hours by the README of chargebee-node [S]; failures and guard: [?]",
			}, "POST /"),
		),
	}
	return p.Clone()
}

const sourceChargebee = "apidocs.chargebee.com/docs/api/v1/idempotency [D]"

var (
	chargebeeCards = []string{"card.number", "card.cvv"}
	chargebeeRules = slices.Concat(
		conflicts("api_error_code", "what a conflict means for a key is not published [?]"),
		refusalsUnlimited("api_error_code", "apidocs.chargebee.com [M]: errors have an api_error_code"),
	)
)
