package tables_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// acting has one path for many operations, of each kind.
func acting() providers.Provider {
	key := providers.Key{Place: providers.KeyRawHeader, Name: "X-Key"}
	return providers.Provider{
		Name: "acting",
		Endpoints: []providers.Endpoint{
			{Pattern: "POST /header", OmitFields: []string{"default"}},
			{Pattern: "POST /header", Action: providers.Action{Place: providers.ActionHeader, Name: "X-Target", Value: "List"}, NoEffect: true},
			{Pattern: "POST /header", Action: providers.Action{Place: providers.ActionHeader, Name: "X-Target", Value: "Pay"}, Key: key, OmitFields: []string{"pay"}},
			{Pattern: "POST /field", Action: providers.Action{Place: providers.ActionField, Name: "Action", Value: "Describe"}, NoEffect: true},
			{Pattern: "POST /field", Action: providers.Action{Place: providers.ActionField, Name: "Action", Value: "Run"}, Key: key, OmitFields: []string{"run"}},
			{Pattern: "POST /graphql", Action: providers.Action{Place: providers.ActionGraphQL, Value: "query"}, NoEffect: true},
			{Pattern: "POST /graphql", Action: providers.Action{Place: providers.ActionGraphQL, Value: "mutation refundCreate"},
				Key: inGraphQL, Retention: time.Hour, Remembers: providers.Successes, InFlightGuard: true, OmitFields: []string{"refund"}},
			{Pattern: "POST /graphql", Action: providers.Action{Place: providers.ActionGraphQL, Value: "mutation"}, OmitFields: []string{"mutation"}},
			{Pattern: "POST /keyed", Key: inGraphQL, OmitFields: []string{"keyed"}},
		},
	}
}

// The action decides which endpoint a request is under.
func TestActionDecidesTheEndpoint(t *testing.T) {
	router, err := tables.NewRouter([]providers.Provider{acting()})
	require.NoError(t, err)
	header := func(values ...string) tables.Message {
		return tables.Message{Header: http.Header{"x-target": values}, Body: []byte{}}
	}
	graphql := func(doc string, rest ...string) tables.Message { return jsonBody(document(t, doc, rest...)) }
	const none, listed = "no effect", "listed, takes no key"
	for _, tc := range []struct {
		name    string
		path    string
		message tables.Message
		want    string // the field left out, by which the endpoint is told; or none, listed, or "unlisted"
		keyed   bool
	}{
		{"a header", "/header", header("Pay"), "pay", true},
		{"a header of an action without effect", "/header", header("List"), none, false},
		{"another header", "/header", header("pay"), "default", false},
		{"no header", "/header", header(), "default", false},
		{"a header that contradicts itself", "/header", header("List", "Pay"), "default", false},
		{"a query parameter", "/field", query("Action=Run"), "run", true},
		{"a form field", "/field", formBody("Action=Run&X=1"), "run", true},
		{"a form field of an action without effect", "/field", formBody("Action=%44escribe"), none, false},
		{"two form fields", "/field", formBody("Action=Describe&Action=Run"), "unlisted", true},
		{"a parameter and a field that differ", "/field", tables.Message{Header: formBody("").Header, Query: "Action=Describe", Body: []byte("Action=Run")}, "unlisted", true},
		{"a field of another action", "/field", formBody("Action=Stop"), "unlisted", true},
		{"a body that is no form", "/field", jsonBody(`{"Action":"Run"}`), "unlisted", true},
		{"a query", "/graphql", graphql(`query { a }`), none, false},
		{"a query without its word", "/graphql", graphql(`{ a(mutation: "x") }`), none, false},
		{"the query of two operations", "/graphql", graphql(`query Q { a } mutation M { b }`, `"operationName": "Q"`), none, false},
		{"the mutation of two operations", "/graphql", graphql(`query Q { a } mutation M { b }`, `"operationName": "M"`), "mutation", false},
		{"either of two operations", "/graphql", graphql(`query Q { a } mutation M { b }`), listed, false},
		{"a field by its name", "/graphql", graphql(`mutation { alias: refundCreate @idempotent(key: "k") { id } __typename }`), "refund", true},
		{"a field by its name, without the argument", "/graphql", graphql(`mutation { refundCreate { id } }`), "refund", false},
		{"a field by an alias of this name", "/graphql", graphql(`mutation { refundCreate: other { id } }`), "mutation", false},
		{"a field and another one", "/graphql", graphql(`mutation { refundCreate { id } other }`), "mutation", false},
		{"a field in a fragment", "/graphql", graphql(`mutation { ...F } fragment F on M { refundCreate { id } }`), "mutation", false},
		{"a query beside a fragment with a directive", "/graphql", graphql(`query { a } fragment F on T @d(x: 1) { b }`), none, false},
		{"a query that is called z", "/graphql", graphql(`query z { a }`), none, false},
		{"a subscription", "/graphql", graphql(`subscription { a }`), listed, false},
		{"a document that can't be read", "/graphql", graphql(`query {`), listed, false},
		{"a type system", "/graphql", graphql(`query { a } type A { b: C }`), listed, false},
		{"a batch", "/graphql", jsonBody(`[` + document(t, `query { a }`) + `]`), listed, false},
		{"a persisted query", "/graphql", jsonBody(`{"extensions":{}}`), listed, false},
		{"a document that is there twice", "/graphql", jsonBody(`{"query":"{a}","qu\u0065ry":"mutation{a}"}`), listed, false},
		{"a document in the URL too", "/graphql", tables.Message{Query: "query=mutation%7Ba%7D", Body: []byte(`{"query":"{a}"}`)}, listed, false},
		{"an empty body", "/graphql", jsonBody(""), listed, false},
		{"a query after a fragment", "/graphql", graphql(`query { ...F a(b: 1) { c } ... on Query { d } } fragment F on Query { e }`), none, false},
		{"two fields, one with the argument", "/keyed", graphql(`mutation { a @idempotent(key: "k") other }`), "keyed", false},
		{"two fields, both with the argument", "/keyed", graphql(`mutation { a @idempotent(key: "k") b: a @idempotent(key: "l") }`), "keyed", false},
		{"an argument on an operation of two fields", "/keyed", graphql(`mutation @idempotent(key: "k") { a b }`), "keyed", false},
		{"the argument on a field behind a fragment", "/keyed", graphql(`mutation { ...F a @idempotent(key: "k") } fragment F on M { b }`), "keyed", false},
		{"the argument on a field before a fragment in line", "/keyed", graphql(`mutation { a @idempotent(key: "k") ... { b } }`), "keyed", false},
		{"the argument, and a name of the type", "/keyed", graphql(`mutation { t: __typename a @idempotent(key: "k") }`), "keyed", true},
		{"a mutation that is called query", "/graphql", graphql(`mutation query { a }`), "mutation", false},
		{"a mutation behind a comment", "/graphql", graphql("# query { a }\rmutation { a }"), "mutation", false},
		{"a mutation behind a block string", "/graphql", graphql(`"""\""" query { a } """ mutation { a }`), "mutation", false},
		{"a mutation behind a query that is called the same", "/graphql", graphql(`query A { a } mutation A { b }`, `"operationName": "A"`), listed, false},
		{"an operation that is not there", "/graphql", graphql(`query A { a }`, `"operationName": "B"`), listed, false},
		{"a query by no name of several", "/graphql", graphql(`query A { a } mutation B { b }`, `"operationName": ""`), listed, false},
		{"an operation that is meant by two names", "/graphql", graphql(`query A { a } mutation B { b }`, `"operationName": "A"`, `"operationNam\u0065": "B"`), listed, false},
		{"an operation whose name is no string", "/graphql", graphql(`query A { a }`, `"operationName": 1`), listed, false},
		{"a query that is escaped", "/graphql", jsonBody(`{"query":"\u0071uery { a }"}`), none, false},
		{"a mutation that is escaped", "/graphql", jsonBody(`{"query":"mut\u0061tion { a }"}`), "mutation", false},
		{"a query that a form reader reads as a mutation", "/graphql", formBody(`{"query":"{ a }","x":"&query=mutation { a }"}`), listed, false},
		{"a query as text of GraphQL", "/graphql", tables.Message{Header: http.Header{"Content-Type": {"application/graphql"}}, Body: []byte(`{"query":"{a}"}`)}, listed, false},
		{"a query of two types", "/graphql", tables.Message{Header: http.Header{"Content-Type": {"application/json", form}}, Body: []byte(`{"query":"{a}"}`)}, listed, false},
		{"a query of no type", "/graphql", tables.Message{Body: []byte(`{"query":"{a}"}`)}, none, false},
		{"a query behind a byte order mark", "/graphql", jsonBody("\ufeff" + `{"query":"{a}"}`), listed, false},
		{"two queries, line by line", "/graphql", jsonBody(`{"query":"{a}"}` + "\n" + `{"query":"mutation{a}"}`), listed, false},
		{"a query with a comma too many", "/graphql", jsonBody(`{"query":"{a}",}`), listed, false},
		{"a query that is compressed", "/graphql", tables.Message{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: []byte(`{"query":"{a}"}`)}, listed, false},
		{"an upload", "/graphql", tables.Message{Header: http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, Body: []byte("--x")}, listed, false},
		{"the only endpoint, with its argument", "/keyed", graphql(`mutation { a @idempotent(key: "k") }`), "keyed", true},
		{"the only endpoint, without it", "/keyed", graphql(`mutation { a }`), "keyed", false},
		{"the only endpoint, unread", "/keyed", graphql(`}`), "keyed", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.message.Body == nil {
				tc.message.Body = []byte{}
			}
			rt := route(t, router, "POST", "https://api.example.com"+tc.path)
			require.True(t, rt.Undecided)
			assert.True(t, rt.Effect, "as long as it is not known, it may have one")
			rt = rt.For(tc.message)
			assert.False(t, rt.Undecided)
			assert.Equal(t, tc.want != none, rt.Effect)
			assert.Equal(t, tc.want != "unlisted", rt.Listed)
			assert.Equal(t, tc.keyed, rt.Endpoint.Key.Place != providers.KeyNone)
			if tc.want != none && tc.want != listed && tc.want != "unlisted" {
				assert.Equal(t, []string{tc.want}, rt.Endpoint.OmitFields)
			}
			if !tc.keyed {
				assert.Zero(t, rt.Endpoint.Retention)
				assert.Zero(t, rt.Endpoint.Remembers)
				assert.False(t, rt.Endpoint.InFlightGuard)
			}
			assert.Equal(t, rt, rt.For(tc.message), "a decided route stays")
			assert.NotZero(t, rt.Classify(tables.Answer{Status: 500}).Verdict)
		})
	}
}

// A route stays undecided until the field that decides is known.
func TestActionStaysUndecided(t *testing.T) {
	router, err := tables.NewRouter([]providers.Provider{acting()})
	require.NoError(t, err)
	at := func(path string) tables.Route { return route(t, router, "POST", "https://api.example.com"+path) }
	json := http.Header{"Content-Type": {"application/json"}}
	assert.True(t, at("/graphql").For(tables.Message{Header: json}).Undecided)
	assert.True(t, at("/keyed").For(tables.Message{Header: json}).Undecided)
	assert.True(t, at("/field").For(tables.Message{Header: formBody("").Header}).Undecided)
	assert.False(t, at("/field").For(tables.Message{Header: json, Query: "Action=Describe"}).Effect, "no form can say otherwise")
	assert.False(t, at("/header").For(tables.Message{Header: http.Header{"X-Target": {"List"}}}).Effect, "the header is known")
}
