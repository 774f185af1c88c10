package lookup_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
)

// hears is a provider that sends events about payments.
func hears() (*providers.Provider, *providers.Endpoint) {
	p, _ := pay()
	rule := providers.EventRule{
		Field: "type", Equals: "payment.paid", Endpoint: p.Endpoints[0].Pattern,
		Key: "request.key", Reference: "data.reference", ID: "id", Object: "data.id", Created: "data.created", At: "at", Account: "account", Live: "live",
		Also: []providers.Same{
			{Field: "success", Is: "true"},
			{Field: "data.amount", Is: "{request.amount}", As: providers.AsDecimal, Optional: true},
		},
		Is: providers.TookEffect,
	}
	failed := rule
	failed.Equals, failed.Is = "payment.failed", providers.Refused
	thin := providers.EventRule{Field: "type", Equals: "payment.paid", Object: "data.id", Thin: true}
	again := rule
	again.Also, again.Is = nil, providers.InProgress
	p.Events = []providers.EventRule{rule, failed, thin, again}
	return p, &p.Endpoints[0]
}

const paidEvent = `{"id":"evt_1","type":"payment.paid","success":true,"account":"acct_1","live":true,"at":"2026-11-22T12:00:05Z",
	"request":{"key":"k"},"data":{"id":"p1","reference":"r","amount":"10.00","created":1795348801}}`

func TestEventsAreRead(t *testing.T) {
	p, _ := hears()
	heard, problem := lookup.ReadEvents(p, nil, []byte(paidEvent))
	require.Empty(t, problem)
	require.Len(t, heard, 2, "for each endpoint the first rule that matches")
	h := heard[0]
	assert.Same(t, &p.Events[0], h.Rule)
	assert.Equal(t, "evt_1 k r p1 acct_1", strings.Join([]string{h.ID, h.Key, h.Reference, h.Object, h.Account}, " "))
	assert.True(t, h.Live && h.Told)
	assert.Equal(t, noon.Add(5*time.Second), h.At)
	assert.Equal(t, noon.Add(time.Second), h.Created)
	assert.True(t, heard[1].Rule.Thin)
	assert.False(t, heard[1].Told)
	assert.NotEmpty(t, heard[1].ID, "a digest")

	heard, problem = lookup.ReadEvents(p, nil, []byte(strings.Replace(paidEvent, `"success":true`, `"success":false`, 1)))
	require.Empty(t, problem)
	require.NotEmpty(t, heard)
	assert.Equal(t, providers.InProgress, heard[len(heard)-1].Rule.Is, "the first does not hold")

	for name, body := range map[string]string{
		"of an unknown type":             strings.Replace(paidEvent, "payment.paid", "payment.new", 1),
		"of two types":                   strings.Replace(paidEvent, `"id"`, `"type":"payment.failed","id"`, 1),
		"without a type":                 `{}`,
		"an array in place of an object": `[` + paidEvent + `]`,
	} {
		heard, problem = lookup.ReadEvents(p, nil, []byte(body))
		assert.Empty(t, heard, name)
		assert.Empty(t, problem, name)
	}
	for name, body := range map[string]string{"cut": paidEvent[:90], "markup": "<a/>", "nothing": ""} {
		_, problem = lookup.ReadEvents(p, nil, []byte(body))
		assert.NotEmpty(t, problem, name)
	}
	_, problem = lookup.ReadEvents(p, http.Header{"Content-Type": {"text/plain"}}, []byte(paidEvent))
	assert.NotEmpty(t, problem)
}

// One request brings several events. An event without an id is identified by its content.
func TestEventsOfOneRequest(t *testing.T) {
	p, _ := hears()
	p.Events = []providers.EventRule{{
		Items: "events[]", Field: "kind", Equals: "AUTH", Reference: "ref", Object: "psp", At: "at", Created: "at", Is: providers.TookEffect,
		Also: []providers.Same{{Field: "success", Is: "true"}},
	}}
	const one = `{"kind":"AUTH","ref":"r","psp":"1","at":"2026-11-22 12:00:05","success":"true"}`
	other := strings.Replace(one, `"psp":"1"`, `"psp":"2"`, 1)
	heard, problem := lookup.ReadEvents(p, nil, []byte(`{"events":[`+one+`,{"kind":"x"},`+other+`,`+strings.Replace(one, "true", "false", 1)+`]}`))
	require.Empty(t, problem)
	require.Len(t, heard, 2)
	assert.Equal(t, []string{"1", "2"}, []string{heard[0].Object, heard[1].Object})
	assert.NotEqual(t, heard[0].ID, heard[1].ID)
	again, _ := lookup.ReadEvents(p, nil, []byte(`{"events":[`+strings.Replace(one, `{`, `{"attempt":2,`, 1)+`]}`))
	require.Len(t, again, 1)
	assert.Equal(t, heard[0].ID, again[0].ID, "another delivery of it")
}

// An event belongs to an operation by its key, its reference or its object, if no other field contradicts it.
func TestEventsOfAnOperation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		event  func(string) string
		change func(*lookup.Subject)
		fits   bool
		exact  bool
		why    string
	}{
		{"by key", nil, func(o *lookup.Subject) { o.Key = "k" }, true, true, ""},
		{"another key", nil, func(o *lookup.Subject) { o.Key = "l" }, false, false, "another key"},
		{"by reference of ours", nil, func(o *lookup.Subject) { o.ReferenceOurs = true }, true, true, ""},
		{"by the caller's reference", nil, nil, true, false, ""},
		{"by its object", nil, func(o *lookup.Subject) { o.Reference, o.Object = "", "p1" }, true, true, ""},
		{"by nothing", nil, func(o *lookup.Subject) { o.Reference = "s" }, false, false, "neither"},
		{"another amount", nil, func(o *lookup.Subject) { o.Values["request.amount"] = "11" }, false, false, "data.amount"},
		{"no amount to compare, ours", nil, func(o *lookup.Subject) {
			delete(o.Values, "request.amount")
			o.ReferenceOurs = true
		}, true, true, ""},
		{"no amount to compare", nil, func(o *lookup.Subject) { delete(o.Values, "request.amount") }, false, false, "nothing else"},
		{"an object from before", func(s string) string { return strings.Replace(s, "1795348801", "1795348000", 1) }, nil, false, false, "before"},
		{"an object from before, by key", func(s string) string { return strings.Replace(s, "1795348801", "1795348000", 1) }, func(o *lookup.Subject) { o.Key = "k" }, false, false, "before"},
		{"an event from before", func(s string) string { return strings.Replace(s, "2026-11-22", "2026-11-21", 1) }, nil, false, false, "before"},
		{"an object from long after", func(s string) string { return strings.Replace(s, "1795348801", "1795358801", 1) }, nil, false, false, "after"},
		{"an object of no time", func(s string) string { return strings.Replace(s, "1795348801", "null", 1) }, nil, false, false, "when"},
		{"an object of no time, ours", func(s string) string { return strings.Replace(s, "1795348801", "null", 1) }, func(o *lookup.Subject) { o.ReferenceOurs = true }, true, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := hears()
			about := sent(t, p, e, "c", "r", "10")
			if tc.change != nil {
				tc.change(&about)
			}
			event := paidEvent
			if tc.event != nil {
				event = tc.event(event)
				require.NotEqual(t, paidEvent, event)
			}
			heard, problem := lookup.ReadEvents(p, nil, []byte(event))
			require.Empty(t, problem)
			fits, exact, why := heard[0].Of(e, &about)
			assert.Equal(t, tc.fits, fits, why)
			assert.Equal(t, tc.exact, exact)
			assert.Contains(t, why, tc.why)
			assert.Equal(t, fits, why == "")

			other := *e
			other.Pattern = "POST /v1/others"
			fits, _, _ = heard[0].Of(&other, &about)
			assert.False(t, fits, "it speaks of another endpoint")
		})
	}
}

// Any body that a stranger sends to an endpoint for events is read without harm.
func FuzzEvents(f *testing.F) {
	f.Add(paidEvent)
	f.Add(`{"events":[` + paidEvent + `]}`)
	f.Add(`{"type":"payment.paid","type":"x"}`)
	f.Fuzz(func(t *testing.T, body string) {
		p, e := hears()
		inList := p.Events[0]
		inList.Items = "events[]"
		p.Events = append(p.Events, inList)
		about := sent(t, p, e, "c", "r", "10")
		heard, _ := lookup.ReadEvents(p, nil, []byte(body))
		for _, h := range heard {
			assert.NotEmpty(t, h.ID)
			if fits, _, _ := h.Of(e, &about); fits {
				assert.Equal(t, "r", h.Reference)
			}
		}
	})
}
