package providers

import (
	"slices"
	"time"
)

// Adyen describes Adyen's APIs in test and, if prefix is not empty, on the company's own live hosts
// (PREFIX-checkout-live.adyenpayments.com). Each data centre has a separate prefix and a separate record of keys. An
// operation stays with its first host.
//
// The table trusts keys only if Adyen's OpenAPI description declares the header. It does for the POSTs of Checkout
// v37 to v72 without /validateShopperId, and of Transfers v3 and v4 without /cashouts. They are kept for at least 7
// days, per company account. Requests on other paths (Management, classic Payment, Payout, Recurring, Balance
// Platform, Legal Entity, Terminal, Disputes, Capital, Open Banking, …) carry the key, but are not sent again once
// they may have run. Checkout requests that only read (payment methods, balances, card details) pass through.
//
// A payment with a raw card number is a secret. So are answers with the token of a session (authe-*) or a
// key.
//
// An error is sent again only with transient-error: true, by which Adyen declares no side effects. Any other error is
// stored. A 5xx is therefore Indeterminate, and a 4xx is the operation's answer on a first attempt only, because
// nothing marks a replay. Error 704, if marked transient, means that the key is in use. Otherwise it has other causes
// too, and is Indeterminate. Adyen does not publish the answer to a key that was used with another request.
//
// A v4 transfer is found by its reference if the transfer names its balance account, and the events show the reference
// too. Checkout has no look-up for a payment. Its events show the reference but not the time of the request, and may
// belong to an earlier try whose shopper returns only now. They settle only payments, captures and refunds with a known
// pspReference.
func Adyen(prefix string) Provider {
	hosts := []string{
		"checkout-test.adyen.com",
		"balanceplatform-api-test.adyen.com", "balanceplatform-api-live.adyen.com",
		"pal-test.adyen.com",
		"management-test.adyen.com", "management-live.adyen.com",
		"kyc-test.adyen.com", "kyc-live.adyen.com",
		"device-api-test.adyen.com", "device-api-live.adyen.com", "device-api-live-us.adyen.com", "device-api-live-au.adyen.com", "device-api-live-apse.adyen.com",
		"balance-control-test.adyen.com", "balance-control-live.adyen.com",
		"obgateway-test.adyen.com", "obgateway-live.adyen.com",
		"test.adyen.com", "authe-live.adyen.com",
		"ca-test.adyen.com", "cal-test.adyen.com",
	}
	if prefix != "" {
		hosts = append(hosts, prefix+"-checkout-live.adyenpayments.com", prefix+"-pal-live.adyenpayments.com")
	}
	p := Provider{
		Name:           "adyen",
		SecretSource:   sourceAdyenSpec + ": a card's number and code, which may be encrypted and are no secret then; our reading: no other field is secret",
		Hosts:          hosts,
		Answers:        jsonAnswers,
		WebhookSchemes: []string{"adyen", "adyen platform"},
		Events:         slices.Concat(adyenEvents, adyenTransferEvents),
		Source:         sourceAdyenDocs + "; hosts: " + sourceAdyenSpec,
		Declines: []Decline{
			{Field: "resultCode", Equals: "Refused", Source: sourceAdyenResults},
			{Field: "resultCode", Equals: "Cancelled", Source: sourceAdyenResults + ": before processing was completed"},
		},
		Endpoints: each(adyenUndeclared, "/"),
	}
	add := func(e Endpoint, patterns ...string) { p.Endpoints = append(p.Endpoints, each(e, patterns...)...) }
	for _, version := range []string{"v37", "v40", "v41", "v46", "v49", "v50", "v51", "v52", "v53", "v64", "v65", "v66", "v67", "v68", "v69", "v70", "v71", "v72"} {
		for _, base := range []string{"/", "/checkout/"} {
			below := base + version + "/"
			add(adyenCheckout, posts(below, "")...)
			add(adyenReads, posts(below, "paymentMethods", "paymentMethods/balance", "cardDetails")...)
			if version >= "v67" {
				add(adyenKeyless, posts(below, "validateShopperId")...)
			}
		}
	}
	for _, version := range []string{"v3", "v4"} {
		below, transfers := "/btl/"+version+"/", adyenKeyed
		if version == "v4" { // v3 has no list
			transfers.Object, transfers.Reference, transfers.Lookups = "transfer", adyenTransferReference, []Lookup{adyenTransfers}
		}
		add(transfers, posts(below, "transfers")...)
		add(adyenKeyed, posts(below, "grants", "transfers/approve", "transfers/cancel", "transfers/{id}/returns")...)
		add(adyenKeyless, posts(below, "cashouts")...)
	}
	add(adyenSecret, "POST /authe/api/v1/sessions", "POST /checkout/possdk/{version}/sessions")
	for _, account := range []string{"companies", "merchants"} {
		add(adyenSecret, posts("/v3/"+account+"/{account}/", "apiCredentials", "apiCredentials/{id}/generateApiKey", "webhooks/{id}/generateHmac")...)
	}
	return p.Clone()
}

const (
	sourceAdyenDocs = "docs.adyen.com/development-resources/api-idempotency [D]"
	sourceAdyenSpec = "adyen-openapi aa014f0 [D]"
)

var (
	adyenTransferReference = Reference{
		Place: KeyJSONField, Name: "reference", MaxLength: 80,
		Source: sourceAdyenSpec + " TransferInfo: used internally within the platform; the beneficiary is sent referenceForBeneficiary; nothing changes it",
	}

	adyenTransfers = Lookup{
		By:         ByReference,
		Path:       "/btl/v4/transfers",
		Query:      "balanceAccountId={request.balanceAccountId}&reference={reference}&createdSince={since}&createdUntil={until}&limit=100",
		TimeLayout: "rfc3339",
		Items:      "data[]",
		Same: []Same{
			{Field: "reference", Is: "{reference}"},
			{Field: "amount.value", Is: "{request.amount.value}"},
			{Field: "amount.currency", Is: "{request.amount.currency}"},
			{Field: "balanceAccount.id", Is: "{request.balanceAccountId}"},
			{Field: "category", Is: "{request.category}"},
		},
		ID:      "id",
		Created: "createdAt",
		Next:    Paging{Style: PageLink, Cursor: "_links.next.href"},
		Means: states("status",
			Refused.of("refused"),
			Reversed.of("cancelled", "failed", "returned"),
			TookEffect.of("received", "authorised", "booked")),
		Fetch:     "/btl/v4/transfers/{id}",
		SameShape: true,
		Source:    "adyen-openapi aa014f0 TransferService-v4 [D]: one of three accounts has to be named, and both times, at most 6 months apart; when a transfer is listed: [?]",
	}
)

const sourceAdyenResults = "docs.adyen.com/online-payments/build-your-integration/payment-result-codes [D]"

var (
	adyenKey = Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 64}

	adyenKeyed = Endpoint{
		Key:           adyenKey,
		Retention:     7 * 24 * time.Hour,
		Remembers:     Everything,
		InFlightGuard: true,
		SecretRequest: adyenCards,
		Rules:         adyenRules,
		Source:        sourceAdyenDocs + "; the header: " + sourceAdyenSpec + "; older copies of the page say 31 days [D-old]",
	}

	// adyenCheckout names payments and their later requests by the same field.
	adyenCheckout = func() Endpoint {
		e := adyenKeyed
		e.ObjectID = "pspReference"
		return e
	}()

	// adyenCards are the fields of a raw card: the number and the code.
	adyenCards = []string{"paymentMethod.number", "paymentMethod.cvc", "card.number", "card.cvc"}

	adyenReads = Endpoint{
		NoEffect: true,
		Source:   sourceAdyenSpec + ": the paths; our reading: they only look something up",
	}

	adyenUndeclared = Endpoint{
		Key:           adyenKey,
		SecretRequest: adyenCards,
		Rules:         adyenUnproven,
		Source:        sourceAdyenSpec + ": the header is not declared; " + sourceAdyenDocs + ` speaks of "the Adyen API" [?]`,
	}

	// adyenSecret are the paths whose answers hold an API key, a webhook's signature key or a session's token.
	adyenSecret = secretly(adyenUndeclared, "")

	adyenKeyless = Endpoint{
		Rules:  adyenUnproven,
		Source: sourceAdyenSpec + ": the header is not declared",
	}

	adyenRules = slices.Concat(
		[]Rule{
			{Status: 422, Header: "Transient-Error", Value: "true", Field: "errorCode", Equals: "704", Verdict: InFlight, Source: sourceAdyenInFlight},
			{Status: 409, Header: "Transient-Error", Value: "true", Field: "errorCode", Equals: "704", Verdict: InFlight, Source: sourceAdyenInFlight},
			{Status: 400, Through: 599, Header: "Transient-Error", Value: "true", Verdict: NotExecuted, Source: sourceAdyenDocs + ": no side effects, may be sent again"},
			{Status: 400, Through: 599, Field: "errorCode", Equals: "704", Verdict: Indeterminate, Source: "odoo PR 287020 [C]: 704 has other causes than a request of ours in flight"},
		},
		refused,
		adyenUnproven[len(refused):],
	)

	// adyenUnproven reads answers at endpoints without proven support for keys, and ends the rules for others.
	adyenUnproven = slices.Concat(
		refused,
		[]Rule{
			{Status: 408, Verdict: Indeterminate, Source: sourceAdyenNoRetry},
			{Status: 409, Verdict: Indeterminate, Source: sourceAdyenNoRetry},
			{Status: 425, Verdict: Indeterminate, Source: sourceAdyenNoRetry},
			{Status: 429, Verdict: Indeterminate, Source: sourceAdyenNoRetry},
			{Status: 400, Through: 499, Field: "errorCode", On: FirstAttempt, Verdict: Final, Source: sourceAdyenDocs + ": an error that is not transient is stored as the result; the field: " + sourceAdyenSpec + " ServiceError"},
			{Status: 500, Through: 599, Verdict: Indeterminate, Source: sourceAdyenNoRetry},
		},
	)
)

const sourceAdyenInFlight = sourceAdyenDocs + ": of two at once, the other gets a transient error"

const sourceAdyenNoRetry = sourceAdyenDocs + ": without transient-error: true, do not retry"
