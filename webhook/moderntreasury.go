package webhook

// ModernTreasury verifies Modern Treasury's webhooks. A secret is the webhook key of
// the dashboard. An error says that one is missing or can't be one.
//
// X-Signature is HMAC-SHA256 of the raw body in hexadecimal (documented, on "Verifying
// webhooks"). It signs no timestamp, so a request can be replayed for ever, and no
// identifier: a webhook's own is in a header.
func ModernTreasury(webhookKeys ...string) (*Verifier, error) {
	return overBody("modern treasury", webhookKeys, "X-Signature", hexHeader, nil)
}
