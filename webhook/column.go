package webhook

// Column verifies Column's webhooks. A secret is the webhook endpoint's signing
// secret. An error says that one is missing or can't be one.
//
// Column-Signature is HMAC-SHA256 of the raw body (documented, on "Events and
// Webhooks"). In what encoding is not published, so that hexadecimal and base64 are
// both read: whichever matches proves the same. It signs no timestamp, so a request
// can be replayed for ever: refuse an event seen before. Message.Events is the id in
// the body, the same for every repeat (documented). Column repeats up to 25 times
// within 3 days.
func Column(signingSecrets ...string) (*Verifier, error) {
	return overBody("column", signingSecrets, "Column-Signature", eitherHeader, idOf)
}
