package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// Stripe verifies Stripe's webhooks. A secret is an endpoint's signing secret,
// whsec_ and all: its text is the key. An error says that a secret is missing,
// empty or padded with white space.
//
// Stripe-Signature holds a timestamp t, and under v1 one hexadecimal HMAC-SHA256
// of "t.body" for each of the endpoint's secrets, several while one is rotated.
// Other schemes are ignored (all of it read in stripe-go a1e3932,
// webhook/client.go). Message.Events is the event's id; Stripe may deliver one more
// than once and in any order (reported, quoting Stripe's pages).
func Stripe(signingSecrets ...string) (*Verifier, error) {
	const scheme = "stripe"
	keys, err := newSecrets(scheme, signingSecrets, asGiven)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, verify: func(r *http.Request, body []byte) (Message, error) {
		text, err := header(r.Header, "Stripe-Signature")
		if err != nil {
			return Message{}, err
		}
		t, signatures, err := parseStripeSignature(text)
		if err != nil {
			return Message{}, err
		}
		if !keys.signed(sha256.New, signatures, []byte(t.text), []byte("."), body) {
			return Message{}, noMatch()
		}
		return Message{Timestamp: t.Time, Events: member(body, "id")}, nil
	}}, nil
}

// stripeTime keeps the text beside the time, since the text is what was signed.
type stripeTime struct {
	time.Time
	text string
}

func parseStripeSignature(text string) (t stripeTime, signatures [][]byte, err error) {
	for item := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return t, nil, malformed("Stripe-Signature has an item without =")
		}
		switch name {
		case "t":
			if t.text != "" {
				return t, nil, malformed("Stripe-Signature has two timestamps")
			}
			if t.Time, ok = unixSeconds(value); !ok {
				return t, nil, malformed("Stripe-Signature has a timestamp that is not in seconds")
			}
			t.text = value
		case "v1":
			// One that is not hexadecimal matches nothing; another may.
			if signature, err := hex.DecodeString(value); err == nil {
				signatures = append(signatures, signature)
			}
		}
	}
	if t.text == "" {
		return t, nil, malformed("Stripe-Signature has no timestamp")
	}
	return t, signatures, nil
}
