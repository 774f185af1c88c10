package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/fingerprint"
)

func TestJSONIsComparedByMeaning(t *testing.T) {
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"order of members", `{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`, true},
		{"white space", "{\"a\":[1,2]}", " {\n\t\"a\" : [ 1 , 2 ] }\r\n", true},
		{"escapes", `{"a":"<é/\""}`, `{"\u0061":"\u003c\u00e9\/\u0022"}`, true},
		{"a surrogate pair", `"😀"`, `"\ud83d\ude00"`, true},
		{"names beyond ASCII in another order", `{"é":1,"a":2}`, `{"a":2,"é":1}`, true},
		{"names that UTF-8 and UTF-16 sort differently", `{"😀":1,"ﬀ":2}`, `{"ﬀ":2,"😀":1}`, true},
		{"forms of a number", `[10, 0.5, 100, -3, 0]`, `[10.0, 5e-1, 1E+2, -3.00, -0]`, true},
		{"a large number that a float64 holds", `1e20`, `100000000000000000000`, true},
		{"an empty object", `{}`, ` { } `, true},
		{"an empty array", `[]`, ` [ ] `, true},

		{"a value", `{"a":1}`, `{"a":2}`, false},
		{"a name's case", `{"a":1}`, `{"A":1}`, false},
		{"a number and a string", `{"a":1}`, `{"a":"1"}`, false},
		{"null and nothing", `{"a":null}`, `{}`, false},
		{"true and false", `true`, `false`, false},
		{"an object and an array", `{}`, `[]`, false},
		{"order of elements", `[1,2]`, `[2,1]`, false},
		{"nesting", `[[1],2]`, `[1,[2]]`, false},
		{"text in another normal form", `"é"`, `"e\u0301"`, false},

		{"integers beyond 2^53", `9007199254740993`, `9007199254740992`, false},
		{"long integers", `12345678901234567890`, `12345678901234567891`, false},
		{"more digits than a float64 holds", `0.1000000000000000055`, `0.1`, false},
		{"numbers beyond a float64", `1e400`, `1e401`, false},
		{"numbers too near to zero", `1e-400`, `0`, false},
		{"duplicate names", `{"a":1,"a":2}`, `{"a":2}`, false},
		{"duplicate names, one escaped", `{"a":1,"\u0061":2}`, `{"a":2}`, false},
		{"the order of duplicate names", `{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
		{"lone surrogates", `"\ud800"`, `"\ud801"`, false},
		{"a lone surrogate and the replacement", `"\ud800"`, `"\ufffd"`, false},
		{"bytes that are not UTF-8", "\"\xff\"", "\"\xfe\"", false},
		{"more after the value", `{"a":1} {"a":2}`, `{"a":1}`, false},
		{"a byte order mark", "\ufeff{}", `{}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, contentType := range []string{jsonType, "application/vnd.api+json; charset=utf-8"} {
				assert.Equal(t, tc.same, ofBody(jsonType, tc.a) == ofBody(contentType, tc.b), contentType)
			}
		})
	}
}

func TestOtherBodiesAreComparedByBytes(t *testing.T) {
	for _, body := range []string{
		" ", "{", "}", `{"a"}`, `{"a":}`, `{"a":`, `{"a": `, `{"a":1`, `{"a":1,`, `{"a":1,"b`, `{"a":[1,`, `{"a":1,}`, `{,}`, `{:1}`, `{a:1}`, `{'a':1}`, `{"a":1 "b":2}`, "[1,]", "[,]", "[1 2]", "[",
		"tru", "nul", "NaN", "Infinity", "01", "+1", "-", "1.", ".5", "1e", "1e+", "0x1", "1_000", `"`, `"\`, `"\x"`, `"\u12"`,
		`"\u123g"`, "\"\n\"", "/**/1", "[1]]", "1 2", strings.Repeat("[", 300) + strings.Repeat("]", 300),
	} {
		assert.Equal(t, ofBody("text/plain", body), ofBody(jsonType, body), "%q", body)
		form, _ := fingerprint.CanonicalJSON([]byte(body), nil)
		assert.Equal(t, "bytes", form, "%q", body)
	}
}

func TestOmittedMembersDoNotCount(t *testing.T) {
	omit := []string{"key", "meta.sent", "meta.key", "gone", "gone.too", "a.b.c", "flat.name"}
	for _, tc := range []struct{ name, with, without string }{
		{"first", `{"key":"k","a":1}`, `{"a":1}`},
		{"last", `{"a":1,"key":"k"}`, `{"a":1}`},
		{"between", `{"a":1,"key":"k","b":2}`, `{"a":1,"b":2}`},
		{"several in a row", `{"key":1,"gone":[1,{"x":2}],"a":1,"key":2,"gone":2}`, `{"a":1}`},
		{"all", `{"key":1,"gone":2}`, `{}`},
		{"nested", `{"meta":{"sent":1,"x":2,"key":"k"},"a":1}`, `{"meta":{"x":2},"a":1}`},
		{"deeply nested", `{"a":{"b":{"c":1,"d":2}}}`, `{"a":{"b":{"d":2}}}`},
		{"an escaped name", `{"\u006bey":1,"a":1}`, `{"a":1}`},
		{"a name with a dot", `{"flat.name":1,"a":1}`, `{"a":1}`},
		{"a number that is not exact", `{"gone":0.1000000000000000055,"a":1}`, `{"a":1}`},
		{"duplicates", `{"gone":{"x":1,"x":2},"a":1}`, `{"a":1}`},
		{"in JSON that has no canonical form: first", `{"key":"k","a":1e400}`, `{"a":1e400}`},
		{"in JSON that has no canonical form: last", `{"a":1e400,"key":"k"}`, `{"a":1e400}`},
		{"in JSON that has no canonical form: between", `{"a":1e400,"key":"k","b":2}`, `{"a":1e400,"b":2}`},
		{"in JSON that has no canonical form: several", `{"meta":{"sent":1,"key":2},"key":3,"a":1e400,"gone":4,"key":5}`,
			`{"meta":{},"a":1e400}`},
		{"in JSON that has no canonical form: before several that stay", `{"key":"k","a":1e400,"b":2,"c":3 }`, `{"a":1e400,"b":2,"c":3 }`},
		{"in JSON that has no canonical form: among several that stay", `{"a":1e400,"key":"k","b":2,"c":3}`, `{"a":1e400,"b":2,"c":3}`},
		{"beside escapes", `{"key":"k","a":"\n"}`, `{"a":"\n"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, ofBody(jsonType, tc.without), ofBody(jsonType, tc.with, omit...))
			assert.Equal(t, ofBody(jsonType, tc.without, omit...), ofBody(jsonType, tc.with, omit...))
		})
	}
}

func TestMembersThatAreNotNamedAreNotOmitted(t *testing.T) {
	omit := []string{"key", "meta.sent"}
	for _, tc := range []struct{ a, b string }{
		{`{"x":{"key":1}}`, `{"x":{"key":2}}`},
		{`{"sent":1}`, `{"sent":2}`},
		{`{"meta":1}`, `{"meta":2}`},
		{`{"meta":[{"sent":1}]}`, `{"meta":[{"sent":2}]}`},
		{`[{"key":1}]`, `[{"key":2}]`},
		{`{"KEY":1}`, `{"KEY":2}`},
		{`{"meta":{"meta":{"sent":1}}}`, `{"meta":{"meta":{"sent":2}}}`},
	} {
		assert.NotEqual(t, ofBody(jsonType, tc.a, omit...), ofBody(jsonType, tc.b, omit...), "%s", tc.a)
	}
}

// Canonical JSON agrees with the vectors of RFC 8785.
// The vectors are those that the authors of RFC 8785 publish.
func TestCanonicalJSONVectorsOfRFC8785(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "shared", "vectors", "jcs", "testdata")
	inputs, err := filepath.Glob(filepath.Join(folder, "input", "*.json"))
	require.NoError(t, err)
	if len(inputs) == 0 {
		t.Skip("the RFC 8785 vectors are not here")
	}
	for _, path := range inputs {
		t.Run(filepath.Base(path), func(t *testing.T) {
			input, err := os.ReadFile(path)
			require.NoError(t, err)
			output, err := os.ReadFile(filepath.Join(folder, "output", filepath.Base(path)))
			require.NoError(t, err)

			if filepath.Base(path) == "values.json" {
				// 333333333.33333329 is one of its numbers, which RFC 8785 writes as 333333333.3333333.
				form, content := fingerprint.CanonicalJSON(input, nil)
				assert.Equal(t, "json bytes", form)
				assert.Equal(t, string(input), string(content))
				input = bytes.Replace(input, []byte("333333333.33333329"), []byte("333333333.3333333"), 1)
			}
			form, content := fingerprint.CanonicalJSON(input, nil)
			assert.Equal(t, "json", form)
			assert.Equal(t, string(output), string(content))
			assert.Equal(t, ofBody(jsonType, string(output)), ofBody(jsonType, string(input)))
		})
	}
}

var seeds = []string{
	"", "null", `{}`, `[]`, `{"b":1,"a":[true,false,null,"x",-1.50e-7]}`, `{"a":1,"a":2}`, `9007199254740993`, `[1e400]`,
	`{"a":{"b":{"d":1,"c":2}},"A":"\ud83d\ude00"}`, `"\ud800"`, "\"\xff\"", `{"é":1,"ﬀ":2,"😀":3}`, `0.1000000000000000055`,
	` { "a" : 1e20 , "c" : 100000000000000000000 , "b" : -0 } `, `{"a":1}}`, `1.`, `333333333.33333329`, `4.50`, `1E30`,
	`{"key":1,"a":{"key":2,"b":3},"key":4}`,
}

func FuzzCanonicalJSONIsThatOfRFC8785(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		form, content := fingerprint.CanonicalJSON(body, nil)
		switch form {
		case "json":
			want, err := jcs.Transform(body)
			require.NoError(t, err)
			require.Equal(t, string(want), string(content))
		case "json bytes":
			require.True(t, json.Valid(body))
			require.Equal(t, body, content)
		default:
			require.Equal(t, "bytes", form)
			require.False(t, json.Valid(body) && bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) < 200)
			require.Equal(t, body, content)
		}
	})
}

// JSON bodies of one fingerprint mean the same.
func FuzzJSONBodies(f *testing.F) {
	for i, seed := range seeds {
		f.Add([]byte(seed), []byte(seeds[len(seeds)-1-i]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		want := ofBody(jsonType, string(a))
		// A random pair seldom shares a fingerprint. The output of common encoders for a, often with a loss, does.
		others := [][]byte{b}
		if canonical, err := jcs.Transform(a); err == nil {
			others = append(others, canonical)
		}
		var lossy any
		if json.Unmarshal(a, &lossy) == nil {
			encoded, err := json.Marshal(lossy)
			require.NoError(t, err)
			others = append(others, encoded)
		}
		for _, other := range others {
			if ofBody(jsonType, string(other)) != want || bytes.Equal(a, other) {
				continue
			}
			require.True(t, same(decode(t, a), decode(t, other)), "%q and %q share a fingerprint", a, other)
		}
	})
}

func FuzzOmittedMembersAreGone(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		form, content := fingerprint.CanonicalJSON(body, []string{"key", "a.key"})
		if form == "bytes" {
			require.Equal(t, body, content)
			return
		}
		require.True(t, json.Valid(content))
		object, _ := decode(t, content).(map[string]any)
		assert.NotContains(t, object, "key")
		if inner, nested := object["a"].(map[string]any); nested {
			assert.NotContains(t, inner, "key")
		}
	})
}

func decode(t *testing.T, body []byte) (value any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	require.NoError(t, d.Decode(&value), "%q", body)
	_, err := d.Token()
	require.ErrorIs(t, err, io.EOF)
	return value
}

func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if _, found := b[name]; !found || !same(a[name], b[name]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, read := new(big.Rat).SetString(a.String())
		y, readToo := new(big.Rat).SetString(b.String())
		return a == b || read && readToo && x.Cmp(y) == 0
	}
	return a == b
}

// document is a payment of about 1 KiB, not all of its members in canonical order.
func document(t testing.TB) []byte {
	t.Helper()
	type item struct {
		SKU      string  `json:"sku"`
		Quantity int     `json:"quantity"`
		Price    float64 `json:"price"`
		Name     string  `json:"name"`
	}
	body, err := json.Marshal(map[string]any{
		"reference": "invoice-991", "amount": 104250, "currency": "EUR", "capture": true, "customer": nil,
		"description": strings.Repeat("d", 120),
		"metadata":    map[string]string{"tenant": "42", "order": "991", "channel": "web"},
		"items": []item{
			{"SKU-1", 1, 12.5, "Kännchen"}, {"SKU-2", 20, 0.99, "Löffel"}, {"SKU-3", 3, 100, "Teller"},
			{"SKU-4", 1, 12.5, "Tasse"}, {"SKU-5", 20, 0.99, "Gabel"}, {"SKU-6", 3, 100, "Messer"},
			{"SKU-7", 1, 12.5, "Kanne"}, {"SKU-8", 20, 0.99, "Sieb"}, {"SKU-9", 3, 100, "Topf"},
		},
		"padding": strings.Repeat("p", 197),
	})
	require.NoError(t, err)
	return body
}

func TestOfAllocatesLittleForPlainJSON(t *testing.T) {
	in := charge(t)
	in.Body = document(t)
	in.OmitFields = []string{"idempotency_key"}
	assert.Less(t, testing.AllocsPerRun(20, func() { fingerprint.Of(in) }), 30.0)
}

func BenchmarkOf(b *testing.B) {
	in := charge(b)
	in.Body = document(b)
	b.SetBytes(int64(len(in.Body)))
	b.ReportAllocs()
	for b.Loop() {
		fingerprint.Of(in)
	}
}

// The scanner itself writes the plain documents. It leaves the others to the library.
func BenchmarkCanonicalJSON(b *testing.B) {
	plain := document(b)
	for _, bm := range []struct {
		name string
		body []byte
	}{
		{"plain", plain},
		{"escaped", bytes.Replace(plain, []byte("SKU-1"), []byte(`SKU\/1`), 1)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.body)))
			b.ReportAllocs()
			for b.Loop() {
				fingerprint.CanonicalJSON(bm.body, nil)
			}
		})
	}
}

// With FoldNames, names that differ in case alone are one name twice: their order tells two bodies apart. Other names are sorted as ever.
func TestNamesThatDifferInCaseAlone(t *testing.T) {
	many := ""
	for i := range 40 {
		many += fmt.Sprintf(`,"Name%02d":0`, i)
	}
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"two names", `{"amount":1,"Amount":2}`, `{"Amount":2,"amount":1}`, false},
		{"within an array", `[{"a":[{"Id":1,"iD":2}]}]`, `[{"a":[{"iD":2,"Id":1}]}]`, false},
		{"beyond ASCII", `{"é":1,"É":2}`, `{"É":2,"é":1}`, false},
		{"the Kelvin sign", "{\"k\":1,\"\u212a\":2}", "{\"\u212a\":2,\"k\":1}", false},
		{"an escape", `{"amount":1,"\u0041mount":2}`, `{"\u0041mount":2,"amount":1}`, false},
		{"among many", `{"total":1,"TOTAL":2` + many + `}`, `{"TOTAL":2,"total":1` + many + `}`, false},
		{"the same name, escaped", `{"total":1,"\u0074otal":2}`, `{"\u0074otal":2,"total":1}`, false},
		{"only one is left", `{"sent":1,"Sent":2,"a":3,"b":4}`, `{"Sent":2,"sent":1,"b":4,"a":3}`, true},
		{"other names", `{"amountDue":1,"Amount":2}`, `{"Amount":2,"amountDue":1}`, true},
		{"other names among many", `{"total":1` + many + `}`, `{` + many[1:] + `,"total":1}`, true},
		{"in two objects", `{"a":{"id":1},"B":{"ID":2}}`, `{"B":{"ID":2},"a":{"id":1}}`, true},
	} {
		in := func(body string) fingerprint.Input {
			return fingerprint.Input{ContentType: "application/json", Body: []byte(body), OmitFields: []string{"sent"}, FoldNames: true}
		}
		a, err := fingerprint.New(t.Context(), in(tc.a))
		require.NoError(t, err)
		assert.Equal(t, tc.same, a.Same(fingerprint.Of(in(tc.b))), tc.name)
	}
}
