package providers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

// What strangers feed takes time in proportion to its length: each of these took
// seconds to minutes when it was quadratic.
func TestWhatStrangersFeedTakesLinearTime(t *testing.T) {
	const n = 1 << 20
	within := func(name string, limit time.Duration, f func()) {
		t.Helper()
		start := time.Now()
		f()
		assert.Less(t, time.Since(start), limit, name)
	}
	many := func(format string, bytes int) string {
		var b strings.Builder
		for i := 0; b.Len() < bytes; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}

	rt := ruled(t, providers.Rule{Field: "data.*.code", Equals: "BUSY", Verdict: inFlight})
	members := `{"data":{` + many(`"\u0061%d":{"code":"BUSY"},`, 59<<10) + `"a":{}}}`
	within("an answer with many members", 300*time.Millisecond, func() {
		assert.Equal(t, inFlight, rt.Classify(providers.Answer{Status: 200, Body: []byte(members)}).Verdict)
	})

	within("a GraphQL document of many operations", 3*time.Second, func() {
		doc := many("query Q%d { a }\\n", n/2) + "mutation M($k: ID!) { a @idempotent(key: $k) }" + many("query P%d($k: I) { a(b: $k) }\\n", n/2)
		_, present, err := inGraphQL.Carried(jsonBody(`{"operationName":"M","query":"` + doc + `","variables":{"k":"x"}}`))
		assert.NoError(t, err)
		assert.True(t, present)
	})
	within("a GraphQL document of many directives", 3*time.Second, func() {
		inGraphQL.Carried(jsonBody(`{"query":"mutation { a ` + strings.Repeat("__typename @a ", n/14) + `}"}`))
	})
	within("a form with the key many times", 3*time.Second, func() {
		inForm.Without(formBody(strings.Repeat("IdempotencyKey=a&x&", n/19)))
	})

	var wild []string
	for i := range 20 {
		wild = append(wild, fmt.Sprintf("*.example%d.com", i))
	}
	p := own()
	p.Hosts = wild
	r := newRouter(t, p)
	within("a host of many labels", 300*time.Millisecond, func() {
		r.Route(http.MethodPost, &url.URL{Scheme: "https", Host: strings.Repeat("a.", n/2) + "com", Path: "/v1/"})
	})
	within("a path of many segments", time.Second, func() {
		route(t, newRouter(t, adapters()...), "POST", "https://api.stripe.com/v1/"+strings.Repeat("a/", n/2))
	})
}
