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

// SplitQuery takes credentials and leaves the rest as it was.
func TestSplitQueryTakesCredentials(t *testing.T) {
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
		{"a card", "amount=1&card_number=4242&card%5Bcvc%5D=1&x.PAN=2", "amount=1", "card_number=4242&card%5Bcvc%5D=1&x.PAN=2", []string{"card[cvc]", "card_number", "x.PAN"}},
		{"a signed URL", "amount=1&to=https%3A%2F%2Fh%2Fa%3Fb%3D1%26sig%3Ds", "amount=1", "to=https%3A%2F%2Fh%2Fa%3Fb%3D1%26sig%3Ds", []string{"to"}},
		{"a URL with a user", "to=https://u:p@h/a", "", "to=https://u:p@h/a", []string{"to"}},
		{"a plain URL", "to=https%3A%2F%2Fh%2Fa%3Fb%3D1&note=a%40b", "to=https%3A%2F%2Fh%2Fa%3Fb%3D1&note=a%40b", "", nil},
		{"a URL in the URL of a URL", "to=%2Fa%3Fb%3D%2Fc%3Fsig%3Ds", "to=%2Fa%3Fb%3D%2Fc%3Fsig%3Ds", "", nil},
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

func TestWithheldValuesCount(t *testing.T) {
	for _, tc := range []struct{ name, withheld, counted string }{
		{"nothing", "", ""},
		{"a ticket", "ticket=1", "ticket=1"},
		{"a key, a token and a signature", "api_key=1&access_token=2&sig=3&X-Amz-Signature=4&key=5", ""},
		{"among others", "token=1&ticket=%31&sig=2&pin=3", "ticket=%31"},
		{"beside a credential", "amount=1;sig=2", "amount=1"},
		{"a card and a PIN, which could be guessed", "cvc=1&pin=2", ""},
		{"a signed URL without its signature", "to=https%3A%2F%2Fh%2Fa%3Fb%3D1%26sig%3Ds", "to=https%3A%2F%2Fh%2Fa%3Fb%3D1"},
		{"a parameter that can't be read", "%zz=1&token=2", "%zz=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, withheld, _ := secret.SplitQuery(tc.withheld)
			assert.Equal(t, tc.withheld, withheld)
			assert.Equal(t, tc.counted, secret.Counted(withheld))
		})
	}
}

func TestOnlyTheCredentialsOfAURLAreCut(t *testing.T) {
	for _, tc := range []struct{ header, value, want string }{
		{"Location", "https://api.example.com/v1/orders/17", "https://api.example.com/v1/orders/17"},
		{"Location", "/v1/orders/17?page=2&expand[]=a", "/v1/orders/17?page=2&expand[]=a"},
		{"Location", "https://h/orders/17?X-Amz-Signature=s&page=2&X-Amz-Date=d#top", "https://h/orders/17?page=2&X-Amz-Date=d"},
		{"location", "orders/17?token=s", "orders/17"},
		{"Location", "?token=s", ""},
		{"Location", "https://user:s@h/orders/17", "https://h/orders/17"},
		{"Location", "https://s@h", "https://h"},
		{"Location", "//user:s@h/a@b", "//h/a@b"},
		{"Location", "file:///a@b/c", "file:///a@b/c"},
		{"Location", "https://h/cb#access_token=s", "https://h/cb"},
		{"Location", "https://h/a?", "https://h/a?"},
		{"Content-Location", "/a?sig=s", "/a"},
		{"Referer", "https://h/a?code=1&session=s", "https://h/a?code=1"},
		{"Link", `<https://h/a?ids=1,2&sig=s>; rel="next", </b?page=2>; rel="prev"`, `<https://h/a?ids=1,2>; rel="next", </b?page=2>; rel="prev"`},
		{"Link", `<https://h/a#section>; rel="next"`, `<https://h/a>; rel="next"`},
		{"Refresh", "5; url=https://h/a?key=s", "5; url=https://h/a"},
		{"Refresh", "5;URL='/a?key=s'", "5;URL='/a'"},
		{"X-Next", "https://h/a?sig=s", "https://h/a"},
		{"X-Next", "see https://u:s@h/a and https://h/b?token=s, please", "see https://h/a and https://h/b please"},
		{"X-Next", "https://h/a#section", "https://h/a#section"},
		{"X-Next", "https://h/a#id_token=s&state=1", "https://h/a"},

		{"X-Order", "#991", "#991"},
		{"X-Order", "order#991?", "order#991?"},
		{"From", "jo@example.com", "jo@example.com"},
		{"Etag", `W/"a#b?token=1"`, `W/"a#b?token=1"`},
		{"User-Agent", "shop/1.0 (+https://h/about; jo@h)", "shop/1.0 (+https://h/about; jo@h)"},
		{"Content-Type", "multipart/form-data; boundary=a?b", "multipart/form-data; boundary=a?b"},
	} {
		t.Run(tc.header+" "+tc.value, func(t *testing.T) {
			kept, cut := secret.CutURLs(tc.header, tc.value)
			assert.Equal(t, tc.want, kept)
			assert.Equal(t, tc.want != tc.value, cut)
			again, cut := secret.CutURLs(tc.header, kept)
			assert.Equal(t, kept, again)
			assert.False(t, cut)
		})
	}
}

// SplitQuery keeps every parameter but credentials.
func FuzzSplitQuery(f *testing.F) {
	for _, seed := range []string{
		"", "a=1&b=2", "token=1&a=%zz", "a=1;token=2&b", "&&=&", "%74oken=x&T%4FKEN", "idempotency_key=1&key=2", "%=&%zz=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if plain, err := url.QueryUnescape(query); err != nil || strings.ContainsAny(plain, "/?") {
			return // a value may be a URL
		}
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

func FuzzMaskedURLHoldsNoCredential(f *testing.F) {
	for _, seed := range []string{
		"https://u:p@h/a?token=1&b=2#c", "<https://h?sig=1>; rel=next", "5; url=/a?key=1", "//a@b@c?%zz", "?token#?token", "a://b//c@d", "/a?a;token=1",
	} {
		f.Add("Location", seed)
		f.Add("Link", seed)
		f.Add("X-Next", seed)
	}
	f.Fuzz(func(t *testing.T, header, value string) {
		kept, cut := secret.CutURLs(header, value)
		require.LessOrEqual(t, len(kept), len(value))
		require.Equal(t, kept != value, cut)
		if strings.EqualFold(header, "Location") {
			_, query, _ := strings.Cut(kept, "?")
			_, _, names := secret.SplitQuery(query)
			require.Empty(t, names)
			require.NotContains(t, kept, "#")
			if u, err := url.Parse(kept); err == nil {
				require.Nil(t, u.User)
			}
		}
	})
}
