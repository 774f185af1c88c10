package webhook

import "net/http"

// Shopify verifies Shopify's webhooks. A secret is the app's client secret. After a rotation, the old secret signs
// for up to an hour more (documented). Shopify returns an error if a secret is missing or invalid.
//
// X-Shopify-Hmac-Sha256 is base64 of HMAC-SHA256 over the raw body. If the header is missing, Shopify-Hmac-Sha256 is
// read instead: Events, Shopify's successor to webhooks, sends this header (both documented, on "Verify webhook
// deliveries" and "Verify Events deliveries"). It signs no timestamp, so a request can be replayed for ever. It signs
// no header: the identifiers for recognising repeats, the topic and the shop are not proven. The shop's own id is in
// the body of most topics.
func Shopify(clientSecrets ...string) (*Verifier, error) {
	const name = "X-Shopify-Hmac-Sha256"
	return overBody{scheme: "shopify", header: name, read: func(h http.Header, name string) ([]byte, error) {
		const later = "Shopify-Hmac-Sha256"
		if len(h.Values(name)) == 0 && len(h.Values(later)) > 0 {
			name = later
		}
		return base64Header(h, name)
	}}.verifier(clientSecrets)
}
