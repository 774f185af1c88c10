package tables_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

var (
	inQuery   = providers.Key{Place: providers.KeyQuery, Name: "requestId"}
	inForm    = providers.Key{Place: providers.KeyFormField, Name: "IdempotencyKey"}
	inJSON    = providers.Key{Place: providers.KeyJSONField, Name: "idempotency_key"}
	inInput   = providers.Key{Place: providers.KeyJSONField, Name: "variables.input.key"}
	inGraphQL = providers.Key{Place: providers.KeyGraphQL, Name: "@idempotent.key"}
	inObject  = providers.Key{Place: providers.KeyGraphQL, Name: "input.apiRequestKey"}
)

const (
	form = "application/x-www-form-urlencoded"
	k1   = "key-1"
)

func jsonBody(body string) tables.Message {
	return tables.Message{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
}

func formBody(body string) tables.Message {
	return tables.Message{Header: http.Header{"Content-Type": {form + "; charset=utf-8"}}, Body: []byte(body)}
}

func query(q string) tables.Message { return tables.Message{Query: q} }

// document is a GraphQL request as JSON.
func document(t testing.TB, doc string, rest ...string) string {
	t.Helper()
	text, err := json.Marshal(doc)
	require.NoError(t, err)
	return `{"query": ` + string(text) + strings.Join(append([]string{""}, rest...), ", ") + `}`
}

// The key is set and read where the endpoint takes it.
func TestMessageKeyIsSetAndRead(t *testing.T) {
	for _, tc := range []struct {
		name     string
		key      providers.Key
		message  tables.Message
		carried  string // "": none
		with     string // query or body once k1 is set
		without  string
		reformed bool // with and without are of the query
	}{
		{"a query without it", inQuery, query("a=1"), "", "a=1&requestId=key-1", "a=1", true},
		{"no query at all", inQuery, query(""), "", "requestId=key-1", "", true},
		{"a query that ends in an ampersand", inQuery, query("a=1&"), "", "a=1&requestId=key-1", "a=1&", true},
		{"a query with it", inQuery, query("a=%31&requestId=old&b"), "old", "a=%31&requestId=key-1&b", "a=%31&b", true},
		{"a query with it last", inQuery, query("a&requestId=old"), "old", "a&requestId=key-1", "a", true},
		{"a query with it alone", inQuery, query("requestId=old"), "old", "requestId=key-1", "", true},
		{"a query with it escaped", inQuery, query("%72equestId=%6fld"), "old", "%72equestId=key-1", "", true},
		{"a query with another case", inQuery, query("RequestId=old"), "", "RequestId=old&requestId=key-1", "RequestId=old", true},

		{"a form without it", inForm, formBody("To=%2B1&Body=a+b"), "", "To=%2B1&Body=a+b&IdempotencyKey=key-1", "To=%2B1&Body=a+b", false},
		{"an empty form", inForm, formBody(""), "", "IdempotencyKey=key-1", "", false},
		{"a form with it", inForm, formBody("IdempotencyKey=old&Body=a"), "old", "IdempotencyKey=key-1&Body=a", "Body=a", false},

		{"an object without it", inJSON, jsonBody(`{"amount": 1.10}`), "", `{"idempotency_key":"key-1","amount": 1.10}`, `{"amount": 1.10}`, false},
		{"an empty object", inJSON, jsonBody(` { } `), "", ` {"idempotency_key":"key-1" } `, ` { } `, false},
		{"an object with it", inJSON, jsonBody(`{"a":12345678901234567890, "idempotency_key" : "old","b":[1e400]}`), "old",
			`{"a":12345678901234567890, "idempotency_key" : "key-1","b":[1e400]}`, `{"a":12345678901234567890,"b":[1e400]}`, false},
		{"an object with it first", inJSON, jsonBody(`{"idempotency_key":"old" , "a":1}`), "old", `{"idempotency_key":"key-1" , "a":1}`, `{ "a":1}`, false},
		{"an object with it alone", inJSON, jsonBody(`{"idempotency_key":"old"}`), "old", `{"idempotency_key":"key-1"}`, `{}`, false},
		{"an object with it escaped", inJSON, jsonBody(`{"\u0069dempotency_key":"\u006fld"}`), "old", `{"\u0069dempotency_key":"key-1"}`, `{}`, false},
		{"one of its name elsewhere", inJSON, jsonBody(`{"a":{"idempotency_key":"x"},"b":"idempotency_key"}`), "",
			`{"idempotency_key":"key-1","a":{"idempotency_key":"x"},"b":"idempotency_key"}`, `{"a":{"idempotency_key":"x"},"b":"idempotency_key"}`, false},
		{"a nested object without it", inInput, jsonBody(`{"variables":{"input":{"n":1},"x":{}}}`), "",
			`{"variables":{"input":{"key":"key-1","n":1},"x":{}}}`, `{"variables":{"input":{"n":1},"x":{}}}`, false},
		{"a nested object with it", inInput, jsonBody(`{"variables":{"input":{"n":1,"key":"old"}}}`), "old",
			`{"variables":{"input":{"n":1,"key":"key-1"}}}`, `{"variables":{"input":{"n":1}}}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.message
			before.Body = append([]byte(nil), tc.message.Body...)
			said := func(m tables.Message) string {
				if tc.reformed {
					return m.Query
				}
				return string(m.Body)
			}

			got, present, err := tables.Key(tc.key).Carried(tc.message)
			require.NoError(t, err)
			assert.Equal(t, tc.carried != "", present)
			assert.Equal(t, tc.carried, got)

			without, err := tables.Key(tc.key).Without(tc.message)
			require.NoError(t, err)
			assert.Equal(t, tc.without, said(without))

			m := tc.message
			require.NoError(t, tables.Key(tc.key).Set(&m, k1, time.Time{}))
			assert.Equal(t, tc.with, said(m))
			got, present, err = tables.Key(tc.key).Carried(m)
			require.NoError(t, err)
			assert.True(t, present)
			assert.Equal(t, k1, got)

			again := m
			require.NoError(t, tables.Key(tc.key).Set(&again, k1, time.Time{}))
			assert.Equal(t, said(m), said(again), "the same key again changes nothing")
			assert.Equal(t, string(before.Body), string(tc.message.Body), "the bytes given were changed")
		})
	}
}

// A message that cannot carry the key is refused.
func TestMessageThatCanNotCarryTheKey(t *testing.T) {
	gzip := jsonBody(`{}`)
	gzip.Header["content-encoding"] = []string{"gzip"}
	zipped := formBody("a=1")
	zipped.Header.Set("Content-Encoding", "deflate")
	for _, tc := range []struct {
		name    string
		key     providers.Key
		message tables.Message
		reason  string
	}{
		{"twice in the query", inQuery, query("requestId=a&requestId=a"), "2 times"},
		{"twice in the query, once escaped", inQuery, query("requestId=a&request%49d=b"), "2 times"},
		{"twice in the form", inForm, formBody("IdempotencyKey=a&x&IdempotencyKey=b"), "2 times"},
		{"a form of no type", inForm, tables.Message{Body: []byte("a=1")}, "application/x-www-form-urlencoded"},
		{"a form of another type", inForm, jsonBody("a=1"), "application/x-www-form-urlencoded"},
		{"a compressed form", inForm, zipped, "Content-Encoding"},
		{"a compressed object", inJSON, gzip, "Content-Encoding"},
		{"an empty body", inJSON, jsonBody(""), "send a JSON object, at least {}"},
		{"white space", inJSON, jsonBody(" \n"), "send a JSON object, at least {}"},
		{"an array", inJSON, jsonBody(`[{"idempotency_key":"a"}]`), "in a request of its own"},
		{"a string", inJSON, jsonBody(`"idempotency_key"`), "not a JSON object"},
		{"no JSON", inJSON, jsonBody(`idempotency_key=a`), "not JSON"},
		{"an object and more", inJSON, jsonBody(`{} {}`), "not JSON"},
		{"an object cut short", inJSON, jsonBody(`{"idempotency_key":"a"`), "not JSON"},
		{"nested too deep", inJSON, jsonBody(`{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`), "not JSON"},
		{"twice in the object", inJSON, jsonBody(`{"idempotency_key":"a","idempotency_key":"a"}`), "twice"},
		{"twice through an escape", inJSON, jsonBody(`{"idempotency_key":"a","\u0069dempotency_key":"b"}`), "twice"},
		{"twice on the way", inInput, jsonBody(`{"variables":{"input":{"key":"a"}},"variables":{}}`), "twice"},
		{"a number", inJSON, jsonBody(`{"idempotency_key":7}`), "not a string"},
		{"null", inJSON, jsonBody(`{"idempotency_key":null}`), "not a string"},
		{"no parent", inInput, jsonBody(`{"variables":{}}`), "does not have the object"},
		{"a parent that is an array", inInput, jsonBody(`{"variables":[{"input":{}}]}`), "does not have the object"},
		{"a parent that is null", inInput, jsonBody(`{"variables":{"input":null}}`), "does not have the object"},
		{"a batch of GraphQL", inGraphQL, jsonBody(`[{"query":"{a}"}]`), "in a request of its own"},
		{"a GraphQL document in the URL", inGraphQL, tables.Message{Query: "query=%7Ba%7D", Body: []byte(`{"query":"mutation{a @idempotent(key:\"a\")}"}`)}, "into the body"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := tc.message
			m.Header = tc.message.Header.Clone()
			var invalid *tables.KeyError
			err := tables.Key(tc.key).Set(&m, k1, time.Time{})
			require.ErrorAs(t, err, &invalid)
			assert.Contains(t, invalid.Reason, tc.reason)
			assert.Equal(t, tc.key.Name, invalid.Name)
			assert.NotContains(t, err.Error(), k1)
			assert.Equal(t, tc.message, m, "a message that can't carry the key was changed")

			_, _, err = tables.Key(tc.key).Carried(tc.message)
			require.ErrorAs(t, err, &invalid)
			assert.Contains(t, invalid.Reason, tc.reason)
		})
	}
}

// A key that the endpoint does not take is refused in every place.
func TestMessageKeyIsRefusedInEveryPlace(t *testing.T) {
	for _, tc := range []struct {
		key     providers.Key
		message tables.Message
	}{
		{inQuery, query("requestId=")},
		{inQuery, query("requestId")},
		{inQuery, query("requestId=a+b")},
		{inQuery, query("requestId=%zz")},
		{inForm, formBody("IdempotencyKey=%00")},
		{inJSON, jsonBody(`{"idempotency_key":""}`)},
		{inJSON, jsonBody(`{"idempotency_key":"a b"}`)},
		{inJSON, jsonBody(`{"idempotency_key":"\ud800"}`)},
		{inGraphQL, jsonBody(`{"query":"mutation{a @idempotent(key:\"a b\")}"}`)},
		{inGraphQL, jsonBody(`{"query":"mutation($k:String!){a @idempotent(key:$k)}","variables":{"k":""}}`)},
	} {
		key, present, err := tables.Key(tc.key).Carried(tc.message)
		var invalid *tables.KeyError
		require.ErrorAs(t, err, &invalid, tc.message)
		assert.True(t, present)
		assert.Empty(t, key)
	}
}

// A body that is nested to the limit can carry a key, and one beyond it is not read.
func TestMessageNestedTooDeep(t *testing.T) {
	for deep, carried := range map[int]bool{199: true, 200: false} {
		m := jsonBody(`{"a":` + strings.Repeat("[", deep) + "1" + strings.Repeat("]", deep) + "}")
		err := tables.Key(inJSON).Set(&m, k1, time.Time{})
		assert.Equal(t, carried, err == nil, deep)
	}
}

// The time of the first attempt travels with the key.
func TestMessageTimeTravelsWithTheKey(t *testing.T) {
	key := providers.Key{Place: providers.KeyRawHeader, Name: "Repeatability-Request-ID", FirstSent: "Repeatability-First-Sent"}
	first := time.Date(2026, 11, 21, 3, 4, 5, 999, time.FixedZone("", 3600))
	m := tables.Message{Header: http.Header{"repeatability-first-sent": {"yesterday"}, "A": {"b"}}}
	require.NoError(t, tables.Key(key).Set(&m, uuid, first))
	assert.Equal(t, http.Header{
		"Repeatability-Request-Id": {uuid},
		"Repeatability-First-Sent": {"Sat, 21 Nov 2026 02:04:05 GMT"},
		"A":                        {"b"},
	}, m.Header)

	without, err := tables.Key(key).Without(m)
	require.NoError(t, err)
	assert.Equal(t, http.Header{"A": {"b"}}, without.Header)
	assert.Len(t, m.Header, 3, "the header given was changed")

	var invalid *tables.KeyError
	require.ErrorAs(t, tables.Key(key).Set(&m, uuid, time.Time{}), &invalid)
	assert.Contains(t, invalid.Reason, "first attempt")
}

func TestSetMakesTheHeaderThatIsMissing(t *testing.T) {
	var m tables.Message
	require.NoError(t, tables.Key(raw).Set(&m, uuid, time.Time{}))
	assert.Equal(t, uuid, m.Header.Get("Idempotency-Key"))
}

// Set then carried gives the key and leaves the rest.
func FuzzSetThenCarried(f *testing.F) {
	for _, body := range []string{
		`{}`, ` { "a" : 1e3 , "key" : "x" } `, `{"\u006bey":"x","a":[{"key":1}]}`, `{"key":"a","key":"b"}`, `{"input":{"key":"\""}}`, `[]`, ``, `{"a":"\ud83d\ude00é"}`,
	} {
		f.Add(body, uuid, uint8(0))
		f.Add(body, `a"b\c`, uint8(1))
	}
	for _, q := range []string{"", "a=1&key=x", "key", "%6bey=%zz", "&&key=+&", "a=b;key=c"} {
		f.Add(q, "a&b=c%+", uint8(2))
		f.Add(q, uuid, uint8(3))
	}
	keys := []providers.Key{
		{Place: providers.KeyJSONField, Name: "key"},
		{Place: providers.KeyJSONField, Name: "input.key"},
		{Place: providers.KeyQuery, Name: "key"},
		{Place: providers.KeyFormField, Name: "key"},
	}
	f.Fuzz(func(t *testing.T, text, value string, which uint8) {
		key := keys[int(which)%len(keys)]
		m := jsonBody(text)
		switch key.Place {
		case providers.KeyQuery:
			m = query(text)
		case providers.KeyFormField:
			m = formBody(text)
		}
		before := m
		if _, _, err := tables.Key(key).Carried(m); err == nil && tables.Key(key).Check(value) == nil {
			// A key that can be read can be set.
			if err := tables.Key(key).Set(&m, value, time.Time{}); err != nil {
				t.Fatal(err)
			}
		} else if err := tables.Key(key).Set(&m, value, time.Time{}); err != nil {
			if string(m.Body) != string(before.Body) || m.Query != before.Query {
				t.Fatal("a refused key changed the message")
			}
			return
		}
		got, present, err := tables.Key(key).Carried(m)
		if err != nil || !present || got != value {
			t.Fatalf("set %q, carried %q, %t, %v", value, got, present, err)
		}
		bare, err := tables.Key(key).Without(m)
		if err != nil {
			t.Fatal(err)
		}
		was, err := tables.Key(key).Without(before)
		if err != nil {
			t.Fatal(err)
		}
		switch key.Place {
		case providers.KeyQuery, providers.KeyFormField:
			one, other := was.Query+string(was.Body), bare.Query+string(bare.Body)
			if strings.Trim(one, "&") != strings.Trim(other, "&") {
				t.Fatalf("%q became %q", one, other)
			}
			values, err := url.ParseQuery(m.Query + string(m.Body))
			if err == nil && values.Get("key") != value {
				t.Fatalf("net/url reads %q", values.Get("key"))
			}
		default:
			var one, other any
			if json.Unmarshal(was.Body, &one) != nil || json.Unmarshal(bare.Body, &other) != nil {
				return // numbers that encoding/json can't hold
			}
			if !assert.ObjectsAreEqual(one, other) {
				t.Fatalf("%s became %s", was.Body, bare.Body)
			}
			if !json.Valid(m.Body) {
				t.Fatalf("%s is not JSON", m.Body)
			}
		}
	})
}
