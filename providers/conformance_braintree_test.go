package providers_test

import "github.com/onceward/onceward/providers"

func braintreeContract() contract {
	const (
		graphql = "POST https://payments.braintree-api.com/graphql\nContent-Type: application/json\n\n"

		charge = graphql + `{"query":"mutation charge($input: ChargePaymentMethodInput!) { chargePaymentMethod(input: $input) { transaction { id status } } }","variables":{"input":{"apiRequestKey":"k","paymentMethodId":"pm_1","transaction":{"amount":"10.00"}}}}`
		bare   = graphql + `{"query":"mutation charge($input: ChargePaymentMethodInput!) { chargePaymentMethod(input: $input) { transaction { id status } } }","variables":{"input":{"paymentMethodId":"pm_1","transaction":{"amount":"10.00"}}}}`
		refund = graphql + `{"query":"mutation m($k: ID!) { refundTransaction(input: {apiRequestKey: $k, transactionId: \"t_1\"}) { refund { id } } }","variables":{"k":"k"}}`
		vault  = graphql + `{"query":"mutation { vaultPaymentMethod(input: {paymentMethodId: \"pm_1\"}) { paymentMethod { id } } }"}`
	)
	failure := func(class string) string {
		return `{"data":{"chargePaymentMethod":null},"errors":[{"message":"…","path":["chargePaymentMethod"],"extensions":{"errorClass":"` + class + `"}}],"extensions":{"requestId":"r"}}`
	}
	mutation := func(name string) string {
		return graphql + `{"query":"mutation m($input: I!) { ` + name + `(input: $input) { clientMutationId } }","variables":{"input":{"apiRequestKey":"k"}}}`
	}
	cards := []string{"creditCard.number", "creditCard.cvv"}
	rows := []row{
		{"a transaction", 200, "", `{"data":{"chargePaymentMethod":{"transaction":{"id":"t_1","status":"SUBMITTED_FOR_SETTLEMENT"}}},"extensions":{"requestId":"r"}}`, final, final},
		{"a declined transaction", 200, "", `{"data":{"chargePaymentMethod":{"transaction":{"id":"t_1","status":"PROCESSOR_DECLINED"}}},"extensions":{"requestId":"r"}}`, final, final},
		{"a transaction whose id was not asked for", 200, "", `{"data":{"chargePaymentMethod":{"transaction":{"status":"FAILED"}}},"extensions":{"requestId":"r"}}`, final, final},
		{"a transaction, and an error beside it", 200, "", `{"data":{"c":{"transaction":{"id":"t_1","customer":null}}},"errors":[{"message":"…","extensions":{"errorClass":"AUTHORIZATION"}}],"extensions":{"requestId":"r"}}`, final, final},
		{"a wrong credential", 200, "", failure("AUTHENTICATION"), rejected, rejected},
		{"a class of errors that is new", 200, "", failure("SOMETHING_NEW"), indeterminate, indeterminate},
		{"an error without a class", 200, "", `{"errors":[{"message":"…"}],"extensions":{"requestId":"r"}}`, indeterminate, indeterminate},
		{"a permission that is missing, or a field's", 200, "", failure("AUTHORIZATION"), final, indeterminate},
		{"nothing to charge", 200, "", failure("NOT_FOUND"), final, indeterminate},
		{"an operation that the API lacks", 200, "", failure("NOT_IMPLEMENTED"), final, indeterminate},
		{"an uncertain state", 200, "", failure("INTERNAL"), retry, retry},
		{"a service that is not available", 200, "", failure("SERVICE_AVAILABILITY"), retry, retry},
		{"a page", 200, "Content-Type: text/html", html, indeterminate, indeterminate},
		{"an answer that was cut short", 200, "Content-Type: application/json", `{"data":{"chargePaymentMethod":{"transaction":{"id":"t_`, indeterminate, indeterminate},
		{"no content", 204, "", "", indeterminate, indeterminate},
		{"a redirect", 302, "Location: /elsewhere", "", indeterminate, indeterminate},
		{"503", 503, "Content-Type: text/html", html, retry, retry},
	}
	return contract{
		adapter: providers.Braintree(),
		terms: []terms{
			{
				requests: []string{
					charge,
					refund,
					mutation("authorizeCreditCard"),
					mutation("captureTransaction"),
					mutation("partialCaptureTransaction"),
					mutation("refundCreditCard"),
					mutation("reverseRefund"),
				},
				key:       "GraphQL argument input.apiRequestKey",
				retention: 30 * day, remembers: cleanFailures, guard: true, resent: true, secretFields: cards,
			},
			{requests: []string{
				bare, // which the key is not added to
				graphql + `{"query":"mutation { refundTransaction(input: {transactionId: \"t_1\"}) { refund { id } } }"}`,
			}, secretFields: cards},
			{requests: []string{
				vault,
				graphql + `{"query":"mutation { a: refundTransaction(input: {transactionId: \"t_1\"}) { refund { id } } b: chargePaymentMethod(input: {}) { clientMutationId } }"}`,
				graphql + `{"query":"mutation {"}`,
				graphql + `[{"query":"query { ping }"}]`,
			}, secretFields: cards},
		},
		noEffect: []string{
			graphql + `{"query":"query { ping }"}`,
			graphql + `{"query":"{ ping }"}`,
			graphql + `{"query":"mutation { createClientToken { clientToken } }"}`,
			graphql + `{"query":"mutation { tokenizeCreditCard(input: {creditCard: {number: \"4111111111111111\"}}) { paymentMethod { id } } }"}`,
			graphql + `{"query":"mutation { tokenizeCvv(input: {cvv: \"123\"}) { paymentMethod { id } } }"}`,
			graphql + `{"query":"mutation { tokenizeUsBankAccount(input: {}) { paymentMethod { id } } }"}`,
		},
		sent: []sent{
			{
				charge,
				"POST /graphql HTTP/1.1\nHost: payments.braintree-api.com\nContent-Length: 268\nContent-Type: application/json\n\n" +
					`{"query":"mutation charge($input: ChargePaymentMethodInput!) { chargePaymentMethod(input: $input) { transaction { id status } } }","variables":{"input":{"apiRequestKey":"` + conformanceKey + `","paymentMethodId":"pm_1","transaction":{"amount":"10.00"}}}}`,
			},
			{
				refund,
				"POST /graphql HTTP/1.1\nHost: payments.braintree-api.com\nContent-Length: 180\nContent-Type: application/json\n\n" +
					`{"query":"mutation m($k: ID!) { refundTransaction(input: {apiRequestKey: $k, transactionId: \"t_1\"}) { refund { id } } }","variables":{"k":"` + conformanceKey + `"}}`,
			},
			{bare, "POST /graphql HTTP/1.1\nHost: payments.braintree-api.com\nContent-Length: 213\nContent-Type: application/json\n\n" + bare[len(graphql):]},
			{vault, "POST /graphql HTTP/1.1\nHost: payments.braintree-api.com\nContent-Length: 104\nContent-Type: application/json\n\n" + vault[len(graphql):]},
		},
		answers: []answers{
			{charge, refusedRows},
			{charge, rows},
			{charge, []row{
				{"in flight, another input or an invalid one", 200, "", failure("VALIDATION"), final, retry},
				{"a limit", 200, "", failure("RESOURCE_LIMIT"), retry, retry},
			}},
			{vault, refusedRows},
			{vault, rows},
			{vault, []row{
				{"an invalid input", 200, "", failure("VALIDATION"), final, indeterminate},
				{"a limit", 200, "", failure("RESOURCE_LIMIT"), indeterminate, indeterminate},
			}},
		},
	}
}
