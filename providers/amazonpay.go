package providers

import "slices"

// AmazonPay describes version 2 of Amazon Pay's API, in America, Europe and Japan.
//
// A POST takes a key of at most 32 characters in x-amz-pay-idempotency-key, which is stored indefinitely. The keys that
// Onceward makes are UUIDs of 36 characters, so none is added here. A key set by your program is sent unchanged, and
// nothing rests on the key. What a second request during the first gets is not published, so nothing could be sent
// again anyway. The requests are journaled, and one whose answer was lost is unknown.
func AmazonPay() Provider {
	return Provider{
		Name:             "amazonpay",
		Hosts:            []string{"pay-api.amazon.com", "pay-api.amazon.eu", "pay-api.amazon.jp"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Source:           sourceAmazonPay + "; hosts: [M]; scope of keys: the merchant account",
		Endpoints: slices.Concat(
			each(Endpoint{
				Rules: slices.Concat(
					conflicts("reasonCode", "what a conflict means is not published [?]"),
					refusalsUnlimited("reasonCode", "developer.amazon.com/docs/amazon-pay-api-v2 [M]: errors have a reasonCode"),
				),
				Source: sourceAmazonPay + ": at most 32 letters, digits, dashes and underscores; guard: [?]",
			}, "/"),
		),
	}.Clone()
}

const sourceAmazonPay = "developer.amazon.com/docs/amazon-pay-api-v2/idempotency.html [D]"
