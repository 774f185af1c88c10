package providers_test

import (
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/providers"
)

// plainContract completes the contract of a provider whose errors are like failure. The provider does not publish the
// meaning of 409 for a key. keyed is the request that is shown on the wire.
func plainContract(c contract, keyed, failure string) contract {
	for _, group := range c.terms {
		for _, text := range group.requests {
			c.answers = append(c.answers, answers{text, refusalRows(failure)})
			if group.key != "" || c.adapter.Name == "amazonpay" {
				c.answers = append(c.answers, answers{text, []row{{"a conflict", 409, "", failure, indeterminate, indeterminate}}})
				c.ownKey = append(c.ownKey, answers{text, ownKeyRows(failure)})
			}
		}
	}
	method, rest, _ := strings.Cut(keyed, " https://")
	host, path, _ := strings.Cut(rest, "/")
	body, header := `{"amount":100}`, ""
	switch place, name, _ := strings.Cut(strings.TrimPrefix(c.terms[0].key, "raw "), " "); place {
	case "JSON":
		body = `{"` + strings.TrimPrefix(name, "field ") + `":"` + conformanceKey + `","amount":100}`
	case "header":
		header = name + ": " + conformanceKey + "\n"
	}
	length := "Content-Length: " + strconv.Itoa(len(body)) + "\n"
	lines := []string{length, "Content-Type: application/json\n"}
	if header != "" {
		lines = append(lines, header)
	}
	slices.Sort(lines)
	c.sent = append(c.sent, sent{
		keyed + "\nContent-Type: application/json\n\n{\"amount\":100}",
		method + " /" + path + " HTTP/1.1\nHost: " + host + "\n" + orderedHead(lines, length) + "\n" + body,
	})
	return c
}

// orderedHead puts the length first, as net/http writes it.
func orderedHead(lines []string, length string) string {
	rest := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line == length })
	return length + strings.Join(rest, "")
}

func plaidContract() contract {
	const (
		host     = "POST https://production.plaid.com"
		transfer = host + "/bank_transfer/create"
		other    = host + "/transfer/create"
	)
	c := plainContract(contract{
		adapter: providers.Plaid(),
		terms: []terms{
			{requests: []string{transfer}, key: "JSON field idempotency_key", max: 50, retention: 7 * day, remembers: cleanFailures, guard: true, resent: true},
			{requests: []string{host + "/transfer/authorization/create"}, key: "JSON field idempotency_key", max: 50, retention: 2 * day, remembers: successes},
			{requests: []string{
				host + "/transfer/refund/create", "POST https://sandbox.plaid.com/transfer/ledger/deposit",
				host + "/transfer/ledger/withdraw", host + "/transfer/ledger/distribute",
			}, key: "JSON field idempotency_key", max: 50, remembers: successes},
			{requests: []string{
				host + "/payment_initiation/consent/payment/execute", host + "/wallet/create", host + "/wallet/transaction/execute",
			}, key: "JSON field idempotency_key", max: 128, retention: day, remembers: successes},
			{requests: []string{other, host + "/transfer/recurring/create"}},
		},
	}, transfer, `{"error_type":"INVALID_INPUT","error_code":"INVALID_FIELD","error_message":"x"}`)
	for _, path := range []string{
		"accounts/get", "accounts/balance/get", "auth/get", "identity/get", "institutions/get", "institutions/get_by_id", "item/get", "transactions/get",
		"transactions/sync", "transfer/get", "transfer/list", "transfer/event/list", "transfer/event/sync", "transfer/ledger/get", "transfer/refund/get",
		"bank_transfer/get", "bank_transfer/list", "payment_initiation/payment/get", "payment_initiation/payment/list", "wallet/get", "wallet/list",
		"wallet/transaction/get", "wallet/transaction/list",
	} {
		c.noEffect = append(c.noEffect, host+"/"+path)
	}
	return c
}

func acpContract() contract {
	const (
		session = "POST https://shop.example.com/checkout_sessions"
		cancel  = "PUT https://shop.example.com/checkout_sessions/1"
		failure = `{"type":"invalid_request","code":"invalid","message":"x"}`
	)
	return contract{
		adapter: providers.ACP("shop.example.com"),
		terms: []terms{
			{
				requests: []string{session, session + "/1", session + "/1/complete", session + "/1/cancel"},
				key:      "raw header Idempotency-Key", max: 255, retention: day, remembers: lostAnswers, guard: true, resent: true,
			},
			{requests: []string{cancel}},
		},
		sent: []sent{{
			session + "\nContent-Type: application/json\n\n{\"items\":[]}",
			"POST /checkout_sessions HTTP/1.1\nHost: shop.example.com\nContent-Length: 12\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"items\":[]}",
		}},
		answers: []answers{
			{session, refusalRows(failure)},
			{cancel, refusalRows(failure)},
			{session, []row{
				{"in flight", 409, "Retry-After: 1", `{"type":"invalid_request","code":"idempotency_in_flight"}`, inFlight, inFlight},
				{"another body", 422, "", `{"type":"invalid_request","code":"idempotency_conflict"}`, misuse, misuse},
				{"another body, by an older text", 409, "", `{"type":"invalid_request","code":"idempotency_conflict"}`, misuse, misuse},
				{"another conflict", 409, "", failure, indeterminate, indeterminate},
				{"a failure, which is not stored", 500, "", `{"type":"processing_error","code":"x"}`, retry, retry},
			}},
		},
	}
}

func airwallexContract() contract {
	const host, transfer = "POST https://api.airwallex.com/api/v1/", "POST https://api.airwallex.com/api/v1/transfers/create"
	secrets := []string{"card.number", "card.cvc"}
	return plainContract(contract{
		adapter: providers.Airwallex(),
		terms: []terms{
			{
				requests: []string{
					transfer, "POST https://api-demo.airwallex.com/api/v1/pa/payment_intents/create", host + "pa/payment_intents/1/confirm",
					host + "pa/payment_intents/1/capture", host + "pa/payment_intents/1/cancel", host + "pa/refunds/create",
				},
				key: "JSON field request_id", remembers: successes, secretFields: secrets,
			},
			{requests: []string{host + "beneficiaries/create"}, secretFields: secrets},
		},
		noEffect: []string{host + "authentication/login"},
	}, transfer, `{"code":"validation_error","message":"x"}`)
}

func circleContract() contract {
	const host, payout = "POST https://api.circle.com/v1/", "POST https://api.circle.com/v1/payouts"
	return plainContract(contract{
		adapter: providers.Circle(),
		terms: []terms{
			{
				requests: []string{
					payout, "POST https://api-sandbox.circle.com/v1/transfers", host + "payments", host + "payments/1/refund",
					host + "businessAccount/payouts", host + "businessAccount/transfers", host + "w3s/developer/transactions/transfer",
				},
				key: "JSON field idempotencyKey", version: 4, remembers: successes,
			},
			{requests: []string{host + "paymentIntents"}},
		},
	}, payout, `{"code":2,"message":"x"}`)
}

func lithicContract() contract {
	const (
		card  = "POST https://api.lithic.com/v1/cards"
		host  = "POST https://api.lithic.com/v1/"
		other = host + "payments"
	)
	return plainContract(contract{
		adapter: providers.Lithic(),
		terms: []terms{
			{
				requests: []string{card, "POST https://sandbox.lithic.com/v1/cards/1/renew"},
				key:      "raw header Idempotency-Key", min: 36, max: 36, refuses: []string{"invoice-991-charge-of-november-2026-x"},
				retention: day, remembers: everything, guard: true, secret: true, resent: true,
			},
			{requests: []string{other, host + "external_payments", host + "book_transfers", host + "management_operations", host + "disputes"}, key: "raw header Idempotency-Key", min: 36, max: 36, secretFields: []string{"pan", "pin"}},
			{requests: []string{"PATCH https://api.lithic.com/v1/cards/1", "PUT https://api.lithic.com/v1/x", "DELETE https://api.lithic.com/v1/x/1"}, idempotent: true, secretFields: []string{"pan", "pin"}},
		},
	}, card, `{"message":"x","debugging_request_id":"1"}`)
}

func marqetaContract() contract {
	const card = "POST https://sandbox-api.marqeta.com/v3/cards"
	return plainContract(contract{
		adapter: providers.Marqeta("sandbox-api.marqeta.com"),
		terms: []terms{
			{requests: []string{card, "POST https://sandbox-api.marqeta.com/v3/users", "POST https://sandbox-api.marqeta.com/v3/businesses"}, key: "JSON field token", max: 36, retention: 90 * day, remembers: successes},
			{requests: []string{"PUT https://sandbox-api.marqeta.com/v3/cards/1", "POST https://sandbox-api.marqeta.com/v3/users/auth/login"}},
		},
	}, card, `{"error_code":"400017","error_message":"x"}`)
}

func chargebeeContract() contract {
	const create = "POST https://site.chargebee.com/api/v2/subscriptions"
	secrets := []string{"card.number", "card.cvv"}
	return plainContract(contract{
		adapter: providers.Chargebee(),
		terms: []terms{
			{
				requests: []string{
					create, "POST https://site.chargebee.com/api/v2/customers", "POST https://site.chargebee.com/api/v2/customers/1/subscriptions",
					"POST https://site.chargebee.com/api/v2/customers/1/subscription_for_items", "POST https://site.chargebee.com/api/v2/invoices/1/refund",
				},
				key: "raw header Chargebee-Idempotency-Key", max: 100, retention: day / 48, remembers: successes, secretFields: secrets,
			},
			{requests: []string{"PUT https://site.chargebee.com/api/v2/subscriptions/1"}, secretFields: secrets},
		},
		noEffect: []string{"POST https://site.chargebee.com/api/v2/estimates/create_subscription"},
		answers:  []answers{{create, []row{{"a replay", 400, "Chargebee-Idempotency-Replayed: true", `{"api_error_code":"x"}`, indeterminate, indeterminate}}}},
	}, create, `{"message":"x","api_error_code":"param_wrong_value"}`)
}

func flutterwaveContract() contract {
	const host, transfer = "POST https://api.flutterwave.cloud", "POST https://api.flutterwave.cloud/transfers"
	return plainContract(contract{
		adapter: providers.Flutterwave(),
		terms: []terms{
			{
				requests: []string{
					transfer, "POST https://developersandbox-api.flutterwave.com/customers", "POST https://f4bexperience.flutterwave.com/charges",
					host + "/orchestration/direct-charges", host + "/developersandbox/charges", host + "/developersandbox/orchestration/direct-charges",
					host + "/f4b/production/charges", host + "/f4b/production/orchestration/direct-charges",
				},
				key: "raw header X-Idempotency-Key", min: 12, max: 255, remembers: successes,
			},
			{requests: []string{"PUT https://api.flutterwave.cloud/customers/1"}},
		},
	}, transfer, `{"status":"failed","message":"x"}`)
}

func rapydContract() contract {
	const payment = "POST https://api.rapyd.net/v1/payments"
	secrets := []string{"fields.number", "fields.cvv"}
	return plainContract(contract{
		adapter: providers.Rapyd(),
		terms: []terms{
			{requests: []string{payment}, key: "raw header Idempotency", retention: day, remembers: successes, secretFields: secrets},
			{requests: []string{"POST https://sandboxapi.rapyd.net/v1/refunds"}, secretFields: secrets},
		},
	}, payment, `{"status":{"error_code":"INVALID","status":"ERROR"}}`)
}

func paystackContract() contract {
	const transfer, charge = "POST https://api.paystack.co/transfer", "POST https://api.paystack.co/transaction/charge_authorization"
	return plainContract(contract{
		adapter: providers.Paystack(),
		terms: []terms{
			{
				requests: []string{transfer},
				key:      "JSON field reference", min: 16, max: 50, refuses: []string{"INVOICE-991-OF-NOVEMBER"}, retention: 90 * day, remembers: lostAnswers,
			},
			{requests: []string{charge}, secretFields: []string{"card.number", "card.cvv"}},
		},
	}, transfer, `{"status":false,"message":"x"}`)
}

func telnyxContract() contract {
	const message = "POST https://api.telnyx.com/v2/messages"
	return plainContract(contract{
		adapter: providers.Telnyx(),
		terms: []terms{
			{requests: []string{message, "POST https://api.telnyx.com/v2/number_orders"}, key: "raw header Idempotency-Key", min: 1, max: 255, refuses: []string{"a.b"}, remembers: successes},
			{requests: []string{"PATCH https://api.telnyx.com/v2/phone_numbers/1"}},
		},
	}, message, `{"errors":[{"code":"10015","title":"x"}]}`)
}

func finixContract() contract {
	const transfer = "POST https://finix.live-payments-api.com/transfers"
	return plainContract(contract{
		adapter: providers.Finix(),
		terms: []terms{
			{
				requests: []string{
					transfer, "POST https://finix.sandbox-payments-api.com/authorizations", "POST https://finix.live-payments-api.com/transfers/1/reversals",
				},
				key: "JSON field idempotency_id", remembers: successes,
			},
			{requests: []string{"POST https://finix.live-payments-api.com/payment_instruments"}, secretFields: []string{"number", "security_code", "account_number"}},
		},
	}, transfer, `{"total":1,"_embedded":{"errors":[{"code":"INVALID_FIELD","message":"x"}]}}`)
}

func amazonPayContract() contract {
	const charge = "POST https://pay-api.amazon.com/v2/charges"
	return plainContract(contract{
		adapter: providers.AmazonPay(),
		terms:   []terms{{requests: []string{charge, "POST https://pay-api.amazon.eu/v2/refunds", "PATCH https://pay-api.amazon.jp/v2/chargePermissions/1"}}},
	}, charge, `{"reasonCode":"InvalidParameterValue","message":"x"}`)
}
