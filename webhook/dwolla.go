package webhook

// Dwolla verifies Dwolla's webhooks. A secret is the one that the webhook subscription was made with. Dwolla returns
// an error if a secret is missing or invalid.
//
// X-Request-Signature-SHA-256 is HMAC-SHA256 of the raw body in hexadecimal (documented, on "Validating webhooks").
// It signs no timestamp, so a request can be replayed for ever: reject an event seen before. Message.Events is the id
// in the body. Dwolla repeats up to 8 times over 72 hours (documented, on "Processing & Validating Webhooks").
func Dwolla(secrets ...string) (*Verifier, error) {
	return overBody{scheme: "dwolla", header: "X-Request-Signature-Sha-256", read: hexHeader, events: idOf}.verifier(secrets)
}
