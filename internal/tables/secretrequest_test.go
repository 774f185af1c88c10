package tables_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// under returns the route of a table with these facts. The table states its secrets.
func under(t testing.TB, e providers.Endpoint) tables.Route {
	return of(t, providers.Provider{SecretSource: "its documentation"}, e)
}

func of(t testing.TB, p providers.Provider, e providers.Endpoint) tables.Route {
	e.Pattern, e.Source = cmp.Or(e.Pattern, "/"), "its documentation"
	p.Name, p.Hosts, p.Source, p.Endpoints = "own", []string{"own.example"}, "its documentation", []providers.Endpoint{e}
	rt := route(t, newRouter(t, p), "POST", "https://own.example/pay")
	return rt.For(tables.Message{Header: http.Header{}, Body: []byte("{}")})
}

func typed(contentType, body string) tables.Message {
	m := tables.Message{Header: http.Header{}, Body: []byte(body)}
	if contentType != "" {
		m.Header.Set("Content-Type", contentType)
	}
	return m
}

const (
	jsonType = "application/json"
	parts    = "multipart/form-data; boundary=X"
)

func TestASecretFieldIsFoundInAQuery(t *testing.T) {
	rt := under(t, providers.Endpoint{SecretRequest: []string{"card.number"}})
	for query, secret := range map[string]bool{
		"": false, "a=1&card[number]=4242": true, "card%5Bnumber%5D=4242": true, "a=1;card.number=4242": true,
		"card[number]=": false, "card=4242&number=4242": false, "a=1&cvc=123": false,
	} {
		assert.Equal(t, secret, rt.SecretInQuery(tables.Message{Query: query}), query)
	}
	none := under(t, providers.Endpoint{})
	assert.False(t, none.SecretInQuery(tables.Message{Query: "card.number=4242"}), "nothing is listed")
}

func TestABodyOfTwoTypesIsASecret(t *testing.T) {
	rt := under(t, providers.Endpoint{})
	m := tables.Message{Header: http.Header{"Content-Type": {"text/plain", "multipart/form-data; boundary=X"}}, Body: []byte("--X--")}
	assert.True(t, rt.Secrets(m).Found)
}

func TestABodyWithASecretFieldIsASecret(t *testing.T) {
	rt := under(t, providers.Endpoint{SecretRequest: []string{"token.number", "token.code", "paper"}})
	for _, tc := range []struct {
		name, contentType, body string
		secret                  bool
	}{
		{"JSON", jsonType, `{"token":{"number":"4242"}}`, true},
		{"JSON, deeper", jsonType, `{"data":[1,{"source":{"token":{"exp":1,"number":4242}}}]}`, true},
		{"JSON, an array on the way", jsonType, `{"token":[{"exp":1},{"code":"1"}]}`, true},
		{"JSON at the top", jsonType, `[{"paper":"x"}]`, true},
		{"JSON, another spelling", jsonType, `{"Token":{"\u006eumber":"4242"}}`, true},
		{"JSON, the field behind another one", jsonType, `{"token":{"number":null,"code":"1"}}`, true},
		{"JSON, an object for the field", jsonType, `{"paper":{"value":"x"}}`, true},
		{"JSON, no type", "", ` {"token":{"number":"4242"}}`, true},
		{"JSON, a wrong type", form, `{"token":{"number":"4242"}}`, true},
		{"JSON, malformed", jsonType, `{"token":{"id":"x"}`, true},
		{"JSON, nested too deep", jsonType, strings.Repeat("[", 1000), true},
		{"JSON without it", jsonType, `{"token":{"id":"x","number":"","code":null},"number":"1","tokenx":{"number":"1"}}`, false},
		{"JSON, an object in between", jsonType, `{"token":{"last":{"number":"4242"}}}`, false},
		{"JSON, a payment with a token", jsonType, `{"amount":1,"source":{"token":"tok_1"}}`, false},
		{"a form", form, "amount=1&token[number]=4242", true},
		{"a form, escaped", form, "payment_method_data%5Bcard%5D%5Bcode%5D=1", true},
		{"a form with dots", form, "token.number=4242", true},
		{"a form with an array", form, "items[0][card][][number]=4242", true},
		{"a form, cut by a semicolon", form, "amount=1;token[number]=4242", true},
		{"a form, no type", "", "paper=x", true},
		{"a form without it", form, "card=tok_1&number=1&token[number]=&token[exp]=1", false},
		{"parts", parts, "--X\r\nContent-Disposition: form-data; name=\"token[number]\"\r\n\r\n4242\r\n--X--\r\n", true},
		{"parts without it", parts, "--X\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ntoken[number]=4242\r\n--X--\r\n", false},
		{"parts that are cut short", parts, "--X\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n4242", true},
		{"parts without a boundary", "multipart/form-data", "--X--\r\n", true},
		{"parts, a name without its quotes", parts, "--X\r\nContent-Disposition: form-data; name=token[number]\r\n\r\n4242\r\n--X--\r\n", true},
		{"parts that are no form's", "multipart/mixed; boundary=X", "--X\r\nContent-Type: text/plain\r\n\r\n4242\r\n--X--\r\n", true},
		{"a part in JSON", parts, "--X\r\nContent-Disposition: form-data; name=\"json\"\r\nContent-Type: application/json\r\n\r\n{\"card\":{\"number\":\"4242\"}}\r\n--X--\r\n", true},
		{"a part in JSON, malformed", parts, "--X\r\nContent-Disposition: form-data; name=\"json\"\r\nContent-Type: application/json\r\n\r\n{\r\n--X--\r\n", true},
		{"a part in JSON without it", parts, "--X\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{\"card\":{\"id\":\"x\"}}\r\n--X--\r\n", false},
		{"a part that looks like JSON", parts, "--X\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\n[note]\r\n--X--\r\n", false},
		{"a form, a list on the way", form, "token[0][number]=4242", true},
		{"a form, a name with white space", form, "+token[number]=4242", true},
		{"JSON, a flat name", jsonType, `{"payment":{"token.number":"4242"}}`, true},
		{"JSON, a flat name in a form's manner", jsonType, `{"token[number]":"4242"}`, true},
		{"JSON, a flat name, empty", jsonType, `{"token.number":""}`, false},
		{"nothing", jsonType, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.secret, rt.Secrets(typed(tc.contentType, tc.body)).Found)
		})
	}
}

// A pair that names a card's code or a password by a value holds a secret, even if its endpoint's table does not list
// it. The bodies are as their providers' documentation shows them.
func TestANamedValueIsASecret(t *testing.T) {
	rt := under(t, providers.Endpoint{SecretRequest: []string{"badge.number"}})
	for _, tc := range []struct {
		name, contentType, body string
		secret                  bool
	}{
		{"JSON", jsonType, `{"fields":[{"name":"amount","value":"10"},{"name":"cvc","value":"123"}]}`, true},
		{"JSON, the value first", jsonType, `{"fields":[{"value":123,"id":1,"key":"card[cvc]"}]}`, true},
		{"JSON, capitals", jsonType, `[{"Name":"Password","Value":"hunter2"}]`, true},
		{"JSON, escaped", jsonType, `{"field":"cv\u0063","text":"1\u00323"}`, true},
		{"JSON, several parts", jsonType, `{"name":"cvc","value":{"as_text":"123"}}`, true},
		{"JSON within a text", jsonType, `{"form":"{\"name\":\"cvc\",\"value\":\"123\"}"}`, true},
		{"JSON, a field that the table lists", jsonType, `{"badge":[{"name":"number","value":"4242"}]}`, true},
		{"JSON, a value that the pair has not", jsonType, `{"name":"cvc","required":true,"value":null}`, false},
		{"JSON, another object's value", jsonType, `[{"name":"cvc"},{"value":"123"}]`, false},
		{"JSON, a token", jsonType, `{"name":"token","value":"tok_1"}`, false},
		{"JSON, a person", jsonType, `{"name":"Jane Doe","text":"cvc"}`, false},
		{"form", form, "a=1&fields[0][name]=amount&fields[0][value]=10&fields[1][value]=123&fields[1][name]=cvc", true},
		{"form, escaped", form, "fields%5B0%5D%5Bkey%5D=cv%63&fields%5B0%5D%5Bvalue%5D=123", true},
		{"form, dots", form, "field.1.name=password&field.1.value=hunter2", true},
		{"form, alone", form, "name=cvc&value=123", true},
		{"form, a field that the table lists", form, "badge[0][name]=number&badge[0][value]=4242", true},
		{"form, another pair's value", form, "fields[0][name]=cvc&fields[1][value]=123", false},
		{"form, no value", form, "fields[0][name]=cvc&fields[0][value]=", false},
		{"form, a person", form, "name=Jane+Doe&text=cvc", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := rt.Secrets(typed(tc.contentType, tc.body))
			require.Equal(t, tc.secret, found.Found)
			if tc.secret {
				assert.Empty(t, found.Field)
				assert.True(t, found.Shown(http.Header{"Content-Type": {jsonType}}, []byte(`{"error":"not 123, hunter2 or 4242"}`)), "the answer repeats it")
			}
		})
	}
	undecided := of(t, providers.Provider{}, providers.Endpoint{})
	assert.False(t, undecided.Secrets(typed(jsonType, `{"name":"api_key","value":"x"}`)).Found, "a credential's name alone strands no payment")
}

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
		rt := route(t, r, "POST", url)
		assert.True(t, rt.Secrets(m).Found, url)
	}
}

// A GraphQL document with a secret field is a secret.
func TestGraphQLDocumentWithASecretField(t *testing.T) {
	rt := underGraphQL(t, "creditCard.number")
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
		assert.Equal(t, tc.secret, rt.Secrets(m).Found, tc.name)
	}
}

func underGraphQL(t testing.TB, secrets ...string) tables.Route {
	e := providers.Endpoint{Pattern: "/", Action: providers.Action{Place: providers.ActionGraphQL, Value: "mutation"}, SecretRequest: secrets, Source: "its documentation"}
	p := providers.Provider{Name: "own", Hosts: []string{"own.example"}, SecretSource: "its documentation", Source: "its documentation", Endpoints: []providers.Endpoint{e}}
	return route(t, newRouter(t, p), "POST", "https://own.example/graphql").For(typed(jsonType, `{"query":"mutation { a }"}`))
}

func TestLookingForASecretIsLinear(t *testing.T) {
	rt := underGraphQL(t, "card.number")
	for name, body := range map[string]func(n int) string{
		"members":    func(n int) string { return `{"a":{` + strings.Repeat(`"x":{"y":1},`, n/12) + `"z":1}}` },
		"pairs":      func(n int) string { return strings.Repeat("card[x]=1&", n/10) },
		"brackets":   func(n int) string { return strings.Repeat("[a]", n/3) + "=1" },
		"a document": func(n int) string { return `{"query":"` + strings.Repeat("{a:1,", n/5) + `"}` },
		"escapes":    func(n int) string { return `{"query":"` + strings.Repeat(`\u0061:`, n/7) + `"}` },
	} {
		soak.InProportion(t, 1<<20, func(n int) { rt.Secrets(tables.Message{Body: []byte(body(n))}) }, name)
	}
}

// Three rules decide whether a field is secret: names that always are, names that the table lists, and, if no table
// states its secrets, names of credentials.
func TestSecretBodies(t *testing.T) {
	const (
		always = "always"
		silent = "where no table states its secrets"
		open   = "never"
		part   = "--X\r\nContent-Disposition: form-data; name=\""
	)
	stated := under(t, providers.Endpoint{})
	unstated := of(t, providers.Provider{}, providers.Endpoint{})
	unlisted := route(t, newRouter(t, providers.Stripe()), "POST", "https://elsewhere.example/")
	for _, tc := range []struct{ name, contentType, body, is string }{
		{"a card's number", jsonType, `{"a":{"card":{"number":"4242"}}}`, always},
		{"a card's number, in one word", jsonType, `{"card_number":4242}`, always},
		{"a code", form, "amount=1&payment%5Bcard%5D%5Bcvc%5D=123", always},
		{"a code, flat", form, "amount=1&x.CVV2=123", always},
		{"a code in a part", parts, part + "cvv\"\r\n\r\n123\r\n--X--\r\n", always},
		{"a number in XML", "text/xml", `<?xml version="1.0"?><p:pay xmlns:p="u"><p:card exp="1"><p:number>4242</p:number></p:card></p:pay>`, always},
		{"a code in an attribute", "application/xml", `<pay><card cvc="123"/></pay>`, always},
		{"a number in CDATA", "application/soap+xml", `<pay><PAN><![CDATA[4242]]></PAN></pay>`, always},
		{"a password", form, "USER=a&PWD=b&METHOD=DoDirectPayment", always},
		{"a private key", jsonType, `{"privateKey":"x"}`, always},
		{"a client's secret", jsonType, `{"client":{"secret":"x"}}`, always},
		{"a request for a token", form, "grant_type=authorization_code&code=x", always},
		{"JSON in a text", jsonType, `{"variables":"{\"cardNumber\":\"4242\"}"}`, always},
		{"JSON in a form", form, `payload=%7B%22card%22%3A%7B%22number%22%3A4242%7D%7D`, always},
		{"operations in a part", parts, part + "operations\"\r\n\r\n{\"variables\":{\"cvc\":\"1\"}}\r\n--X--\r\n", always},
		{"a batch of GraphQL", jsonType, `[{"query":"mutation { pay(card: {number: \"4242\"}) { id } }"}]`, always},
		{"GraphQL", "application/graphql", `mutation { pay(card: {number: "4242"}) { id } }`, always},
		{"a form's GraphQL", form, "query=mutation+%7B+pay%28cvc%3A+%22123%22%29+%7B+id+%7D+%7D", always},
		{"no type, a form", "", "card_number=4242", always},
		{"another type, JSON", "text/plain", `{"cvc":"123"}`, always},
		{"a name with another letter for its k", jsonType, "{\"private\u212Aey\":\"x\"}", always},
		{"a name with another letter for its s", jsonType, "{\"client\u017Fecret\":\"x\"}", always},
		{"an escaped name", jsonType, `{"\u0063vc":"123"}`, always},

		{"malformed JSON", jsonType, `{"a":1`, always},
		{"two values of JSON", jsonType, `{"a":1}{"b":2}`, always},
		{"malformed XML", "application/xml", `<a><b></a>`, always},
		{"XML with a document type", "application/xml", `<!DOCTYPE a [<!ENTITY b "c">]><a/>`, always},
		{"a type that is not read", "application/octet-stream", "\x00\x01", always},
		{"text", "text/plain", "pay 5", always},
		{"another charset", "text/xml", `<?xml version="1.0" encoding="utf-16"?><a/>`, always},

		{"an API key", jsonType, `{"api_key":"x"}`, silent},
		{"an API key in a form", form, "apiKey=x", silent},
		{"an API key in a part", parts, part + "api-key\"\r\n\r\nx\r\n--X--\r\n", silent},
		{"a signature", form, "SIGNATURE=x", silent},
		{"a transaction key", jsonType, `{"merchantAuthentication":{"name":"a","transactionKey":"x"}}`, silent},
		{"an access token", jsonType, `{"access":{"token":"x"}}`, silent},
		{"a one-time password", form, "otp=123456", silent},

		{"nothing", jsonType, "", open},
		{"a charge", form, "amount=100&currency=eur&description=a+%7Bcard%7D", open},
		{"no type, a form's fields", "", "amount=100&currency=eur", open},
		{"a payment token", jsonType, `{"payment_method":"pm_1","token":"tok_1","cardToken":"c","source":{"type":"token","token":"t"}}`, open},
		{"encrypted card data", jsonType, `{"encryptedCardNumber":"adyenjs_0_1$x","encryptedSecurityCode":"adyenjs_0_1$y"}`, open},
		{"an authorization of a payment", jsonType, `{"authorization_code":"1","authorization_id":"2","authorization":"auth_1"}`, open},
		{"tokens of pages and versions", jsonType, `{"pageToken":"1","next_token":"2","versionToken":"3","ClientToken":"4"}`, open},
		{"facts about a card", jsonType, `{"card":{"last4":"4242","exp_month":1,"brand":"visa","number":null,"cvc":"","cvv":false}}`, open},
		{"a flag", jsonType, `{"change_password":true,"password":null}`, open},
		{"GraphQL that reads", jsonType, `{"query":"mutation { pay(id: 1) { card { number: last4 cvc } } }"}`, open},
		{"braces in a text", jsonType, `{"note":"see {card: number} or {\"cvc\":"}`, open},
		{"a search", jsonType, `{"query":"{not graphql'"}`, open},
		{"a file", parts, "--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.pdf\"\r\nContent-Type: application/pdf\r\n\r\n%PDF card_number=4242\r\n--X--\r\n", open},
		{"XML", "text/xml", "<pay><amount>1</amount><key>k</key></pay>", open},
		{"a number alone", jsonType, "12", open},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := typed(tc.contentType, tc.body)
			for _, gzipped := range []bool{false, tc.body != ""} {
				if gzipped {
					m.Header.Set("Content-Encoding", "gzip")
					m.Body = compressed(t, tc.body)
				}
				assert.Equal(t, tc.is == always, stated.Secrets(m).Found, "a table that states its secrets, gzip: %t", gzipped)
				assert.Equal(t, tc.is != open, unstated.Secrets(m).Found, "a table that does not, gzip: %t", gzipped)
				assert.Equal(t, tc.is != open, unlisted.Secrets(m).Found, "no table, gzip: %t", gzipped)
			}
		})
	}
}

func compressed(t testing.TB, text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestABodyThatCantBeDecodedIsASecret(t *testing.T) {
	rt := under(t, providers.Endpoint{})
	for name, codings := range map[string][]string{"broken": {"gzip"}, "two": {"gzip", "gzip"}, "another": {"br"}} {
		m := typed(jsonType, "{}")
		m.Header["Content-Encoding"] = codings
		assert.True(t, rt.Secrets(m).Found, name)
	}
	bomb := typed(jsonType, "")
	bomb.Header.Set("Content-Encoding", "gzip")
	bomb.Body = compressed(t, `{"a":"`+strings.Repeat("x", tables.MaxAnswerBody)+`"}`)
	found := rt.Secrets(bomb)
	assert.True(t, found.Unread, "it is longer than is read")
}

// A field that a table opens is recorded. A field that is always secret, such as a card's code, is not.
func TestATableOpensFields(t *testing.T) {
	opened := of(t, providers.Provider{}, providers.Endpoint{OpenRequest: []string{"seal.signature", "otp"}})
	whole := of(t, providers.Provider{}, providers.Endpoint{OpenRequest: []string{"*"}})
	for _, tc := range []struct {
		name, contentType, body string
		opened, whole           bool
	}{
		{"an opened field", form, "otp=1&seal[signature]=x", false, true},
		{"the same name elsewhere", form, "signature=x", true, true},
		{"a card beside it", form, "otp=1&cvc=1", true, true},
		{"a body that can't be read", "application/pdf", "%PDF", true, false},
		{"a card in a body that can't be read", jsonType, `{"cvc":"1"`, true, true},
	} {
		assert.Equal(t, tc.opened, opened.Secrets(typed(tc.contentType, tc.body)).Found, tc.name)
		assert.Equal(t, tc.whole, whole.Secrets(typed(tc.contentType, tc.body)).Found, "*: %s", tc.name)
	}
}

// The key, the reference and the compared fields are recorded even if their names are those of secrets.
func TestKeyReferenceAndComparisonsAreNoSecrets(t *testing.T) {
	rt := of(t, providers.Provider{}, providers.Endpoint{
		Pattern: "POST /pay", Key: providers.Key{Place: providers.KeyJSONField, Name: "api_key"},
		Reference: providers.Reference{Place: providers.KeyJSONField, Name: "meta.secret", Source: "own"},
		Object:    "payment",
		Lookups: []providers.Lookup{{
			By: providers.ByReference, Path: "/payments", Items: "data[]", ID: "id", Source: "own",
			Same:    []providers.Same{{Field: "secret", Is: "{reference}"}, {Field: "otp", Is: "{request.otp}"}},
			Created: "created",
			Means:   []providers.Meaning{{Field: "state", Equals: "paid", Is: providers.TookEffect}},
		}},
	})
	assert.False(t, rt.Secrets(typed(jsonType, `{"api_key":"k","meta":{"secret":"r"},"otp":"1"}`)).Found)
	assert.True(t, rt.Secrets(typed(jsonType, `{"api_key":"k","other":{"secret":"r"}}`)).Found)
}

// An answer that repeats a secret of the request is not recorded either.
func TestAnAnswerShowsASecret(t *testing.T) {
	stated := under(t, providers.Endpoint{SecretRequest: []string{"source.number"}})
	unlisted := route(t, newRouter(t, providers.Stripe()), "POST", "https://elsewhere.example/")
	card := typed(jsonType, `{"source":{"number":"4242 4242 4242 4242"},"cvc":"123"}`)
	token := typed(form, "grant_type=client_credentials&client_secret=s3cret-s3cret")
	for _, tc := range []struct {
		name        string
		rt          tables.Route
		sent        tables.Message
		contentType string
		answer      string
		shown       bool
	}{
		{"a receipt", stated, card, jsonType, `{"id":"1","last4":"4242","client_secret":"pi_1_secret_2","amount":1234}`, false},
		{"the number", stated, card, jsonType, `{"error":"number 4242424242424242 was declined"}`, true},
		{"the number in groups", stated, card, jsonType, `{"error":"number 4242-4242-4242-4242 was declined"}`, true},
		{"the code", stated, card, jsonType, `{"error":"cvc '123' is wrong"}`, true},
		{"a page", stated, card, "text/html", "<html>declined</html>", false},
		{"a page with the number", stated, card, "text/html", "<html>4242 4242 4242 4242", true},
		{"nothing", unlisted, card, jsonType, "", false},
		{"a receipt, where nothing is stated", unlisted, card, jsonType, `{"id":"1"}`, false},
		{"a credential, if nothing is stated", unlisted, card, jsonType, `{"api_key":"new"}`, true},
		{"a body that can't be read, if nothing is stated", unlisted, card, "text/plain", "done", true},
		{"a token for a credential", stated, token, jsonType, `{"access_token":"new"}`, true},
		{"a refusal of a credential", stated, token, jsonType, `{"error":"invalid_client"}`, false},
		{"a refusal that repeats the credential", stated, token, jsonType, `{"error":"s3cret-s3cret"}`, true},
		{"an answer to a body that can't be read", stated, typed(jsonType, "{"), jsonType, `{"id":"1"}`, true},
		{"an answer to an ordinary body", stated, typed(jsonType, `{"a":"4242424242424242"}`), jsonType, `{"a":"4242424242424242"}`, false},
	} {
		secrets := tc.rt.Secrets(tc.sent)
		assert.Equal(t, tc.shown, secrets.Shown(http.Header{"Content-Type": {tc.contentType}}, []byte(tc.answer)), tc.name)
	}
	secrets := stated.Secrets(card)
	gzip := http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"gzip"}}
	assert.True(t, secrets.Shown(gzip, compressed(t, `{"error":"4242424242424242"}`)))
	assert.False(t, secrets.Shown(gzip, compressed(t, `{"id":"1"}`)))
	assert.True(t, secrets.Shown(gzip, []byte("no gzip")))
}

// Nearly every body has no secret. Finding that out costs next to nothing.
func TestBodyWithoutASecretCostsNothing(t *testing.T) {
	rt := under(t, providers.Endpoint{SecretRequest: []string{"card.number", "card.cvc", "source.number"}})
	for name, m := range map[string]tables.Message{
		"JSON": typed(jsonType, `{"amount":100,"currency":"eur","source":{"id":"src_1"},"metadata":{"order":"7"},"description":"two seats","items":[{"sku":"a","quantity":1},{"sku":"b","quantity":2}],"capture":true,"customer":"c"}`),
		"form": typed(form, "amount=100&currency=eur&source=src_1&metadata[order]=7&description=two-seats&customer=cus_1&capture=true&items[0][sku]=a&items[0][quantity]=1&items[1][sku]=b"),
	} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { rt.Secrets(m) }), 2.0, name)
	}
}
