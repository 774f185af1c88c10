package providers

import "slices"

// Finix describes Finix's API, live and sandbox.
//
// Transfers, authorizations and reversals take a key in idempotency_id of the JSON body. Finix compares it with
// earlier requests to the same endpoint. By one page a repeat gets the original response, by another an error, whose code
// is not published. How long a key is remembered is not published either. So nothing is sent again.
func Finix() Provider {
	p := Provider{
		Name:             "finix",
		Hosts:            []string{"finix.live-payments-api.com", "finix.sandbox-payments-api.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		SecretSource:     "docs.finix.com [M]: the number and the code of a card, a bank account's number; our reading: no other field is secret",
		Source:           sourceFinix + "; hosts: [M]; scope of keys: the endpoint, and [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: finixRules, SecretRequest: finixSecrets, Source: sourceFinix + ": three endpoints only"}, "/"),
			each(Endpoint{
				Key:       Key{Place: KeyJSONField, Name: "idempotency_id"},
				Remembers: Successes,
				Rules:     finixRules,
				Source:    sourceFinix + ": the original response, or an exception by docs.finix.com/api/section/idempotent-requests [D]; retention, failures and guard: [?]",
			}, "POST /transfers", "POST /authorizations", "POST /transfers/{id}/reversals"),
		),
	}
	return p.Clone()
}

const sourceFinix = "docs.finix.com/additional-resources/developers/authentication-and-api-basics/idempotent-request [D]"

var (
	finixSecrets = []string{"number", "security_code", "account_number"}
	finixRules   = slices.Concat(
		conflicts("_embedded.errors[].code", "what a conflict means for an idempotency_id is not published [?]"),
		refusalsUnlimited("_embedded.errors[].code", "docs.finix.com [M]: errors have a code"),
	)
)
