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

// ruled is the route of a provider with these rules.
func ruled(t testing.TB, rules ...providers.Rule) tables.Route {
	t.Helper()
	p := own()
	p.ReplayHeader, p.ReplayValue = "X-Replayed", "yes"
	p.Endpoints[0].Rules = rules
	return route(t, newRouter(t, p), "POST", "https://ledger.example.com/v1/transfers")
}

// Answers that no rule reads get the careful verdict.
func TestClassifyWithoutARule(t *testing.T) {
	rt := ruled(t)
	for status, want := range map[int]providers.Verdict{
		-1: indeterminate, 0: indeterminate, 100: indeterminate, 199: indeterminate,
		200: final, 204: final, 299: final,
		301: indeterminate, 307: indeterminate,
		400: indeterminate, 401: indeterminate, 403: indeterminate, 404: indeterminate,
		408: retry, 409: indeterminate, 422: indeterminate, 425: retry, 429: retry,
		500: retry, 503: retry, 599: retry, 600: indeterminate, 999: indeterminate, 1000: indeterminate,
	} {
		for _, later := range []bool{false, true} {
			assert.Equal(t, want.String(), rt.Classify(tables.Answer{Status: status, Later: later}).Verdict.String(), "status %d", status)
		}
	}
}

func TestTheFirstMatchingRuleWins(t *testing.T) {
	rt := ruled(t,
		providers.Rule{Status: 409, Field: "code", Equals: "busy", Verdict: inFlight, Source: "busy"},
		providers.Rule{Status: 409, Header: "X-Conflict", Verdict: final, Source: "conflict"},
		providers.Rule{Status: 409, On: providers.FirstAttempt, Verdict: misuse, Source: "first"},
	)
	both := tables.Answer{Status: 409, Header: http.Header{"X-Conflict": {"1"}}, Body: []byte(`{"code":"busy"}`)}
	assert.Equal(t, tables.Judgement{Verdict: inFlight, Earlier: true, Source: "busy"}, rt.Classify(both))
	both.Body = nil
	assert.Equal(t, tables.Judgement{Verdict: final, Source: "conflict"}, rt.Classify(both))
	both.Header = nil
	assert.Equal(t, tables.Judgement{Verdict: misuse, Source: "first"}, rt.Classify(both))
	both.Later = true
	assert.Equal(t, indeterminate, rt.Classify(both).Verdict)
}

// A rule can be limited to a key that was made for this request, which no other process has sent.
func TestClassifyOwnKey(t *testing.T) {
	rt := ruled(t,
		providers.Rule{Status: 409, On: providers.FirstAttemptOwnKey, Verdict: final},
		providers.Rule{Status: 409, On: providers.FirstAttempt, Verdict: indeterminate},
		providers.Rule{Status: 409, Verdict: inFlight},
	)
	for _, tc := range []struct {
		own, later bool
		want       providers.Verdict
	}{{true, false, final}, {false, false, indeterminate}, {true, true, inFlight}, {false, true, inFlight}} {
		got := rt.Classify(tables.Answer{Status: 409, OwnKey: tc.own, Later: tc.later})
		assert.Equal(t, tc.want.String(), got.Verdict.String(), "own: %t, later: %t", tc.own, tc.later)
	}
}

func TestARuleCanAskForAFieldThatIsNotThere(t *testing.T) {
	rt := ruled(t, providers.Rule{Status: 200, Field: "errors[].code", Without: "data.*.id", Verdict: providers.NotExecuted})
	for body, want := range map[string]providers.Verdict{
		`{"errors":[{"code":"x"}]}`:                          providers.NotExecuted,
		`{"data":null,"errors":[{"code":"x"}]}`:              providers.NotExecuted,
		`{"data":{"a":{"id":null}},"errors":[{"code":"x"}]}`: providers.NotExecuted,
		`{"data":{"a":{"id":"1"}},"errors":[{"code":"x"}]}`:  final,
		`{"data":{"a":{"id":"1"}}}`:                          final,
	} {
		assert.Equal(t, want.String(), rt.Classify(tables.Answer{Status: 200, Body: []byte(body)}).Verdict.String(), body)
	}
}

func TestAReplayMarkMakesAnyAttemptALaterOne(t *testing.T) {
	rt := ruled(t,
		providers.Rule{Status: 400, On: providers.FirstAttempt, Verdict: final},
		providers.Rule{Status: 400, On: providers.LaterAttempt, Verdict: retry},
	)
	for _, tc := range []struct {
		lines    []string
		replayed bool
	}{
		{nil, false},
		{[]string{"yes"}, true},
		{[]string{" YES "}, true},
		{[]string{"no"}, false},
		{[]string{""}, false},
		{[]string{"yes", "yes"}, true},
		{[]string{"yes", "no"}, false},
	} {
		j := rt.Classify(tables.Answer{Status: 400, Header: http.Header{"X-Replayed": tc.lines}})
		assert.Equal(t, tc.replayed, j.Replayed, "%q", tc.lines)
		assert.Equal(t, tc.replayed, j.Earlier, "%q", tc.lines)
		assert.Equal(t, tc.replayed, j.Verdict == retry, "%q", tc.lines)
	}
}

func TestTheUnlistedContractHasNoReplayMark(t *testing.T) {
	p := own()
	p.ReplayHeader = "X-Replayed"
	rt := route(t, newRouter(t, p), "POST", "https://ledger.example.com/elsewhere")
	assert.False(t, rt.Classify(tables.Answer{Status: 200, Header: http.Header{"X-Replayed": {"yes"}}}).Replayed)
}

func TestAlreadyDoneNamesTheResource(t *testing.T) {
	rt := ruled(t, providers.Rule{Status: 409, Field: "error.errors[].reason", Equals: "conflict", Verdict: providers.AlreadyDone, Pointer: "error.errors[].links.id"})
	for _, tc := range []struct {
		body    string
		pointer string
	}{
		{`{"error":{"errors":[{"reason":"conflict","links":{"id":"PM123"}}]}}`, "PM123"},
		{`{"error":{"errors":[{"reason":"other"},{"reason":"conflict","links":{"id":"PM123"}}]}}`, "PM123"},
		{`{"error":{"errors":[{"reason":"conflict","links":{"id":42}}]}}`, "42"},
		{`{"error":{"errors":[{"reason":"other","links":{"id":"PM1"}},{"reason":"conflict","links":{"id":"PM2"}}]}}`, ""},
		{`{"error":{"errors":[{"reason":"conflict","links":{}}]}}`, ""},
		{`{"error":{"errors":[{"reason":"conflict","links":{"id":""}}]}}`, ""},
		{`{"error":{"errors":[{"reason":"conflict","links":{"id":null}}]}}`, ""},
		{`{"error":{"errors":[]}}`, ""},
	} {
		j := rt.Classify(tables.Answer{Status: 409, Body: []byte(tc.body)})
		assert.Equal(t, tc.pointer, j.Pointer, tc.body)
		assert.Equal(t, tc.pointer != "", j.Verdict == providers.AlreadyDone, tc.body)
		assert.Equal(t, tc.pointer != "", j.Earlier, tc.body)
	}
}

func TestFieldsAreReadFromJSONOnly(t *testing.T) {
	t.Parallel()
	rt := ruled(t, providers.Rule{Status: 409, Field: "error.code", Equals: "busy", Verdict: inFlight})
	const body = `{"error":{"code":"busy"}}`
	for _, tc := range []struct {
		name        string
		contentType string
		body        string
		found       bool
	}{
		{"JSON", "application/json", body, true},
		{"JSON with a charset", "application/json; charset=utf-8", body, true},
		{"problem details", "application/problem+json", body, true},
		{"in capitals", "Application/JSON", body, true},
		{"no content type", "", body, true},
		{"white space and other members", "", "\r\n { \"a\" : [1,{\"code\":\"x\"},\"}\"] , \"error\" : { \"b\" : null, \"code\" : \"busy\" } }\n", true},
		{"an escaped text", "", `{"error":{"code":"b\u0075sy"}}`, true},
		{"an escaped name", "", `{"err\u006fr":{"code":"busy"}}`, true},
		{"HTML", "text/html", body, false},
		{"plain text", "text/plain", body, false},
		{"a content type that does not parse", "application/json;;=", body, false},
		{"cut short", "application/json", body[:len(body)-1], false},
		{"something behind it", "application/json", body + "x", false},
		{"two values", "application/json", body + body, false},
		{"a byte order mark", "application/json", "\ufeff" + body, false},
		{"another text", "application/json", `{"error":{"code":"Busy"}}`, false},
		{"at another place", "application/json", `{"code":"busy"}`, false},
		{"an array around it", "application/json", `[{"error":{"code":"busy"}}]`, false},
		{"an array on the way", "application/json", `{"error":[{"code":"busy"}]}`, false},
		{"an object instead of a text", "application/json", `{"error":{"code":{"busy":1}}}`, false},
		{"null", "application/json", `{"error":{"code":null}}`, false},
		{"the field twice", "application/json", `{"error":{"code":"busy","code":"other"}}`, false},
		{"the way twice", "application/json", `{"error":{"code":"busy"},"error":{}}`, false},
		{"empty", "application/json", "", false},
		{"a scalar", "application/json", `"busy"`, false},
		{"as long as an order with a thousand lines", "application/json", `{"error":{"code":"busy"},"pad":"` + strings.Repeat("x", 1<<20) + `"}`, true},
		{"longer than is looked at", "application/json", `{"error":{"code":"busy"},"pad":"` + strings.Repeat("x", tables.MaxAnswerBody) + `"}`, false},
		{"nested beyond reason", "application/json", strings.Repeat("[", 60000), false},
		{"chunked garbage", "application/json", "1f\r\n{\"error\":{\"code\":\"busy\"}}\r\n0\r\n\r\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{}
			if tc.contentType != "" {
				h.Set("Content-Type", tc.contentType)
			}
			j := rt.Classify(tables.Answer{Status: 409, Header: h, Body: []byte(tc.body)})
			want := indeterminate
			if tc.found {
				want = inFlight
			}
			assert.Equal(t, want.String(), j.Verdict.String())
		})
	}
}

func TestAFieldsTextIsThatOfTheScalar(t *testing.T) {
	for _, tc := range []struct{ path, equals, body string }{
		{"code", "704", `{"code":704}`},
		{"code", "704", `{"code":"704"}`},
		{"code", "704", `{"code" : 704 }`},
		{"code", "-1.5e3", `{"code":-1.5e3}`},
		{"code", "true", `{"code":true}`},
		{"code", "ü{[,", `{"code":"ü{[,"}`},
		{"a.b.c", "x", `{"a":{"b":{"c":"x"}}}`},
		{"a[].b[].c", "x", `{"a":[{"b":[]},{"b":[{"c":"y"},{"c":"x"}]}]}`},
		{"a[]", "x", `{"a":["y","x"]}`},
		{"code", "", `{"code":0}`},
		{"code", "", `{"code":false}`},
	} {
		rt := ruled(t, providers.Rule{Field: tc.path, Equals: tc.equals, Verdict: misuse})
		assert.Equal(t, misuse.String(), rt.Classify(tables.Answer{Status: 400, Body: []byte(tc.body)}).Verdict.String(), tc.body)
	}
}

func TestVerdictsAndFactsHaveNames(t *testing.T) {
	for _, tc := range []struct {
		value fmt.Stringer
		want  string
	}{
		{providers.Final, "final"},
		{providers.NotExecuted, "not executed"},
		{providers.Indeterminate, "indeterminate"},
		{providers.Verdict(0), "verdict(0)"},
		{providers.Verdict(99), "verdict(99)"},
		{providers.Nothing, "nothing"},
		{providers.SuccessesCleanFailures, "successes, clean failures"},
		{providers.Memory(99), "memory(99)"},
		{providers.AnyAttempt, "any attempt"},
		{providers.LaterAttempt, "later attempt"},
		{providers.FirstAttemptOwnKey, "first attempt, with a key made for it"},
		{providers.SuccessesLostAnswers, "successes, lost answers"},
		{providers.Occasion(99), "occasion(99)"},
		{providers.KeyNone, "none"},
		{providers.KeyQuotedHeader, "quoted header"},
		{providers.KeyPlace(99), "key place(99)"},
	} {
		assert.Equal(t, tc.want, tc.value.String())
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(409, "application/json", "Idempotent-Replayed", "true", []byte(`{"error":{"code":"idempotency_key_in_use"}}`), false)
	f.Add(422, "application/json", "Transient-Error", "true", []byte(`{"errorCode":"704"}`), true)
	f.Add(500, "text/html", "Stripe-Should-Retry", "false", []byte("<html>"), true)
	f.Add(400, "", "X", "", []byte(`{"error":{"type":"a","type":"b"}}`), false)
	f.Add(0, "application/problem+json", "", "", []byte(`{"errors":[{"reason":"\ud800"}]}`), false)
	f.Add(402, "application/json", "", "", []byte(`{"error":{"type":"\\"}}`), false)
	var routes []tables.Route
	for _, p := range adapters() {
		router := newRouter(f, p)
		for _, e := range p.Endpoints {
			routes = append(routes, router.Route(requestFor(p, e.Pattern).Method, requestFor(p, e.Pattern).URL))
		}
	}
	routes = append(routes, ruled(f, providers.Rule{Field: "errors[].reason", Verdict: providers.AlreadyDone, Pointer: "errors[].id"}))
	f.Fuzz(func(t *testing.T, status int, contentType, name, value string, body []byte, later bool) {
		a := tables.Answer{Status: status, Header: http.Header{}, Body: body, Later: later}
		a.Header.Set("Content-Type", contentType)
		a.Header.Set(name, value)
		for _, rt := range routes {
			j := rt.Classify(a)
			if j.Verdict < providers.Final || j.Verdict > providers.Indeterminate || rt.Provider.Name != "ledger" && j.Source == "" {
				t.Fatalf("%s: %+v", rt.Endpoint.Pattern, j)
			}
			if (j.Pointer != "") != (j.Verdict == providers.AlreadyDone) {
				t.Fatalf("%s: %+v", rt.Endpoint.Pattern, j)
			}
			if status == 409 && j.Verdict == providers.Final && later && !j.Replayed {
				t.Fatalf("%s: 409 is final by its status: %+v", rt.Endpoint.Pattern, j)
			}
		}
	})
}

// typical visits, for each adapter, a route and an error of its own in JSON. The error has the members that errors
// usually have besides.
func typical(t testing.TB, visit func(name string, rt tables.Route, a tables.Answer)) {
	const besides = `{"doc_url":"https://docs.example.com/errors/already-captured","message":"The charge ch_3PqXyz2eZvKYlo2C has already been captured, and can't be captured again.","request_log_url":"https://dashboard.example.com/logs/req_Hq2x","status":400`
	for _, c := range contracts() {
		s := suite{contract: c, router: newRouter(t, c.adapter)}
		rt := s.route(t, c.sent[0].request)
		answer := tables.Answer{Status: 400, Header: http.Header{}, Body: []byte("{}")}
		for _, rule := range rt.Endpoint.Rules {
			if a := answerOf(rule, max(rule.Status, 400)).answer(true); len(a.Body) > len(answer.Body) {
				answer = a
			}
		}
		if rest := answer.Body[1:]; len(rest) > 1 {
			answer.Body = []byte(besides + "," + string(rest))
		} else {
			answer.Body = []byte(besides + "}")
		}
		answer.Header.Set("Content-Type", "application/json; charset=utf-8")
		visit(c.adapter.Name, rt, answer)
	}
}

func TestClassifyingAllocatesLittle(t *testing.T) {
	typical(t, func(name string, rt tables.Route, a tables.Answer) {
		allocations := testing.AllocsPerRun(100, func() { rt.Classify(a) })
		assert.LessOrEqual(t, allocations, 5.0, name)
	})
}

func BenchmarkClassify(b *testing.B) {
	typical(b, func(name string, rt tables.Route, a tables.Answer) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rt.Classify(a)
			}
		})
	})
}
