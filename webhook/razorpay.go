package webhook

// Razorpay verifies Razorpay's webhooks. A secret is the webhook's own, not the
// account's key secret, which signs what Checkout hands to the browser. An error says
// that one is missing or can't be one.
//
// X-Razorpay-Signature is HMAC-SHA256 of the raw body (documented, on "Security" of
// the S2S integration's best practices) in hexadecimal (read in razorpay-go 5763826,
// utils.go). It signs no timestamp, so a request can be replayed for ever, and no
// identifier: X-Razorpay-Event-Id, by which Razorpay has repeats told, is not under
// the signature.
func Razorpay(webhookSecrets ...string) (*Verifier, error) {
	return overBody("razorpay", webhookSecrets, "X-Razorpay-Signature", hexHeader, nil)
}
