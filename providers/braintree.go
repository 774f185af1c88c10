package providers

import (
	"slices"
	"time"
)

// Braintree describes Braintree's GraphQL API, production and sandbox. The classic gateway and its server
// SDKs have no key and are not described.
//
// Put apiRequestKey into input yourself, in the variable for input or in a variable of its own. The client replaces the
// value by the operation's key. The client never adds the field: Braintree's guide describes the field, but the public
// schema lacks it, and a gateway without the field would refuse every charge. Ask Braintree, or try it in the sandbox.
//
// The table has the mutations whose input type is documented with the field: authorizeCreditCard,
// captureTransaction, chargePaymentMethod, partialCaptureTransaction, refundCreditCard, refundTransaction and
// reverseRefund. Every other mutation takes no key and is not sent again once it may have run. Several
// mutations in one document are one request without a key. The feature excludes the gateway's own check for
// duplicate transactions. Tokens of cards, codes and bank accounts move nothing. Their requests pass through
// and are not journaled.
//
// A key is kept for 30 days. Duplicates do not reach the payment networks. A repeat gets the transaction in
// its current status. INTERNAL leaves the outcome open, and Braintree advises a repeat after it. The scope of
// keys is not published, so an operation whose credential changed is not sent again. clientMutationId only
// correlates, and may differ between tries.
//
// A transaction and a refund are found by their order ID, and a transaction's refunds by the transaction, if
// the mutation's input is the variable called input.
//
// Every answer has status 200, with the errors in the body. VALIDATION has three meanings: the input is
// invalid, the first request with the key is in progress, or it had another input. It is never InFlight or
// Misuse. It is the operation's answer on a first attempt. On a later one the request is repeated, which
// returns the transaction if it exists.
//
// In an answer with data and errors the data counts, if it has the id of the transaction, refund or capture.
// Ask for the id. A 200 that is not Braintree's (a proxy's page) is Indeterminate.
func Braintree() Provider {
	const path = "POST /graphql"
	p := Provider{
		Name:         "braintree",
		SecretSource: sourceBraintreeSchema + ": CreditCardInput; our reading: no other field is secret",
		Hosts:        []string{"payments.braintree-api.com", "payments.sandbox.braintree-api.com"},
		Answers:      jsonAnswers,
		Endpoints: []Endpoint{
			{
				Pattern:  path,
				Action:   Action{Place: ActionGraphQL, Value: "query"},
				NoEffect: true,
				Source:   "GraphQL specification of October 2021, section 2.3 [D]: a query is a read-only fetch",
			},
			{
				Pattern:  path,
				Action:   Action{Place: ActionGraphQL, Value: "mutation createClientToken"},
				NoEffect: true,
				Source:   "braintree/graphql-api 2252d47 schema.graphql [D]: an authorization for a client; the answer is a secret",
			},
			{
				Pattern:       path,
				SecretRequest: braintreeCards,
				Rules:         slices.Concat(braintreeFailures, braintreeAnswers),
				Source:        sourceBraintree + ": no apiRequestKey is documented",
			},
		},
		Declines: []Decline{
			{Field: "data.*.transaction.status", Equals: "PROCESSOR_DECLINED", Source: "developer.paypal.com/braintree/graphql/reference/types/payment-status and processor-declined-event [D]"},
		},
		CredentialScoped: true,
		Source:           sourceBraintree + "; hosts: developer.paypal.com/braintree/graphql/guides/making_api_calls [D]; scope of keys: [?]",
	}
	for _, mutation := range []string{"tokenizeCreditCard", "tokenizeCvv", "tokenizeUsBankAccount"} {
		p.Endpoints = append(p.Endpoints, Endpoint{
			Pattern:  path,
			Action:   Action{Place: ActionGraphQL, Value: "mutation " + mutation},
			NoEffect: true,
			Source:   "braintree/graphql-api 2252d47 schema.graphql [D]: a single-use token, which moves nothing; the request holds a card or an account",
		})
	}
	for _, mutation := range []struct {
		name, input string
		object      string
		reference   Reference
		lookups     []Lookup
	}{
		{"authorizeCreditCard", "authorize-credit-card-input", "transaction", braintreeOrder("transaction"), braintreeTransactions},
		{"captureTransaction", "capture-transaction-input", "", Reference{}, nil},
		{"chargePaymentMethod", "charge-payment-method-input", "transaction", braintreeOrder("transaction"), braintreeTransactions},
		{"partialCaptureTransaction", "partial-capture-transaction-input", "", Reference{}, nil},
		{"refundCreditCard", "refund-credit-card-input", "refund", braintreeOrder("refund"), braintreeRefunds},
		{"refundTransaction", "refund-transaction-input", "refund", braintreeOrder("refund"), braintreePartRefunds},
		{"reverseRefund", "reverse-refund-input", "", Reference{}, nil},
	} {
		id := ""
		if mutation.object != "" { // as far as the document selects it
			id = "data.*." + mutation.object + ".id"
		}
		p.Endpoints = append(p.Endpoints, Endpoint{
			Object:    mutation.object,
			ObjectID:  id,
			Reference: mutation.reference,
			Lookups:   mutation.lookups,

			Pattern:       path,
			Action:        Action{Place: ActionGraphQL, Value: "mutation " + mutation.name},
			Key:           Key{Place: KeyGraphQL, Name: "input.apiRequestKey", OnlyIfThere: true},
			OmitFields:    []string{"variables.input.clientMutationId"},
			Retention:     30 * 24 * time.Hour,
			Remembers:     SuccessesCleanFailures,
			InFlightGuard: true,
			SecretRequest: braintreeCards,
			Rules:         slices.Concat(braintreeFailures, braintreeRepeat, braintreeAnswers),
			Source:        sourceBraintree + "; developer.paypal.com/braintree/graphql/reference/types/" + mutation.input + " [D]; braintree/graphql-api 2252d47 schema.graphql [D] lacks the field",
		})
	}
	return p.Clone()
}

// braintreeOrder is the order ID of the created object. It is the invoice number of PayPal transactions,
// which payers see.
func braintreeOrder(of string) Reference {
	return Reference{
		Place: KeyGraphQL, Name: "input." + of + ".orderId", MaxLength: 255, Visible: true, Mutable: true,
		Source: sourceBraintreeSchema + ": maps to the PayPal invoice number; 127 characters for PayPal; an update can change it",
	}
}

var (
	braintreeTransactions = []Lookup{braintreeSearch("transactions", "transaction", "")}
	braintreeRefunds      = []Lookup{braintreeSearch("refunds", "refund", "")}

	// braintreePartRefunds tell a transaction's refund by the transaction, too.
	braintreePartRefunds = func() []Lookup {
		byOrder := braintreeSearch("refunds", "refund", "refundedTransaction { id }")
		byOrder.Same = []Same{
			byOrder.Same[0],
			{Field: "node.refundedTransaction.id", Is: "{request.variables.input.transactionId}"},
			{Field: "node.amount.value", Is: "{request.variables.input.refund.amount}", As: AsDecimal, Optional: true},
		}
		byParent := Lookup{
			By:     ByParent,
			Method: "POST",
			Path:   "/graphql",
			Body: `{"query": "query OfTransaction($id: ID!) { node(id: $id) { ... on Transaction ` +
				`{ refunds { id orderId status createdAt amount { value } refundedTransaction { id } } } } }",` +
				` "variables": {"id": "{request.variables.input.transactionId}"}}`,
			Items: "data.node.refunds[]",
			Same: []Same{
				{Field: "refundedTransaction.id", Is: "{request.variables.input.transactionId}"},
				{Field: "amount.value", Is: "{request.variables.input.refund.amount}", As: AsDecimal},
				{Field: "orderId", Is: "{request.variables.input.refund.orderId}", Optional: true},
			},
			ID:      "id",
			Created: "createdAt",
			Means:   braintreeStates("status"),
			Source:  sourceBraintreeSchema + " Transaction.refunds",
		}
		return []Lookup{byOrder, byParent}
	}()
)

// braintreeSearch looks transactions or refunds up by their order ID.
func braintreeSearch(list, input, also string) Lookup {
	return Lookup{
		By:     ByReference,
		Method: "POST",
		Path:   "/graphql",
		Body: `{"query": "query ByOrder($order: String!, $after: String) { search { ` + list + `(input: {orderId: {is: $order}}, first: 50, after: $after) ` +
			`{ edges { node { id orderId status createdAt amount { value } ` + also + ` } } pageInfo { hasNextPage endCursor } } } }",` +
			` "variables": {"order": "{reference}"}}`,
		Items: "data.search." + list + ".edges[]",
		Same: []Same{
			{Field: "node.orderId", Is: "{reference}"},
			{Field: "node.amount.value", Is: "{request.variables.input." + input + ".amount}", As: AsDecimal},
		},
		ID:      "node.id",
		Created: "node.createdAt",
		Next: Paging{
			Style: PageCursor, Param: "variables.after", Size: 50,
			Cursor: "data.search." + list + ".pageInfo.endCursor", More: "data.search." + list + ".pageInfo.hasNextPage",
		},
		Means:  braintreeStates("node.status"),
		Source: sourceBraintreeSchema + " Search, PaymentStatus; when one is found: [?]",
	}
}

func braintreeStates(field string) []Meaning {
	return states(field,
		Refused.of("PROCESSOR_DECLINED", "GATEWAY_REJECTED", "FAILED"),
		Reversed.of("AUTHORIZATION_EXPIRED", "SETTLEMENT_DECLINED", "VOIDED"),
		InProgress.of("AUTHORIZING"))
}

// braintreeCards are the fields of a raw card: the number and the code.
var braintreeCards = []string{"creditCard.number", "creditCard.cvv"}

const (
	sourceBraintree       = "developer.paypal.com/braintree/graphql/integration_guides/idempotency [D]"
	sourceBraintreeSchema = "braintree/graphql-api 2252d47 schema.graphql [D]"
	sourceBraintreeInput  = "developer.paypal.com/braintree/graphql/reference/types/charge-payment-method-input [D]"
	sourceBraintreeAnswer = "developer.paypal.com/braintree/graphql/guides/making_api_calls [D]"
	braintreeErrorClass   = "errors[].extensions.errorClass"
)

var (
	braintreeFailures = slices.Concat(refused, []Rule{
		{Status: 200, Field: "data.*.*.id", Verdict: Final, Source: sourceBraintreeAnswer + ": what was asked for is in data, also where errors stand beside it"},
		{Status: 200, Field: braintreeErrorClass, Equals: "AUTHENTICATION", Without: "data.*", Verdict: Rejected, Credential: true, Source: sourceBraintreeInput + ": nothing was created, and a repeat is a new request"},
	})

	// braintreeRepeat reads answers that a repeat with the same key may change.
	braintreeRepeat = []Rule{
		{Status: 200, Field: braintreeErrorClass, Equals: "VALIDATION", On: LaterAttempt, Verdict: Retry, Source: sourceBraintree + ": in progress, or another input, or an invalid one"},
		{Status: 200, Field: braintreeErrorClass, Equals: "RESOURCE_LIMIT", Verdict: Retry, Source: sourceBraintreeInput + ": where nothing was created, a repeat is a new request"},
	}

	braintreeAnswers = []Rule{
		{Status: 200, Field: braintreeErrorClass, Equals: "INTERNAL", Verdict: Retry, Source: sourceBraintreeInput + ": the ultimate state is uncertain; the key is for a repeat after it"},
		{Status: 200, Field: braintreeErrorClass, Equals: "SERVICE_AVAILABILITY", Verdict: Retry, Source: sourceBraintree + " does not say what it proves"},
		{Status: 200, Field: braintreeErrorClass, Equals: "VALIDATION", On: FirstAttempt, Verdict: Final, Source: sourceBraintreeInput},
		{Status: 200, Field: braintreeErrorClass, Equals: "AUTHORIZATION", On: FirstAttempt, Verdict: Final, Source: sourceBraintreeInput + ": if nothing was created; a field that may not be read is one too"},
		{Status: 200, Field: braintreeErrorClass, Equals: "NOT_FOUND", On: FirstAttempt, Verdict: Final, Source: sourceBraintreeInput + ": if nothing was created"},
		{Status: 200, Field: braintreeErrorClass, Equals: "NOT_IMPLEMENTED", On: FirstAttempt, Verdict: Final, Source: sourceBraintreeInput + ": if nothing was created"},
		{Status: 200, Field: "errors[].message", Verdict: Indeterminate, Source: sourceBraintreeAnswer + ": an error; nothing else is known of it"},
		{Status: 200, Field: "extensions.requestId", Verdict: Final, Source: sourceBraintreeAnswer + ": every answer has one"},
		{Status: 200, Through: 299, Verdict: Indeterminate, Source: sourceBraintreeAnswer + ": not an answer of this API"},
	}
)
