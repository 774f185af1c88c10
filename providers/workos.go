package providers

import (
	"slices"
	"time"
)

// WorkOS describes WorkOS's API.
//
// WorkOS deduplicates one endpoint only, POST /audit_logs/events, by a key in the
// header Idempotency-Key that is kept for 24 hours. Everywhere else it accepts the
// header, which its SDKs send with every POST, and ignores it: such a request takes
// no key, and is not sent again once it may have run. For the audit log, what a
// failure leaves behind, how a second request is answered while the first is worked
// on and what becomes of a key that is used with another event is not published, so
// that it is not sent again either.
//
// Signing in (POST /user_management/authenticate and /sso/token) and the vault's
// decryption are never journaled: their answers are secrets.
func WorkOS() Provider {
	p := Provider{
		Name:  "workos",
		Hosts: []string{"api.workos.com"},
		Endpoints: []Endpoint{
			{
				Pattern:   "POST /audit_logs/events",
				Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
				Retention: 24 * time.Hour,
				Remembers: Successes,
				Rules: slices.Concat(
					[]Rule{
						{Status: 409, Verdict: Indeterminate, Source: "what a conflict means for a key is not published [?]"},
					},
					refusals("message", sourceWorkOSErrors),
				),
				Source: sourceWorkOS + "; 24 hours: workos-go 27a5c27 audit_logs.go [D]; failures, in flight, mismatch: [?]",
			},
			{
				Pattern: "/",
				Rules:   refusals("message", sourceWorkOSErrors),
				Source:  sourceWorkOS + ": accepted elsewhere, and ignored",
			},
		},
		Source: sourceWorkOS + "; host: workos-go 27a5c27 [S]",
	}
	for _, path := range []string{"/user_management/authenticate", "/sso/token", "/vault/v1/keys/decrypt"} {
		p.Endpoints = append(p.Endpoints, Endpoint{
			Pattern:  "POST " + path,
			NoEffect: true,
			Source:   "workos-go 27a5c27 [S]: nothing is changed but a session; the answer is a secret",
		})
	}
	for _, path := range []string{
		"/client/token",
		"/connect/applications/{id}/client_secrets",
		"/data-integrations/{slug}/token",
		"/organizations/{id}/api_keys",
		"/portal/generate_link",
		"/user_management/users/{id}/api_keys",
		"/vault/v1/keys/data-key",
		"/webhook_endpoints",
		"/widgets/token",
	} {
		p.Endpoints = append(p.Endpoints, Endpoint{
			Pattern:        "POST " + path,
			SecretResponse: true,
			Rules:          refusals("message", sourceWorkOSErrors),
			Source:         sourceWorkOS + ": accepted, and ignored; the answer has a secret: workos-go 27a5c27 [S]",
		})
	}
	return *p.clone()
}

const (
	sourceWorkOS       = "workos-go 27a5c27 README.md [D]"
	sourceWorkOSErrors = "workos-go 27a5c27 [S]: errors carry a message"
)
