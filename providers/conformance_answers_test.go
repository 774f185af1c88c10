package providers_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// answering starts a server, and returns a function that gets an answer from the server.
func answering(t *testing.T) func(row) tables.Answer {
	var answers []row
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		tc := answers[n]
		for name, values := range tc.answer(false).Header {
			w.Header()[name] = values
		}
		w.WriteHeader(tc.status)
		_, _ = io.WriteString(w, tc.body)
	}))
	t.Cleanup(srv.Close)
	client := srv.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(tc row) tables.Answer {
		answers = append(answers, tc)
		resp, err := client.Get(srv.URL + "/" + strconv.Itoa(len(answers)-1))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return tables.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}
	}
}

// strangeAnswersProveNothing gives each endpoint answers that no provider means to give. A provider that does not
// publish the form of its answers may have any 2xx.
func (s suite) strangeAnswersProveNothing(t *testing.T) {
	get := answering(t)
	for _, tc := range []row{
		{name: "an unknown status", status: 599, header: "Content-Type: text/html", body: html},
		{name: "a gateway's 503", status: 503, header: "Content-Type: text/html", body: html},
		{name: "a redirect", status: 302, header: "Location: /elsewhere"},
		{name: "a page instead of a success", status: 200, header: "Content-Type: text/html", body: html},
		{name: "a page that calls itself JSON", status: 201, header: "Content-Type: application/json", body: html},
	} {
		a := get(tc)
		for i := range s.adapter.Endpoints {
			e := &s.adapter.Endpoints[i]
			for _, later := range []bool{false, true} {
				a.Later = later
				verdict := (tables.Route{Provider: &s.adapter, Endpoint: e, Listed: true}).Classify(a).Verdict
				proves := verdict != retry && verdict != indeterminate
				assert.Equal(t, proves, a.Status < 300 && len(s.adapter.Answers) == 0, "%s: %s is %v", identity(*e), tc.name, verdict)
			}
		}
	}
}

// everyRuleReadsItsAnswer has a server give the answer that each rule describes. The rule has to decide on that answer.
// The test finds a rule that another one hides, and a field that is read in no answer.
func (s suite) everyRuleReadsItsAnswer(t *testing.T) {
	get := answering(t)
	var done [][]providers.Rule
	for _, e := range s.adapter.Endpoints {
		if slices.ContainsFunc(done, func(rules []providers.Rule) bool { return reflect.DeepEqual(rules, e.Rules) }) {
			continue
		}
		done = append(done, e.Rules)
		numbered := e
		numbered.Rules = slices.Clone(e.Rules)
		for i := range numbered.Rules {
			numbered.Rules[i].Source = strconv.Itoa(i)
		}
		rt := tables.Route{Provider: &s.adapter, Endpoint: &numbered, Listed: true}
		for i, rule := range e.Rules {
			assert.True(t, reached(rt, i, get), "%s, rule %d: %+v", identity(e), i, rule)
		}
	}
}

// reached reports whether a rule decides on an answer that it describes. The answer also has what keeps an earlier rule
// from reading it.
func reached(rt tables.Route, n int, get func(row) tables.Answer) bool {
	rule := rt.Endpoint.Rules[n]
	for _, status := range statusesOf(rule) {
		besides := []string{""}
		for _, earlier := range rt.Endpoint.Rules[:n] {
			if earlier.Field == rule.Field {
				besides = appendNew(besides, earlier.Without)
			}
		}
		for _, beside := range besides {
			a := get(answerOf(rule, status, beside))
			for _, on := range []struct{ later, ownKey bool }{{false, false}, {false, true}, {true, false}} {
				a.Later, a.OwnKey = on.later, on.ownKey
				if j := rt.Classify(a); j.Source == strconv.Itoa(n) && j.Verdict == rule.Verdict {
					return true
				}
			}
		}
	}
	return false
}

// statusesOf lists statuses that a rule reads.
func statusesOf(rule providers.Rule) (statuses []int) {
	if rule.Status == 0 {
		return []int{400, 418, 500, 200}
	}
	for status := rule.Status; status <= max(rule.Status, rule.Through); status++ {
		statuses = append(statuses, status)
	}
	return statuses
}

// answerOf is an answer that a rule describes, with a text at the paths beside.
func answerOf(rule providers.Rule, status int, beside ...string) row {
	object := map[string]any{}
	for _, path := range beside {
		if path != "" {
			put(object, strings.Split(path, "."), "some text")
		}
	}
	if rule.Pointer != "" {
		put(object, strings.Split(rule.Pointer, "."), "PM123")
	}
	if rule.Field != "" {
		text := rule.Equals
		if text == "" {
			text = "some text"
		}
		put(object, strings.Split(rule.Field, "."), text)
	}
	body, _ := json.Marshal(object)
	tc := row{status: status, header: "Content-Type: application/json", body: string(body)}
	if rule.Header != "" {
		value := rule.Value
		if value == "" {
			value = "1"
		}
		tc.header += "; " + rule.Header + ": " + value
	}
	return tc
}

// put puts a text at a path into an object. An array on the path has one element.
func put(object map[string]any, path []string, text string) {
	name, array := strings.CutSuffix(path[0], "[]")
	if name == "*" {
		name = "any"
	}
	if len(path) == 1 {
		object[name] = any(text)
		if array {
			object[name] = []any{text}
		}
		return
	}
	below, _ := object[name].(map[string]any)
	if list, is := object[name].([]any); is {
		below, _ = list[0].(map[string]any)
	}
	if below == nil {
		below = map[string]any{}
	}
	object[name] = any(below)
	if array {
		object[name] = []any{below}
	}
	put(below, path[1:], text)
}
