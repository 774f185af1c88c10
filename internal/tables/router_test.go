package tables_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// tokenAPI has an endpoint without effect beside endpoints with an effect.
func tokenAPI(name string, hosts ...string) providers.Provider {
	return providers.Provider{
		Name:  name,
		Hosts: hosts,
		Endpoints: []providers.Endpoint{
			{Pattern: "POST /v1/", Key: providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}},
			{Pattern: "POST /oauth/", NoEffect: true},
			{Pattern: "POST /v1/search", NoEffect: true},
			{Pattern: "POST /v1/items/{id}/lookup", NoEffect: true},
		},
	}
}

func TestTheMostSpecificHostWins(t *testing.T) {
	router := newRouter(t,
		tokenAPI("exact", "api.example.com"),
		tokenAPI("wildcard", "*.example.com"),
		tokenAPI("longer wildcard", "*.eu.example.com"),
		tokenAPI("port", "localhost:8080", "[::1]:8080", "API.other.example:8443"),
		tokenAPI("rest"),
	)
	for rawURL, want := range map[string]string{
		"https://api.example.com/v1/x":        "exact",
		"https://API.EXAMPLE.COM/v1/x":        "exact",
		"https://api.example.com:443/v1/x":    "exact",
		"http://api.example.com:80/v1/x":      "exact",
		"https://api.example.com./v1/x":       "exact",
		"https://api.example.com:8443/v1/x":   "rest",
		"http://api.example.com:443/v1/x":     "rest",
		"https://files.example.com/v1/x":      "wildcard",
		"https://a.b.example.com/v1/x":        "wildcard",
		"https://api.eu.example.com/v1/x":     "longer wildcard",
		"https://eu.example.com/v1/x":         "wildcard",
		"https://example.com/v1/x":            "rest",
		"https://notexample.com/v1/x":         "rest",
		"https://api.example.com.evil.test/x": "rest",
		"http://localhost:8080/v1/x":          "port",
		"http://localhost/v1/x":               "rest",
		"http://[::1]:8080/v1/x":              "port",
		"https://api.other.example:8443/v1/x": "port",
	} {
		rt := route(t, router, "POST", rawURL)
		if assert.NotNil(t, rt.Provider, rawURL) {
			assert.Equal(t, want, rt.Provider.Name, rawURL)
		}
	}
}

func TestHostWithoutAProviderIsUnlisted(t *testing.T) {
	router := newRouter(t, tokenAPI("api", "api.example.com", "*.sub.example.com"))
	for _, rawURL := range []string{"https://other.example.com/v1/x", "https://example.com/v1/x", "/v1/x", "mailto:a@example.com"} {
		rt := route(t, router, "POST", rawURL)
		assert.Nil(t, rt.Provider, rawURL)
		assert.False(t, rt.Listed, rawURL)
		assert.True(t, rt.Effect, rawURL)
		assert.Equal(t, providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key", MaxLength: 255}, rt.Endpoint.Key, rawURL)
		assert.Zero(t, rt.Endpoint.Retention, rawURL)
		assert.Equal(t, providers.Nothing, rt.Endpoint.Remembers, rawURL)
	}
}

func TestSafeMethodsHaveNoEffectAnywhere(t *testing.T) {
	router := newRouter(t, tokenAPI("api", "api.example.com"))
	for _, host := range []string{"api.example.com", "elsewhere.example.com"} {
		for method, effect := range map[string]bool{
			"": false, "GET": false, "HEAD": false, "OPTIONS": false, "TRACE": false,
			"POST": true, "PUT": true, "PATCH": true, "DELETE": true, "CONNECT": true, "get": true, "QUERY": true,
		} {
			rt := route(t, router, method, "https://"+host+"/v1/things")
			assert.Equal(t, effect, rt.Effect, "%s %s", method, host)
			assert.NotNil(t, rt.Endpoint, "%s %s", method, host)
		}
	}
}

func TestTheMostSpecificPatternWins(t *testing.T) {
	router := newRouter(t, tokenAPI("api", "api.example.com"))
	for _, tc := range []struct{ method, path, pattern string }{
		{"POST", "/v1/things", "POST /v1/"},
		{"POST", "/v1/search?q=..", "POST /v1/search"},
		{"POST", "/v1/search/more", "POST /v1/"},
		{"POST", "/v1/items/42/lookup", "POST /v1/items/{id}/lookup"},
		{"POST", "/v1/items/a%20b/lookup", "POST /v1/items/{id}/lookup"},
		{"POST", "/v1/items/..b/lookup", "POST /v1/items/{id}/lookup"},
		{"POST", "/oauth/token", "POST /oauth/"},
		{"POST", "/%6Fauth/token", "POST /oauth/"},
	} {
		rt := route(t, router, tc.method, "https://api.example.com"+tc.path)
		assert.True(t, rt.Listed, tc.path)
		assert.Equal(t, tc.pattern, rt.Endpoint.Pattern, tc.path)
		assert.Equal(t, !rt.Endpoint.NoEffect, rt.Effect, tc.path)
	}
}

// A path with two readings is never taken for one without effect.
func TestRoutePathWithTwoReadings(t *testing.T) {
	router := newRouter(t, tokenAPI("api", "api.example.com"))
	for _, tc := range []struct{ method, path string }{
		{"POST", "/oauth/../v1/charges"},
		{"POST", "/oauth/./token"},
		{"POST", "/oauth//token"},
		{"POST", "//oauth/token"},
		{"POST", "/oauth/%2e%2e/v1/charges"},
		{"POST", "/oauth/%2E./v1/charges"},
		{"POST", "/oauth/..%2Fv1%2Fcharges"},
		{"POST", "/oauth%2Ftoken"},
		{"POST", "/oauth/..;/v1/charges"},
		{"POST", "/oauth/..;x=1/v1/charges"},
		{"POST", `/oauth/..%5Cv1%5Ccharges`},
		{"POST", "/oauth/%00token"},
		{"POST", "/v1/items/..%2f..%2fcharges/lookup"},
		{"POST", "/oauth"}, // a mux would redirect it to /oauth/
		{"POST", "/v1"},
		{"POST", ""},
		{"POST", "/OAuth/token"},
		{"PUT", "/oauth/token"}, // a mux would answer 405
		{"CONNECT", "/oauth/token"},
		{"POST", "/elsewhere"},
	} {
		rt := route(t, router, tc.method, "https://api.example.com"+tc.path)
		assert.True(t, rt.Effect, "%s %s", tc.method, tc.path)
		assert.False(t, rt.Listed, "%s %s", tc.method, tc.path)
		assert.NotNil(t, rt.Provider, "%s %s", tc.method, tc.path)
	}
}

func TestAnOpaqueURLMatchesNoEndpoint(t *testing.T) {
	router := newRouter(t, tokenAPI("api", "api.example.com"))
	rt := router.Route("POST", &url.URL{Scheme: "https", Host: "api.example.com", Path: "/oauth/token", Opaque: "//api.example.com/v1/charges"})
	assert.True(t, rt.Effect)
	assert.False(t, rt.Listed)
}

func TestARouteWithoutAPathIsTheRoot(t *testing.T) {
	router := newRouter(t, providers.Raw(24*time.Hour, "api.example.com"))
	assert.True(t, route(t, router, "POST", "https://api.example.com").Listed)
	assert.True(t, route(t, router, "POST", "https://api.example.com/").Listed)
}

func keysUnder(p providers.Provider, name string) providers.Provider {
	p.KeysUnder = name
	return p
}

// Providers that are not clear together are refused.
func TestRouteProvidersNotClearTogether(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ps    []providers.Provider
		field string
	}{
		{"the same name", []providers.Provider{tokenAPI("a", "a.example.com"), tokenAPI("a", "b.example.com")}, "Name"},
		{"keys under another's name", []providers.Provider{tokenAPI("a", "a.example.com"), keysUnder(tokenAPI("b", "b.example.com"), "a")}, "KeysUnder"},
		{"a name under which another has its keys", []providers.Provider{keysUnder(tokenAPI("b", "b.example.com"), "a"), tokenAPI("a", "a.example.com")}, "Name"},
		{"keys under one name", []providers.Provider{keysUnder(tokenAPI("a", "a.example.com"), "c"), keysUnder(tokenAPI("b", "b.example.com"), "c")}, "KeysUnder"},
		{"the same host", []providers.Provider{tokenAPI("a", "a.example.com"), tokenAPI("b", "x.example.com", "A.example.com")}, "Hosts[1]"},
		{"the same wildcard", []providers.Provider{tokenAPI("a", "*.example.com"), tokenAPI("b", "*.example.com")}, "Hosts[0]"},
		{"two without hosts", []providers.Provider{tokenAPI("a"), tokenAPI("b")}, "Hosts"},
		{"an invalid provider", []providers.Provider{tokenAPI("a"), {Name: "b"}}, "Endpoints"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			router, err := tables.NewRouter(tc.ps)
			var invalid *providers.ValidationError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, tc.field, invalid.Field)
			assert.Nil(t, router)
		})
	}
}

// Route never takes an unclean path for one without effect.
func FuzzRouteOfAnUncleanPath(f *testing.F) {
	for _, path := range []string{"/oauth/token", "/oauth/../v1/x", "/oauth/%2e%2e/v1/x", "/v1/search", "//", "/oauth/..;/x", ""} {
		f.Add("POST", path)
	}
	router := newRouter(f, tokenAPI("api", "api.example.com"))
	f.Fuzz(func(t *testing.T, method, path string) {
		u, err := url.Parse("https://api.example.com" + path)
		if err != nil || u.Hostname() != "api.example.com" {
			return
		}
		rt := router.Route(method, u)
		if rt.Endpoint == nil || rt.Listed && rt.Effect == rt.Endpoint.NoEffect {
			t.Fatalf("%s %s: %+v", method, path, rt)
		}
		resolved := u.ResolveReference(&url.URL{Path: u.Path}) // resolves dot segments once they are decoded
		if rt.Listed && rt.Endpoint.NoEffect && !router.Route(method, resolved).Endpoint.NoEffect {
			t.Fatalf("%s %s has no effect, but %s has", method, path, resolved)
		}
	})
}

// Routers of the same name and other facts each keep their own, and a caller that changes a table later changes no router.
func TestRoutersOfATableThatChanges(t *testing.T) {
	p := tokenAPI("a", "api.example.com")
	retentionBy := func(router *tables.Router) time.Duration {
		return route(t, router, "POST", "https://api.example.com/v1/x").Endpoint.Retention
	}
	first, again := newRouter(t, p), newRouter(t, p)
	p.Endpoints[0].Remembers, p.Endpoints[0].Retention = providers.Everything, time.Hour
	assert.Zero(t, retentionBy(first))
	assert.Zero(t, retentionBy(again))
	changed := newRouter(t, p)
	assert.Equal(t, time.Hour, retentionBy(changed))
	assert.Zero(t, retentionBy(again))

	p.Endpoints[0].Retention = -time.Hour
	_, err := tables.NewRouter([]providers.Provider{p})
	require.Error(t, err, "a valid table of that name has been there")
}
