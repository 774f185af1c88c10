package providers_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

func squareContract() contract {
	const pay = "POST https://connect.squareup.com/v2/payments"
	return contract{
		adapter: providers.Square(day),
		unfit: []string{
			pay + "\nContent-Type: application/json",
			pay + "\nContent-Type: application/json\n\n[{\"amount_money\":{}}]",
			pay + "\nContent-Type: application/json\n\n{\"amount_money\":{}",
			pay + "\nContent-Type: application/json\nContent-Encoding: gzip\n\n{}",
			pay + "\nContent-Type: application/json\n\n{\"idempotency_key\":\"a\",\"idempotency_key\":\"b\"}",
			pay + "\nContent-Type: application/json\n\n{\"idempotency_key\":1}",
		},
		sent: []sent{
			{
				pay + "\nContent-Type: application/json\n\n{\"amount_money\":{\"amount\":100}}",
				"POST /v2/payments HTTP/1.1\nHost: connect.squareup.com\nContent-Length: 88\nContent-Type: application/json\n\n{\"idempotency_key\":\"" + conformanceKey + "\",\"amount_money\":{\"amount\":100}}",
			},
			{
				pay + "\nContent-Type: application/json\n\n{\"amount_money\": {\"amount\": 100.00}, \"idempotency_key\": \"of an SDK\"}",
				"POST /v2/payments HTTP/1.1\nHost: connect.squareup.com\nContent-Length: 95\nContent-Type: application/json\n\n{\"amount_money\": {\"amount\": 100.00}, \"idempotency_key\": \"" + conformanceKey + "\"}",
			},
			{
				"POST https://connect.squareup.com/v2/payments/cancel\nContent-Type: application/json\n\n{\"idempotency_key\":\"of the payment\"}",
				"POST /v2/payments/cancel HTTP/1.1\nHost: connect.squareup.com\nContent-Length: 36\nContent-Type: application/json\n\n{\"idempotency_key\":\"of the payment\"}",
			},
		},
	}
}

func TestSquareWithoutARetentionClaimsNone(t *testing.T) {
	router := newRouter(t, providers.Square(0))
	rt := route(t, router, http.MethodPost, "https://connect.squareup.com/v2/payments")
	assert.Zero(t, rt.Endpoint.Retention)
	assert.Equal(t, providers.KeyJSONField, rt.Endpoint.Key.Place)
}
