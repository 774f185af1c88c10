package providers

import (
	"slices"
	"time"
)

// Resend describes Resend's API.
//
// POST /emails and POST /emails/batch take a key of at most 256 characters in the header Idempotency-Key, kept for 24
// hours. For a single email Resend first looks for a sent email with the key, so a repeat never sends the email again.
// Resend does not say the same of a partly sent batch, so a batch is not sent again once it may have run. All other
// requests (domains, broadcasts, contacts, …) take no key. The scope of keys is not published, so an operation whose
// credential changed is not sent again.
//
// 409 has two meanings: the first request is in progress, or the key was used with another payload. The name
// in the body distinguishes them.
func Resend() Provider {
	rules := slices.Concat(
		[]Rule{
			{Status: 409, Field: "name", Equals: "concurrent_idempotent_requests", Verdict: InFlight, Source: sourceResend},
			{Status: 409, Field: "name", Equals: "invalid_idempotent_request", Verdict: Misuse, Source: sourceResend},
		},
		conflicts("name", sourceResend+": its two 409s mean the opposite of each other; this is neither"),
		[]Rule{
			{Status: 400, Field: "name", Equals: "invalid_idempotency_key", Verdict: Rejected, Source: sourceResend + ": retry with a valid key"},
		},
		resendKeyless,
	)
	email := Endpoint{
		Pattern:       "POST /emails",
		Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key", MinLength: 1, MaxLength: 256},
		Retention:     24 * time.Hour,
		Remembers:     SuccessesCleanFailures,
		InFlightGuard: true,
		Rules:         rules,
		Source:        sourceResend + ": looks for an email that was sent with the key",
	}
	batch := email
	batch.Pattern, batch.Remembers = "POST /emails/batch", Successes
	batch.Source = sourceResend + "; a batch that was sent in part: [?]"
	p := Provider{
		Name:  "resend",
		Hosts: []string{"api.resend.com"},
		Endpoints: []Endpoint{
			email,
			batch,
			{Pattern: "/", Rules: resendKeyless, Source: sourceResend + ": keys are for two endpoints only"},
		},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Source:           sourceResend + "; host: resend-openapi fd6f395 [D]; scope of keys: [?]",
	}
	for _, secret := range []struct{ path, field string }{
		{"/api-keys", "token"},
		{"/webhooks", "signing_secret"},
		{"/emails/{id}/share", "url, which needs no credential"},
	} {
		p.Endpoints = append(p.Endpoints, Endpoint{
			Pattern:        "POST " + secret.path,
			SecretResponse: true,
			Rules:          resendKeyless,
			Source:         "resend-openapi fd6f395 [D]: no key; the answer has a secret: " + secret.field,
		})
	}
	return p.Clone()
}

var resendKeyless = slices.Concat(
	[]Rule{
		{Status: 429, Field: "name", Verdict: NotExecuted, Source: "resend.com/docs/api-reference/rate-limit [D]: too many requests, or a quota that is used up; our reading: it comes before execution"},
	},
	refusals("name", sourceResendErrors),
)

const (
	sourceResend       = "resend.com/docs/dashboard/emails/idempotency-keys [D]"
	sourceResendErrors = "resend.com/docs/api-reference/errors [D]: errors carry a name"
)
