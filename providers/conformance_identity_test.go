package providers_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
)

// Each provider that can name the account of a credential does so in an answer of its own shape.
func TestConformanceIdentities(t *testing.T) {
	told := map[string]struct{ host, asks, answers, account string }{
		"stripe":   {"api.stripe.com", "GET /v1/account", `{"id":"acct_1","object":"account","settings":{"dashboard":{"display_name":"x"}}}`, "acct_1"},
		"increase": {"api.increase.com", "GET /groups/current", `{"id":"group_1","type":"group","created_at":"2020-01-31T23:59:59Z"}`, "group_1"},
		"svix":     {"api.svix.com", "GET /api/v1/auth/whoami", `{"envId":"org_1srOrx2ZWZBpBUvZwXKQmoEYga2","appId":null,"permissionSource":"x"}`, "org_1srOrx2ZWZBpBUvZwXKQmoEYga2"},
		"dwolla": {
			"api.dwolla.com", "GET /",
			`{"_links":{"account":{"href":"https://api.dwolla.com/accounts/ad5f2162-404a-4c4c-994e-6ab6c3a13254","type":"application/vnd.dwolla.v1.hal+json"},"customers":{"href":"https://api.dwolla.com/customers"}}}`,
			"ad5f2162-404a-4c4c-994e-6ab6c3a13254",
		},
		"wise":       {"api.wise.com", "GET /v1/me", `{"id":101,"name":"Example Person","active":true,"details":{"primaryAddress":111}}`, "101"},
		"paypal":     {"api-m.paypal.com", "GET /v1/reporting/balances", `{"balances":[{"currency":"USD"}],"account_id":"YN4FRSE3YZHPG"}`, "YN4FRSE3YZHPG"},
		"square":     {"connect.squareup.com", "GET /v2/merchants/me", `{"merchant":{"id":"DM7VKY8Q63GNP","country":"US"}}`, "DM7VKY8Q63GNP"},
		"gocardless": {"api.gocardless.com", "GET /creditors", `{"creditors":[{"id":"CR123","name":"x"}],"meta":{"cursors":{"after":null}}}`, "CR123"},
		"mollie":     {"api.mollie.com", "GET /v2/profiles/me", `{"resource":"profile","id":"pfl_QkEhN94Ba","mode":"live"}`, "pfl_QkEhN94Ba"},
	}
	for _, p := range adapters() {
		want, known := told[p.Name]
		assert.Equal(t, p.Identity.Path != "", known, "%s tells whose a credential is: %v", p.Name, p.Identity)
		if !known {
			continue
		}
		r, err := lookup.Identify(&p, &providers.Endpoint{}, &lookup.Subject{URL: &url.URL{Scheme: "https", Host: want.host, Path: "/payments"}})
		require.NoError(t, err)
		assert.Equal(t, want.asks, asText(t, r), p.Name)
		assert.Equal(t, want.host, r.URL.Host)
		status, header, body := answer(want.answers)
		account, why := lookup.Account(&p, status, header, body)
		assert.Equal(t, want.account, account, "%s: %s", p.Name, why)
	}
}
