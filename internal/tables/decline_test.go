package tables_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func TestADeclineByASuccessIsNoEffect(t *testing.T) {
	adyen, paypal, checkout, braintree := providers.Adyen(""), providers.PayPal(), providers.Checkout(), providers.Braintree()
	for _, tc := range []struct {
		name     string
		provider *providers.Provider
		status   int
		body     string
		declined bool
	}{
		{"refused", &adyen, 200, `{"pspReference":"p","resultCode":"Refused"}`, true},
		{"cancelled", &adyen, 200, `{"resultCode":"Cancelled"}`, true},
		{"authorised", &adyen, 200, `{"resultCode":"Authorised"}`, false},
		{"an error while it was processed", &adyen, 200, `{"resultCode":"Error"}`, false},
		{"in another object", &adyen, 200, `{"order":{"resultCode":"Refused"}}`, false},
		{"in another case", &adyen, 200, `{"resultcode":"Refused"}`, false},
		{"said twice", &adyen, 200, `{"resultCode":"Refused","resultCode":"Authorised"}`, false},
		{"said twice alike", &adyen, 200, `{"resultCode":"Refused","resultCode":"Refused"}`, false},
		{"cut short", &adyen, 200, `{"resultCode":"Refused"`, false},
		{"broken behind it", &adyen, 200, `{"resultCode":"Refused","x":}`, false},
		{"broken instead of it", &adyen, 200, `{"resultCode":nope}`, false},
		{"broken at its name", &adyen, 200, `{"resultCode":"Refused",x:1}`, false},
		{"ended by another bracket", &adyen, 200, `{"resultCode":"Refused"]`, false},
		{"null", &adyen, 200, `{"resultCode":null}`, false},
		{"as long as is read", &adyen, 200, `{"resultCode":"Refused","x":"` + strings.Repeat("x", 1<<16-31) + `"}`, true},
		{"with something behind it", &adyen, 200, `{"resultCode":"Refused"} {}`, false},
		{"in a list", &adyen, 200, `[{"resultCode":"Refused"}]`, false},
		{"no answer of 2xx", &adyen, 422, `{"resultCode":"Refused"}`, false},
		{"no body", &adyen, 200, ``, false},
		{"too long to be read", &adyen, 200, `{"resultCode":"Refused","x":"` + strings.Repeat("x", 1<<17) + `"}`, false},
		{"nested too deep", &adyen, 200, `{"x":` + strings.Repeat("[", 60000), false},

		{"a capture", &paypal, 201, `{"id":"1","status":"COMPLETED","purchase_units":[{"payments":{"captures":[{"status":"DECLINED"}]}}]}`, true},
		{"all captures", &paypal, 201, `{"purchase_units":[{"payments":{"captures":[{"status":"DECLINED"},{"status":"DECLINED"}]}},{"payments":{"captures":[{"status":"DECLINED"}]}}]}`, true},
		{"one of two captures", &paypal, 201, `{"purchase_units":[{"payments":{"captures":[{"status":"DECLINED"},{"status":"COMPLETED"}]}}]}`, false},
		{"one of two units", &paypal, 201, `{"purchase_units":[{"payments":{"captures":[{"status":"DECLINED"}]}},{"payments":{"captures":[{"status":"COMPLETED"}]}}]}`, false},
		{"a unit that does not say", &paypal, 201, `{"purchase_units":[{"payments":{"captures":[{"status":"DECLINED"}]}},{}]}`, false},
		{"no captures", &paypal, 201, `{"purchase_units":[{"payments":{"captures":[]}}]}`, false},
		{"the capture of an authorization", &paypal, 201, `{"id":"1","status":"DECLINED"}`, true},
		{"a capture that failed somehow", &paypal, 201, `{"id":"1","status":"FAILED"}`, false},

		{"declined", &checkout, 201, `{"approved":false,"status":"Declined"}`, true},
		{"pending", &checkout, 202, `{"status":"Pending"}`, false},

		{"the processor's", &braintree, 200, `{"data":{"chargePaymentMethod":{"transaction":{"id":"t","status":"PROCESSOR_DECLINED"}}}}`, true},
		{"the gateway's, which may have been authorized", &braintree, 200, `{"data":{"c":{"transaction":{"status":"GATEWAY_REJECTED"}}}}`, false},
		{"beside another mutation", &braintree, 200, `{"data":{"a":{"transaction":{"status":"PROCESSOR_DECLINED"}},"b":{"refund":{"id":"r"}}}}`, false},
		{"beside one in front", &braintree, 200, `{"data":{"b":{"refund":{"id":"r"}},"a":{"transaction":{"status":"PROCESSOR_DECLINED"}}}}`, false},

		{"no provider's", nil, 200, `{"resultCode":"Refused"}`, false},
		{"another provider's", &checkout, 200, `{"resultCode":"Refused"}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := tables.Answer{Status: tc.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(tc.body)}
			assert.Equal(t, tc.declined, tables.Declined(tc.provider, answer))
			answer.Header.Set("Content-Encoding", "gzip")
			assert.False(t, tables.Declined(tc.provider, answer), "it is not known what an encoded body says")
		})
	}
}

func TestDeclineCodeMayBeANumber(t *testing.T) {
	p := providers.Raw(0)
	p.Declines = []providers.Decline{{Field: "approved[]", Equals: "false"}, {Field: "code", Equals: "1.50"}, {Field: "error", Equals: "<nil>"}}
	for body, declined := range map[string]bool{
		`{"code":1.50}`: true, `{"code":"1.50"}`: true, `{"code":1.5}`: false, `{"code":[1.50]}`: false, `{"code":{"1.50":1.50}}`: false,
		`{"approved":[false,false]}`: true, `{"approved":[false,true]}`: false, `{"approved":[]}`: false, `{"approved":false}`: false,
		`{"approved":[false}`: false, `{"approved":[[false]]}`: false, `{"error":null}`: false, `[`: false, `{`: false,
	} {
		assert.Equal(t, declined, tables.Declined(&p, tables.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}), body)
	}
}

func TestDeclineRuleWithoutAValueIsRefused(t *testing.T) {
	for at, decline := range map[string]providers.Decline{
		"Declines[0].Field":  {Field: "a..b", Equals: "c"},
		"Declines[0].Equals": {Field: "a"},
	} {
		p := providers.Raw(0)
		p.Declines = []providers.Decline{decline}
		assert.ErrorContains(t, p.Validate(), at)
	}
}
