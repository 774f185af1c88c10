package providers_test

import (
	"strings"

	"github.com/onceward/onceward/providers"
)

func adyenContract() contract {
	const (
		payment  = "POST https://checkout-test.adyen.com/v71/payments"
		unproven = "POST https://management-test.adyen.com/v3/companies"

		transient = "Transient-Error: true"
		error704  = `{"status":422,"errorCode":"704","message":"request already processed or in progress"}`
		invalid   = `{"status":422,"errorCode":"101","message":"Invalid card number"}`
	)
	cards := []string{"paymentMethod.number", "paymentMethod.cvc", "card.number", "card.cvc"}
	// These are the versions whose description declares the header: adyen-openapi aa014f0.
	var keyed, keyless, reads []string
	for _, version := range strings.Fields("v37 v40 v41 v46 v49 v50 v51 v52 v53 v64 v65 v66 v67 v68 v69 v70 v71 v72") {
		for _, base := range []string{"/", "/checkout/"} {
			at := "POST https://checkout-test.adyen.com" + base + version
			keyed = append(keyed, at+"/payments", at+"/payments/P1/refunds", at+"/sessions")
			reads = append(reads, at+"/paymentMethods", at+"/paymentMethods/balance", at+"/cardDetails")
			switch version {
			case "v67", "v68", "v69", "v70", "v71", "v72":
				keyless = append(keyless, at+"/validateShopperId")
			}
		}
	}
	for _, version := range []string{"v3", "v4"} {
		at := "POST https://balanceplatform-api-live.adyen.com/btl/" + version
		keyed = append(keyed, at+"/grants", at+"/transfers", at+"/transfers/approve", at+"/transfers/cancel", at+"/transfers/T1/returns")
		keyless = append(keyless, at+"/cashouts")
	}
	return contract{
		adapter: providers.Adyen("1234abcd-Example"),
		terms: []terms{
			{
				requests: append(keyed, payment, "POST https://1234abcd-example-checkout-live.adyenpayments.com/checkout/v72/payments"),
				key:      "raw header Idempotency-Key", max: 64, refuses: []string{`"` + conformanceKey + `"`},
				retention: 7 * day, remembers: everything, guard: true, resent: true, secretFields: cards,
			},
			{
				requests: []string{
					"POST https://management-test.adyen.com/v3/companies/C1/apiCredentials",
					"POST https://management-test.adyen.com/v3/companies/C1/apiCredentials/A1/generateApiKey",
					"POST https://management-test.adyen.com/v3/companies/C1/webhooks/W1/generateHmac",
					"POST https://management-live.adyen.com/v3/merchants/M1/apiCredentials",
					"POST https://management-live.adyen.com/v3/merchants/M1/apiCredentials/A1/generateApiKey",
					"POST https://management-live.adyen.com/v3/merchants/M1/webhooks/W1/generateHmac",
					"POST https://test.adyen.com/authe/api/v1/sessions",
					"POST https://authe-live.adyen.com/authe/api/v1/sessions",
					"POST https://checkout-test.adyen.com/checkout/possdk/v68/sessions",
				},
				key: "raw header Idempotency-Key", max: 64, secret: true, secretFields: cards,
			},
			{
				requests: []string{
					unproven,
					"POST https://checkout-test.adyen.com/v73/payments",
					"POST https://device-api-live-us.adyen.com/v1/merchants/M1/devices/D1/async",
					"POST https://balance-control-live.adyen.com/btl/balanceControl/v1/balanceTransfer",
					"POST https://obgateway-live.adyen.com/obgateway/v1/accountVerification/routes",
					"POST https://ca-test.adyen.com/ca/services/DisputeService/v30/acceptDispute",
					"POST https://cal-test.adyen.com/cal/services/Fund/v6/transferFunds",
					"PATCH https://checkout-test.adyen.com/v71/paymentLinks/PL1",
					"POST https://management-live.adyen.com/v3/companies",
					"POST https://1234abcd-example-pal-live.adyenpayments.com/pal/servlet/Payment/v68/authorise",
				},
				key: "raw header Idempotency-Key", max: 64, secretFields: cards,
			},
			{requests: keyless},
		},
		noEffect: reads,
		sent: []sent{{
			payment + "\nContent-Type: application/json\n\n{\"reference\":\"invoice-991\"}",
			"POST /v71/payments HTTP/1.1\nHost: checkout-test.adyen.com\nContent-Length: 27\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"reference\":\"invoice-991\"}",
		}},
		answers: []answers{
			{payment, refusedRows},
			{payment, badInput[1:]},
			{payment, []row{
				{"an authorisation", 200, "Idempotency-Key: k", `{"resultCode":"Authorised"}`, final, final},
				{"a refusal by 200", 200, "", `{"resultCode":"Refused"}`, final, final},
				{"a cancellation by 200", 200, "", `{"resultCode":"Cancelled"}`, final, final},
				{"in flight by 422", 422, transient, error704, inFlight, inFlight},
				{"in flight by 409", 409, transient, error704, inFlight, inFlight},
				{"704 that is not marked transient", 422, "", error704, indeterminate, indeterminate},
				{"704 that says it is not transient", 422, "Transient-Error: false", error704, indeterminate, indeterminate},
				{"704 as a number", 422, transient, `{"errorCode":704}`, inFlight, inFlight},
				{"the key store is unavailable", 503, transient, `{"errorCode":"703"}`, notExecuted, notExecuted},
				{"the key store is unavailable, not marked", 503, "", `{"errorCode":"703"}`, indeterminate, indeterminate},
				{"an error marked transient", 500, transient, "", notExecuted, notExecuted},
				{"a stored 500", 500, "Idempotency-Key: k", `{"errorCode":"905"}`, indeterminate, indeterminate},
				{"a refusal", 422, "", invalid, final, indeterminate},
				{"a refusal that is not Adyen's", 422, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"408 without a mark", 408, "", "", indeterminate, indeterminate},
				{"409 without a mark", 409, "", "", indeterminate, indeterminate},
				{"425 without a mark", 425, "", "", indeterminate, indeterminate},
				{"429 without a mark", 429, "", `{"errorCode":"x"}`, indeterminate, indeterminate},
			}},
			{unproven, refusedRows},
			{unproven, []row{
				{"a success", 200, "", `{}`, final, final},
				{"a refusal by 200", 200, "", `{"resultCode":"Refused"}`, final, final},
				{"a cancellation by 200", 200, "", `{"resultCode":"Cancelled"}`, final, final},
				{"a mark that is not proven here", 500, transient, "", indeterminate, indeterminate},
				{"a refusal", 422, "", invalid, final, indeterminate},
				{"408", 408, "", "", indeterminate, indeterminate},
				{"409", 409, "", "", indeterminate, indeterminate},
				{"425", 425, "", "", indeterminate, indeterminate},
				{"429", 429, "", "", indeterminate, indeterminate},
			}},
		},
	}
}
