package providertest

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// manners are the manners of the adapters, by the provider's name.
var manners = map[string]func(providers.Endpoint) Manner{
	"stripe":       stripe,
	"adyen":        adyen,
	"paypal":       paypal,
	"square":       square,
	"twilio":       twilio,
	"checkout.com": checkout,
	"mollie":       mollie,
	"wise":         wise,
	"razorpay":     razorpay,
	"dwolla":       dwolla,
	"braintree":    braintree,
	"shopify":      shopify,
	"repeatable":   repeatable,
	"aip155":       aip155,
	"aws":          aws,
	"increase":     increase,
	"svix":         svix,
	"resend":       resend,
	"bridge":       bridge,
	"truelayer":    trueLayer,
	"worldline":    worldline,
	"mercadopago":  mercadoPago,

	"gocardless": inForm("gocardless.com/blog/idempotency-keys [D]: 409 for any reuse; error format: gocardless-pro-go 553b873 gc.go [S]", func(status int, detail string) map[string]any {
		kind := "invalid_api_usage"
		if status == http.StatusConflict {
			kind = "invalid_state"
		}
		return map[string]any{"error": map[string]any{"type": kind, "code": status, "message": detail}}
	}),
	"klarna": inForm("docs.klarna.com/resources/developer-tools/error-handling [D]: error format; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"error_code": screaming(status), "error_messages": []any{detail}, "correlation_id": "providertest"}
	}),
	"moderntreasury": inForm("docs.moderntreasury.com/reference/idempotent-requests [D]: route-independent, not compared; errors: docs.moderntreasury.com/reference/errors [D]", func(status int, detail string) map[string]any {
		return map[string]any{"errors": map[string]any{"code": snake(status), "message": detail}}
	}),
	"column": inForm("column.com/docs/workingwithapi/errors [D]: error format; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"type": "invalid_request", "code": snake(status), "message": detail}
	}),
	"workos": inForm("error format: workos-go 27a5c27 [S]; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"message": detail, "code": snake(status)}
	}),
	"coinbase": inForm("docs.cdp.coinbase.com/api-reference/payment-apis/conventions [D]: error format; the status of a mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"errorType": snake(status), "errorMessage": detail, "correlationId": "providertest"}
	}),
	"fireblocks": inForm("developers.fireblocks.com/reference/api-responses [D]: error format; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"message": detail, "code": 1000 + status}
	}),
	"zuora": inForm("developer.zuora.com/docs/guides/idempotent-requests [D]; error format: [M]", func(status int, detail string) map[string]any {
		return map[string]any{"success": false, "reasons": []any{map[string]any{"code": 50000000 + status, "message": detail}}}
	}),
	"mangopay": inForm("docs.mangopay.com/api-reference/overview/idempotency [D]: error format; Mangopay answers a repeat by 409, where a box repeats the answer", func(status int, detail string) map[string]any {
		return map[string]any{"Message": detail, "Type": snake(status), "Id": "providertest", "errors": nil}
	}),
	"moov": inForm("docs.moov.io/guides/money-movement/idempotency [D]; error format: moov-go a3ea550 http_test.go [S]", func(status int, detail string) map[string]any {
		return map[string]any{"error": detail}
	}),
	"plaid": inForm("plaid-go v43.0.0 [S]: error format; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"error_type": "INVALID_REQUEST", "error_code": snake(status), "error_message": detail}
	}),
	"acp": inForm("agentic-commerce-protocol c2afc86 rfcs/rfc.agentic_checkout.md [D]", func(status int, detail string) map[string]any {
		return map[string]any{"type": "invalid_request", "code": snake(status), "message": detail}
	}),
	"ucp": inForm("Universal-Commerce-Protocol/ucp fdcf893 docs/specification/overview, Protocol Errors [S]", func(status int, detail string) map[string]any {
		return map[string]any{"code": snake(status), "content": detail}
	}),
	"airwallex": inForm("error format: airwallex.com/docs/api [M]; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"code": snake(status), "message": detail}
	}),
	"circle": inForm("error format: developers.circle.com [M]; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"code": 1000 + status, "message": detail}
	}),
	"lithic": inForm("error format: lithic-go v0.108.0 [S]; the status of a mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"message": detail, "debugging_request_id": "providertest"}
	}),
	"marqeta": inForm("error format: marqeta.com/docs/core-api/errors [M]; the status of a mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"error_code": snake(status), "error_message": detail}
	}),
	"chargebee": inForm("error format: apidocs.chargebee.com [M]; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"message": detail, "api_error_code": snake(status), "http_status_code": status}
	}),
	"flutterwave": inForm("error format: developer.flutterwave.com [M]; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"status": "failed", "message": detail}
	}),
	"rapyd": inForm("error format: docs.rapyd.net [M]", func(status int, detail string) map[string]any {
		return map[string]any{"status": map[string]any{"error_code": snake(status), "status": "ERROR", "message": detail}}
	}),
	"paystack": inForm("error format: paystack.com/docs/api/errors [M]; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"status": false, "message": detail}
	}),
	"telnyx": inForm("developers.telnyx.com/docs/development/api-fundamentals/idempotency [D]; error format: [M]", func(status int, detail string) map[string]any {
		return map[string]any{"errors": []any{map[string]any{"code": snake(status), "title": detail}}}
	}),
	"finix": inForm("error format: docs.finix.com [M]; mismatch: [?]", func(status int, detail string) map[string]any {
		return map[string]any{"total": 1, "_embedded": map[string]any{"errors": []any{map[string]any{"code": snake(status), "message": detail}}}}
	}),
	"amazonpay": inForm("error format: developer.amazon.com/docs/amazon-pay-api-v2 [M]", func(status int, detail string) map[string]any {
		return map[string]any{"reasonCode": snake(status), "message": detail}
	}),
}

// inForm is the manner of a provider that publishes its error form, and nothing else beyond the table.
func inForm(source string, body func(status int, detail string) map[string]any) func(providers.Endpoint) Manner {
	return func(providers.Endpoint) Manner {
		return Manner{Error: func(status int, detail string) Answer { return answerOf(status, body(status, detail)) }, Source: source}
	}
}

func stripe(e providers.Endpoint) Manner {
	m := Manner{
		EchoesKey: true,
		Error: func(status int, detail string) Answer {
			kind := "invalid_request_error"
			if status >= 500 {
				kind = "api_error"
			}
			return answerOf(status, map[string]any{"error": map[string]any{"type": kind, "message": detail}})
		},
		Source: "docs.stripe.com/api/idempotent_requests [D]; echo and error format: stripe-go a1e3932 [S]",
	}
	if strings.Contains(e.Pattern, "/v2/") {
		m.Scope = ByPath
		m.Source = "docs.stripe.com/api-v2-overview [D]: the same key at another endpoint is another operation; error format: stripe-go a1e3932 [S]"
	}
	return m
}

func adyen(providers.Endpoint) Manner {
	return Manner{
		EchoesKey: true,
		Error: func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"status": status, "errorCode": "000", "errorType": "internal", "message": detail})
		},
		Source: "docs.adyen.com/development-resources/api-idempotency [D]: the key comes back; mismatch: [?]; error format: adyen-openapi aa014f0 ServiceError [D]",
	}
}

func paypal(e providers.Endpoint) Manner {
	m := Manner{
		MismatchUnnoticed: true,
		Error:             paypalError,
		Source:            "paypal-rest-api-specifications ec4d8f3 [D]; mismatch of Orders v2 and Payments v2: [?]",
	}
	_, path, _ := strings.Cut(e.Pattern, " ")
	switch {
	case strings.HasPrefix(path, "/v2/checkout/orders"):
		m.RepeatStatus = http.StatusOK
	case strings.HasPrefix(path, "/v3/vault/"):
		m.RepeatStatus = http.StatusOK
		reused := paypalError(http.StatusUnprocessableEntity, "the PayPal-Request-ID has already been used for another request")
		reused.Body = []byte(`{"name":"UNPROCESSABLE_ENTITY","message":"…","details":[{"issue":"PAYPAL_REQUEST_ID_PREVIOUSLY_USED"}]}`)
		m.MismatchUnnoticed, m.Mismatch = false, &reused
	case strings.HasPrefix(path, "/v1/payments/"), strings.HasPrefix(path, "/v1/payment-experience/"):
		duplicate := paypalError(http.StatusBadRequest, "the value of PayPal-Request-Id header has already been used")
		duplicate.Body = []byte(`{"name":"DUPLICATE_REQUEST_ID","message":"…"}`)
		m.MismatchUnnoticed, m.Mismatch = false, &duplicate
	}
	return m
}

func paypalError(status int, detail string) Answer {
	return answerOf(status, map[string]any{"name": screaming(status), "message": detail, "debug_id": "providertest"})
}

func square(e providers.Endpoint) Manner {
	m := Manner{
		Scope: ByEndpoint,
		Error: func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"errors": []any{map[string]any{"category": "INVALID_REQUEST_ERROR", "code": screaming(status), "detail": detail}}})
		},
		Source: "developer.squareup.com/docs/working-with-apis/idempotency [D]: unique per endpoint",
	}
	switch e.Pattern {
	case "POST /v2/payments", "POST /v2/refunds", "POST /v2/cards":
		m.RequiresKey = true
		m.Source += "; required: connect-api-specification 5733f66 api.json [D]"
	}
	return m
}

func twilio(e providers.Endpoint) Manner {
	return Manner{
		RequiresKey: strings.Contains(e.Pattern, "/Payments"),
		Error: func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"code": 20001, "message": detail, "status": status})
		},
		Source: "twilio-oai d50069b [D]: required for payments; error format: twilio-go d858acd client/error.go [S]; mismatch: [?]",
	}
}

func checkout(providers.Endpoint) Manner {
	fail := func(status int, detail string) Answer {
		return answerOf(status, map[string]any{"error_type": "request_invalid", "error_codes": []any{snake(status)}, "request_id": "providertest"})
	}
	other := fail(http.StatusUnprocessableEntity, "")
	return Manner{
		Mismatch: &other,
		Error:    fail,
		Source:   "an integrator's reading of checkout.com/docs/developer-resources/api/idempotency [C]: 422; error format: checkout-sdk-go 30688ab errors/error.go [S]",
	}
}

func mollie(providers.Endpoint) Manner {
	fail := func(status int, detail string) Answer {
		a := problem(status, detail)
		a.Header.Set("Content-Type", "application/hal+json")
		return a
	}
	other := fail(http.StatusBadRequest, "the key was used with another request")
	return Manner{
		Mismatch: &other,
		Error:    fail,
		Source:   "integrators [C]: 400; error format: mollie/openapi cfbba47 error-response [D]",
	}
}

func wise(providers.Endpoint) Manner {
	return Manner{
		RequiresKey: true,
		Error: func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"errors": []any{map[string]any{"code": snake(status), "message": detail}}})
		},
		Source: "docs.wise.com/guides/product/send-money/standard-api-transfers [D]: required; error format: docs.wise.com/guides/developer/errors [D]; mismatch: [?]",
	}
}

func razorpay(e providers.Endpoint) Manner {
	return Manner{
		RequiresKey: strings.HasSuffix(e.Pattern, "/payouts"),
		Error: func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"error": map[string]any{"code": "BAD_REQUEST_ERROR", "description": detail, "field": e.Key.Name}})
		},
		Source: "razorpay.com/docs/api/x/payout-idempotency [D]: mandatory since 2025-03-15, and the error format",
	}
}

func dwolla(providers.Endpoint) Manner {
	return Manner{
		Scope: ByRequest,
		Error: func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"code": strings.ReplaceAll(http.StatusText(status), " ", ""), "message": detail})
		},
		Source: "developers.dwolla.com/docs/api-reference/api-fundamentals/idempotency-key [D]: for the key and exactly equal body; error format: developers.dwolla.com/docs/balance/api-reference/api-fundamentals/errors [D]",
	}
}

func braintree(providers.Endpoint) Manner {
	fail := func(_ int, detail string) Answer {
		return answerOf(http.StatusOK, map[string]any{
			"data":       nil,
			"errors":     []any{map[string]any{"message": detail, "extensions": map[string]any{"errorClass": "VALIDATION"}}},
			"extensions": map[string]any{"requestId": "providertest"},
		})
	}
	other := fail(0, "apiRequestKey was used with another input")
	return Manner{
		Mismatch: &other,
		Error:    fail,
		Failed: failedBy(
			providers.Rule{Field: "data.*.*.id", Verdict: providers.Final},
			providers.Rule{Field: "errors[].message", Verdict: providers.Rejected},
		),
		Source: "developer.paypal.com/braintree/graphql/integration_guides/idempotency [D]: VALIDATION; errors in a 200: developer.paypal.com/braintree/graphql/guides/making_api_calls [D]",
	}
}

func shopify(e providers.Endpoint) Manner {
	m := Manner{Source: "shopify.dev/docs/api/usage/implementing-idempotency [D]: user errors in a 200"}
	if !strings.HasSuffix(e.Pattern, "/graphql.json") {
		m.Error = func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"errors": detail})
		}
		return m
	}
	malformed := answerOf(http.StatusOK, map[string]any{"errors": []any{map[string]any{"message": "the argument key of @idempotent is not a string"}}})
	m.Malformed = &malformed
	m.Error = func(status int, _ string) Answer { return answerOf(status, map[string]any{}) }
	m.Failed = failedBy(
		providers.Rule{Field: "data.*.userErrors[].message", Verdict: providers.Rejected},
		providers.Rule{Field: "data.*.userErrors[].code", Verdict: providers.Rejected},
		providers.Rule{Field: "errors[].message", Verdict: providers.Rejected},
	)
	return m
}

func repeatable(providers.Endpoint) Manner {
	return Manner{
		KeepsRefusals: true,
		Executed:      map[string]string{"Repeatability-Result": "accepted"},
		Error: func(status int, detail string) Answer {
			a := answerOf(status, map[string]any{"error": map[string]any{"code": strings.ReplaceAll(http.StatusText(status), " ", ""), "message": detail}})
			if status < 500 {
				a.Header.Set("Repeatability-Result", "rejected")
			}
			return a
		},
		Source: "OASIS Repeatable Requests 1.0, CS01 [D]; 4xx and error format: learn.microsoft.com/rest/api/communication/repeatable-requests [D]",
	}
}

func aip155(providers.Endpoint) Manner {
	names := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	}
	return Manner{
		Error: func(status int, detail string) Answer {
			name, known := names[status]
			if !known {
				name = "UNKNOWN"
			}
			return answerOf(status, map[string]any{"error": map[string]any{"code": status, "status": name, "message": detail}})
		},
		Source: "google.aip.dev 126bed4 AIP-193 [D]: error format; mismatch and in flight are the service's own",
	}
}

func aws(e providers.Endpoint) Manner {
	m := Manner{
		Scope: ByEndpoint,
		Error: func(status int, detail string) Answer {
			a := answerOf(status, map[string]any{"__type": strings.ReplaceAll(http.StatusText(status), " ", ""), "message": detail})
			a.Header.Set("Content-Type", "application/x-amz-json-1.0")
			return a
		},
		Source: "docs.aws.amazon.com/ec2, Ensuring idempotency [D], and the SDKs' references [D]: tokens are a matter of each action",
	}
	switch {
	case e.Key.Place == providers.KeyFormField:
		m.Error = func(status int, detail string) Answer {
			return awsQueryError(status, strings.ReplaceAll(http.StatusText(status), " ", ""), detail)
		}
		other := awsQueryError(http.StatusBadRequest, "IdempotentParameterMismatch", "the token was used with other parameters")
		m.Mismatch = &other
	case e.Action.Value == "VerifiedPermissions.CreatePolicyStore":
		other := m.Error(http.StatusBadRequest, "the token was used with other parameters")
		other.Body = []byte(`{"__type":"ConflictException","message":"…"}`)
		m.Mismatch = &other
	}
	return m
}

func awsQueryError(status int, code, detail string) Answer {
	return Answer{
		Status: status,
		Header: http.Header{"Content-Type": {"text/xml;charset=UTF-8"}},
		Body: []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<Response><Errors><Error><Code>" + code + "</Code><Message>" + xmlText.Replace(detail) +
			"</Message></Error></Errors><RequestID>providertest</RequestID></Response>\n"),
	}
}

var xmlText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func increase(providers.Endpoint) Manner {
	fail := func(status int, detail string) Answer {
		return answerOf(status, map[string]any{"status": status, "type": snake(status) + "_error", "title": http.StatusText(status), "detail": detail})
	}
	other := answerOf(http.StatusConflict, map[string]any{
		"status": http.StatusConflict, "type": "idempotency_key_already_used_error", "title": "Conflict",
		"detail": "the key was used with other arguments", "resource_id": resourcePlace,
	})
	return Manner{
		Mismatch: &other,
		Error:    fail,
		Source:   "increase.com/documentation/idempotency-keys [D]; error format: increase-go ca1c95b internal/apierror [S]",
	}
}

func svix(providers.Endpoint) Manner {
	return Manner{
		Scope: ByPath,
		Waits: 5 * time.Second,
		Error: func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"code": snake(status), "detail": detail})
		},
		Source: "svix-webhooks 4fc0cfb server/svix-server/src/core/idempotency.rs [S]: by token, key and URL; a second request waits, and the lock lives 5 s",
	}
}

func resend(providers.Endpoint) Manner {
	fail := func(status int, detail string) Answer {
		return answerOf(status, map[string]any{"statusCode": status, "name": snake(status), "message": detail})
	}
	malformed := answerOf(http.StatusBadRequest, map[string]any{"statusCode": http.StatusBadRequest, "name": "invalid_idempotency_key", "message": "the key must have 1 to 256 characters"})
	return Manner{
		Malformed: &malformed,
		Error:     fail,
		Source:    "resend.com/docs/dashboard/emails/idempotency-keys [D]; error format: resend.com/docs/api-reference/errors [D]",
	}
}

func bridge(e providers.Endpoint) Manner {
	fail := func(status int, detail string) Answer {
		return answerOf(status, map[string]any{"code": snake(status), "message": detail})
	}
	other := fail(http.StatusUnprocessableEntity, "the key was used with another body")
	return Manner{
		RequiresKey: e.Key.Place != providers.KeyNone,
		Mismatch:    &other,
		Error:       fail,
		Source:      "apidocs.bridge.xyz/api-reference/introduction/idempotence [D]: keys are required, a mismatch is an error; its status and the error format: [M]",
	}
}

func trueLayer(providers.Endpoint) Manner {
	fail := func(status int, detail string) Answer {
		return answerOf(status, map[string]any{"type": "https://docs.truelayer.com/docs/error-types", "title": http.StatusText(status), "status": status, "detail": detail})
	}
	other := fail(http.StatusUnprocessableEntity, "the key was used with another payload")
	return Manner{
		Mismatch: &other,
		Error:    fail,
		Source:   "docs.truelayer.com/docs/error-types [D]",
	}
}

func worldline(providers.Endpoint) Manner {
	return Manner{
		MismatchUnnoticed: true,
		Error: func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"errorId": "providertest", "errors": []any{map[string]any{"message": detail}}})
		},
		Source: "docs.direct.worldline-solutions.com/en/integration/api-developer-guide/idempotent-requests [D]: even with another payload",
	}
}

func mercadoPago(e providers.Endpoint) Manner {
	return Manner{
		RequiresKey: e.Key.Place != providers.KeyNone,
		Error: func(status int, detail string) Answer {
			return answerOf(status, map[string]any{"status": strconv.Itoa(status), "error": snake(status), "message": detail})
		},
		Source: "mercadopago.com/developers/en/docs/wallet-connect/payment-flow/idempotency [D]: the key is mandatory; mismatch: [?]",
	}
}

// failedBy decides by fields of the body whether an answer is a failure. The first rule that matches is either Final
// or Rejected.
func failedBy(rules ...providers.Rule) func(Answer) bool {
	route := tables.Route{Endpoint: &providers.Endpoint{Rules: rules}}
	return func(a Answer) bool { return route.Classify(a.seen(false)).Verdict == providers.Rejected }
}

// snake is a status as many APIs name it: bad_request.
func snake(status int) string {
	text := cmp.Or(http.StatusText(status), "status "+strconv.Itoa(status))
	return strings.ReplaceAll(strings.ToLower(text), " ", "_")
}

// screaming is a status as other APIs name it: BAD_REQUEST.
func screaming(status int) string { return strings.ToUpper(snake(status)) }

// resourcePlace is the placeholder for the object's id in a Manner's bodies.
const resourcePlace = "{resource}"

// MannerOf returns the known manners of this module's adapters by the provider's name. An adapter with
// another name, or an API of your own, has the zero Manner. If a provider publishes nothing, the reading is
// the one that finds more mistakes: a mismatch is not detected, and a key counts for the whole API.
func MannerOf(p providers.Provider, e providers.Endpoint) Manner {
	of, known := manners[p.Name]
	switch {
	case known:
		return of(e)
	case e.Key.FirstSent != "":
		return repeatable(e)
	}
	return Manner{}
}
