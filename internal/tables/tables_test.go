package tables_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func newRouter(t testing.TB, ps ...providers.Provider) *tables.Router {
	t.Helper()
	r, err := tables.NewRouter(ps)
	require.NoError(t, err)
	return r
}

func route(t testing.TB, r *tables.Router, method, rawURL string) tables.Route {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	return r.Route(method, u)
}

// own is a valid table of a user's own.
func own() providers.Provider {
	return providers.Provider{
		Name:  "ledger",
		Hosts: []string{"ledger.example.com"},
		Endpoints: []providers.Endpoint{{
			Pattern:   "POST /v1/",
			Key:       providers.Key{Place: providers.KeyRawHeader, Name: "X-Idempotency-Key", MinLength: 36, MaxLength: 36},
			Retention: time.Hour,
			Remembers: providers.Everything,
			Rules: []providers.Rule{
				{Status: 417, Verdict: providers.Misuse},
				{Status: 409, Field: "code", Equals: "done", Verdict: providers.AlreadyDone, Pointer: "links.id"},
			},
		}},
	}
}

const html = "<html><body><h1>503 Service Unavailable</h1></body></html>"

// ruled is the route of a provider with these rules.
func ruled(t testing.TB, rules ...providers.Rule) tables.Route {
	t.Helper()
	p := own()
	p.ReplayHeader, p.ReplayValue = "X-Replayed", "yes"
	p.Endpoints[0].Rules = rules
	return route(t, newRouter(t, p), "POST", "https://ledger.example.com/v1/transfers")
}
