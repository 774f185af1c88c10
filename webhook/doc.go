// Package webhook verifies a provider's signature on a webhook request, and that the signature is recent.
//
// A function for each provider makes a [Verifier] from the endpoint's secrets: [Stripe], [Adyen], [AdyenPlatform],
// [Braintree], [Checkout], [Column], [Dwolla], [GoCardless], [Increase], [Klarna], [ModernTreasury], [Mollie],
// [MollieClassic], [PayPal], [PayPalIPN], [Razorpay], [Shopify], [Square], [Twilio], [Wise] and [WorkOS]. [StandardWebhooks] is
// for every sender that follows the specification, such as Svix and Resend.
//
// [Verifier.Verify] takes the request, and the body's bytes exactly as received: a body that was parsed and written again
// is another body. [Handler] reads and verifies requests in front of an http.Handler.
//
// Every function accepts several secrets, for a rotation while requests under the old secret are still on the way.
// Verifiers compare in constant time, and reject a request if a header is missing, repeated or not in the scheme's form.
// The functions return a [*SecretError] if a secret is missing or too short.
//
// Most providers answer a failure by sending again, and every provider may send a message twice. Record the
// identifiers in [Message], and act once.
//
// [Message.Evidence] tells signed content from a mere hint.
//
// The comments say how sure a fact about a provider is: "documented" by the provider, "read" in the provider's own SDK,
// "reported" by users, or "not confirmed".
package webhook
