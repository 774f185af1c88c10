package providers

import (
	"slices"
	"time"
)

// Bridge describes Bridge's API for stablecoins (bridge.xyz), live and sandbox.
//
// Every POST requires a key in Idempotency-Key. For 24 hours a repeat gets the original response, without side effects
// or a duplicate. Bridge says, without exception, that a request which failed or timed out can be sent again and
// creates one object only. The client sends it again. After 24 hours the key gets a 422, which does not refuse the
// operation: on a later attempt it is Indeterminate. Bridge compares bodies, and a key that was used with another one
// gets an idempotency error. The error's status and code are not published, so the error counts as any other error.
//
// PATCH and DELETE are idempotent by Bridge's documentation and take no key.
func Bridge() Provider {
	return Provider{
		Name:             "bridge",
		Hosts:            []string{"api.bridge.xyz", "api.sandbox.bridge.xyz"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Source:           sourceBridge + "; the sandbox's host: [M]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: bridgeKeyless, Source: sourceBridge + ": keys are for POST only"}, "/"),
			each(Endpoint{Idempotent: true, Rules: bridgeKeyless, Source: sourceBridge + ": naturally idempotent"}, "PATCH /", "DELETE /"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
				Retention:     24 * time.Hour,
				Remembers:     SuccessesCleanFailures,
				InFlightGuard: true,
				Rules:         bridgeRules,
				Source:        sourceBridge + ": what fails or times out is safely retried, only one object is ever created; any repeat has no side effects; another body under a key returns an idempotency error",
			}, "POST /"),
		),
	}.Clone()
}

const sourceBridge = "apidocs.bridge.xyz/api-reference/introduction/idempotence [D]"

var (
	bridgeRules = slices.Concat(
		conflicts("code", "what a conflict means for a key is not published [?]"),
		bridgeKeyless,
	)

	bridgeKeyless = refusalsUnlimited("code", "apidocs.bridge.xyz [M]: errors have a code")
)
