package providers

import "slices"

// Airwallex describes Airwallex's API, live and demo.
//
// A request that moves money takes a key in request_id of the JSON body, a UUID. Airwallex processes a request_id
// once. It does not publish how long it remembers one, what it keeps of a failure, or what a second request
// during the first gets. So nothing is sent again. Login passes through.
//
// The account belongs to the token. Tokens expire, so a new token does not end the memory of keys. A service
// that acts for several accounts gives each an account label.
func Airwallex() Provider {
	p := Provider{
		Name:           "airwallex",
		Hosts:          []string{"api.airwallex.com", "api-demo.airwallex.com"},
		AccountHeaders: []string{"X-On-Behalf-Of"},
		Answers:        jsonAnswers,
		SecretSource:   "airwallex.com/docs [M]: the number and the code of a card; our reading: no other field is secret",
		Source:         sourceAirwallex + "; hosts, account header: [M]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: airwallexRules, SecretRequest: airwallexCards, Source: sourceAirwallex + ": no request_id is documented, or it was not read"}, "/"),
			each(Endpoint{NoEffect: true, Source: "airwallex.com/docs/api [M]: the access token endpoint"}, "POST /api/v1/authentication/login"),
			each(Endpoint{
				Key:           Key{Place: KeyJSONField, Name: "request_id"},
				Remembers:     Successes,
				SecretRequest: airwallexCards,
				Rules:         airwallexRules,
				Source:        sourceAirwallex + ": the same ID is processed once; retention, failures and guard: [?]",
			},
				"POST /api/v1/pa/payment_intents/create",
				"POST /api/v1/pa/payment_intents/{id}/confirm",
				"POST /api/v1/pa/payment_intents/{id}/capture",
				"POST /api/v1/pa/payment_intents/{id}/cancel",
				"POST /api/v1/pa/refunds/create",
				"POST /api/v1/transfers/create"),
		),
	}
	return p.Clone()
}

const sourceAirwallex = "airwallex.com/docs/payments [D], on payment intents"

var (
	airwallexCards = []string{"card.number", "card.cvc"}
	airwallexRules = slices.Concat(
		conflicts("code", "what a conflict means for a request_id is not published [?]"),
		refusalsUnlimited("code", "airwallex.com/docs/api [M]: errors have a code"),
	)
)
