package tables_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func TestASecretFieldIsFoundInAQuery(t *testing.T) {
	e := providers.Endpoint{SecretRequest: []string{"card.number"}}
	for query, secret := range map[string]bool{
		"": false, "a=1&card[number]=4242": true, "card%5Bnumber%5D=4242": true, "a=1;card.number=4242": true,
		"card[number]=": false, "card=4242&number=4242": false,
	} {
		assert.Equal(t, secret, tables.HasSecretInQuery(&e, tables.Message{Query: query}), query)
	}
	assert.False(t, tables.HasSecretInQuery((&providers.Endpoint{}), tables.Message{Query: "card.number=4242"}), "nothing is listed")
}

func TestABodyOfTwoTypesIsASecret(t *testing.T) {
	e := providers.Endpoint{SecretRequest: []string{"card.number"}}
	m := tables.Message{Header: http.Header{"Content-Type": {"text/plain", "multipart/form-data; boundary=X"}}, Body: []byte("--X--")}
	assert.True(t, tables.HasSecret(&e, m))
}

func TestABodyWithASecretFieldIsASecret(t *testing.T) {
	e := providers.Endpoint{SecretRequest: []string{"card.number", "card.cvc", "password"}}
	const (
		jsonType = "application/json"
		form     = "application/x-www-form-urlencoded"
		parts    = "multipart/form-data; boundary=X"
	)
	for _, tc := range []struct {
		name, contentType, body string
		secret                  bool
	}{
		{"JSON", jsonType, `{"card":{"number":"4242"}}`, true},
		{"JSON, deeper", jsonType, `{"data":[1,{"source":{"card":{"exp":1,"number":4242}}}]}`, true},
		{"JSON, an array on the way", jsonType, `{"card":[{"exp":1},{"cvc":"1"}]}`, true},
		{"JSON at the top", jsonType, `[{"password":"x"}]`, true},
		{"JSON, another spelling", jsonType, `{"Card":{"\u006eumber":"4242"}}`, true},
		{"JSON, the field behind another one", jsonType, `{"card":{"number":null,"cvc":"1"}}`, true},
		{"JSON, an object for the field", jsonType, `{"password":{"value":"x"}}`, true},
		{"JSON, no type", "", ` {"card":{"number":"4242"}}`, true},
		{"JSON, a wrong type", form, `{"card":{"number":"4242"}}`, true},
		{"JSON, malformed", jsonType, `{"card":{"id":"x"}`, true},
		{"JSON, nested too deep", jsonType, strings.Repeat("[", 1000), true},
		{"JSON without it", jsonType, `{"card":{"id":"x","number":"","cvc":null},"number":"1","cardx":{"number":"1"}}`, false},
		{"JSON, an object in between", jsonType, `{"card":{"last":{"number":"4242"}}}`, false},
		{"JSON, a payment with a token", jsonType, `{"amount":1,"source":{"token":"tok_1"}}`, false},
		{"a form", form, "amount=1&card[number]=4242", true},
		{"a form, escaped", form, "payment_method_data%5Bcard%5D%5Bcvc%5D=1", true},
		{"a form with dots", form, "card.number=4242", true},
		{"a form with an array", form, "items[0][card][][number]=4242", true},
		{"a form, cut by a semicolon", form, "amount=1;card[number]=4242", true},
		{"a form, no type", "", "password=x", true},
		{"a form without it", form, "card=tok_1&number=1&card[number]=&card[exp]=1", false},
		{"parts", parts, "--X\r\nContent-Disposition: form-data; name=\"card[number]\"\r\n\r\n4242\r\n--X--\r\n", true},
		{"parts without it", parts, "--X\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ncard[number]=4242\r\n--X--\r\n", false},
		{"parts that are cut short", parts, "--X\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n4242", true},
		{"parts without a boundary", "multipart/form-data", "--X--\r\n", true},
		{"parts, a name without its quotes", parts, "--X\r\nContent-Disposition: form-data; name=card[number]\r\n\r\n4242\r\n--X--\r\n", true},
		{"parts that are no form's", "multipart/mixed; boundary=X", "--X\r\nContent-Type: text/plain\r\n\r\n4242\r\n--X--\r\n", true},
		{"a part in JSON", parts, "--X\r\nContent-Disposition: form-data; name=\"json\"\r\nContent-Type: application/json\r\n\r\n{\"card\":{\"number\":\"4242\"}}\r\n--X--\r\n", true},
		{"a part in JSON, malformed", parts, "--X\r\nContent-Disposition: form-data; name=\"json\"\r\nContent-Type: application/json\r\n\r\n{\r\n--X--\r\n", true},
		{"a part in JSON without it", parts, "--X\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{\"card\":{\"id\":\"x\"}}\r\n--X--\r\n", false},
		{"a part that looks like JSON", parts, "--X\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\n[note]\r\n--X--\r\n", false},
		{"a form, a list on the way", form, "card[0][number]=4242", true},
		{"a form, a name with white space", form, "+card[number]=4242", true},
		{"JSON, a flat name", jsonType, `{"payment":{"card.number":"4242"}}`, true},
		{"JSON, a flat name in a form's manner", jsonType, `{"card[number]":"4242"}`, true},
		{"JSON, a flat name, empty", jsonType, `{"card.number":""}`, false},
		{"nothing", jsonType, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := tables.Message{Header: http.Header{}, Body: []byte(tc.body)}
			if tc.contentType != "" {
				m.Header.Set("Content-Type", tc.contentType)
			}
			assert.Equal(t, tc.secret, tables.HasSecret(&e, m))
			assert.False(t, tables.HasSecret((&providers.Endpoint{}), m), "nothing is listed")
		})
	}
	coded := tables.Message{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: []byte("\x1f\x8b")}
	assert.True(t, tables.HasSecret(&e, coded), "what is compressed can't be read")
}

// As their providers' documentation shows them.
func TestARequestWithARawCardIsASecret(t *testing.T) {
	r := newRouter(t, providers.Worldline(), providers.Zuora(), providers.Moov())
	for url, body := range map[string]string{
		"https://payment.direct.worldline-solutions.com/v2/shop/payments": `{"cardPaymentMethodSpecificInput":{"card":{"cardNumber":"4111","cvv":"123"}}}`,
		"https://payment.direct.worldline-solutions.com/v2/shop/tokens":   `{"card":{"data":{"cardWithoutCvv":{"cardNumber":"4111"}}}}`,
		"https://rest.zuora.com/v1/payment-methods":                       `{"type":"CreditCard","cardNumber":"4111"}`,
		"https://rest.zuora.com/v1/accounts":                              `{"creditCard":{"cardNumber":"4111","securityCode":"123"}}`,
		"https://rest.zuora.com/v1/payment-methods/credit-cards":          `{"creditCardNumber":"4111"}`,
		"https://api.moov.io/accounts/1/cards":                            `{"cardCvv":"123","cardNumber":"4111"}`,
	} {
		m := tables.Message{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
		assert.True(t, tables.HasSecret(route(t, r, "POST", url).Endpoint, m), url)
	}
}

// A GraphQL document with a secret field is a secret.
func TestGraphQLDocumentWithASecretField(t *testing.T) {
	e := providers.Endpoint{
		Action:        providers.Action{Place: providers.ActionGraphQL, Value: "mutation"},
		SecretRequest: []string{"creditCard.number"},
	}
	for _, tc := range []struct {
		name, body string
		secret     bool
	}{
		{"a literal", `{"query":"mutation { pay(input: {creditCard: {exp: \"1\", number: \"4111\"}}) { id } }"}`, true},
		{"a number", `{"query":"mutation { pay(creditCard: {number: 4111}) { id } }"}`, true},
		{"a list", `{"query":"mutation { pay(creditCard: [{exp: 1}, {number: 4111}]) { id } }"}`, true},
		{"a variable of its own", `{"query":"mutation($n: String!) { pay(input: {creditCard: {number: $n}}) { id } }","variables":{"n":"4111"}}`, true},
		{"the variables", `{"query":"mutation($input: I!) { pay(input: $input) { id } }","variables":{"input":{"creditCard":{"number":"4111"}}}}`, true},
		{"a document that can't be read", `{"query":"mutation { pay(a: \"%) }"}`, true},
		{"none", `{"query":"mutation($number: String = \"1\") { pay(input: {creditCard: {number: \"\", id: \"x\"}}) { creditCard { number: last4 } } }","variables":{"input":{"id":"x"}}}`, false},
		{"a field behind the object", `{"query":"mutation { pay(creditCard: {id: \"x\"}, number: \"1\") { id } }"}`, false},
		{"a field behind the list", `{"query":"mutation { pay(creditCard: [{id: \"x\"}], number: \"1\") { id } }"}`, false},
		{"the object behind brackets that close nothing", `{"query":"}}) mutation { pay(creditCard: {number: \"1\"}) { id } }"}`, true},
		{"a comment", `{"query":"# creditCard: {number: 1}\nmutation { pay(id: \"creditCard: {number: 1}\") { id } }"}`, false},
	} {
		m := tables.Message{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(tc.body)}
		assert.Equal(t, tc.secret, tables.HasSecret(&e, m), tc.name)
	}
}

func TestLookingForASecretIsLinear(t *testing.T) {
	e := providers.Endpoint{
		Action:        providers.Action{Place: providers.ActionGraphQL, Value: "mutation"},
		SecretRequest: []string{"card.number"},
	}
	for name, body := range map[string]func(n int) string{
		"members":    func(n int) string { return `{"a":{` + strings.Repeat(`"x":{"y":1},`, n/12) + `"z":1}}` },
		"pairs":      func(n int) string { return strings.Repeat("card[x]=1&", n/10) },
		"brackets":   func(n int) string { return strings.Repeat("[a]", n/3) + "=1" },
		"a document": func(n int) string { return `{"query":"` + strings.Repeat("{a:1,", n/5) + `"}` },
		"escapes":    func(n int) string { return `{"query":"` + strings.Repeat(`\u0061:`, n/7) + `"}` },
	} {
		oncetest.InProportion(t, 1<<20, func(n int) { tables.HasSecret(&e, tables.Message{Body: []byte(body(n))}) }, name)
	}
}
