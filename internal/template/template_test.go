package template_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/template"
)

func values(pairs map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := pairs[name]
		return value, ok
	}
}

func TestValuesAreEscapedForTheirPlace(t *testing.T) {
	for _, tc := range []struct {
		name     string
		place    template.Place
		template string
		value    string
		want     string
	}{
		{"text", template.Text, "a {v} b {}", `&"/..`, `a &"/.. b {}`},
		{"a segment", template.Path, "/v1/charges/{v}", "ch 1?x#y&z", "/v1/charges/ch%201%3Fx%23y&z"},
		{"a part of a segment", template.Path, "/v1/{v}.json", "..a", "/v1/..a.json"},
		{"a query", template.Query, "q=ref:{v}&limit=1", "a&limit=2#x", "q=ref:a%26limit%3D2%23x&limit=1"},
		{"brackets in a query", template.Query, "created[gte]={v}", "1 2", "created[gte]=1+2"},
		{"a form", template.Form, "a={v}", "1&b=2", "a=1%26b%3D2"},
		{"JSON", template.JSON, `{"a": "x{v}", "b{c}": [1, {}]}`, `","b":"<`, `{"a": "x\",\"b\":\"<", "b{c}": [1, {}]}`},
		{"JSON without a placeholder", template.JSON, `{"a": "\u0061{ x}"}`, "", `{"a": "\u0061{ x}"}`},
		{"a path that ends with a slash", template.Path, "/a/{v}/", "b", "/a/b/"},
		{"a member query that is not the document", template.GraphQL, `{"a":[{"query":"{v}"}],"b":{"c":[]},"query":"{v}","query2":"{v}"}`, "x", `{"a":[{"query":"x"}],"b":{"c":[]},"query":"{v}","query2":"x"}`},
		{"a comment at the end", template.GraphQL, `{"query":"{a} # \"{v}"}`, "x", `{"query":"{a} # \"{v}"}`},
		{"a comment, then a string", template.GraphQL, `{"query":"#\"\n{a(b:\"{v}\")}"}`, "x", `{"query":"#\"\n{a(b:\"x\")}"}`},
		{"a string with an escape", template.GraphQL, `{"query":"{a(b:\"\\\"{v}\")}"}`, "x", `{"query":"{a(b:\"\\\"x\")}"}`},
		{"an empty string", template.GraphQL, `{"query":"{a(b:\"\" c:\"{v}\")}"}`, "x", `{"query":"{a(b:\"\" c:\"x\")}"}`},
		{"an empty block", template.GraphQL, `{"query":"{a(b:\"\"\"\"\"\" c:\"{v}\")}"}`, "x", `{"query":"{a(b:\"\"\"\"\"\" c:\"x\")}"}`},
		{"a GraphQL variable", template.GraphQL, `{"query":"{a{id}}","variables":{"query":"{v}"}}`, `a"`, `{"query":"{a{id}}","variables":{"query":"a\""}}`},
		{
			"a GraphQL string", template.GraphQL,
			`{"query":"{a(is:\"{v}\" x: \"\"\"{v}\"\"\") # \"{v}\n{id}}"}`, `"){b}#`,
			`{"query":"{a(is:\"\\\"){b}#\" x: \"\"\"{v}\"\"\") # \"{v}\n{id}}"}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := template.Expand(tc.template, tc.place, values(map[string]string{"v": tc.value}))
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

// A name is a letter, then letters, digits and "_.-[]"; and a template ends where it likes.
func TestPlaceholders(t *testing.T) {
	for _, name := range []string{"a", "z", "A", "Z", "a0", "a9", "az", "aA", "aZ", "a_", "request.a-b", "request.l[].x", "request.m[k]"} {
		names, err := template.Names("{"+name+"}", template.Text)
		require.NoError(t, err)
		assert.Equal(t, []string{name}, names)
	}
	for _, text := range []string{"", "{", "{}", "{0}", "{a", "{a b}", "{ a}", "{a/}", "{a:}", "{a@}", "{a`}", "{_a}", "{[}", "{.a}"} {
		names, err := template.Names(text, template.Text)
		require.NoError(t, err)
		assert.Empty(t, names, text)
	}
	names, err := template.Names("{{a}}{b}", template.Text)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, names)
}

func TestInvalidValuesAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name     string
		place    template.Place
		template string
		value    string
		missing  bool
		about    string // the placeholder
	}{
		{"no such value", template.Query, "a={other}", "", true, "other"},
		{"no such value in JSON", template.JSON, `{"a":"{other}"}`, "", true, "other"},
		{"an empty segment", template.Path, "/a/{v}", "", false, "v"},
		{"a dot", template.Path, "/a/{v}", ".", false, ""},
		{"two dots", template.Path, "/a/{v}/b", "..", false, ""},
		{"two dots of two values", template.Path, "/a/{v}{v}/b", ".", false, ""},
		{"two dots with a parameter", template.Path, "/a/{v}", "..;x", false, ""},
		{"two dots that are escaped", template.Path, "/a/%2e{v}", ".", false, ""},
		{"a slash", template.Path, "/a/{v}", "b/c", false, "v"},
		{"a backslash", template.Path, "/a/{v}", `b\c`, false, "v"},
		{"a NUL", template.Path, "/a/{v}", "b\x00", false, "v"},
		{"a path with a query", template.Path, "/a?b={v}", "c", false, ""},
		{"no path", template.Path, "a/{v}", "c", false, ""},
		{"a malformed path", template.Path, "/%zz/{v}", "c", false, ""},
		{"a brace in a path", template.Path, "/a/{v", "c", false, ""},
		{"a placeholder with space", template.Query, "a={ v}", "c", false, ""},
		{"a name in a query", template.Query, "{v}=1", "c", false, ""},
		{"no JSON", template.JSON, `{"a":{v}}`, "1", false, ""},
		{"JSON of bytes", template.JSON, `{"a":"{v}"}`, "\xff", false, "v"},
		{"an empty segment of the template's", template.Path, "/a//{v}", "b", false, ""},
		{"GraphQL with a string over two lines", template.GraphQL, `{"query":"{a(b:\"{v}\n\")}"}`, "x", false, ""},
		{"GraphQL of bytes", template.GraphQL, `{"query":"{a(b:\"{v}\")}"}`, "\xff", false, "v"},
		{"a document that is cut", template.GraphQL, `{"query":"{a(b:\"{v}"}`, "x", false, ""},
		{"a block that is cut", template.GraphQL, `{"query":"{a(b:\"\"\"{v}\\\"\"\""}`, "x", false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := template.Expand(tc.template, tc.place, values(map[string]string{"v": tc.value}))
			var refused *template.Error
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, tc.missing, refused.Missing)
			assert.Equal(t, tc.about, refused.Name)
			assert.NotEmpty(t, refused.Reason)
		})
	}
}

func TestNamesOfPlaceholders(t *testing.T) {
	names, err := template.Names("a={key}&b={request.metadata[order]}&c={path.id}-{key}", template.Query)
	require.NoError(t, err)
	assert.Equal(t, []string{"key", "request.metadata[order]", "path.id", "key"}, names)

	_, err = template.Names("a={key}&b={", template.Query)
	assert.Error(t, err)
}

// The expanded text reads back as the template with exactly the given values, for any values.
func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", ".", "..", "a&b=c", `"`, `\`, "/..", "%2e%2e", "é\n\u2028", `"""`, `"){x}#`, "{b}", "\x00", "+ ;,?#", "\xff"} {
		f.Add(seed, "b")
		f.Add("a", seed)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		with := values(map[string]string{"a": a, "b": b})

		if p, err := template.Expand("/v1/{a}/x-{b}/y", template.Path, with); err == nil {
			u, err := url.Parse("https://api.example.com" + p)
			require.NoError(t, err)
			assert.Equal(t, "/v1/"+a+"/x-"+b+"/y", u.Path)
			assert.Equal(t, u.EscapedPath(), u.JoinPath().EscapedPath(), "no segment is resolved")
			assert.Equal(t, 4, strings.Count(u.Path, "/"))
			assert.Equal(t, "api.example.com", u.Host)
			assert.Empty(t, u.RawQuery+u.Fragment)
		}

		q, err := template.Expand("a={a}&limit=1&b=x:{b}", template.Query, with)
		require.NoError(t, err, "any value can stand in a query")
		u, err := url.Parse("https://api.example.com/?" + q)
		require.NoError(t, err)
		read, err := url.ParseQuery(u.RawQuery)
		require.NoError(t, err)
		assert.Equal(t, url.Values{"a": {a}, "limit": {"1"}, "b": {"x:" + b}}, read)

		if text, err := template.Expand(`{"a":"{a}","b":["x{b}"]}`, template.JSON, with); err == nil {
			var got struct {
				A string   `json:"a"`
				B []string `json:"b"`
			}
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			assert.Equal(t, a, got.A)
			assert.Equal(t, []string{"x" + b}, got.B)
		}

		if text, err := template.Expand(`{"query":"{x(a:\"{a}\",b:\"y{b}\"){id}}"}`, template.GraphQL, with); err == nil {
			var got struct{ Query string }
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			rest, ok := strings.CutPrefix(got.Query, "{x(a:")
			require.True(t, ok)
			d := json.NewDecoder(strings.NewReader(rest)) // the escapes of JSON strings and GraphQL's are the same
			var first string
			require.NoError(t, d.Decode(&first))
			assert.Equal(t, a, first)
			rest, ok = strings.CutPrefix(rest[d.InputOffset():], ",b:")
			require.True(t, ok)
			var second string
			d = json.NewDecoder(strings.NewReader(rest))
			require.NoError(t, d.Decode(&second))
			assert.Equal(t, "y"+b, second)
			assert.Equal(t, "){id}}", rest[d.InputOffset():])
		}
	})
}

// Any template is refused, or expands to a valid text of its place.
func FuzzTemplate(f *testing.F) {
	f.Add("/a/{v}")
	f.Add(`{"query":"{a(b:\"{v}\")}","c":["{v}"]}`)
	f.Add("a={v}&b")
	f.Add(`{"query":"\"\"\"\\\"\"\""}`)
	f.Fuzz(func(t *testing.T, text string) {
		with := values(map[string]string{"v": `a"&/b`, "w": "c"})
		for _, place := range []template.Place{template.JSON, template.GraphQL} {
			if got, err := template.Expand(text, place, with); err == nil {
				assert.True(t, json.Valid([]byte(got)), got)
			}
		}
		for _, place := range []template.Place{template.Text, template.Path, template.Query} {
			got, err := template.Expand(text, place, with)
			if err == nil && place != template.Text {
				assert.NotContains(t, got, "{")
			}
		}
	})
}
