package providers_test

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/providers"
)

// plainContract is the contract of a provider with one request to url that has an amount. The key goes into a header
// or a JSON field. With neither, the request goes out as it is.
func plainContract(adapter providers.Provider, url, header, field string) contract {
	const content = "Content-Type: application/json"
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
	body, lines := `{"amount":100}`, []string{content}
	if field != "" {
		body = `{"` + field + `":"` + conformanceKey + `","amount":100}`
	}
	if header != "" {
		lines = append(lines, header+": "+conformanceKey)
	}
	slices.SortFunc(lines, cmp.Compare[string])
	head := slices.Concat([]string{http.MethodPost + " /" + path + " HTTP/1.1", "Host: " + host, "Content-Length: " + strconv.Itoa(len(body))}, lines)
	return contract{adapter: adapter, sent: []sent{{
		http.MethodPost + " " + url + "\n" + content + "\n\n{\"amount\":100}",
		strings.Join(head, "\n") + "\n\n" + body,
	}}}
}

func plaidContract() contract {
	return plainContract(providers.Plaid(), "https://production.plaid.com/bank_transfer/create", "", "idempotency_key")
}

func acpContract() contract {
	return plainContract(providers.ACP("shop.example.com"), "https://shop.example.com/checkout_sessions", "Idempotency-Key", "")
}

func ucpContract() contract {
	return plainContract(providers.UCP("/ucp/v1", "business.example.com"), "https://business.example.com/ucp/v1/checkout-sessions", "Idempotency-Key", "")
}

func airwallexContract() contract {
	return plainContract(providers.Airwallex(), "https://api.airwallex.com/api/v1/transfers/create", "", "request_id")
}

func circleContract() contract {
	return plainContract(providers.Circle(), "https://api.circle.com/v1/payouts", "", "idempotencyKey")
}

func lithicContract() contract {
	return plainContract(providers.Lithic(), "https://api.lithic.com/v1/cards", "Idempotency-Key", "")
}

func marqetaContract() contract {
	return plainContract(providers.Marqeta("sandbox-api.marqeta.com"), "https://sandbox-api.marqeta.com/v3/cards", "", "token")
}

func chargebeeContract() contract {
	return plainContract(providers.Chargebee(), "https://site.chargebee.com/api/v2/subscriptions", "Chargebee-Idempotency-Key", "")
}

func flutterwaveContract() contract {
	return plainContract(providers.Flutterwave(), "https://api.flutterwave.cloud/transfers", "X-Idempotency-Key", "")
}

func rapydContract() contract {
	return plainContract(providers.Rapyd(), "https://api.rapyd.net/v1/payments", "Idempotency", "")
}

func paystackContract() contract {
	return plainContract(providers.Paystack(), "https://api.paystack.co/transfer", "", "reference")
}

func telnyxContract() contract {
	return plainContract(providers.Telnyx(), "https://api.telnyx.com/v2/messages", "Idempotency-Key", "")
}

func finixContract() contract {
	return plainContract(providers.Finix(), "https://finix.live-payments-api.com/transfers", "", "idempotency_id")
}

func amazonPayContract() contract {
	return plainContract(providers.AmazonPay(), "https://pay-api.amazon.com/v2/charges", "", "")
}
