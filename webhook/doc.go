// Package webhook verifies that a webhook request is what a provider signed, and
// not long ago.
//
// A function per provider makes a [Verifier] from the endpoint's secrets:
// [Stripe], [Adyen], [AdyenPlatform], [Braintree], [Checkout], [Column], [Dwolla],
// [GoCardless], [Increase], [Klarna], [ModernTreasury], [Mollie], [MollieClassic],
// [PayPal], [Razorpay], [Shopify], [Square], [Twilio], [Wise], [WorkOS], and
// [StandardWebhooks] for everybody who follows that specification (Svix, Resend and
// others). [Verifier.Verify] takes the request and the body's bytes
// exactly as they arrived: a body that was parsed and written again is another
// body. [Handler] does the reading and verifying in front of an http.Handler.
//
// All of them accept several secrets, so that one can be rotated while requests
// signed with the old one are still on their way, compare in constant time, and
// fail closed: a header that is missing, repeated or not in the scheme's form is
// refused. A secret that is missing or too short to be one is a [*SecretError] of
// the function that is given it. Most providers answer a failure by sending again,
// and every one may send a message twice: remember what [Message] says, and act
// once.
//
// [Message.Evidence] tells a request that the provider has signed from one that is a
// mere hint.
//
// How sure a fact about a provider is stands beside it in words: "documented" by
// the provider, "read" in its own SDK, "reported" by its users, or "not
// confirmed".
package webhook
