package webhook

import (
	"crypto/sha256"
	"net/http"
	"time"
)

// WorkOS verifies WorkOS's webhooks. A secret is the webhook endpoint's. WorkOS returns an error if a secret is
// missing or invalid.
//
// WorkOS-Signature holds a timestamp t in milliseconds, and under v1 the HMAC-SHA256 of "t.body" in hexadecimal. A
// timestamp may lie three minutes from now, as in WorkOS's own SDKs, unless Verifier.Tolerance is set (all of it read
// in workos-go 27a5c27, webhook_verification.go). Message.Events is the id in the body.
func WorkOS(secrets ...string) (*Verifier, error) {
	const scheme = "workos"
	keys, err := newSecrets(scheme, secrets, asGiven)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, tolerance: 3 * time.Minute, verify: func(r *http.Request, body []byte) (Message, error) {
		t, signatures, err := timedSignature(r.Header, "Workos-Signature", unixMilliseconds)
		if err != nil {
			return Message{}, err
		}
		if !keys.signed(sha256.New, signatures, []byte(t.text), []byte("."), body) {
			return Message{}, noMatch()
		}
		return Message{Timestamp: t.Time, Events: idOf(body)}, nil
	}}, nil
}
