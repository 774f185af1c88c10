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
	return contract{
		adapter: providers.Braintree(),
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
	}
}
