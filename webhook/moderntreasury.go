package webhook

// ModernTreasury verifies Modern Treasury's webhooks. A secret is the webhook key of the dashboard. ModernTreasury
// returns an error if a secret is missing or invalid.
//
// X-Signature is HMAC-SHA256 of the raw body in hexadecimal (documented, on "Verifying webhooks"). It signs no
// timestamp, so a request can be replayed for ever. It signs no identifier either: a webhook's own is in a header.
func ModernTreasury(webhookKeys ...string) (*Verifier, error) {
	return overBody{scheme: "modern treasury", header: "X-Signature", read: hexHeader}.verifier(webhookKeys)
}
