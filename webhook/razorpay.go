package webhook

// Razorpay verifies Razorpay's webhooks. A secret is the webhook's own. It is not the account's key secret, which signs
// Checkout's data for the browser. Razorpay returns an error if a secret is missing or invalid.
//
// X-Razorpay-Signature is HMAC-SHA256 of the raw body (documented, on "Security" of the S2S integration's best
// practices) in hexadecimal (read in razorpay-go 5763826, utils.go). It signs no timestamp, so a request can be
// replayed for ever. It signs no identifier: X-Razorpay-Event-Id, which Razorpay offers for recognising repeats, is
// not under the signature.
func Razorpay(webhookSecrets ...string) (*Verifier, error) {
	return overBody{scheme: "razorpay", header: "X-Razorpay-Signature", read: hexHeader}.verifier(webhookSecrets)
}
