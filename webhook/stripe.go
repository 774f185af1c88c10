package webhook

// Stripe verifies Stripe's webhooks. A secret is an endpoint's signing secret, whsec_ included: its text is the key.
// Stripe returns an error if a secret is missing, empty or padded with white space.
//
// Stripe-Signature holds a timestamp t, and under v1 one hexadecimal HMAC-SHA256 of "t.body" for each of the
// endpoint's secrets. There are several while one is rotated. Other schemes are ignored (all of it read in stripe-go
// a1e3932, webhook/client.go). Message.Events is the event's id. Stripe may deliver an event more than once and in
// any order (reported, quoting Stripe's pages).
func Stripe(signingSecrets ...string) (*Verifier, error) {
	return timed("stripe", signingSecrets, "Stripe-Signature", unixSeconds)
}
