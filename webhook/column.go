package webhook

// Column verifies Column's webhooks. A secret is the webhook endpoint's signing secret. Column returns an error if a
// secret is missing or invalid.
//
// Column-Signature is HMAC-SHA256 of the raw body (documented, on "Events and Webhooks"). The encoding is not
// published, so both hexadecimal and base64 are read: each proves the same. It signs no timestamp, so a request can
// be replayed for ever: reject an event seen before. Message.Events is the id in the body, the same for every repeat
// (documented). Column repeats up to 25 times within 3 days.
func Column(signingSecrets ...string) (*Verifier, error) {
	return overBody{scheme: "column", header: "Column-Signature", read: eitherHeader, events: idOf}.verifier(signingSecrets)
}
