package providers

import (
	"slices"
	"time"
)

// Chargebee describes Chargebee's billing API (SITE.chargebee.com).
//
// A POST takes a key of at most 100 characters in chargebee-idempotency-key. A repeat with the same parameters gets
// the recorded response, marked chargebee-idempotency-replayed: true. The API's page says 30 minutes, the SDK's
// says 24 hours: 30 minutes are claimed. What is kept of a failure, and what a second request during the first
// gets, is not published. So nothing is sent again. Estimates take no key and change nothing: they pass through.
//
// A customer or a subscription may be created under an id of yours, and is found by it. Invoices, payments and refunds
// show no mark of their request.
func Chargebee() Provider {
	return Provider{
		Name:             "chargebee",
		Hosts:            []string{"*.chargebee.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		ReplayHeader:     "Chargebee-Idempotency-Replayed", ReplayValue: "true",
		SecretSource: "apidocs.chargebee.com [M]: the number and the code of a card; our reading: no other field is secret",
		Source:       sourceChargebee + "; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: chargebeeRules, SecretRequest: chargebeeCards, Source: sourceChargebee + ": POST only"}, "/"),
			each(Endpoint{NoEffect: true, Source: sourceChargebee + ": estimates do not support keys; our reading: they only compute"}, "POST /api/v2/estimates/"),
			each(chargebeeKeyed(""), "POST /"),
			each(chargebeeKeyed("customer", chargebeeCustomer), "POST /api/v2/customers"),
			each(chargebeeKeyed("subscription", chargebeeSubscription("{request.customer[id]}")), "POST /api/v2/subscriptions"),
			each(chargebeeKeyed("subscription", chargebeeSubscription("{path.customer}")),
				"POST /api/v2/customers/{customer}/subscriptions", "POST /api/v2/customers/{customer}/subscription_for_items"),
		),
	}.Clone()
}

// chargebeeKeyed takes a key. The look-ups find the created object, under the caller's id.
func chargebeeKeyed(object string, looks ...Lookup) Endpoint {
	e := Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "Chargebee-Idempotency-Key", MaxLength: 100},
		Retention:     30 * time.Minute,
		Remembers:     Successes,
		Object:        object,
		Lookups:       looks,
		SecretRequest: chargebeeCards,
		Rules:         chargebeeRules,
		Source:        sourceChargebee + ": the record's response for 30 minutes; 24 hours by the README of chargebee-node [S]; failures and guard: [?]",
	}
	if object != "" {
		e.ObjectID = object + ".id"
		e.Reference = Reference{
			Place: KeyFormField, Name: "id", MaxLength: 50, Visible: true,
			Source: "chargebee/openapi c5273ca spec/chargebee_api_v1_spec.yaml [D]: at most 50 characters, unique; a subscription's is immutable; " + sourceChargebeeSDK + ": no update of a customer takes it; visibility to customers: [?]",
		}
	}
	return e
}

const (
	sourceChargebee    = "apidocs.chargebee.com/docs/api/v1/idempotency [D]"
	sourceChargebeeSDK = "chargebee-go 2dbd55f [S]"
)

// chargebeeCustomer shows a customer as of now. An update may have changed the customer since the creation.
var chargebeeCustomer = Lookup{
	By:      ByReference,
	Path:    "/api/v2/customers/{reference}",
	Same:    []Same{{Field: "customer.id", Is: "{reference}"}, {Field: "customer.email", Is: "{request.email}", As: AnyCase, Optional: true}},
	ID:      "customer.id",
	Created: "customer.created_at",
	Means:   states("customer.deleted", Reversed.of("true")),
	Source:  sourceChargebeeSDK + " actions/customer, models/customer: a customer by its id; when one is found: [?]",
}

// chargebeeSubscription shows a subscription. A create's answer may also have its invoice. customer is the template of
// the customer's id.
func chargebeeSubscription(customer string) Lookup {
	return Lookup{
		By:   ByReference,
		Path: "/api/v2/subscriptions/{reference}",
		Same: []Same{
			{Field: "subscription.id", Is: "{reference}"},
			{Field: "subscription.customer_id", Is: customer, Optional: true},
			{Field: "subscription.plan_id", Is: "{request.plan_id}", Optional: true},
			{Field: "subscription.subscription_items[].item_price_id", Is: "{request.subscription_items[item_price_id][0]}", Optional: true},
		},
		ID:      "subscription.id",
		Created: "subscription.created_at",
		Means: slices.Concat(
			states("subscription.deleted", Reversed.of("true")),
			states("subscription.status",
				TookEffect.of("future", "in_trial", "active", "non_renewing", "paused"),
				Reversed.of("cancelled", "transferred")),
		),
		Source: sourceChargebeeSDK + " actions/subscription, models/subscription and its states: a subscription by its id; when one is found: [?]",
	}
}

var (
	chargebeeCards = []string{"card.number", "card.cvv"}
	chargebeeRules = slices.Concat(
		conflicts("api_error_code", "what a conflict means for a key is not published [?]"),
		refusalsUnlimited("api_error_code", "apidocs.chargebee.com [M]: errors have an api_error_code"),
	)
)
