package providers

import "slices"

// Flutterwave describes version 4 of Flutterwave's API, live and sandbox.
//
// Every POST takes a key in X-Idempotency-Key. A repeat gets the original response, marked
// X-Idempotency-Cache-Hit: true. Flutterwave does not publish how long it remembers a key, what it keeps of a failure, or
// what a second request during the first gets. So nothing is sent again.
func Flutterwave() Provider {
	p := Provider{
		Name:         "flutterwave",
		Hosts:        []string{"api.flutterwave.cloud", "f4bexperience.flutterwave.com", "developersandbox-api.flutterwave.com"},
		Answers:      jsonAnswers,
		ReplayHeader: "X-Idempotency-Cache-Hit", ReplayValue: "true",
		Source: sourceFlutterwave + "; live hosts: [M]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: flutterwaveRules, Source: sourceFlutterwave + ": POST only"}, "/"),
			each(Endpoint{
				Key:       Key{Place: KeyRawHeader, Name: "X-Idempotency-Key"},
				Remembers: Successes,
				Rules:     flutterwaveRules,
				Source:    sourceFlutterwave + ": all POST endpoints, the original response; retention, failures and guard: [?]",
			}, "POST /"),
		),
	}
	return p.Clone()
}

const sourceFlutterwave = "developer.flutterwave.com/docs/idempotency [D]"

var flutterwaveRules = slices.Concat(
	conflicts("status", "what a conflict means for a key is not published [?]"),
	refusalsUnlimited("status", "developer.flutterwave.com [M]: errors have a status"),
)
