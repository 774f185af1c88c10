package secret_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/secret"
)

func TestURLPrintsSchemeHostAndPathOnly(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"https://api.example.com/v1/charges?api_key=sk_live_1#top", "https://api.example.com/v1/charges"},
		{"https://user:pa55@api.example.com:8443/a%2Fb", "https://api.example.com:8443/a%2Fb"},
		{"https://api.example.com", "https://api.example.com"},
		{"mailto:jo@example.com", "mailto:"},
	} {
		u, err := url.Parse(tc.in)
		require.NoError(t, err)
		assert.Equal(t, tc.want, secret.URL(u))
	}
	assert.Empty(t, secret.URL(nil))
}

func TestStripQueryTakesCredentialsAndLeavesTheRestAsItWas(t *testing.T) {
	for _, tc := range []struct {
		name, query, want string
		names             []string
	}{
		{"nothing", "", "", nil},
		{"only a credential", "api_key=1", "", []string{"api_key"}},
		{"order and encoding stay", "b=%7e&token=1&a=+%20&b=2", "b=%7e&a=+%20&b=2", []string{"token"}},
		{"empty parameters stay", "&&a=1&", "&&a=1&", nil},
		{"names once and sorted", "token=1&api_key=2&token=3", "", []string{"api_key", "token"}},
		{"an escaped name", "%74oken=1&a=1", "a=1", []string{"token"}},
		{"a name without a value", "token&a", "a", []string{"token"}},
		{"a name that can't be unescaped", "tok%zzen=1&a=1", "a=1", []string{"tok%zzen"}},
		{"a credential behind a semicolon", "a=1;sig=2&b=3", "b=3", []string{"sig"}},
		{"a semicolon without a credential", "a=1;b=2", "a=1;b=2", nil},
		{"the key in the query", "idempotency_key=k&key=1", "idempotency_key=k", []string{"key"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := &url.URL{Scheme: "https", Host: "api.example.com", Path: "/v1", RawQuery: tc.query}
			clean, names := secret.StripQuery(u)
			assert.Equal(t, tc.want, clean.RawQuery)
			assert.Equal(t, tc.names, names)
			assert.Equal(t, tc.query, u.RawQuery, "the caller's URL was changed")
			assert.Equal(t, secret.URL(u), secret.URL(clean))
		})
	}
}

func FuzzStripQueryKeepsEveryParameterButCredentials(f *testing.F) {
	for _, seed := range []string{
		"", "a=1&b=2", "token=1&a=%zz", "a=1;token=2&b", "&&=&", "%74oken=x&T%4FKEN", "idempotency_key=1&key=2", "%=&%zz=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		clean, names := secret.StripQuery(&url.URL{RawQuery: query})
		assert.True(t, slices.IsSorted(names))

		var want []string
		for parameter := range strings.SplitSeq(query, "&") {
			credential := false
			for piece := range strings.SplitSeq(parameter, ";") {
				raw, _, _ := strings.Cut(piece, "=")
				name, err := url.QueryUnescape(raw)
				if err != nil {
					name = raw
				}
				if err != nil || secret.Query(name) {
					credential = true
					assert.Contains(t, names, name)
				}
			}
			if !credential {
				want = append(want, parameter)
			}
		}
		assert.Equal(t, strings.Join(want, "&"), clean.RawQuery)

		again, none := secret.StripQuery(clean)
		assert.Equal(t, clean.RawQuery, again.RawQuery)
		assert.Empty(t, none)
		for name := range clean.Query() {
			assert.False(t, secret.Query(name), "%q was kept", name)
		}
	})
}

func ExampleStripQuery() {
	u, _ := url.Parse("https://maps.example.com/v1/routes?mode=walk&key=AIza1234")
	clean, names := secret.StripQuery(u)
	fmt.Println(clean, names)
	// Output: https://maps.example.com/v1/routes?mode=walk [key]
}
