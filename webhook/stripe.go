package webhook

import (
	"crypto/sha256"
	"net/http"
)

// Stripe verifies Stripe's webhooks. A secret is an endpoint's signing secret, whsec_ included: its text is the key.
// Stripe returns an error if a secret is missing, empty or padded with white space.
//
// Stripe-Signature holds a timestamp t, and under v1 one hexadecimal HMAC-SHA256 of "t.body" for each of the
// endpoint's secrets. There are several while one is rotated. Other schemes are ignored (all of it read in stripe-go
// a1e3932, webhook/client.go). Message.Events is the event's id. Stripe may deliver an event more than once and in
// any order (reported, quoting Stripe's pages).
func Stripe(signingSecrets ...string) (*Verifier, error) {
	const scheme = "stripe"
	keys, err := newSecrets(scheme, signingSecrets, asGiven)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, verify: func(r *http.Request, body []byte) (Message, error) {
		t, signatures, err := timedSignature(r.Header, "Stripe-Signature", unixSeconds)
		if err != nil {
			return Message{}, err
		}
		if !keys.signed(sha256.New, signatures, []byte(t.text), []byte("."), body) {
			return Message{}, noMatch()
		}
		return Message{Timestamp: t.Time, Events: member(body, "id")}, nil
	}}, nil
}
