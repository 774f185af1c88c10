package providers

import (
	"slices"
	"time"
)

// MercadoPago describes Mercado Pago's API for payments.
//
// A request that creates a payment or an advanced payment, or refunds one, must have a key in X-Idempotency-Key. After
// an interrupted connection it can be made again with the same key. If the payment was created, its information is
// returned. 409 is the answer while it is processed. The retention is not published. Pass a retention from Mercado
// Pago, or 0 for none, and then a request that may have run is not sent again. A request is also not sent again after a
// received failure, because a failure's effects are not published.
//
// Look-ups find a payment of the last twelve months by its external_reference, amount and payment_method_id,
// and a partial refund among the payment's refunds. Give each payment its own external_reference. If two
// payments of an order share one, a payment made elsewhere counts for both.
//
// A refund of a Pix that is in process also gets 400, and may take effect later. For a refund, 400 proves nothing. With
// "X-Render-In-Process-Refunds: true" the answer is 201, and the refund is listed. A refund took effect once its status is approved, and in no other state.
//
// The account belongs to the token. All other requests have an effect and no key. OAuth tokens and card
// tokens pass through.
func MercadoPago(retention time.Duration) Provider {
	keyed := Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "X-Idempotency-Key"},
		Retention:     retention,
		Remembers:     SuccessesLostAnswers,
		InFlightGuard: true,
		Rules: slices.Concat(
			[]Rule{
				{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceMercadoPago + "/responses: it is being processed, or has been paid"},
				{Status: 409, Verdict: Indeterminate, Source: "what a conflict means where nothing of ours is out is not published [?]"},
			},
			mercadoPagoKeyless,
		),
		Source: sourceMercadoPago + ": a payment that was created is returned; retention: the caller's",
	}
	payment, refund := keyed, keyed
	payment.Object, payment.Reference, payment.Lookups = "payment", mercadoPagoReference, []Lookup{mercadoPagoPayments}
	refund.Object, refund.Lookups = "refund", []Lookup{mercadoPagoRefunds}
	refund.Rules = slices.Concat([]Rule{{Status: 400, Verdict: Indeterminate, Source: sourceMercadoPagoPix + ": a refund that is in process is reported as 400"}}, keyed.Rules)
	return Provider{
		Name:             "mercadopago",
		Hosts:            []string{"api.mercadopago.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Source:           sourceMercadoPago + "; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: mercadoPagoKeyless, Source: sourceMercadoPago + ": payments only"}, "/"),
			each(Endpoint{NoEffect: true, Source: "mercadopago.com/developers [D]: the OAuth token endpoint; a card token makes no charge"}, "POST /oauth/token", "POST /v1/card_tokens"),
			each(payment, "POST /v1/payments"),
			each(refund, "POST /v1/payments/{id}/refunds"),
			each(keyed, "POST /v1/advanced_payments"),
		),
	}.Clone()
}

var (
	mercadoPagoReference = Reference{
		Place: KeyJSONField, Name: "external_reference", Visible: true, Mutable: true,
		Source: sourceMercadoPagoSDK + " pkg/payment/request.go; its length, visibility and mutability: [?]",
	}
	mercadoPagoPayments = Lookup{
		By:         ByReference,
		Path:       "/v1/payments/search",
		Query:      "sort=date_created&criteria=desc&external_reference={reference}&range=date_created&begin_date={since}&end_date={until}&limit=30",
		TimeLayout: "2006-01-02T15:04:05.000Z",
		Items:      "results[]",
		Same: []Same{
			{Field: "external_reference", Is: "{reference}"},
			{Field: "transaction_amount", Is: "{request.transaction_amount}", As: AsDecimal},
			{Field: "payment_method_id", Is: "{request.payment_method_id}", Optional: true}, // an order is often paid in another way after a refusal
		},
		ID:      "id",
		Created: "date_created",
		Next:    Paging{Style: PageOffset, Param: "offset", Size: 30},
		Means: states("status",
			TookEffect.of("approved", "authorized", "in_process", "pending"),
			Refused.of("rejected"),
			Reversed.of("cancelled", "refunded", "charged_back")),
		SameShape: true,
		Horizon:   365 * 24 * time.Hour,
		Source: "mercadopago.com/developers/en/reference/payments/_payments_search/get [D]: payments of the last twelve months; states: mercadopago.com/developers/en/docs/" +
			"checkout-api-payments/response-handling [D]; fields and pages: " + sourceMercadoPagoSDK + " pkg/payment; when one is listed: [?]",
	}

	// Of a refund of all no amount is said.
	mercadoPagoRefunds = Lookup{
		By:    ByParent,
		Path:  "/v1/payments/{path.id}/refunds",
		Items: "[]",
		Same: []Same{
			{Field: "payment_id", Is: "{path.id}"},
			{Field: "amount", Is: "{request.amount}", As: AsDecimal},
		},
		ID:      "id",
		Created: "date_created",
		Means: slices.Concat(
			states("status", TookEffect.of("approved"), Refused.of("rejected")),
			[]Meaning{{Field: "status", Is: InProgress}}, // a Pix goes back later, or not at all
		),
		Source: sourceMercadoPagoSDK + " pkg/refund: the refunds of a payment are an array; in_process: " + sourceMercadoPagoPix + "; approved and rejected: " +
			"api-evangelist/mercado-pago json-schema/mercado-pago-refund-schema.json [C]; any other state, and when one is listed: [?]",
	}
)

const sourceMercadoPagoSDK = "mercadopago/sdk-go f910ee5 [S]"

const sourceMercadoPagoPix = "mercadopago.com.br/developers/en/docs/checkout-api/payment-management/cancellations-and-refunds/refund-pix [D]"

const sourceMercadoPago = "mercadopago.com/developers/en/docs/wallet-connect/payment-flow/idempotency [D]"

var mercadoPagoKeyless = refusalsUnlimited("error", sourceMercadoPago+"/responses: an error has one")
