package providers

import "slices"

// Finix describes Finix's API, live and sandbox.
//
// Transfers, authorizations and reversals take a key in idempotency_id of the JSON body. Finix compares it with
// earlier requests to the same endpoint. By one page a repeat gets the original response, by another an error, whose code
// is not published. How long a key is remembered is not published either. So nothing is sent again.
//
// A created object shows the key, and is found by the key.
func Finix() Provider {
	return Provider{
		Name:             "finix",
		Hosts:            []string{"finix.live-payments-api.com", "finix.sandbox-payments-api.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		SecretSource:     "docs.finix.com [M]: the number and the code of a card, a bank account's number; our reading: no other field is secret",
		Source:           sourceFinix + "; hosts: [M]; scope of keys: the endpoint, and [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: finixRules, SecretRequest: finixSecrets, Source: sourceFinix + ": three endpoints only"}, "/"),
			each(finixKeyed("transfer", finixTransfers), "POST /transfers"),
			each(finixKeyed("authorization", finixAuthorizations), "POST /authorizations"),
			each(finixKeyed("transfer", finixReversals), "POST /transfers/{id}/reversals"),
		),
	}.Clone()
}

// finixKeyed creates an object that the look-up finds.
func finixKeyed(object string, look Lookup) Endpoint {
	return Endpoint{
		Key:       Key{Place: KeyJSONField, Name: "idempotency_id"},
		Remembers: Successes,
		Object:    object,
		Lookups:   []Lookup{look},
		Rules:     finixRules,
		Source:    sourceFinix + ": the original response, or an exception by docs.finix.com/api/section/idempotent-requests [D]; retention, failures and guard: [?]",
	}
}

const sourceFinix = "docs.finix.com/additional-resources/developers/authentication-and-api-basics/idempotent-request [D]"

var (
	finixCursor         = Paging{Style: PageCursor, Param: "after_cursor", Cursor: "page.next_cursor"}
	finixTransfers      = finixLookup("/transfers", "transfers", finixCursor)
	finixAuthorizations = finixLookup("/authorizations", "authorizations", Paging{Size: 100})

	// finixReversals are listed without a filter. A reversal's amount has another name than in its request.
	finixReversals = func() Lookup {
		look := finixLookup("/transfers/{path.id}/reversals", "transfers", finixCursor)
		look.Query = "limit=100"
		look.Same = []Same{{Field: "idempotency_id", Is: "{key}"}, {Field: "amount", Is: "{request.refund_amount}", As: AsDecimal, Optional: true}}
		return look
	}()
)

// finixLookup lists objects by their key.
func finixLookup(path, items string, next Paging) Lookup {
	return Lookup{
		By:    ByKey,
		Path:  path,
		Query: "idempotency_id={key}&limit=100",
		Items: "_embedded." + items + "[]",
		Same: []Same{
			{Field: "idempotency_id", Is: "{key}"},
			{Field: "amount", Is: "{request.amount}", As: AsDecimal, Optional: true},
			{Field: "currency", Is: "{request.currency}", As: AnyCase, Optional: true},
		},
		ID:        "id",
		Created:   "created_at",
		Next:      next,
		Means:     states("state", TookEffect.of("PENDING", "SUCCEEDED"), InProgress.of("UNKNOWN"), Reversed.of("CANCELED", "FAILED")),
		SameShape: true,
		Source:    "finix-nodejs 4e699df openapi/finix-api.yaml [D-old]: transfers and authorizations can be filtered by idempotency_id, which an item shows; whether a reversal shows its own, whether a state is final, and when one is listed: [?]",
	}
}

var (
	finixSecrets = []string{"number", "security_code", "account_number"}
	finixRules   = slices.Concat(
		conflicts("_embedded.errors[].code", "what a conflict means for an idempotency_id is not published [?]"),
		refusalsUnlimited("_embedded.errors[].code", "docs.finix.com [M]: errors have a code"),
	)
)
