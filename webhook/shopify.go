package webhook

import "net/http"

// Shopify verifies Shopify's webhooks. A secret is the app's client secret; after it
// was rotated, the old one signs for up to an hour more (documented). An error says
// that one is missing or can't be one.
//
// X-Shopify-Hmac-Sha256 is base64 of HMAC-SHA256 over the raw body; where it is
// missing, Shopify-Hmac-Sha256 is read in its place, which Events have, Shopify's
// successor to webhooks (both documented, on "Verify webhook deliveries" and "Verify
// Events deliveries"). It signs no timestamp, so a request can be replayed for ever,
// and no header: neither the identifiers by which Shopify has repeats told nor the
// topic and the shop are proven. The shop's own id is in the body of most topics.
func Shopify(clientSecrets ...string) (*Verifier, error) {
	const name = "X-Shopify-Hmac-Sha256"
	return overBody("shopify", clientSecrets, name, func(h http.Header, name string) ([]byte, error) {
		const later = "Shopify-Hmac-Sha256"
		if len(h.Values(name)) == 0 && len(h.Values(later)) > 0 {
			name = later
		}
		return base64Header(h, name)
	}, nil)
}
