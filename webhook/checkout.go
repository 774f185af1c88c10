package webhook

// Checkout verifies Checkout.com's webhooks. A secret is the signature key of the workflow's webhook action. Checkout
// returns an error if a secret is missing or invalid.
//
// Cko-Signature is HMAC-SHA256 of the raw body in hexadecimal (documented, on "Set up your webhook receiver"). It
// signs no timestamp, so a request can be replayed for ever: reject an event seen before. Message.Events is the id in
// the body.
func Checkout(signatureKeys ...string) (*Verifier, error) {
	return overBody{scheme: "checkout", header: "Cko-Signature", read: hexHeader, events: idOf}.verifier(signatureKeys)
}
