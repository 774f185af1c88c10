package tables_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func TestAGraphQLArgumentIsTheKey(t *testing.T) {
	const variable = `mutation Refund($key: String!) { refundCreate(input: {}) @idempotent(key: $key) { id } }`
	for _, tc := range []struct {
		name    string
		key     providers.Key
		body    string
		carried string // "": none
		with    string
	}{
		{
			"behind escapes of JSON", inGraphQL,
			`{"query":"\u006dutation($k: ID) { a(b: \"\u00e9\ud83d\ude00\\n\") @idempotent(\u006bey: $k) }","variables":{"k":"old"},"x":1.0}`, "old",
			`{"query":"\u006dutation($k: ID) { a(b: \"\u00e9\ud83d\ude00\\n\") @idempotent(\u006bey: $k) }","variables":{"k":"key-1"},"x":1.0}`,
		},
		{
			"comments and strings that look like it", inGraphQL,
			document(t, "# @idempotent(key: $no)\nmutation($k: ID) { a(b: \"@idempotent(key: 1)\", c: \"\"\"\\\"\"\" { \"\"\") @idempotent(key: $k) # }\n }", `"variables": {"k": "old"}`), "old",
			document(t, "# @idempotent(key: $no)\nmutation($k: ID) { a(b: \"@idempotent(key: 1)\", c: \"\"\"\\\"\"\" { \"\"\") @idempotent(key: $k) # }\n }", `"variables": {"k": "key-1"}`),
		},
		{
			"on the operation", inGraphQL,
			document(t, `mutation($k: ID) @idempotent(key: $k) { a }`, `"variables": {"k": "old"}`), "old",
			document(t, `mutation($k: ID) @idempotent(key: $k) { a }`, `"variables": {"k": "key-1"}`),
		},
		{
			"a variable", inGraphQL,
			document(t, variable, `"variables": {"a": 1, "key": "old"}`), "old",
			document(t, variable, `"variables": {"a": 1, "key": "key-1"}`),
		},
		{
			"a variable that is missing", inGraphQL,
			document(t, variable, `"variables": {"a": 1}`), "",
			document(t, variable, `"variables": {"key":"key-1","a": 1}`),
		},
		{
			"no variables at all", inGraphQL,
			document(t, variable), "",
			`{"variables":{"key":"key-1"},` + document(t, variable)[1:],
		},
		{
			"variables that are null", inGraphQL,
			document(t, variable, `"variables": null`), "",
			document(t, variable, `"variables": {"key":"key-1"}`),
		},
		{
			"the operation that is meant", inGraphQL,
			document(t, `query A { a @idempotent(key: "no") } mutation B($k: ID) { b @idempotent(key: $k) }`, `"operationName": "B"`, `"variables": {"k": "old"}`), "old",
			document(t, `query A { a @idempotent(key: "no") } mutation B($k: ID) { b @idempotent(key: $k) }`, `"operationName": "B"`, `"variables": {"k": "key-1"}`),
		},
		{
			"a field whose value is a variable", inObject,
			document(t, `mutation($k: ID) { charge(input: {apiRequestKey: $k}) { id } }`, `"variables": {"k": "old"}`), "old",
			document(t, `mutation($k: ID) { charge(input: {apiRequestKey: $k}) { id } }`, `"variables": {"k": "key-1"}`),
		},
		{
			"a field of a variable", inObject,
			document(t, `mutation M($in: In!) { charge(input: $in) { id } }`, `"variables": {"in": {"apiRequestKey": "old"}}`), "old",
			document(t, `mutation M($in: In!) { charge(input: $in) { id } }`, `"variables": {"in": {"apiRequestKey": "key-1"}}`),
		},
		{
			"a field that the variable does not have", inObject,
			document(t, `mutation M($in: In!) { charge(input: $in) { id } }`, `"variables": {"in": {"n": 1.0}}`), "",
			document(t, `mutation M($in: In!) { charge(input: $in) { id } }`, `"variables": {"in": {"apiRequestKey":"key-1","n": 1.0}}`),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := jsonBody(tc.body)
			got, present, err := tables.Key(tc.key).Carried(m)
			require.NoError(t, err)
			assert.Equal(t, tc.carried != "", present)
			assert.Equal(t, tc.carried, got)

			require.NoError(t, tables.Key(tc.key).Set(&m, k1, time.Time{}))
			assert.Equal(t, tc.with, string(m.Body))
			assert.True(t, json.Valid(m.Body))
			got, present, err = tables.Key(tc.key).Carried(m)
			require.NoError(t, err)
			assert.True(t, present)
			assert.Equal(t, k1, got)

			one, err := tables.Key(tc.key).Without(jsonBody(tc.body))
			require.NoError(t, err)
			other, err := tables.Key(tc.key).Without(m)
			require.NoError(t, err)
			assert.JSONEq(t, string(one.Body), string(other.Body), "without the key they are the same")
		})
	}
}

func TestAGraphQLKeyThatIsNoneIsRefused(t *testing.T) {
	for name, body := range map[string]string{
		"a number":                    document(t, `mutation { a @idempotent(key: 7) }`),
		"null":                        document(t, `mutation { a @idempotent(key: null) }`),
		"a list":                      document(t, `mutation { a @idempotent(key: ["a"]) }`),
		"twice":                       document(t, `mutation { a @idempotent(key: "a") b @idempotent(key: "a") }`),
		"a variable that is a number": document(t, `mutation($k: ID) { a @idempotent(key: $k) }`, `"variables": {"k": 7}`),
		"a variable that is there twice": document(t, `mutation($k: ID) { a @idempotent(key: $k) }`,
			`"variables": {"k": "a", "\u006b": "b"}`),
	} {
		m := jsonBody(body)
		var invalid *tables.KeyError
		_, present, err := tables.Key(inGraphQL).Carried(m)
		require.ErrorAs(t, err, &invalid, name)
		assert.Equal(t, name != "a variable that is there twice", present, name)
		require.ErrorAs(t, tables.Key(inGraphQL).Set(&m, k1, time.Time{}), &invalid, name)
		assert.Equal(t, body, string(m.Body), name)
	}
}

// A key in the document itself is refused, and the error says where to put it.
func TestGraphQLLiteralKeyIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		key providers.Key
		doc string
	}{
		"of a directive":                 {inGraphQL, `mutation { a @idempotent(key: "old") }`},
		"of a directive of an operation": {inGraphQL, `mutation @idempotent(key: "old") { a }`},
		"in a block string":              {inGraphQL, `mutation { a @idempotent(key: """old""") }`},
		"of an input object":             {inObject, `mutation { charge(input: {id: "x", apiRequestKey: "old"}) { id } }`},
	} {
		t.Run(name, func(t *testing.T) {
			m := jsonBody(document(t, row.doc))
			before := string(m.Body)
			var invalid *tables.KeyError
			_, present, err := tables.Key(row.key).Carried(m)
			require.ErrorAs(t, err, &invalid)
			assert.True(t, present)
			assert.Contains(t, invalid.Reason, "declare a variable for it")
			require.ErrorAs(t, tables.Key(row.key).Set(&m, k1, time.Time{}), &invalid)
			assert.Equal(t, before, string(m.Body))
			_, err = tables.Key(row.key).Without(m)
			require.ErrorAs(t, err, &invalid)
		})
	}
}

// A variable that stands elsewhere too is not the key's.
func TestGraphQLVariableThatStandsElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		doc    string
		shared bool
	}{
		"in another argument":                 {`mutation($k: ID!) { a(note: $k) @idempotent(key: $k) { id } }`, true},
		"in a field further down":             {`mutation($k: ID!) { a @idempotent(key: $k) { log(of: {text: [$k]}) } }`, true},
		"in a directive":                      {`mutation($k: ID!) { a @idempotent(key: $k) @skip(if: $k) }`, true},
		"in a fragment":                       {`mutation($k: ID!) { a @idempotent(key: $k) { ...F } } fragment F on T { log(of: $k) }`, true},
		"beside another operation":            {`query Q { a } mutation M($k: ID!) { a(note: $k) @idempotent(key: $k) }`, true},
		"in front of another operation":       {`mutation M($k: ID!) { a(note: $k) @idempotent(key: $k) } query Q { a }`, true},
		"and in another operation's too":      {`query Q($k: ID!) { a(id: $k) } mutation M($k: ID!) { a(note: $k) @idempotent(key: $k) } query P($k: ID) { a(id: $k) }`, true},
		"in operations around it":             {`query Q($k: ID!) { a(id: $k) } mutation M($k: ID!) { a @idempotent(key: $k) } query P($k: ID) { a(id: $k) }`, false},
		"in another operation":                {`query Q($k: ID!) { a(id: $k) } mutation M($k: ID!) { a @idempotent(key: $k) }`, false},
		"in a name that begins with it":       {`mutation($k: ID!, $key: ID!) { a(note: $key) @idempotent(key: $k) }`, false},
		"in a string, and in a comment":       {"mutation($k: ID!) { a(note: \"$k\") @idempotent(key: $k) } # $k", false},
		"in a block string, and with a comma": {`mutation($ k: ID!) { a(note: """$k""") @idempotent(key: $,k) }`, false},
	} {
		t.Run(name, func(t *testing.T) {
			body := document(t, tc.doc, `"operationName": null`, `"variables": {"k": "old"}`)
			if strings.Contains(tc.doc, "mutation M") {
				body = document(t, tc.doc, `"operationName": "M"`, `"variables": {"k": "old"}`)
			}
			m := jsonBody(body)
			err := tables.Key(inGraphQL).Set(&m, k1, time.Time{})
			_, _, carriedErr := tables.Key(inGraphQL).Carried(jsonBody(body))
			if !tc.shared {
				require.NoError(t, err)
				require.NoError(t, carriedErr)
				assert.Equal(t, strings.Replace(body, `"old"`, `"key-1"`, 1), string(m.Body), "nothing but the key changes")
				return
			}
			var invalid *tables.KeyError
			require.ErrorAs(t, err, &invalid)
			require.ErrorAs(t, carriedErr, &invalid)
			assert.Equal(t, body, string(m.Body))
		})
	}
}

// A key that is a variable's default is not replaced unseen.
func TestGraphQLKeyThatIsAVariablesDefault(t *testing.T) {
	const defaulted = `mutation($n: Int = 1, $k: ID! = "order-1" @d(a: [1]), $o: I = {a: "b"}) { a(n: $n, o: $o) @idempotent(key: $k) }`
	for _, rest := range [][]string{nil, {`"variables": null`}, {`"variables": {"n": 2}`}} {
		var invalid *tables.KeyError
		_, present, err := tables.Key(inGraphQL).Carried(jsonBody(document(t, defaulted, rest...)))
		require.ErrorAs(t, err, &invalid)
		assert.True(t, present)
		assert.Contains(t, invalid.Reason, "default")
	}
	key, present, err := tables.Key(inGraphQL).Carried(jsonBody(document(t, defaulted, `"variables": {"k": "order-2"}`)))
	require.NoError(t, err)
	assert.True(t, present)
	assert.Equal(t, "order-2", key)
	_, present, err = tables.Key(inGraphQL).Carried(jsonBody(document(t, `mutation($n: Int = 1, $k: ID!) { a(n: $n) @idempotent(key: $k) }`)))
	require.NoError(t, err, "another variable's default")
	assert.False(t, present)
}

// If another value stands in place of the key's object, or of an object on the way to it, it is not overwritten. The
// key is put nowhere else.
func TestAKeyIsPutIntoItsOwnObjectOnly(t *testing.T) {
	deep := providers.Key{Place: providers.KeyGraphQL, Name: "input.options.key"}
	for name, tc := range map[string]struct {
		key providers.Key
		doc string
	}{
		"a text for the object":               {inObject, `mutation { charge(input: "x") { id } }`},
		"a number for the object":             {inObject, `mutation { charge(input: 77) { id } }`},
		"null for the object":                 {inObject, `mutation { charge(input: null) { id } }`},
		"a list for the object":               {inObject, `mutation { charge(input: [{id: "x"}]) { id } }`},
		"a text on the way":                   {deep, `mutation { charge(input: {options: "x"}) { id } }`},
		"no field in the object":              {inObject, `mutation { charge(input: {id: "x"}) { id } }`},
		"no object on the way":                {deep, `mutation { charge(input: {id: "x"}) { id } }`},
		"the field in the object before":      {deep, `mutation { charge(input: {key: "x"}) { id } }`},
		"the field in the object behind":      {deep, `mutation { charge(input: {more: {options: {key: "x"}}}) { id } }`},
		"the field with another one's fields": {inObject, `mutation { charge(other: {apiRequestKey: "x"}) { id } }`},
	} {
		m := jsonBody(document(t, tc.doc))
		before := string(m.Body)
		_, present, err := tables.Key(tc.key).Carried(m)
		assert.NoError(t, err, name)
		assert.False(t, present, name)
		var invalid *tables.KeyError
		require.ErrorAs(t, tables.Key(tc.key).Set(&m, k1, time.Time{}), &invalid, name)
		assert.Equal(t, before, string(m.Body), name)
		without, err := tables.Key(tc.key).Without(m)
		assert.NoError(t, err, name)
		assert.Equal(t, before, string(without.Body), name)
	}
	doc := `mutation($o: O) { charge(input: {options: $o}) { id } }`
	m := jsonBody(document(t, doc, `"variables": {"o": {"a": 1}}`))
	require.NoError(t, tables.Key(deep).Set(&m, k1, time.Time{}))
	assert.Equal(t, document(t, doc, `"variables": {"o": {"key":"key-1","a": 1}}`), string(m.Body))
}

func TestAKeyThatIsOnlyReplacedIsNeverAdded(t *testing.T) {
	p := own()
	p.Endpoints = []providers.Endpoint{{
		Pattern:   "POST /graphql",
		Key:       providers.Key{Place: providers.KeyGraphQL, Name: "input.apiRequestKey", OnlyIfThere: true},
		Retention: time.Hour,
		Remembers: providers.Everything,
	}}
	rt := route(t, newRouter(t, p), "POST", "https://ledger.example.com/graphql")
	for body, takes := range map[string]bool{
		document(t, `mutation { charge(input: {apiRequestKey: "old"}) { id } }`):                                           true,
		document(t, `mutation { charge(input: {id: "x"}) { id } }`):                                                        false,
		document(t, `mutation M($in: In!) { charge(input: $in) { id } }`, `"variables": {"in": {"apiRequestKey": "old"}}`): true,
		document(t, `mutation M($in: In!) { charge(input: $in) { id } }`, `"variables": {"in": {"id": "x"}}`):              false,
		document(t, `mutation M($in: In!) { charge(input: $in) { id } }`):                                                  false,
		document(t, `mutation M($in: In!) { charge(input: $in) { id } }`, `"variables": {"in": {"apiRequestKey": 7}}`):     true,
		document(t, `mutation { charge(id: "x") { id } }`):                                                                 false,
	} {
		e := rt.For(jsonBody(body)).Endpoint
		assert.Equal(t, takes, e.Key.Place == providers.KeyGraphQL, body)
		assert.Equal(t, takes, e.Retention > 0, body)
	}
}

// A document without the argument carries no key and takes none.
func TestGraphQLWithoutTheArgument(t *testing.T) {
	m := jsonBody(document(t, `mutation { a(key: "x") { b @idempotent(key: "nested") } }`))
	_, present, err := tables.Key(inGraphQL).Carried(m)
	require.NoError(t, err)
	assert.False(t, present)
	var invalid *tables.KeyError
	require.ErrorAs(t, tables.Key(inGraphQL).Set(&m, k1, time.Time{}), &invalid)
	assert.Contains(t, invalid.Reason, "does not have the argument")
}

// A document that is nested too deep is not read.
func TestGraphQLNestedTooDeep(t *testing.T) {
	carried := func(deep int) (key string, err error) {
		doc := "mutation($k: ID) { a(b: " + strings.Repeat("{c: ", deep) + "1" + strings.Repeat("}", deep) + `) @idempotent(key: $k) }`
		key, _, err = tables.Key(inGraphQL).Carried(jsonBody(document(t, doc, `"variables": {"k": "x"}`)))
		return key, err
	}
	key, err := carried(200)
	require.NoError(t, err)
	assert.Equal(t, "x", key)
	_, err = carried(201)
	var invalid *tables.KeyError
	require.ErrorAs(t, err, &invalid)
}

// A document that ends too soon is not read, and one of fragments has no field that a key could speak for.
func TestGraphQLWithoutItsField(t *testing.T) {
	for doc, reason := range map[string]string{
		`mutation($k: ID`:                                                     "not a GraphQL request that can be read",
		`mutation($k: ID = `:                                                  "not a GraphQL request that can be read",
		`mutation { ... { a @idempotent(key: "x") } }`:                        "fragments",
		`mutation { ... @skip(if: $n) { a @idempotent(key: "x") } }`:          "fragments",
		`mutation { ... on T { a @idempotent(key: "x") } }`:                   "fragments",
		`mutation { ...F } fragment F on T { a @idempotent(key: "x") { b } }`: "fragments",
	} {
		_, _, err := tables.Key(inGraphQL).Carried(jsonBody(document(t, doc)))
		var invalid *tables.KeyError
		require.ErrorAs(t, err, &invalid, doc)
		assert.Contains(t, invalid.Reason, reason, doc)
	}
}

func FuzzAGraphQLKeyIsSetAndReadBack(f *testing.F) {
	for _, doc := range []string{
		`mutation { a @idempotent(key: "x") { id } }`,
		`mutation M($k: ID = "d") @x(y: {z: 1}) { b: a(c: [1.5e3, ENUM, {d: $k}]) @idempotent(key: $k) }`,
		`"""about it""" query Q { ...F } fragment F on T @a(b: {c: 1}) { d }`,
		"\ufeff# comment\r\n{ a, b }",
		`mutation { a(b: """ block \""" { """) @idempotent(key: """k""") }`,
		`{`, `mutation { a(`, `"`, `"""`, `...`, `$`, `@`, ``, `type A { b: C }`,
	} {
		f.Add(doc, `{"k":"x"}`, uuid)
		f.Add(doc, `null`, `a"b\c`)
	}
	f.Fuzz(func(t *testing.T, doc, variables, value string) {
		text, err := json.Marshal(doc)
		if err != nil || tables.Key(inGraphQL).Check(value) != nil {
			return
		}
		body := `{"query":` + string(text) + `,"variables":` + variables + `,"n":1.0}`
		m := jsonBody(body)
		_, carries, err := tables.Key(inGraphQL).Carried(m)
		if setErr := tables.Key(inGraphQL).Set(&m, value, time.Time{}); setErr != nil {
			if err == nil && carries {
				t.Fatalf("a key was read where none can be set: %v", setErr)
			}
			if string(m.Body) != body {
				t.Fatal("a refused key changed the body")
			}
			return
		}
		got, present, err := tables.Key(inGraphQL).Carried(m)
		if err != nil || !present || got != value {
			t.Fatalf("set %q, carried %q, %t, %v in %s", value, got, present, err, m.Body)
		}
		if !json.Valid(m.Body) {
			t.Fatalf("not JSON: %s", m.Body)
		}
		if !strings.HasSuffix(string(m.Body), `,"n":1.0}`) {
			t.Fatalf("the rest was changed: %s", m.Body)
		}
		again := m
		if err := tables.Key(inGraphQL).Set(&again, value, time.Time{}); err != nil || string(again.Body) != string(m.Body) {
			t.Fatalf("set again, it changed: %v", err)
		}
	})
}
