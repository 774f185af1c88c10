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

func TestSplitQueryTakesCredentialsAndLeavesTheRestAsItWas(t *testing.T) {
	for _, tc := range []struct {
		name, query, open, withheld string
		names                       []string
	}{
		{"nothing", "", "", "", nil},
		{"only a credential", "api_key=1", "", "api_key=1", []string{"api_key"}},
		{"order and encoding stay", "b=%7e&token=+%201&a=+%20&b=2", "b=%7e&a=+%20&b=2", "token=+%201", []string{"token"}},
		{"empty parameters stay", "&&a=1&", "&&a=1&", "", nil},
		{"names once and sorted", "token=1&api_key=2&token=3", "", "token=1&api_key=2&token=3", []string{"api_key", "token"}},
		{"an escaped name", "%74oken=1&a=1", "a=1", "%74oken=1", []string{"token"}},
		{"a name without a value", "token&a", "a", "token", []string{"token"}},
		{"a name that can't be unescaped", "tok%zzen=1&a=1", "a=1", "tok%zzen=1", []string{"tok%zzen"}},
		{"a credential behind a semicolon", "a=1;sig=2&b=3", "b=3", "a=1;sig=2", []string{"sig"}},
		{"a semicolon without a credential", "a=1;b=2", "a=1;b=2", "", nil},
		{"the key in the query", "idempotency_key=k&key=1", "idempotency_key=k", "key=1", []string{"key"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			open, withheld, names := secret.SplitQuery(tc.query)
			assert.Equal(t, tc.open, open)
			assert.Equal(t, tc.withheld, withheld)
			assert.Equal(t, tc.names, names)
		})
	}
}

func TestWhatIsWithheldAndCounts(t *testing.T) {
	for _, tc := range []struct{ name, withheld, counted string }{
		{"nothing", "", ""},
		{"a ticket", "ticket=1", "ticket=1"},
		{"a key, a token and a signature", "api_key=1&access_token=2&sig=3&X-Amz-Signature=4&key=5", ""},
		{"among others", "token=1&ticket=%31&sig=2&pin=3", "ticket=%31&pin=3"},
		{"beside a credential", "amount=1;sig=2", "amount=1"},
		{"what can't be read", "%zz=1&token=2", "%zz=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, withheld, _ := secret.SplitQuery(tc.withheld)
			assert.Equal(t, tc.withheld, withheld)
			assert.Equal(t, tc.counted, secret.Counted(withheld))
		})
	}
}

func FuzzSplitQueryKeepsEveryParameterButCredentials(f *testing.F) {
	for _, seed := range []string{
		"", "a=1&b=2", "token=1&a=%zz", "a=1;token=2&b", "&&=&", "%74oken=x&T%4FKEN", "idempotency_key=1&key=2", "%=&%zz=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		open, withheld, names := secret.SplitQuery(query)
		assert.True(t, slices.IsSorted(names))

		var want, taken []string
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
			if credential {
				taken = append(taken, parameter)
			} else {
				want = append(want, parameter)
			}
		}
		assert.Equal(t, strings.Join(want, "&"), open)
		assert.Equal(t, strings.Join(taken, "&"), withheld)

		again, none, noNames := secret.SplitQuery(open)
		assert.Equal(t, open, again)
		assert.Empty(t, none)
		assert.Empty(t, noNames)
		for name := range (&url.URL{RawQuery: open}).Query() {
			assert.False(t, secret.Query(name), "%q was kept", name)
		}
	})
}

func ExampleSplitQuery() {
	open, withheld, names := secret.SplitQuery("mode=walk&key=AIza1234")
	fmt.Println(open, withheld, names)
	// Output: mode=walk key=AIza1234 [key]
}
