package providers

import "slices"

// Airwallex describes Airwallex's API, live and demo.
//
// A request that moves money takes a key in request_id of the JSON body, a UUID. Airwallex processes a request_id once.
// Airwallex does not publish how long a key is remembered, which failures are kept, or how a second request during the
// first is answered. So nothing is sent again. Login passes through.
//
// Payment intents and transfers show their request_id, and are found by it.
//
// The account belongs to the token. Tokens expire, so a new token does not end the memory of keys. A service
// that acts for several accounts gives each an account label.
func Airwallex() Provider {
	return Provider{
		Name:           "airwallex",
		Hosts:          []string{"api.airwallex.com", "api-demo.airwallex.com"},
		AccountHeaders: []string{"X-On-Behalf-Of"},
		Answers:        jsonAnswers,
		SecretSource:   "airwallex.com/docs [M]: the number and the code of a card; our reading: no other field is secret",
		Source:         sourceAirwallex + "; hosts, account header: [M]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: airwallexRules, SecretRequest: airwallexCards, Source: sourceAirwallex + ": no request_id is documented, or it was not read"}, "/"),
			each(Endpoint{NoEffect: true, Source: "airwallex.com/docs/api [M]: the access token endpoint"}, "POST /api/v1/authentication/login"),
			each(airwallexKeyed("payment intent", airwallexIntents), "POST /api/v1/pa/payment_intents/create"),
			each(airwallexKeyed("transfer", airwallexTransfers), "POST /api/v1/transfers/create"),
			each(airwallexKeyed(""),
				"POST /api/v1/pa/payment_intents/{id}/confirm",
				"POST /api/v1/pa/payment_intents/{id}/capture",
				"POST /api/v1/pa/payment_intents/{id}/cancel",
				"POST /api/v1/pa/refunds/create"),
		),
	}.Clone()
}

// airwallexKeyed takes a key. The look-ups find the created object.
func airwallexKeyed(object string, looks ...Lookup) Endpoint {
	return Endpoint{
		Key:           Key{Place: KeyJSONField, Name: "request_id"},
		Remembers:     Successes,
		Object:        object,
		Lookups:       looks,
		SecretRequest: airwallexCards,
		Rules:         airwallexRules,
		Source:        sourceAirwallex + ": the same ID is processed once; retention, failures and guard: [?]",
	}
}

// airwallexIntents reads the intents of an order. Pages beyond the first are not read.
var airwallexIntents = Lookup{
	By:    ByKey,
	Path:  "/api/v1/pa/payment_intents",
	Query: "merchant_order_id={request.merchant_order_id}",
	Items: "items[]",
	Same: []Same{
		{Field: "request_id", Is: "{key}"},
		{Field: "amount", Is: "{request.amount}", As: AsDecimal, Optional: true},
		{Field: "currency", Is: "{request.currency}", Optional: true},
	},
	ID:      "id",
	Created: "created_at",
	Fetch:   "/api/v1/pa/payment_intents/{id}",
	Means: states("status",
		TookEffect.of("REQUIRES_PAYMENT_METHOD", "REQUIRES_CUSTOMER_ACTION", "REQUIRES_CAPTURE", "SUCCEEDED"),
		Reversed.of("CANCELLED")),
	SameShape: true,
	Source: sourceAirwallexSDK + " paymentAcceptancePaymentIntentsApi: an item shows its request_id; states: airwallex.com/docs/payments/reference/payment-statuses [D]; " +
		"whether a later operation's ID replaces the first, and when an intent is listed: [?]",
}

var airwallexTransfers = Lookup{
	By:    ByKey,
	Path:  "/api/v1/transfers",
	Query: "request_id={key}",
	Items: "items[]",
	Same: []Same{
		{Field: "request_id", Is: "{key}"},
		{Field: "transfer_amount", Is: "{request.transfer_amount}", As: AsDecimal, Optional: true},
		{Field: "transfer_currency", Is: "{request.transfer_currency}", Optional: true},
	},
	ID:        "id",
	Created:   "created_at",
	Means:     states("status", TookEffect.of("IN_APPROVAL", "SCHEDULED", "OVERDUE", "PROCESSING", "SENT", "PAID"), Reversed.of("CANCELLED", "FAILED")),
	SameShape: true,
	Source: sourceAirwallexSDK + " payoutsTransfersApi: a filter by request_id, and an item has the type of a create's answer; " +
		"states: airwallex.com/docs/payouts__transfers__transfer-statuses-(older-versions) [D-old] and developer-tools__listen-for-webhook-events__payload-examples__transfers [D]; when one is listed: [?]",
}

const (
	sourceAirwallex    = "airwallex.com/docs/payments [D], on payment intents"
	sourceAirwallexSDK = "@airwallex/node-sdk 2.1.0-beta.5 [S]"
)

var (
	airwallexCards = []string{"card.number", "card.cvc"}
	airwallexRules = slices.Concat(
		conflicts("code", "what a conflict means for a request_id is not published [?]"),
		refusalsUnlimited("code", "airwallex.com/docs/api [M]: errors have a code"),
	)
)
