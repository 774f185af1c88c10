package providers

import (
	"slices"
	"time"
)

// WorkOS describes WorkOS's API.
//
// WorkOS deduplicates one endpoint only, POST /audit_logs/events, by a key in the header Idempotency-Key that is kept
// for 24 hours. Other endpoints accept and ignore the header, which the SDKs send with every POST. Such a request takes
// no key, and is not sent again once it may have run. For the audit log WorkOS guarantees that the same operation
// performed several times has the result of one. A request is therefore repeated after a failure. The result of a key
// that is used with another event is not published.
//
// Sign-ins (POST /user_management/authenticate and /sso/token) and the vault's decryption are never
// journaled, because their answers are secrets. So are answers that issue codes, tokens and links, and
// requests with a password or a value for the vault.
//
// An organization or a user with an external_id is found by it. It is the application's permanent name for the object,
// so the client makes none.
func WorkOS() Provider {
	var found []Endpoint
	for _, o := range []struct{ path, object, same, source string }{
		{"/organizations", "organization", "name", "organizations.go, models.go Organization"},
		{"/user_management/users", "user", "email", "user_management.go, models.go UserCreateResponse"},
	} {
		found = append(found, Endpoint{
			Pattern:       "POST " + o.path,
			SecretRequest: workosSecrets,
			Object:        o.object,
			Reference: Reference{
				Place: KeyJSONField, Name: "external_id", MaxLength: 64, Visible: true, Mutable: true,
				Source: "workos.com/docs/authkit/metadata [D]: unique within the environment, up to 64 characters; an update can change it; visibility: [?]",
			},
			Lookups: []Lookup{{
				By:        ByReference,
				Path:      o.path + "/external_id/{reference}",
				Same:      []Same{{Field: "external_id", Is: "{reference}"}, {Field: o.same, Is: "{request." + o.same + "}", As: AnyCase}},
				ID:        "id",
				Created:   "created_at",
				Means:     []Meaning{{Field: "object", Equals: o.object, Is: TookEffect}},
				SameShape: o.object == "organization", // a user may be answered with an attempt to sign in, too
				Source:    "workos-go 27a5c27 " + o.source + " [S]; when one is found: [?]",
			}},
			Rules:  workosKeyless,
			Source: sourceWorkOS + ": accepted elsewhere, and ignored",
		})
	}
	return Provider{
		Name:             "workos",
		Hosts:            []string{"api.workos.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Endpoints: slices.Concat(
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
				Retention:     24 * time.Hour,
				Remembers:     SuccessesCleanFailures,
				InFlightGuard: true,
				Rules: slices.Concat(
					conflicts("message", "what a conflict means for a key is not published [?]"),
					workosKeyless,
				),
				Source: "workos.com/docs/reference/audit-logs/event [D]: the same operation several times has the result of one, to retry after a failure; 24 hours: workos-go 27a5c27 audit_logs.go [D]",
			}, "POST /audit_logs/events"),
			each(Endpoint{SecretRequest: workosSecrets, Rules: workosKeyless, Source: sourceWorkOS + ": accepted elsewhere, and ignored"}, "/"),
			found,
			each(Endpoint{NoEffect: true, Source: "workos-go 27a5c27 [S]: nothing is changed but a session; the answer is a secret"},
				posts("", "/user_management/authenticate", "/sso/token", "/vault/v1/keys/decrypt")...),
			each(Endpoint{NoEffect: true, Source: "workos-go 27a5c27 [S]: it only looks something up; some of it by a customer's credential"}, posts("",
				"/agents/credentials/validate",
				"/api_keys/validations",
				"/authorization/organization_memberships/{id}/check")...),
			each(Endpoint{
				SecretRequest: []string{"value"},
				Rules:         workosKeyless,
				Source:        sourceWorkOS + ": accepted, and ignored; the value is what the vault keeps: workos-go 27a5c27 [S]",
			}, "POST /vault/v1/kv", "PUT /vault/v1/kv/{id}"),
			each(Endpoint{
				SecretResponse: true,
				Rules:          workosKeyless,
				Source:         sourceWorkOS + ": accepted, and ignored; the answer has a secret: workos-go 27a5c27 [S]",
			}, posts("",
				"/auth/factors/enroll",
				"/client/token",
				"/connect/applications/{id}/client_secrets",
				"/data-integrations/{slug}/token",
				"/organizations/{id}/api_keys",
				"/passwordless/sessions",
				"/portal/generate_link",
				"/sso/logout/authorize",
				"/user_management/authorize/device",
				"/user_management/invitations",
				"/user_management/invitations/{id}/resend",
				"/user_management/magic_auth",
				"/user_management/password_reset",
				"/user_management/users/{id}/api_keys",
				"/user_management/users/{id}/auth_factors",
				"/vault/v1/keys/data-key",
				"/webhook_endpoints",
				"/widgets/token")...),
		),
		Source: sourceWorkOS + "; host: workos-go 27a5c27 [S]; scope of keys: [?]",
	}.Clone()
}

// workosSecrets are the fields for passwords and for customers' credentials.
var workosSecrets = []string{"password", "password_hash", "new_password", "client_secret", "api_key", "access_token", "refresh_token"}

var workosKeyless = refusalsUnlimited("message", sourceWorkOSErrors)

const (
	sourceWorkOS       = "workos-go 27a5c27 README.md [D]"
	sourceWorkOSErrors = "workos-go 27a5c27 [S]: errors carry a message"
)
