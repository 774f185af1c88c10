package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

const gocardlessConflict = `{"error":{"type":"invalid_state","code":409,"errors":[{"reason":"idempotent_creation_conflict","message":"x","links":{"conflicting_resource_id":"PM123"}}]}}`

func gocardlessContract() contract {
	const (
		host = "https://api.gocardless.com"
		pay  = "POST " + host + "/payments"
	)
	return contract{
		adapter: providers.GoCardless(),
		sent: []sent{{
			pay + "\nContent-Type: application/json\n\n{\"payments\":{\"amount\":100}}",
			"POST /payments HTTP/1.1\nHost: api.gocardless.com\nContent-Length: 27\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"payments\":{\"amount\":100}}",
		}},
	}
}

func TestGoCardlessNamesTheExistingResource(t *testing.T) {
	for _, tc := range []struct {
		url   string
		fetch bool
	}{
		{"https://api.gocardless.com/payments", true},
		{"https://api.gocardless.com/branding/logos", false},
	} {
		rt := route(t, newRouter(t, providers.GoCardless()), "POST", tc.url)
		j := rt.Classify(tables.Answer{Status: 409, Body: []byte(gocardlessConflict)})
		assert.Equal(t, "PM123", j.Pointer)
		assert.True(t, j.Earlier, "it proves an earlier attempt")
		assert.Equal(t, tc.fetch, rt.Endpoint.FetchPointer, tc.url)
	}
}
