package webhook

import "time"

// WorkOS verifies WorkOS's webhooks. A secret is the webhook endpoint's. WorkOS returns an error if a secret is
// missing or invalid.
//
// WorkOS-Signature holds a timestamp t in milliseconds, and under v1 the HMAC-SHA256 of "t.body" in hexadecimal. A
// timestamp may lie three minutes from now, as in WorkOS's own SDKs, unless Verifier.Tolerance is set (all of it read
// in workos-go 27a5c27, webhook_verification.go). Message.Events is the id in the body.
func WorkOS(secrets ...string) (*Verifier, error) {
	v, err := timed("workos", secrets, "Workos-Signature", unixMilliseconds)
	if err == nil {
		v.tolerance = 3 * time.Minute
	}
	return v, err
}
