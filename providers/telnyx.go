package providers

import "slices"

// Telnyx describes Telnyx's API.
//
// A POST may take a key in Idempotency-Key: 1 to 255 letters, digits, hyphens, underscores and colons. Which endpoints
// do, and with which contract, their own reference says, so nothing rests on the key here. In general only a success is
// replayed, for up to 24 hours: that is no lower bound, and none is claimed. Keys belong to organization, method and
// path. Another body or query gets 422, as other invalid requests do, and bodies are compared byte by byte.
//
// If your endpoint's reference promises a retention and a guard, set Retention and InFlightGuard.
func Telnyx() Provider {
	p := Provider{
		Name:    "telnyx",
		Hosts:   []string{"api.telnyx.com"},
		Answers: jsonAnswers,
		Source:  sourceTelnyx + "; scope of keys: the organization, whatever its API key",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: telnyxRules, Source: sourceTelnyx + ": where the endpoint's reference says so"}, "/"),
			each(Endpoint{
				Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key", MinLength: 1, MaxLength: 255, Alphabet: alphanumeric + "_:-"},
				Remembers: Successes,
				Rules:     telnyxRules,
				Source:    sourceTelnyx + ": only successes are replayed, for up to 24 hours; endpoints may differ; guard: [?]",
			}, "POST /v2/"),
		),
	}
	return p.Clone()
}

const sourceTelnyx = "developers.telnyx.com/docs/development/api-fundamentals/idempotency [D]"

var telnyxRules = slices.Concat(
	conflicts("errors[].code", "what a conflict means for a key is said per endpoint [?]"),
	refusalsUnlimited("errors[].code", "developers.telnyx.com [M]: errors have a code"),
)
