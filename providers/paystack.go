package providers

import (
	"slices"
	"time"
)

// Paystack describes Paystack's API.
//
// A transfer has its key in reference of the JSON body: 16 to 50 lower-case letters, digits, hyphens and underscores.
// It is the transfer's permanent name. Retention is 90 days, as long as a journal keeps answers. Paystack says that a
// transfer whose result is inconclusive is retried with the same reference. What a second request during the first gets
// is not published, so nothing is sent again. The transfer is found by its reference.
//
// The reference of a charge is another matter: a used one is refused, also after a failed payment. No key is claimed for
// charges.
func Paystack() Provider {
	return Provider{
		Name:             "paystack",
		Hosts:            []string{"api.paystack.co"},
		CredentialScoped: true,
		CredentialModes:  []CredentialMode{{Prefix: "sk_test_", Mode: "test"}, {Prefix: "sk_live_", Mode: "live"}},
		Answers:          jsonAnswers,
		SecretSource:     "paystack.com/docs/api [M]: the number and the code of a card; our reading: no other field is secret",
		Source:           sourcePaystack + "; modes: paystack.com/docs/api/authentication [M]; scope of references: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: paystackRules, SecretRequest: paystackCards, Source: sourcePaystack + ": transfers only; a charge's reference differs"}, "/"),
			each(Endpoint{
				Key:       Key{Place: KeyJSONField, Name: "reference", MinLength: 16, MaxLength: 50, Alphabet: "0123456789abcdefghijklmnopqrstuvwxyz-_"},
				Retention: 90 * 24 * time.Hour,
				Remembers: SuccessesLostAnswers,
				Object:    "transfer",
				Lookups:   []Lookup{paystackTransfer},
				Rules:     paystackRules,
				Source:    sourcePaystack + ": what is inconclusive is retried with the same reference; length and alphabet: [M]; guard: [?]",
			}, "POST /transfer"),
		),
	}.Clone()
}

const sourcePaystack = "paystack.com/docs/transfers [D], on references"

// paystackTransfer shows the recipient in another shape than the create's answer.
var paystackTransfer = Lookup{
	By:   ByKey,
	Path: "/transfer/verify/{key}",
	Same: []Same{
		{Field: "data.reference", Is: "{key}"},
		{Field: "data.amount", Is: "{request.amount}", As: AsDecimal, Optional: true},
		{Field: "data.currency", Is: "{request.currency}", Optional: true},
	},
	ID:      "data.transfer_code",
	Created: "data.createdAt",
	Means: states("data.status",
		TookEffect.of("otp", "received", "pending", "success"),
		Reversed.of("abandoned", "blocked", "failed", "rejected", "reversed")),
	Source: "PaystackOSS/openapi 9678dea transfer_verify, TransferVerifyResponse [D]: a transfer by its reference; a sample: PaystackOSS/doc-code-snippets 94af513 [D]; " +
		"states: the filter of transfer_list [D], and our reading of their names; when one is found: [?]",
}

var (
	paystackCards = []string{"card.number", "card.cvv"}
	paystackRules = slices.Concat(
		conflicts("message", "what a conflict means for a reference is not published [?]"),
		refusalsUnlimited("message", "paystack.com/docs/api/errors [M]: errors have a message"),
	)
)
