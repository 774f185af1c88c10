package webhook

import (
	"crypto/sha256"
	"net/http"
	"time"
)

// Increase verifies Increase's webhooks. A secret is the event subscription's shared
// secret: its text is the key, whsec_ and all, if it begins so. An error says that one
// is missing or can't be one.
//
// The headers and what is signed are those of [StandardWebhooks] (read in increase-go
// ca1c95b, event.go); Message.ID is then webhook-id. Where webhook-id is missing,
// Increase-Webhook-Signature is read in its place, which came before it: a timestamp t
// by RFC 3339, and under v1 the HMAC-SHA256 of "t.body" in hexadecimal (read in the
// tests of increase-java, WebhookServiceTest). Message.Events is the id in the body.
func Increase(secrets ...string) (*Verifier, error) {
	const scheme = "increase"
	keys, err := newSecrets(scheme, secrets, asGiven)
	if err != nil {
		return nil, err
	}
	standard := standardKeys{symmetric: keys}
	return &Verifier{scheme: scheme, verify: func(r *http.Request, body []byte) (Message, error) {
		const earlier = "Increase-Webhook-Signature"
		if len(r.Header.Values("Webhook-Id")) > 0 || len(r.Header.Values(earlier)) == 0 {
			m, err := standard.verify(r, body)
			if err == nil {
				m.Events = idOf(body)
			}
			return m, err
		}
		t, signatures, err := timedSignature(r.Header, earlier, func(text string) (time.Time, bool) {
			t, err := time.Parse(time.RFC3339, text)
			return t, err == nil
		})
		if err != nil {
			return Message{}, err
		}
		if !keys.signed(sha256.New, signatures, []byte(t.text), []byte("."), body) {
			return Message{}, noMatch()
		}
		return Message{Timestamp: t.Time, Events: idOf(body)}, nil
	}}, nil
}
