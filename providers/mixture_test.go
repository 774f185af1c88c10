package providers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// at returns a JSON body that has values at a path: the first list on it has an element for each.
func at(path string, values ...string) string {
	step, rest, more := strings.Cut(path, ".")
	name, list := strings.CutSuffix(step, "[]")
	if name == "*" {
		name = "member"
	}
	if list {
		elements := make([]string, len(values))
		for i, value := range values {
			if elements[i] = value; more {
				elements[i] = at(rest, value)
			}
		}
		return fmt.Sprintf(`{%q:[%s]}`, name, strings.Join(elements, ","))
	}
	if !more {
		return fmt.Sprintf(`{%q:%s}`, name, values[0])
	}
	return fmt.Sprintf(`{%q:%s}`, name, at(rest, values...))
}

// An answer is only taken for one of an attempt without effect if all its errors say so.
func TestAnotherErrorBesideOneThatDeniesTheEffect(t *testing.T) {
	tried := 0
	for _, p := range adapters() {
		router := newRouter(t, p)
		for _, e := range p.Endpoints {
			for _, r := range e.Rules {
				if r.Verdict != providers.NotExecuted && r.Verdict != providers.Rejected || !strings.Contains(r.Field, "[]") {
					continue
				}
				tried++
				rt := router.Route(requestFor(p, e.Pattern).Method, requestFor(p, e.Pattern).URL)
				rt.Endpoint = &e
				says := fmt.Sprintf("%q", r.Equals)
				for _, values := range [][]string{{says, `"ANOTHER"`}, {`"ANOTHER"`, says}, {says, "null"}, {says, `""`}, {says, "{}"}, {says, says, `"ANOTHER"`}} {
					answer := tables.Answer{Status: r.Status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(at(r.Field, values...))}
					for _, answer.Later = range []bool{false, true} {
						got := rt.Classify(answer).Verdict
						assert.False(t, got == providers.NotExecuted || got == providers.Rejected, "%s %s: %s is %v", p.Name, e.Pattern, answer.Body, got)
					}
				}
			}
		}
	}
	assert.Positive(t, tried)
}

// An answer of a success with something in its data is never one of an attempt without effect.
func TestAnEffectBesideErrorsThatDenyIt(t *testing.T) {
	for _, p := range []providers.Provider{providers.Shopify(), providers.Braintree()} {
		router := newRouter(t, p)
		for _, e := range p.Endpoints {
			for _, r := range e.Rules {
				if r.Verdict != providers.NotExecuted && r.Verdict != providers.Rejected || r.Field == "" {
					continue
				}
				rt := router.Route(requestFor(p, e.Pattern).Method, requestFor(p, e.Pattern).URL)
				rt.Endpoint = &e
				errors := strings.TrimPrefix(at(r.Field, fmt.Sprintf("%q", r.Equals)), "{")
				for _, data := range []string{
					`{"create":{"object":{"id":"1"}}}`, `{"create":{"object":{"status":"PAID"}}}`, `{"create":{"objects":[{"id":"1"}]}}`,
					`{"create":{"object":null,"userErrors":[]}}`, `{"create":"done"}`, `{"create":true}`, `{"create":["1"]}`, `{"other":null,"create":{"a":{"b":{"c":{"d":1}}}}}`,
				} {
					for _, body := range []string{`{"data":` + data + `,` + errors, `{"data":` + data + `,"data":null,` + errors} {
						answer := tables.Answer{Status: r.Status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
						got := rt.Classify(answer).Verdict
						assert.False(t, got == providers.NotExecuted || got == providers.Rejected, "%s %s: %s is %v", p.Name, e.Pattern, body, got)
					}
				}
			}
		}
	}
}

func TestWithoutIsOfAnyValue(t *testing.T) {
	rt := ruled(t, providers.Rule{Status: 409, Without: "data.*", Verdict: providers.NotExecuted})
	for body, lacks := range map[string]bool{
		"": true, `{}`: true, `[]`: true, `{"data":null}`: true, `{"data":7}`: true, `{"data":[1]}`: true, `{"data":{}}`: true,
		`{"data":{"a":null}}`: true, `{"data":{"a":""}}`: true, `{"data":{"a":{ }}}`: true, `{"data":{"a":[ ]}}`: true,
		`{"data":{"a":{"b":null}}}`: false, `{"data":{"a":[null]}}`: false, `{"data":{"a":0}}`: false, `{"data":{"a":false}}`: false,
		`{"data":{"a":null,"b":1}}`: false, `{"data":{"a":1},"data":{}}`: false, `{"data":{},"data":{"a":1}}`: false,
		`{"d\u0061ta":{"a":1}}`: false, `{"data":{"a":1}`: false, `{"data":{}}}`: false, "<html>": false, "null": true,
	} {
		got := rt.Classify(tables.Answer{Status: 409, Body: []byte(body)}).Verdict
		assert.Equal(t, lacks, got == providers.NotExecuted, body)
	}
	html := tables.Answer{Status: 409, Header: http.Header{"Content-Type": {"text/html"}}, Body: []byte(`{}`)}
	assert.Equal(t, indeterminate, rt.Classify(html).Verdict, "a body of another type can't be read")
}

func TestARuleWhoseFieldExcludesItsWithout(t *testing.T) {
	for _, tc := range []struct {
		field, without string
		never          bool
	}{
		{"data.a.code", "data", true},
		{"data.a.code", "data.*", true},
		{"data.*.code", "data.*", true},
		{"data.*.code", "data.a", false},
		{"errors[].code", "errors", true},
		{"errors[].code", "errors[]", true},
		{"errors[].code", "errors[].code", true},
		{"errors[].code", "errors[].id", false},
		{"errors[].code", "errors.code", false},
		{"errors.code", "errors[]", false},
		{"code", "code.id", false},
		{"code", "id", false},
	} {
		p := own()
		p.Endpoints[0].Rules = []providers.Rule{{Status: 409, Field: tc.field, Without: tc.without, Verdict: providers.Misuse}}
		err := p.Validate()
		if tc.never {
			assert.ErrorContains(t, err, "Endpoints[0].Rules[0].Without", "%s without %s", tc.field, tc.without)
		} else {
			assert.NoError(t, err, "%s without %s", tc.field, tc.without)
		}
	}
}

// A rule that asks all elements does not come in front of one that asks any.
func TestARuleForAllElementsDoesNotCoverOneForAny(t *testing.T) {
	all := providers.Rule{Status: 429, Field: "errors[].code", Equals: "LIMIT", Verdict: providers.NotExecuted}
	any := providers.Rule{Status: 429, Field: "errors[].code", Equals: "LIMIT", Verdict: retry}
	p := own()
	p.Endpoints[0].Rules = []providers.Rule{all, any}
	assert.NoError(t, p.Validate())
	p.Endpoints[0].Rules = []providers.Rule{any, all}
	assert.ErrorContains(t, p.Validate(), "Endpoints[0].Rules[1]")
	p.Endpoints[0].Rules = []providers.Rule{all, all}
	assert.ErrorContains(t, p.Validate(), "Endpoints[0].Rules[1]")
}
