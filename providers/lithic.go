package providers

import (
	"slices"
	"time"
)

// Lithic describes Lithic's card issuing API, live and sandbox.
//
// A POST takes a key in Idempotency-Key, which has to be a UUID. The result is kept for 24 hours at least,
// failures included, once execution begins. A request that clashes with one under way leaves no result, and other
// parameters are an error. Lithic supports keys on most POSTs, and adds endpoints one by one. Nothing rests on
// the key except where its page shows it: the creation and the renewal of a card. These are sent again.
//
// PATCH, PUT and DELETE are idempotent by Lithic's documentation. The answer to a created card may show its
// number, so it is not kept.
func Lithic() Provider {
	key := Key{Place: KeyRawHeader, Name: "Idempotency-Key", MinLength: 36, MaxLength: 36, Alphabet: "0123456789ABCDEFabcdef-"}
	card := Endpoint{
		Key:            key,
		Retention:      24 * time.Hour,
		Remembers:      Everything,
		InFlightGuard:  true,
		SecretResponse: true,
		Rules:          lithicRules,
		Source: sourceLithic + ": the first result is stored for 24 hours, 500 included, once execution begins; a clash with an ongoing request stores nothing [D-old]; " +
			"a card's answer has its number: lithic-go v0.108.0 card.go [S]",
	}
	p := Provider{
		Name:             "lithic",
		Hosts:            []string{"api.lithic.com", "sandbox.lithic.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		SecretSource:     "lithic-go v0.108.0 [S]: a card's number, PIN and pin; our reading: no other field is secret",
		Source:           sourceLithic + "; hosts: lithic-go v0.108.0 [S]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Idempotent: true, Rules: lithicErrors, SecretRequest: lithicSecrets, Source: sourceLithic + ": naturally idempotent"}, "PATCH /", "PUT /", "DELETE /"),
			each(Endpoint{Key: key, Rules: lithicRules, SecretRequest: lithicSecrets, Source: sourceLithic + ": most POSTs; which: [?]"}, "POST /"),
			each(card, "POST /v1/cards", "POST /v1/cards/{token}/renew"),
		),
	}
	return p.Clone()
}

const sourceLithic = "docs.lithic.com/docs/idempotent-requests [D]"

var (
	lithicSecrets = []string{"pan", "pin"}
	lithicRules   = slices.Concat(
		conflicts("message", sourceLithic+": a clash with an ongoing request, or another error; the status of either: [?]"),
		lithicErrors,
	)
	lithicErrors = refusalsUnlimited("message", "lithic-go v0.108.0 internal/apierror [S]: errors have a message")
)
