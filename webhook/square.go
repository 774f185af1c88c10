package webhook

import "errors"

// Square verifies Square's webhooks. notificationURL is the subscription's, to the letter. Square signs the URL, so a
// request behind a proxy is checked against the URL called by Square, and not the arrived one. A secret is the
// subscription's signature key. Square returns an error if the URL or a secret is missing.
//
// X-Square-Hmacsha256-Signature is base64 of HMAC-SHA256 over the URL and the raw body. It signs no timestamp, so a
// request can be replayed for ever: reject an event seen before. An empty body is ErrMalformed, though
// square-go-sdk's own verifier accepts it (read in square-go-sdk 3f484c5, webhooks/client/verify_signature.go).
// Message.Events is the body's event_id, which Square documents for recognising repeats.
func Square(notificationURL string, signatureKeys ...string) (*Verifier, error) {
	if notificationURL == "" {
		return nil, errors.New("webhook: square: the notification URL is signed and has to be given")
	}
	return overBody{
		scheme: "square", header: "X-Square-Hmacsha256-Signature", read: base64Header, before: notificationURL, full: true,
		events: func(body []byte) []string { return member(body, "event_id") },
	}.verifier(signatureKeys)
}
