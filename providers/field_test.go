package providers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func TestAStarIsAnyMember(t *testing.T) {
	rt := ruled(t, providers.Rule{Field: "data.*.userErrors[].code", Equals: "BUSY", Verdict: inFlight})
	for body, found := range map[string]bool{
		`{"data":{"refundCreate":{"userErrors":[{"code":"BUSY"}]}}}`:                                      true,
		`{"data":{"a":{"userErrors":[]},"b":{"userErrors":[{"code":"X"},{"code":"BUSY"}]}}}`:              true,
		`{"data":{"a":null,"b":7,"c":[],"d":{"userErrors":[{"code":"BUSY"}]}}}`:                           true,
		`{"data":{"a":{"userErrors":{"code":"BUSY"}}}}`:                                                   false,
		`{"data":{"userErrors":[{"code":"BUSY"}]}}`:                                                       false,
		`{"data":[{"userErrors":[{"code":"BUSY"}]}]}`:                                                     false,
		`{"data":{"a":{"userErrors":[{"code":"BUSY"}]},"a":{"userErrors":[]}}}`:                           false,
		`{"data":{"a":{"userErrors":[{"code":"BUSY"}]},"\u0061":{}}}`:                                     false,
		`{"data":{"a":{"userErrors":[{"code":"BUSY"}],"userErrors":[]}}}`:                                 false,
		`{"data":{"a":{"userErrors":[{"code":"BUSY","code":"BUSY"}]}}}`:                                   false,
		`{"data":{"a":{"userErrors":[{"code":"BUSY","code":"X"}]},"b":{"userErrors":[{"code":"BUSY"}]}}}`: true,
		`{"data":{"a":{"userErrors":[{"code":"BUSY"}]}},"data":{}}`:                                       false,
	} {
		j := rt.Classify(tables.Answer{Status: 200, Body: []byte(body)})
		assert.Equal(t, found, j.Verdict == inFlight, body)
	}
}

// A path and a star beside it both find the field.
func TestFieldByAPathAndAStar(t *testing.T) {
	rt := ruled(t,
		providers.Rule{Field: "data.a.code", Equals: "x", Verdict: misuse},
		providers.Rule{Field: "data.*.code", Equals: "y", Verdict: inFlight},
		providers.Rule{Field: "data[]", Equals: "z", Verdict: retry},
		providers.Rule{Field: "data", Equals: "w", Verdict: providers.NotExecuted},
	)
	for body, want := range map[string]providers.Verdict{
		`{"data":{"a":{"code":"x"},"b":{"code":"y"}}}`: misuse,
		`{"data":{"a":{"code":"y"}}}`:                  inFlight,
		`{"data":["y","z"]}`:                           retry,
		`{"data":"w"}`:                                 providers.NotExecuted,
		`{"data":{"code":"x"}}`:                        providers.Indeterminate,
	} {
		assert.Equal(t, want.String(), rt.Classify(tables.Answer{Status: 400, Body: []byte(body)}).Verdict.String(), body)
	}
}

// A body that can't be read is ignored. The status line and the headers decide on the verdict.
func TestUnreadableBodyIsIgnored(t *testing.T) {
	t.Parallel()
	const almost = `{"error":{"code":"idempotency_key_in_use","type":"idempotency_error","message":"x"},"errorCode":"704","errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"},"code":"IDEMPOTENCY_KEY_REUSED"}],"name":"RESOURCE_CONFLICT","details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}`
	bad := map[string]struct{ contentType, body string }{
		"HTML":                     {"text/html", "<html><body>502 Bad Gateway</body></html>"},
		"HTML that says it's JSON": {"application/json", "<html><body>502 Bad Gateway</body></html>"},
		"JSON that says it's HTML": {"text/html", almost},
		"longer than is looked at": {"application/json", almost[:len(almost)-1] + `,"x":"` + strings.Repeat("x", tables.MaxAnswerBody) + `"}`},
		"nested deep":              {"application/json", almost[:len(almost)-1] + `,"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`},
		"cut short":                {"application/json", almost[:len(almost)-1]},
		"more behind it":           {"application/json", almost + "}"},
		"a comma too many":         {"application/json", almost[:len(almost)-1] + ",}"},
		"single quotes":            {"application/json", strings.ReplaceAll(almost, `"`, "'")},
		"gzip that was not undone": {"application/json", "\x1f\x8b\x08\x00" + almost},
		"chunks in the body":       {"application/json", "1a\r\n" + almost + "\r\n0\r\n\r\n"},
		"zeros":                    {"application/json", strings.Repeat("\x00", 100)},
		"UTF-16":                   {"application/json", "\xff\xfe{\x00}\x00"},
		"a list around it":         {"application/json", "[" + almost + "]"},
		"a string":                 {"application/json", `"` + strings.ReplaceAll(almost, `"`, `\"`) + `"`},
	}
	answers := map[string]tables.Answer{}
	for name, b := range bad {
		answers[name] = tables.Answer{Header: http.Header{"Content-Type": {b.contentType}}, Body: []byte(b.body)}
	}
	statuses := []int{-1, 0, 101, 200, 302, 400, 404, 409, 412, 422, 429, 451, 500, 503, 599, 999}
	for _, p := range adapters() {
		router := newRouter(t, p)
		for _, e := range p.Endpoints {
			if !sample.TakesName(p.Name+" "+e.Pattern, 4) {
				continue
			}
			rt := router.Route(requestFor(p, e.Pattern).Method, requestFor(p, e.Pattern).URL)
			rt.Endpoint = &e // even if its action differs
			for _, status := range statuses {
				for _, later := range []bool{false, true} {
					want := rt.Classify(tables.Answer{Status: status, Later: later, Header: http.Header{"Content-Type": {"application/json"}}})
					for name, answer := range answers {
						answer.Status, answer.Later = status, later
						if status == 200 && !tables.Recognises(&p, status, answer.Header, answer.Body) {
							if got := rt.Classify(answer); got.Verdict != providers.Indeterminate || got.Recognised {
								t.Errorf("%s %s, later %t, %s: a success of another kind is %v", p.Name, e.Pattern, later, name, got.Verdict)
							}
							continue
						}
						if got := rt.Classify(answer); got != want {
							t.Errorf("%s %s %d, later %t, %s: %v instead of %v", p.Name, e.Pattern, status, later, name, got.Verdict, want.Verdict)
						}
					}
				}
			}
		}
	}
}

// A header that contradicts itself says nothing.
func TestHeaderThatContradictsItself(t *testing.T) {
	rt := ruled(t, providers.Rule{Header: "X-A", Value: "yes", Verdict: misuse}, providers.Rule{Header: "X-B", Verdict: inFlight})
	for _, h := range []http.Header{{"X-A": {"yes", "no"}}, {"X-B": {"1", "2"}}, {"X-A": {"yes, yes"}}, {"X-A": {}}} {
		assert.Equal(t, providers.Indeterminate, rt.Classify(tables.Answer{Status: 400, Header: h}).Verdict, h)
	}
	field := ruled(t, providers.Rule{Field: "a", Verdict: misuse})
	types := func(types ...string) tables.Answer {
		return tables.Answer{Status: 400, Header: http.Header{"Content-Type": types}, Body: []byte(`{"a":1}`)}
	}
	assert.Equal(t, misuse, field.Classify(types("application/json", "application/json")).Verdict)
	assert.Equal(t, misuse, field.Classify(types("application/x-amz-json-1.1")).Verdict)
	assert.Equal(t, providers.Indeterminate, field.Classify(types("application/json", "text/html")).Verdict)
}

// plainly finds the texts at a path by another parser, which shares nothing with the tested one. It does not know of
// duplicate names.
func plainly(value any, path []string) (texts []string) {
	if len(path) == 0 {
		switch v := value.(type) {
		case string:
			if v != "" {
				texts = append(texts, v)
			}
		case json.Number:
			texts = append(texts, v.String())
		case bool:
			texts = append(texts, map[bool]string{true: "true", false: "false"}[v])
		}
		return texts
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	name, array := strings.CutSuffix(path[0], "[]")
	for member, value := range object {
		if member != name && name != "*" {
			continue
		}
		values := []any{value}
		if array {
			values, _ = value.([]any)
		} else if _, is := value.([]any); is {
			continue
		}
		for _, v := range values {
			texts = append(texts, plainly(v, path[1:])...)
		}
	}
	return texts
}

// twice reports whether any object in a JSON text has a name twice.
func twice(d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil {
		return false
	}
	switch token {
	case json.Delim('{'):
		names := map[any]bool{}
		for d.More() {
			name, err := d.Token()
			if err != nil || names[name] || twice(d) {
				return true
			}
			names[name] = true
		}
		_, _ = d.Token()
	case json.Delim('['):
		for d.More() {
			if twice(d) {
				return true
			}
		}
		_, _ = d.Token()
	}
	return false
}

func FuzzFieldsAreThoseThatAnotherParserFinds(f *testing.F) {
	for _, body := range []string{
		`{"error":{"code":"x"}}`, `{"data":{"a":{"errors":[{"code":1},{"code":"x"}]}}}`, `{"errors":["a",true,1.5e3,null,""]}`,
		`{"\u0065rror":{"c\u006fde":"\ud83d\ude00"}}`, `{"error":[{"code":1}]}`, `{"data":[],"errors":{}}`, `[{"error":{}}]`, `{"error":{"code":{"code":1}}} x`, "{\"error\":{\"code\":\"\xff\"}}",
	} {
		f.Add([]byte(body), "x")
	}
	paths := []string{"error.code", "errors[]", "data.*.errors[].code", "*.code", "data.a.errors[].code"}
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		var value any
		valid := json.Valid(body) && decoder.Decode(&value) == nil
		if !utf8.Valid(body) || bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > 100 || valid && twice(json.NewDecoder(bytes.NewReader(body))) {
			return
		}
		for _, path := range paths {
			var want []string
			if valid {
				want = plainly(value, strings.Split(path, "."))
			}
			for _, equals := range append(want, text) {
				rt := ruled(t, providers.Rule{Field: path, Equals: equals, Verdict: misuse}, providers.Rule{Field: "other", Verdict: inFlight})
				found := rt.Classify(tables.Answer{Status: 400, Body: body}).Verdict == misuse
				if found != (slices.Contains(want, equals) || equals == "" && len(want) > 0) {
					t.Fatalf("%s in %q: found %q: %t", path, body, equals, found)
				}
			}
		}
	})
}
