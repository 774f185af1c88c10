package tables_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// A success of another kind is not the provider's.
func TestSuccessOfAnotherKind(t *testing.T) {
	json := []string{"application/json"}
	xml := []string{"text/xml"}
	for _, tc := range []struct {
		name        string
		answers     []string
		contentType string
		body        string
		recognised  bool
	}{
		{"JSON", json, "application/json; charset=utf-8", `{"id":1}`, true},
		{"a type of JSON's own", json, "application/vnd.api+json", `{"id":1}`, true},
		{"a type of JSON's own, of a text", json, "application/vnd.api+json", `"OK"`, true},
		{"JSON in capitals", json, "Application/JSON", `{"id":1}`, true},
		{"JSON without its type", json, "", ` [1]`, true},
		{"JSON as text", json, "text/plain", `{"id":1}`, true},
		{"no body, as JSON", json, "application/json", "", false},
		{"no body", json, "", "", false},
		{"no body, as text", json, "text/plain", "", false},
		{"white space, as JSON", json, "application/json", "\ufeff \r\n", false},
		{"no body, if no status without one is listed", []string{"application/json", "202"}, "application/json", "", false},
		{"no body, if the status is listed", []string{"application/json", "201"}, "", "", true},
		{"a page, if the status without a body is listed", []string{"application/json", "201"}, "", html, false},
		{"no body, if the table lists no types", nil, "", "", true},
		{"a page", json, "text/html; charset=utf-8", html, false},
		{"a page without a body", json, "text/html", "", false},
		{"a page that calls itself JSON", json, "application/json", "\ufeff \r\n<html>", false},
		{"a page without its type", json, "", html, false},
		{"JSON that calls itself a page", json, "text/html", `{"id":1}`, false},
		{"XHTML", json, "application/xhtml+xml", html, false},
		{"text", json, "text/plain", "OK", false},
		{"text without its type", json, "", "OK", false},
		{"XML", xml, "text/xml", "<ok/>", true},
		{"XML without its type", xml, "", "<ok/>", true},
		{"a page instead of XML", xml, "text/html", html, false},
		{"a page that calls itself XML", xml, "text/xml", " \n<!DOCTYPE html><html/>", false},
		{"a page that calls itself XML, without a type for it", xml, "text/xml", "<HTML>", false},
		{"XML that calls itself JSON", []string{"application/json", "text/xml"}, "application/json", "<ok/>", false},
		{"XML beside JSON", []string{"application/json", "text/xml"}, "text/xml", "<ok/>", true},
		{"a page that calls itself XML, if pages are listed", []string{"text/html", "text/xml"}, "text/xml", "<html/>", true},
		{"JSON instead of XML", xml, "application/json", "{}", false},
		{"a page, if the table lists no types", nil, "text/html", html, true},
		{"text, if the table lists no types", nil, "text/plain", "OK", true},
		{"a page, if it is listed", []string{"text/html"}, "text/html", html, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := own()
			p.Answers = tc.answers
			header := http.Header{}
			if tc.contentType != "" {
				header.Set("Content-Type", tc.contentType)
			}
			assert.Equal(t, tc.recognised, tables.Recognises(&p, 201, header, []byte(tc.body)))
			assert.False(t, tables.Recognises(&p, 400, header, []byte(tc.body)), "a refusal is no success")

			got := route(t, newRouter(t, p), "POST", "https://ledger.example.com/v1/payments").
				Classify(tables.Answer{Status: 201, Header: header, Body: []byte(tc.body)})
			assert.Equal(t, tc.recognised, got.Recognised)
			want := providers.Final
			if !tc.recognised {
				want = providers.Indeterminate
			}
			assert.Equal(t, want.String(), got.Verdict.String())
		})
	}
}

// A status that has no body by HTTP needs none. A body that is not known is judged by its type.
func TestSuccessWithoutABody(t *testing.T) {
	p := providers.Provider{Answers: []string{"application/json"}}
	asText, asJSON := http.Header{"Content-Type": {"text/plain"}}, http.Header{"Content-Type": {"application/json"}}
	for status, bare := range map[int]bool{200: false, 201: false, 202: false, 203: false, 204: true, 205: true, 206: false, 299: false} {
		assert.Equal(t, bare, tables.Recognises(&p, status, asText, []byte{}), status)
		assert.Equal(t, bare, tables.Recognises(&p, status, http.Header{}, []byte("\n")), status)
		assert.Equal(t, bare, tables.Recognises(&p, status, asText, nil), status)
		assert.True(t, tables.Recognises(&p, status, asJSON, nil), status)
	}
}

func TestAnEncodedBodyIsKnownByItsTypeAlone(t *testing.T) {
	p := providers.Provider{Answers: []string{"application/json"}}
	encoded := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"x"}}
	assert.True(t, tables.Recognises(&p, 200, encoded, []byte("<\x8b")))
	encoded.Set("Content-Type", "text/html")
	assert.False(t, tables.Recognises(&p, 200, encoded, []byte("{")))
}

// A success is recognised if no provider or endpoint describes it.
func TestSuccessWithoutARule(t *testing.T) {
	var none *providers.Provider
	page := http.Header{"Content-Type": {"text/html"}}
	assert.True(t, tables.Recognises(none, 200, page, []byte(html)))
	assert.False(t, tables.Recognises(none, 302, page, nil))

	p := own()
	p.Answers = []string{"application/json"}
	got := route(t, newRouter(t, p), "POST", "https://ledger.example.com/not/listed").
		Classify(tables.Answer{Status: 200, Header: page, Body: []byte(html)})
	assert.True(t, got.Recognised, "no endpoint's contract is known")
	assert.Equal(t, providers.Final, got.Verdict)
}

// A rule does not make a foreign success the provider's.
func TestSuccessThatIsForeignDespiteARule(t *testing.T) {
	p := own()
	p.Answers = []string{"application/json"}
	p.Endpoints[0].Rules = []providers.Rule{{Status: 200, Verdict: providers.Final}}
	got := route(t, newRouter(t, p), "POST", "https://ledger.example.com/v1/payments").
		Classify(tables.Answer{Status: 200, Header: http.Header{"Content-Type": {"text/html"}}, Body: []byte(html)})
	assert.Equal(t, providers.Indeterminate, got.Verdict)
	assert.False(t, got.Recognised)
	assert.NotEmpty(t, got.Source)
}
