package tables_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// fromStrangers are inputs of about n bytes each that strangers may send, each with a function that reads it. With
// quadratic code each took seconds to minutes for a megabyte.
var fromStrangers = []struct {
	name string
	make func(t testing.TB, n int) (read func())
}{
	{"an answer with many members", func(t testing.TB, n int) func() {
		rt := ruled(t, providers.Rule{Field: "data.*.code", Equals: "BUSY", Verdict: providers.InFlight})
		members := []byte(`{"data":{` + many(`"\u0061%d":{"code":"BUSY"},`, min(n, 59<<10)) + `"a":{}}}`)
		return func() {
			assert.Equal(t, providers.InFlight, rt.Classify(tables.Answer{Status: 200, Body: members}).Verdict)
		}
	}},
	{"a GraphQL document of many operations", func(t testing.TB, n int) func() {
		doc := many("query Q%d { a }\\n", n/2) + "mutation M($k: ID!) { a @idempotent(key: $k) }" + many("query P%d($k: I) { a(b: $k) }\\n", n/2)
		m := jsonBody(`{"operationName":"M","query":"` + doc + `","variables":{"k":"x"}}`)
		return func() {
			_, present, err := tables.Key(inGraphQL).Carried(m)
			assert.NoError(t, err)
			assert.True(t, present)
		}
	}},
	{"a GraphQL document of many directives", func(_ testing.TB, n int) func() {
		m := jsonBody(`{"query":"mutation { a ` + strings.Repeat("__typename @a ", n/14) + `}"}`)
		return func() { tables.Key(inGraphQL).Carried(m) }
	}},
	{"a form with the key many times", func(_ testing.TB, n int) func() {
		m := formBody(strings.Repeat("IdempotencyKey=a&x&", n/19))
		return func() { tables.Key(inForm).Without(m) }
	}},
	{"a list with many items", func(t testing.TB, n int) func() {
		list, fields := []byte(`{"data":[`+many(`{"id":"\u0061%d","m":{"m":{}}},`, min(n, 200<<10))+`{"id":1}]}`), tables.NewFields("id", "m.m.x", "*.*")
		return func() {
			items, problem := tables.Items(nil, list, "data[]")
			assert.Empty(t, problem)
			for _, item := range items {
				assert.Len(t, fields.Read(item).All("id"), 1)
			}
		}
	}},
	{"an item with many members", func(t testing.TB, n int) func() {
		item := []byte(`{"data":[{` + many(`"\u0061%d":{"x":[{"y":1}]},`, n) + `"id":1}]}`)
		return func() {
			items, problem := tables.Items(nil, item, "data[]")
			assert.Empty(t, problem)
			assert.Equal(t, []string{"1"}, tables.NewFields("id", "*.x[].z").Read(items[0]).All("id"))
		}
	}},
	{"a host of many labels", func(t testing.TB, n int) func() {
		p := own()
		p.Hosts = nil
		for i := range 20 {
			p.Hosts = append(p.Hosts, fmt.Sprintf("*.example%d.com", i))
		}
		r, u := newRouter(t, p), &url.URL{Scheme: "https", Host: strings.Repeat("a.", n/2) + "com", Path: "/v1/"}
		return func() { r.Route(http.MethodPost, u) }
	}},
	{"a path of many segments", func(t testing.TB, n int) func() {
		r, u := newRouter(t, providers.Stripe()), &url.URL{Scheme: "https", Host: "api.stripe.com", Path: "/v1/" + strings.Repeat("a/", n/2)}
		return func() { r.Route(http.MethodPost, u) }
	}},
}

// many is text of at least the given bytes, of a format with a number in it.
func many(format string, bytes int) string {
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func TestLargeInputIsReadInLinearTime(t *testing.T) {
	for _, row := range fromStrangers {
		t.Run(row.name, func(t *testing.T) { row.make(t, 1<<20)() })
	}
}

// Only a measured time shows quadratic code. Linear code takes four times as long for four times the size, quadratic
// code sixteen times. So the bytes per second of the two sizes of each input must be about the same.
func BenchmarkLargeInput(b *testing.B) {
	for _, row := range fromStrangers {
		for _, n := range []int{14 << 10, 56 << 10} {
			b.Run(fmt.Sprintf("%s/%d", row.name, n), func(b *testing.B) {
				read := row.make(b, n)
				b.SetBytes(int64(n))
				for b.Loop() {
					read()
				}
			})
		}
	}
}
