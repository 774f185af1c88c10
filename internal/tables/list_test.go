package tables_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func TestItemsOfLists(t *testing.T) {
	for _, tc := range []struct {
		name, path, body string
		want             []string
		problem          string // a part of it
	}{
		{"a member", "data[]", ` {"a":[9],"data": [ {"id": 1}, "x" ,[2]],"b":{"data":[3]}} `, []string{`{"id": 1}`, `"x"`, `[2]`}, ""},
		{"none", "data[]", `{"data":[]}`, nil, ""},
		{"the whole answer", "", ` {"id":1} `, []string{`{"id":1}`}, ""},
		{"an array", "[]", `[{"id":1},{"id":2}]`, []string{`{"id":1}`, `{"id":2}`}, ""},
		{"a member of a member", "_embedded.d[]", `{"_embedded":{"d":[1]}}`, []string{"1"}, ""},
		{"a name that is escaped", "data[]", `{"d\u0061ta":[1]}`, []string{"1"}, ""},
		{"arrays in arrays", "r[].i[]", `{"r":[{"i":[1,2]},{"i":[]},{"i":[3]}]}`, []string{"1", "2", "3"}, ""},
		{"arrays in none", "r[].i[]", `{"r":[]}`, nil, ""},
		{"arrays in objects without", "r[].i[]", `{"r":[{"i":[1]},{}]}`, nil, "does not have"},
		{"no such member", "data[]", `{"error":"no"}`, nil, "does not have"},
		{"null", "data[]", `{"data":null}`, nil, "does not have"},
		{"an object", "data[]", `{"data":{}}`, nil, "does not have"},
		{"an array above", "data[]", `[]`, nil, "does not have"},
		{"an object above", "[]", `{}`, nil, "does not have"},
		{"a member of an array", "a.b[]", `{"a":[{"b":[1]}]}`, nil, "does not have"},
		{"twice", "data[]", `{"data":[1],"data":[]}`, nil, "twice"},
		{"twice above", "a.data[]", `{"a":{"data":[1]},"a":{}}`, nil, "twice"},
		{"cut", "data[]", `{"data":[1],`, nil, "cut short"},
		{"cut within", "data[]", `{"data":[1`, nil, "cut short"},
		{"more behind it", "data[]", `{"data":[1]}x`, nil, "cut short"},
		{"nothing", "", ``, nil, "cut short"},
		{"markup", "data[]", `<html>`, nil, "cut short"},
		{"too deep", "data[]", `{"data":[` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `]}`, nil, "cut short"},
		{"too many", "data[]", `{"data":[` + strings.Repeat("1,", tables.MaxListItems) + `1]}`, nil, "too many"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			items, problem := tables.Items(nil, []byte(tc.body), tc.path)
			if tc.problem != "" {
				assert.Contains(t, problem, tc.problem)
				assert.Nil(t, items)
				return
			}
			require.Empty(t, problem)
			got := []string(nil)
			for _, item := range items {
				got = append(got, string(item))
			}
			assert.Equal(t, tc.want, got)
		})
	}
	_, problem := tables.Items(http.Header{"Content-Type": {"text/html"}}, []byte(`{"data":[]}`), "data[]")
	assert.NotEmpty(t, problem, "what says that it is markup is no list")
	_, problem = tables.Items(nil, []byte(`{"data":[]}`+strings.Repeat(" ", tables.MaxListBody)), "data[]")
	assert.NotEmpty(t, problem)
}

func TestFieldsOfItems(t *testing.T) {
	paths := []string{"id", "m.a", "l[].x", "n", "twice", "up.id"}
	for i := range 70 { // more than a reader has room for
		paths = append(paths, fmt.Sprintf("f%d", i))
	}
	texts := tables.NewFields(append(paths, "", "id")...).Read([]byte(
		`{"id":"\u0061","m":{"a":1.50},"l":[{"x":true},{"x":"z"}],"n":null,"twice":1,"twice":1,"up":{"id":""},"f69":"last"}`))
	for path, want := range map[string][]string{
		"id": {"a"}, "m.a": {"1.50"}, "l[].x": {"true", "z"}, "n": nil, "twice": nil, "up.id": nil, "f0": nil, "f69": {"last"}, "": nil, "other": nil,
	} {
		assert.Equal(t, want, texts.All(path), path)
	}
	_, ok := texts.Only("l[].x")
	assert.False(t, ok)
	only, ok := texts.Only("f69")
	assert.True(t, ok)
	assert.Equal(t, "last", only)
	assert.Nil(t, tables.NewFields("id").Read([]byte(`{"id":"a"`)).All("id"), "cut short")
}

func TestMemberOfAnAnswer(t *testing.T) {
	const body = `{"a":{"next":"x","n":1,"none":null,"o":{},"t":1,"t":2},"more":false}`
	for path, want := range map[string]struct {
		text  string
		clear bool
	}{
		"a.next": {"x", true}, "a.n": {"1", true}, "a.none": {"", true}, "a.other": {"", true}, "other.next": {"", true},
		"a.o": {"", false}, "a.t": {"", false}, "more": {"false", true},
	} {
		text, clear := tables.Member([]byte(body), path)
		assert.Equal(t, want.text, text, path)
		assert.Equal(t, want.clear, clear, path)
	}
	_, clear := tables.Member([]byte(`{"a"`), "a")
	assert.False(t, clear)
	_, clear = tables.Member([]byte(`[1]`), "a")
	assert.True(t, clear, "an array has no members")
}

func TestFieldsOfSentRequests(t *testing.T) {
	fields := tables.NewFields("amount", "metadata[order]", "a.b", "l[].x")
	for _, tc := range []struct {
		name    string
		message tables.Message
		want    map[string]string
	}{
		{"JSON", jsonBody(`{"amount":10.50,"a":{"b":"c"},"l":[{"x":1},{"x":2}]}`), map[string]string{"amount": "10.50", "a.b": "c"}},
		{"a form", formBody("amount=1+0&metadata%5Border%5D=%2F&a.b="), map[string]string{"amount": "1 0", "metadata[order]": "/"}},
		{"a field twice", formBody("amount=1&amount=1"), map[string]string{}},
		{"a query", query("amount=1&x"), map[string]string{"amount": "1"}},
		{"a query beside a body", tables.Message{Header: http.Header{"Content-Type": {"application/json"}}, Query: "amount=1", Body: []byte("{}")}, map[string]string{}},
		{"parts", tables.Message{Header: http.Header{"Content-Type": {"multipart/form-data"}}, Body: []byte(`{"amount":1}`)}, map[string]string{}},
		{"compressed", tables.Message{Header: http.Header{"Content-Encoding": {"gzip"}}, Query: "amount=1"}, map[string]string{}},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, fields.Sent(tc.message)) })
	}
}

func TestComparedWildcards(t *testing.T) {
	at := func(pattern, path string) map[string]string {
		u, err := url.Parse("https://api.example.com" + path)
		require.NoError(t, err)
		e := &providers.Endpoint{Pattern: pattern, Lookups: []providers.Lookup{{Path: "/{path.id}/{path.op}/{path.rest}"}}}
		return tables.NewCompared(&providers.Provider{}, e).Values(http.MethodPost, u, tables.Message{})
	}
	assert.Equal(t, map[string]string{"path.id": "ch 1", "path.op": "x"}, at("POST /v1/charges/{id}/{op}", "/v1/charges/ch%201/x"))
	assert.Equal(t, map[string]string{"path.rest": "a/b"}, at("/v1/{rest...}", "/v1/a/b"))
	assert.Empty(t, at("POST /v1/{$}", "/v1/"))
	assert.Empty(t, at("POST /v1/charges/{id}", "/v1/refunds/1"))
	assert.Empty(t, at("GET /v1/charges/{id}", "/v1/charges/1"))
	assert.Empty(t, at("POST /v1/charges/{id}", "/v1/charges/a%2Fb"))
}

// The items of any page are JSON, and parts of the page.
func FuzzItems(f *testing.F) {
	f.Add(`{"data":[{"id":"a","m":{"x":1}},{"id":"b"}],"next":"c"}`, "data[]")
	f.Add(`[{"id":1}]`, "[]")
	f.Add(`{"a":{"b":[[{"id":1}]]}}`, "a.b[]")
	f.Add(`{"r":[{"i":[1]}]}`, "r[].i[]")
	f.Fuzz(func(t *testing.T, body, path string) {
		items, problem := tables.Items(nil, []byte(body), path)
		if problem == "" {
			assert.True(t, json.Valid([]byte(body)))
		}
		fields := tables.NewFields("id", "m.x", path)
		for _, item := range items {
			assert.True(t, json.Valid(item))
			fields.Read(item).All("id")
		}
		tables.Member([]byte(body), path)
		fields.Sent(jsonBody(body))
		fields.Sent(formBody(body))
	})
}
