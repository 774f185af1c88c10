package tables_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func TestDeclaredRetention(t *testing.T) {
	header, field := providers.Declared{Header: "Key-Ttl"}, providers.Declared{Field: "idempotency.ttl"}
	for _, row := range []struct {
		name     string
		declared providers.Declared
		lines    []string
		body     string
		want     time.Duration // -1: none
	}{
		{"a header", header, []string{" 3600 "}, "", time.Hour},
		{"a header that comes twice, alike", header, []string{"60", "60"}, "", time.Minute},
		{"a header that contradicts itself", header, []string{"60", "61"}, "", 0},
		{"no header", header, nil, `{"idempotency":{"ttl":60}}`, -1},
		{"an empty header", header, []string{""}, "", -1},
		{"a negative number", header, []string{"-1"}, "", 0},
		{"a signed number", header, []string{"+3600"}, "", 0},
		{"a fraction", header, []string{"3600.5"}, "", 0},
		{"a unit", header, []string{"24h"}, "", 0},
		{"two lines that a proxy has joined", header, []string{"3600, 3600"}, "", 0},
		{"more than a duration holds", header, []string{"99999999999999"}, "", -1},
		{"nothing is remembered", header, []string{"0"}, "", 0},
		{"less than a minute", header, []string{"59"}, "", 0},
		{"a field", field, []string{"1"}, `{"idempotency":{"ttl":86400}}`, 24 * time.Hour},
		{"a field with a text", field, nil, `{"idempotency":{"ttl":"60"}}`, time.Minute},
		{"a field with another text", field, nil, `{"idempotency":{"ttl":"PT1H"}}`, 0},
		{"a field that comes twice", field, nil, `{"idempotency":{"ttl":60,"ttl":61}}`, -1},
		{"a field that is an object", field, nil, `{"idempotency":{"ttl":{}}}`, -1},
		{"a body that is not JSON", field, nil, `ttl=60`, -1},
		{"a table that names none", providers.Declared{}, []string{"60"}, `{"idempotency":{"ttl":60}}`, -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			rt := tables.Route{Endpoint: &providers.Endpoint{Declared: row.declared}}
			got, ok := rt.Declared(tables.Answer{Header: http.Header{"Key-Ttl": row.lines}, Body: []byte(row.body)})
			assert.Equal(t, row.want >= 0, ok)
			if ok {
				assert.Equal(t, row.want, got)
			}
		})
	}
}
