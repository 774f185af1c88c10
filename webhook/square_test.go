package webhook_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

// signsAnEmptyBody are the schemes in which an empty body can carry a genuine signature.
var signsAnEmptyBody = []string{
	"stripe", "standard webhooks", "paypal", "twilio", "gocardless", "checkout", "mollie", "klarna", "wise", "razorpay",
	"modern treasury", "dwolla", "column", "shopify", "workos", "increase",
}

// An empty body is refused even if its signature is genuine.
func TestSquareEmptyBodyIsRefused(t *testing.T) {
	eachScheme(t, func(t *testing.T, s scheme) {
		_, err := s.verifier(t, s.secrets[0]).Verify(s.sign(s.secrets[0], "", time.Now()), nil)
		assert.ErrorIs(t, err, webhook.ErrMalformed)
	}, signsAnEmptyBody...)
}

// Square signs the subscription's URL to the letter.
func TestSquareSignsTheURLToTheLetter(t *testing.T) {
	const body = `{"event_id":"1"}`
	for _, url := range []string{squareURL + "/", "http://example.com/square", "https://example.com:443/square", "https://example.com"} {
		v, err := webhook.Square(url, "a signature key of Square")
		require.NoError(t, err)
		_, err = v.Verify(signSquare("a signature key of Square", body, time.Now()), []byte(body))
		assert.ErrorIs(t, err, webhook.ErrSignature, url)
	}
	_, err := webhook.Square("", "a signature key of Square")
	assert.ErrorContains(t, err, "notification URL")
}
