package webhook

import (
	"net/http"
	"time"
)

// Increase verifies Increase's webhooks. A secret is the event subscription's shared secret: its text is the key, and
// so is a whsec_ in front. Increase returns an error if a secret is missing or invalid.
//
// The headers and the signed text are those of [StandardWebhooks] (read in increase-go ca1c95b, event.go), and
// Message.ID is then webhook-id. If webhook-id is missing, the older Increase-Webhook-Signature is read in its place.
// It holds a timestamp t by RFC 3339, and under v1 the HMAC-SHA256 of "t.body" in hexadecimal (read in the tests of
// increase-java, WebhookServiceTest). Message.Events is the id in the body.
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
		return keys.timed(r, body, earlier, func(text string) (time.Time, bool) {
			t, err := time.Parse(time.RFC3339, text)
			return t, err == nil
		})
	}}, nil
}
