package providers_test

import (
	"strings"

	"github.com/onceward/onceward/providers"
)

func adyenContract() contract {
	const payment = "POST https://checkout-test.adyen.com/v71/payments"
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
		sent: []sent{{
			payment + "\nContent-Type: application/json\n\n{\"reference\":\"invoice-991\"}",
			"POST /v71/payments HTTP/1.1\nHost: checkout-test.adyen.com\nContent-Length: 27\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"reference\":\"invoice-991\"}",
		}},
	}
}
